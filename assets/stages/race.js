// Race: one prompt, two columns of tokens, each token in the colour and shape of its fate; dead drafts stay as ghosts.
// Knows nothing of laws or coins: it shows what became of each token and lets the reader pick one.

import { el, fill, formatNumber, formatSeconds } from "../player.js";
import { SPECULATIVE, VANILLA, account } from "../account.js";
import { choiceOf } from "../choice.js";
import { paint } from "../glyphs.js";
import { runBadge } from "../origin.js";
import { makeLane } from "../race_lane.js";
import { makeLegend } from "../race_legend.js";

export function mount(element, { words, player, language }) {
  const choice = choiceOf(player);
  const spotlight = (fate) => { element.dataset.spotlight = fate; };
  const legend = makeLegend({ words, spotlight, onGhosts: (areHidden) => element.classList.toggle("race-no-ghosts", areHidden) });
  const origin = runBadge(words, true);
  const prompt = makePrompt(words, origin.node);
  const outcome = makeOutcome(words, language);
  const lanes = [VANILLA, SPECULATIVE].map((id) => makeLane({ id, words, choice }));
  const heads = lanes.map((lane) => makeHead(lane, words, language));
  element.replaceChildren(prompt.node, legend.node, outcome.node, el("div", { class: "race-lanes" }, ...lanes.map((lane) => lane.node)));

  const stop = player.subscribe((events, cursor, state) => {
    const facts = account(state);
    const paces = [facts.vanilla, facts.speculative];
    const submitted = submittedIn(events, state);
    origin.draw(player);
    origin.node.hidden = !player.runId;
    prompt.draw(submitted[VANILLA] ?? submitted[SPECULATIVE]);
    outcome.draw(player, facts);
    lanes.forEach((lane, index) => {
      lane.draw(state.requests[lane.id], player.isPlaying || !player.isComplete);
      heads[index](submitted[lane.id], state.requests[lane.id], paces[index], paces[1 - index]);
    });
    legend.greet(paces.some((pace) => pace?.numTokens));
  });
  const stopChoice = choice.subscribe((pick) => {
    if (pick && !pick.isAutomatic) legend.end();
    lanes.forEach((lane) => lane.mark(pick));
  });
  element.addEventListener("interrupt", legend.end); // the reader has asked for something else
  return { update() {}, destroy() { stop(); stopChoice(); legend.end(); } };
}

/** What was asked for is known before the cursor reaches it. */
function submittedIn(events, state) {
  const found = Object.fromEntries([VANILLA, SPECULATIVE].map((id) => [id, state.requests[id]?.submitted]));
  for (const event of events.slice(0, 8)) if (event.type === "Submitted") found[event.request_id] = event;
  return found;
}

/** The prompt: its end on one line, because there stands the question; all of it on demand. */
function makePrompt(words, origin) {
  const text = el("span", { class: "race-prompt-text" });
  const more = el("button", { type: "button", class: "race-more", "aria-expanded": "false", hidden: true }, words["race.prompt.more"]);
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
    const isOpen = node.classList.contains("is-open");
    const room = isOpen ? Infinity : Math.max(24, text.clientWidth / 7.4);
    let from = pieces.length;
    for (let length = 0; from > 0 && length + pieces[from - 1].length <= room; from -= 1) length += pieces[from - 1].length;
    text.replaceChildren(from > 0 ? "… " : "");
    for (const piece of pieces.slice(from)) paint(text, piece, true);
    more.hidden = !isOpen && from === 0;
  }

  function draw(submitted = null) {
    if (submitted === shown) return;
    shown = submitted;
    fillIn();
  }
  return { node, draw };
}

/** One sentence over the columns: who is faster at this moment, and if it lost, by which term. */
function makeOutcome(words, language) {
  const node = el("p", { class: "race-outcome" });
  const number = (value) => formatNumber(value, 3, language);

  function sentence(player, { speedup, rounds, costs }) {
    if (player.isEmpty) return words["race.empty"];
    const isAtEnd = player.isComplete && player.events.length > 0 && player.cursor === player.events.length;
    if (!speedup) return isAtEnd ? words["race.nothing"] : "";
    const values = { measured: number(speedup.measured), tau: number(rounds.tau), c: number(costs.c), cured: number(speedup.cured[speedup.worst]),
      rows: number(rounds.perRound + 1), v: number(costs.verify / costs.plain), cost: number((costs.draft + costs.verify + costs.other) / costs.plain) };
    return fill(words[speedup.measured < 1 ? `race.lost.${speedup.worst}` : "race.won"], values);
  }

  function draw(player, facts) {
    const text = sentence(player, facts);
    if (node.textContent !== text) node.textContent = text;
    node.classList.toggle("is-slower", Boolean(facts.speedup && facts.speedup.measured < 1));
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

  return function draw(submitted, request, pace, other) {
    how.textContent = submitted ? howOf(submitted, words) : "";
    speed.textContent = pace?.speed ? number(pace.speed, 3) : "–";
    const share = pace?.speed && other?.speed ? pace.speed / other.speed : null;
    ratio.hidden = lane.id === VANILLA || share === null;
    ratio.textContent = share === null ? "" : fill(words["race.ratio"], { ratio: share });
    ratio.classList.toggle("is-slower", share !== null && share < 1);
    bar.style.width = submitted && request ? `${(100 * request.tokens.length) / Math.max(1, submitted.max_new_tokens)}%` : "0";
    if (pace?.isFinished) bar.style.width = "100%";
    lane.node.classList.toggle("is-finished", Boolean(pace?.isFinished));
    count.textContent = pace ? countOf(request, pace, words) : "";
  };
}

function howOf(submitted, words) {
  if (!submitted.draft_length) return words["race.how.vanilla"];
  const drafter = words[`drafter.${submitted.drafter.replace(":", ".")}`] ?? submitted.drafter;
  return fill(words["race.how.speculative"], { drafter, k: submitted.draft_length });
}

function countOf(request, pace, words) {
  const values = { tokens: pace.numTokens, passes: request.num_passes, time: formatSeconds(pace.total) };
  const reason = request.finished?.finish_reason;
  const key = reason && reason !== "length" && reason !== "stop" ? `race.count.${reason}` : pace.isFinished ? "race.count.done" : "race.count";
  return fill(words[key] ?? words["race.count.done"], values);
}
