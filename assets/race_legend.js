// The legend of the race: what each shape means, one spotlight at a time; on a first visit it explains itself.
// Knows nothing of runs. That the tour was seen is kept with the reader's own state.

import { el, fill, reducedMotion } from "./player.js";
import { read, write } from "./reader.js";

export const FATES = ["target", "accepted", "rejected", "resampled", "bonus"];
const SEEN = "live_lab.tour";
const STEP = 5000; // milliseconds; six steps make the thirty seconds
const PAUSE = 400; // milliseconds that the first tokens have been on screen when the tour begins

export function makeLegend({ words, spotlight, onGhosts }) {
  const meaning = el("p", { class: "race-meaning", "aria-live": "polite" });
  const keys = FATES.map((fate) => el("button", { type: "button", class: "race-key", "aria-pressed": "false" }, el("span", { class: `token fate-${fate}` }, words[`fate.${fate}`])));
  const ghosts = el("button", { type: "button", class: "race-switch", role: "switch", "aria-checked": "false" }, words["race.ghosts"]);
  const start = el("button", { type: "button", class: "race-quiet" }, words["race.tour.start"]);
  const tour = makeTour({ words, show, onEnd: () => show("") });
  const bar = el("div", { class: "race-keys", role: "group", "aria-label": words["race.legend"] }, ...keys, el("span", { class: "race-gap" }), ghosts, start);
  const node = el("div", { class: "race-legend" }, bar, el("div", { class: "race-explain" }, meaning, tour.node));
  let pinned = "";
  let greeting = 0;
  let isGreeted = false;

  function show(fate, text = "") {
    spotlight(fate);
    meaning.textContent = text || (fate ? words[`fate.${fate}.meaning`] : words["race.hint"]);
    keys.forEach((key, at) => key.setAttribute("aria-pressed", String(FATES[at] === fate)));
  }

  keys.forEach((key, at) => {
    const fate = FATES[at];
    key.addEventListener("click", () => { end(); pinned = pinned === fate ? "" : fate; show(pinned); });
    key.addEventListener("pointerenter", () => { if (!tour.isOn()) show(fate); });
    key.addEventListener("pointerleave", () => { if (!tour.isOn()) show(pinned); });
  });
  ghosts.addEventListener("click", () => {
    const areHidden = ghosts.getAttribute("aria-checked") !== "true";
    ghosts.setAttribute("aria-checked", String(areHidden));
    onGhosts(areHidden);
  });
  start.addEventListener("click", () => tour.begin());

  /** On a first visit the tour begins, once there are tokens on screen that stay. */
  function greet(areTokens) {
    if (isGreeted || areTokens === Boolean(greeting)) return;
    clearTimeout(greeting);
    greeting = areTokens ? setTimeout(begin, PAUSE) : 0;
  }

  function begin() {
    isGreeted = true;
    if (!read(SEEN, false)) tour.begin();
  }

  /** The reader has better things to do: the tour, and one that was about to begin, is over. */
  function end() {
    clearTimeout(greeting);
    isGreeted = true;
    tour.end();
  }

  show("");
  return { node, greet, end };
}

/** Six sentences, five seconds each; it stops for good when dismissed, and waits while the reader points at it. */
function makeTour({ words, show, onEnd }) {
  const steps = ["", ...FATES];
  const count = el("span", { class: "race-step" });
  const next = el("button", { type: "button", class: "race-quiet" }, words["race.tour.next"]);
  const skip = el("button", { type: "button", class: "race-quiet" }, words["race.tour.skip"]);
  const clock = el("i", { class: "race-clock" });
  const node = el("div", { class: "race-tour" }, count, next, skip, clock);
  let at = -1;
  let timer = 0;
  node.hidden = true;

  function go(step) {
    clearTimeout(timer);
    if (step >= steps.length) return end();
    at = step;
    node.hidden = false;
    show(steps[at], words[`race.tour.${at + 1}`]);
    count.textContent = fill(words["race.tour.step"], { step: at + 1, steps: steps.length });
    next.textContent = words[at + 1 < steps.length ? "race.tour.next" : "race.tour.done"];
    wait();
  }

  function wait() {
    clock.classList.remove("is-running");
    if (reducedMotion() || at < 0) return;
    void clock.offsetWidth; // restarts the animation of the clock
    clock.classList.add("is-running");
    timer = setTimeout(() => go(at + 1), STEP);
  }

  function end() {
    clearTimeout(timer);
    if (at < 0) return;
    at = -1;
    node.hidden = true;
    write(SEEN, true);
    onEnd();
  }

  next.addEventListener("click", () => go(at + 1));
  skip.addEventListener("click", end);
  node.addEventListener("pointerenter", () => { clearTimeout(timer); clock.classList.remove("is-running"); });
  node.addEventListener("pointerleave", wait);
  return { node, begin: () => go(0), end, isOn: () => at >= 0 };
}
