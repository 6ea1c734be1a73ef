// Race: one prompt, two columns of tokens, each token in the colour and shape of its fate; dead drafts stay as ghosts.
// Knows nothing of laws or coins: it shows what became of each token and lets the reader pick one.

import { el, fill, formatNumber, formatSeconds } from "../player.js";
import { SPECULATIVE, VANILLA, paceOf } from "../account.js";
import { choiceOf } from "../choice.js";
import { paint } from "../glyphs.js";
import { runBadge } from "../origin.js";
import { makeLane } from "../race_lane.js";
import { makeLegend } from "../race_legend.js";

export function mount(element, { words, options, player, language }) {
  const choice = choiceOf(player);
  const spotlight = (fate) => { element.dataset.spotlight = fate; };
  const legend = makeLegend({ words, spotlight, onGhosts: (areShown) => element.classList.toggle("race-no-ghosts", !areShown) });
  const origin = runBadge(words, true);
  const prompt = makePrompt(words, origin.node);
  const lanes = [VANILLA, SPECULATIVE].map((id) => makeLane({ id, words, choice }));
  const heads = lanes.map((lane) => makeHead(lane, words, language));
  element.replaceChildren(prompt.node, legend.node, el("div", { class: "race-lanes" }, ...lanes.map((lane) => lane.node)));

  const stop = player.subscribe((events, cursor, state) => {
    origin.draw(player);
    prompt.draw(state.requests[VANILLA] ?? state.requests[SPECULATIVE]);
    const paces = lanes.map((lane) => paceOf(state.requests[lane.id]));
    lanes.forEach((lane, index) => {
      lane.draw(state.requests[lane.id], player.isPlaying || !player.isComplete);
      heads[index](state.requests[lane.id], paces[index], paces[1 - index]);
    });
    if (paces.some((pace) => pace?.numTokens)) legend.greet();
  });
  const stopChoice = choice.subscribe((pick) => lanes.forEach((lane) => lane.mark(pick)));
  return { update() {}, destroy() { stop(); stopChoice(); legend.destroy(); } };
}

/** The prompt: its end on one line, because there stands the question; all of it on demand. */
function makePrompt(words, origin) {
  const text = el("span", { class: "race-prompt-text" });
  const more = el("button", { type: "button", class: "race-more", "aria-expanded": "false" }, words["race.prompt.more"]);
  const node = el("div", { class: "race-prompt" }, el("span", { class: "race-label" }, words["race.prompt"]), text, more, origin);
  let shown = null;
  more.addEventListener("click", () => {
    const isOpen = node.classList.toggle("is-open");
    more.setAttribute("aria-expanded", String(isOpen));
    more.textContent = words[isOpen ? "race.prompt.less" : "race.prompt.more"];
    fillIn();
  });

  function fillIn() {
    const pieces = shown?.pieces ?? [];
    const room = node.classList.contains("is-open") ? Infinity : Math.max(24, text.clientWidth / 7.4);
    let from = pieces.length;
    for (let length = 0; from > 0 && length + pieces[from - 1].length <= room; from -= 1) length += pieces[from - 1].length;
    text.replaceChildren(from > 0 ? "… " : "");
    for (const piece of pieces.slice(from)) paint(text, piece, true);
  }

  function draw(request) {
    if (request?.submitted === shown) return;
    shown = request?.submitted;
    fillIn();
  }
  return { node, draw };
}

/** The head of a lane: what it does, how fast, how far. Returns the function that redraws it. */
function makeHead(lane, words, language) {
  const how = el("p", { class: "race-how" });
  const speed = el("b", { class: "race-speed" });
  const ratio = el("span", { class: "race-ratio" });
  const count = el("p", { class: "race-count" });
  const bar = el("i", {});
  const title = el("h3", { class: "race-title" }, words[`race.${lane.id}`]);
  const figure = el("div", { class: "race-figure" }, ratio, speed, el("span", { class: "race-unit" }, words["race.unit"]));
  lane.head.replaceChildren(el("div", { class: "race-top" }, title, figure), how, el("div", { class: "race-track" }, bar), count);
  const number = (value, digits) => formatNumber(value, digits, language);

  return function draw(request, pace, other) {
    const submitted = request?.submitted;
    how.textContent = submitted ? howOf(submitted, words) : "";
    speed.textContent = pace?.speed ? number(pace.speed, 3) : "–";
    const share = pace?.speed && other?.speed ? pace.speed / other.speed : null;
    ratio.hidden = lane.id === VANILLA || share === null;
    ratio.textContent = share === null ? "" : fill(words["race.ratio"], { ratio: share });
    ratio.classList.toggle("is-slower", share !== null && share < 1);
    bar.style.width = submitted ? `${(100 * request.tokens.length) / Math.max(1, submitted.max_new_tokens)}%` : "0";
    if (pace?.isFinished) bar.style.width = "100%";
    lane.node.classList.toggle("is-finished", Boolean(pace?.isFinished));
    count.textContent = pace ? countOf(request, pace, words) : "";
  };
}

function howOf(submitted, words) {
  if (!submitted.draft_length) return words["race.how.vanilla"];
  const drafter = words[`drafter.${submitted.drafter}`] ?? submitted.drafter;
  return fill(words["race.how.speculative"], { drafter, k: submitted.draft_length });
}

function countOf(request, pace, words) {
  const values = { tokens: pace.numTokens, passes: request.num_passes, time: formatSeconds(pace.total) };
  const reason = request.finished?.finish_reason;
  const key = reason && reason !== "length" && reason !== "stop" ? `race.count.${reason}` : pace.isFinished ? "race.count.done" : "race.count";
  return fill(words[key] ?? words["race.count.done"], values);
}
