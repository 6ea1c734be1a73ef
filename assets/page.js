// What every page has: the theme switch, the engine's state in the header, links, downloads, the lesson in the address,
// and the footer. Knows nothing of lessons.

import { linkTo, turnTo, writeNow } from "./address.js";
import { fill } from "./dom.js";
import { playerFor } from "./player.js";
import { answerButtons } from "./answers.js";
import { read, write } from "./reader.js";
import { hearWeights } from "./weights.js";
import { address } from "./wire.js";

const page = window.inferencePage; // {root, site, language, lang, words, lessons}: written by the server

// ---- header -------------------------------------------------------------------------------------------------------

function themeSwitch(button) {
  const show = () => {
    const isDark = window.inferenceTheme.isDark();
    button.setAttribute("aria-pressed", String(isDark));
    button.querySelector(".switch-text").textContent = page.words[isDark ? "theme.light" : "theme.dark"];
  };
  button.addEventListener("click", () => {
    write("theme", window.inferenceTheme.isDark() ? "light" : "dark");
    window.inferenceTheme.choose(read("theme"));
    show();
  });
  show();
}

function languageLinks(links) {
  const follow = () => {
    writeNow();
    for (const link of links) link.search = location.search;
  };
  follow();
  document.addEventListener("pointerdown", follow);
  document.addEventListener("focusin", follow);
}

async function watchEngine(pill) {
  let pause = 1000;
  try {
    const status = await (await fetch(address(`status?lang=${page.language}`))).json();
    hearWeights(status.weights);
    const isBusy = status.state === "ready" && (status.running || status.waiting);
    const key = isBusy ? "engine.running" : `engine.${status.state}`;
    const percent = Math.round(status.fraction * 100);
    show(pill, status.state, fill(page.words[key], { ...status, percent }), percent);
    pause = status.state === "loading" ? 700 : 5000;
  } catch {
    show(pill, "gone", page.words["engine.gone"]);
    pause = 5000;
  }
  setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", () => watchEngine(pill), { once: true }) : watchEngine(pill)), pause);
}

function show(pill, state, text, percent = 0) {
  pill.dataset.state = state;
  showProgress(pill.querySelector(".engine-dot"), state === "loading", percent);
  const label = pill.querySelector(".engine-text");
  if (label.textContent !== text) label.textContent = text;
  pill.title = text;
}

/** While the model loads, the dot before the words is a progress bar; afterwards it says nothing that they do not. */
function showProgress(dot, isLoading, percent) {
  const label = page.words["engine.progress"];
  const bar = { "role": "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": percent };
  for (const [name, value] of Object.entries(isLoading ? bar : { "aria-hidden": true })) dot.setAttribute(name, value);
  for (const name of isLoading ? ["aria-hidden"] : Object.keys(bar)) dot.removeAttribute(name);
  dot.style.setProperty("--fraction", percent / 100);
}

// ---- the lesson in the address ------------------------------------------------------------------------------------

function followTabs() {
  document.addEventListener("click", (event) => {
    const tab = event.target.closest?.("[role=tab]");
    const lesson = page.lessons.find((name) => tab?.id === `tab-${name}-button` || tab?.getAttribute("aria-controls") === `tab-${name}`);
    if (lesson && new URLSearchParams(location.search).get("lesson") !== lesson) turnTo(lesson);
  });
}

/** Where there is no room for all tabs, Gradio puts a button behind them; its name for it is English only. */
function nameMoreTabs() {
  const name = () => {
    for (const button of document.querySelectorAll("button[aria-label='More tabs']")) button.ariaLabel = page.words["tabs.more"];
  };
  const found = new MutationObserver(() => {
    const tabs = document.querySelector("[role=tablist]")?.parentElement;
    if (!tabs) return;
    found.disconnect();
    name();
    new MutationObserver(name).observe(tabs, { childList: true, subtree: true });
  });
  found.observe(document.body, { childList: true, subtree: true });
}

// ---- what buttons of a lesson call --------------------------------------------------------------------------------

/** Copy a link to settings: only what differs from its first value rides in it. */
page.copyLink = async (spec, values) => {
  const { link, isWhole } = linkTo(spec, values);
  try {
    await navigator.clipboard.writeText(link.href);
    toast(isWhole ? spec.copied : spec.long);
  } catch {
    window.prompt(spec.manual, link.href); // no clipboard without https
  }
};

/** Download the run that a transport bar shows. */
page.download = (run) => {
  const id = run && typeof run === "object" ? run.run : run;
  if (!id) return;
  const link = document.createElement("a");
  link.href = address(`runs/${encodeURIComponent(id)}.jsonl.gz`);
  link.download = "";
  link.click();
};

/** Say something for a moment, to eyes and to screen readers. */
export function toast(text) {
  const box = document.querySelector("#toast");
  box.textContent = text;
  box.classList.add("is-shown");
  setTimeout(() => box.classList.remove("is-shown"), 3000);
}

page.playerFor = playerFor; // for the console and for tests
themeSwitch(document.querySelector("#theme-switch"));
languageLinks(document.querySelectorAll("a.language"));
watchEngine(document.querySelector("#engine"));
answerButtons(document.querySelector(".site-footer"), page.words, toast);
followTabs();
nameMoreTabs();
