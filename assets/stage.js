// Joins Gradio's HTML component to a stage module: loads it, mounts it, hands values over in both directions.
// Knows nothing of what a stage draws.

import { isLinked, keepRun, runAskedFor } from "./address.js";
import { playerFor } from "./player.js";

const stages = new Map();

/** Mount the module that `props.stage` names into the component's element. */
export async function start(element, props, trigger, watch) {
  const host = element.querySelector(".stage") ?? element;
  const module = await load(props.stage, props.has_style);
  const player = props.channel ? playerFor(props.channel) : null;
  const language = window.inferencePage?.language ?? "en";
  const handle = module.mount(host, {
    words: props.words, options: props.options, value: props.value, language, lesson: props.lesson,
    player, trigger, setValue(value) { props.value = value; },
  }) ?? {};
  const isOwn = props.channel === props.lesson;
  const show = (isAwaited = false) => {
    if (!player) return handle.update?.(props.options, props.value);
    const { run, unless, options } = parse(props.value);
    if (run && !isAwaited && !isLinked(props.lesson, unless)) player.load(run);
    if (run === "") player.unload();
    return options && handle.update?.({ ...props.options, ...options });
  };
  const hear = () => {
    const { run } = parse(props.value);
    if (isOwn && typeof run === "string") keepRun(props.lesson, run === parse(props.opening).run ? "" : run);
    show();
  };
  const isAnswered = JSON.stringify(props.value) !== JSON.stringify(props.opening);
  if (isAnswered) hear();
  else show(isOwn && Boolean(runAskedFor(props.lesson))); // the transport bar asks whether it is still there
  if (player) leaveWithHost(player, host, handle);
  watch("value", hear);
  watch("options", () => handle.update?.(props.options, props.value));
}

function load(name, hasStyle) {
  if (!stages.has(name)) {
    stages.set(name, Promise.all([import(`./stages/${name}.js`), hasStyle ? style(name) : null]).then(([module]) => module));
  }
  return stages.get(name);
}

function style(name) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL(`./stages/${name}.css`, import.meta.url);
  const loaded = new Promise((resolve) => { link.onload = link.onerror = resolve; });
  document.head.append(link);
  return loaded;
}

/** A run id, or { run, options, unless }: "" is no run at all; `unless` see isLinked. */
function parse(value) {
  return value && typeof value === "object" ? value : { run: value || null };
}

/** Gradio says nothing when it takes a component off the page: the stage is destroyed at the player's next change. */
function leaveWithHost(player, host, handle) {
  const stop = player.subscribe(() => {
    if (host.isConnected) return;
    stop();
    handle.destroy?.();
  });
}
