// The transport bar: play, pause, step, seek, speed, stop, and where the run comes from. One per channel.
// Knows nothing of what the stages show; it gives the player its orders and says what state the run is in.

import { isLinked, runAskedFor } from "../address.js";
import { el, fill, formatSeconds, reducedMotion } from "../player.js";
import { otherWeights, whenHeard } from "../weights.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2];
const ICONS = {
  play: "M6 4l14 8-14 8z", pause: "M6 4h4v16H6zM14 4h4v16h-4z", back: "M17 5v14L7 12zM5 5h2v14H5z",
  forward: "M7 5v14l10-7zM17 5h2v14h-2z", stop: "M6 6h12v12H6z",
};

export function mount(element, { words, options, value, lesson, player, trigger }) {
  const parts = build(words);
  element.replaceChildren(parts.bar);
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", words.label);
  wire(parts, player, trigger);
  const first = { run: null, announced: null };
  const again = player.channel === lesson ? runAskedFor(lesson) : ""; // begun before the page opened; its end is news
  if (again) trigger("pick", { run: again, isLinked: isLinked(lesson, value?.unless) });
  const stop = player.subscribe(() => {
    draw(parts, player, words);
    first.run ??= player.isEmpty || (again && player.runId === again) ? "" : player.runId || null;
    const isNew = player.isComplete && player.runId !== first.run && player.runId !== first.announced;
    if (isNew) {
      first.announced = player.runId;
      trigger("done", { run: player.runId });
    }
  });
  const stopHearing = whenHeard(() => draw(parts, player, words));
  const observer = options.autoplay && !reducedMotion() ? playOnce(element, player) : null;
  const onKey = (event) => keys(event, element, player);
  document.addEventListener("keydown", onKey);
  return {
    update() {},
    destroy() {
      stop();
      stopHearing();
      observer?.disconnect();
      document.removeEventListener("keydown", onKey);
    },
  };
}

function build(words) {
  const button = (name) => el("button", { type: "button", class: `transport-${name}`, title: words[name], "aria-label": words[name] }, icon(ICONS[name]));
  const buttons = Object.fromEntries(["back", "play", "forward", "stop"].map((name) => [name, button(name)]));
  const slider = el("input", { type: "range", min: 0, max: 0, value: 0, step: 1, class: "transport-slider", "aria-label": words.position });
  const speed = el("select", { class: "transport-speed", "aria-label": words.speed, title: words.speed },
    SPEEDS.map((value) => el("option", { value, selected: value === 1 }, `${value}×`)));
  const follow = el("button", { type: "button", class: "transport-follow", hidden: true }, words.follow);
  const where = el("span", { class: "transport-where" });
  const time = el("span", { class: "transport-time" });
  const state = el("span", { class: "transport-state", role: "status" });
  const bar = el("div", { class: "transport-bar" },
    el("div", { class: "transport-buttons" }, buttons.back, buttons.play, buttons.forward), slider,
    el("div", { class: "transport-right" }, follow, speed, buttons.stop),
    el("div", { class: "transport-facts" }, state, where, time));
  return { bar, slider, speed, follow, where, time, state, ...buttons };
}

function icon(path) {
  return el("svg", { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true" }, el("path", { d: path }));
}

function wire(parts, player, trigger) {
  parts.play.addEventListener("click", () => (player.isPlaying || player.isFollowing ? player.pause() : player.play()));
  parts.back.addEventListener("click", () => player.step(-1));
  parts.forward.addEventListener("click", () => player.step(1));
  parts.follow.addEventListener("click", () => player.follow());
  parts.slider.addEventListener("input", () => player.seekMark(Number(parts.slider.value) - 1));
  parts.speed.addEventListener("change", () => player.setSpeed(Number(parts.speed.value)));
  parts.stop.addEventListener("click", () => trigger("act", { act: "stop", run: player.runId }));
}

function draw(parts, player, words) {
  const isMoving = player.isPlaying || (player.runId && player.isFollowing && !player.isComplete);
  swapIcon(parts.play, isMoving ? "pause" : "play", words);
  const total = player.marks.length;
  const step = player.markIndex + 1;
  parts.slider.max = total;
  parts.slider.value = step;
  parts.slider.disabled = parts.play.disabled = player.events.length === 0;
  parts.back.disabled = player.cursor === 0;
  parts.forward.disabled = player.cursor >= player.events.length;
  parts.slider.style.setProperty("--share", total ? step / total : 0);
  const position = fill(words.step, { step, total });
  parts.slider.setAttribute("aria-valuetext", position);
  parts.where.textContent = total ? position : "";
  parts.time.textContent = total ? fill(words.time, { time: formatSeconds(player.time), total: formatSeconds(player.duration) }) : "";
  parts.stop.hidden = !player.isLive || !player.runId;
  parts.follow.hidden = !player.isLive || player.isFollowing;
  const name = stateOf(player);
  parts.state.dataset.state = name;
  say(parts.state, player.message || fill(words[`state.${name}`], factsOf(player)));
}

/** A date is never torn at its hyphens. */
function say(node, text) {
  if (node.textContent === text) return;
  const parts = text.split(/(\d{4}-\d\d-\d\d)/);
  node.replaceChildren(...parts.map((part, at) => (at % 2 ? el("span", { class: "transport-date" }, part) : part)));
}

function swapIcon(button, name, words) {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  button.title = words[name];
  button.setAttribute("aria-label", words[name]);
  button.querySelector("path").setAttribute("d", ICONS[name]);
}

function stateOf(player) {
  if (!player.runId) return "empty";
  if (player.isLost) return "lost";
  if (!player.about) return "connecting";
  if (player.about.recorded) return otherWeights(player.events[0]) ? "other_weights" : "recorded";
  if (!player.isComplete) return player.place > 0 ? "waiting" : "live";
  return player.ending === "finished" || player.ending === "stopped" ? player.ending : "failed";
}

function factsOf(player) {
  const started = player.events[0]?.type === "EngineStarted" ? player.events[0] : {};
  return { place: player.place, code: player.ending, device: started.device_name ?? "?", date: (started.recorded ?? "?").slice(0, 10), ...otherWeights(started) };
}

/** Play a recorded run once, when the bar first comes into view. */
function playOnce(element, player) {
  const observer = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    observer.disconnect();
    const stop = player.subscribe(() => {
      if (!player.isComplete) return;
      queueMicrotask(() => stop());
      if (player.about?.recorded && player.cursor === player.events.length) player.restart();
    });
  });
  observer.observe(element);
  return observer;
}

/** ← and → step through the run in view, unless the reader is typing or on a control that uses them. */
function keys(event, element, player) {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable], [role=slider], [role=tab], [role=radiogroup], [role=listbox]")) return;
  if (!element.isConnected || element.offsetParent === null) return;
  event.preventDefault();
  player.step(event.key === "ArrowLeft" ? -1 : 1);
}
