// What each drafter looks at: one card each, columns are tokens, rows what is read there, all in the same round of a run.
// Knows nothing of how drafts are made: zoo_reads.js works out the facts from the run's events.

import { el, fill } from "../dom.js";
import { paint } from "../glyphs.js";
import { nameOf, symbol } from "../zoo_scatter.js";
import { readsOf, roundsOf } from "../zoo_reads.js";

const KNOWN = 5; // last tokens shown
const MOST_SIBLINGS = 3;
const MOST_DEPTH = 6;
const FIRST_BLOCKS = 10; // of a cache
const LAST_BLOCKS = 30; // those between are left out
const BEFORE = 3; // tokens of the copied place that stand before the copy
const FELT = { medusa: 1, eagle: 1, eagle3: 3, eagle3_lookup: 3, unshifted: 1 }; // hidden states read at the last position that has one
const GUESSES_STATES = ["eagle", "eagle3", "unshifted"]; // go on from states of their own
const HAS_CACHE = ["self", "model", "eagle", "eagle3", "eagle3_lookup", "unshifted"];

export function mount(element, { words, options, player }) {
  const slider = el("input", { type: "range", min: "1", max: "1", value: "1", class: "inputs-slider", "aria-label": words["inputs.round"] });
  const label = el("output", { class: "inputs-label" });
  const back = el("button", { type: "button", onclick: () => go(-1), "aria-label": words["inputs.back"] }, "‹");
  const next = el("button", { type: "button", onclick: () => go(1), "aria-label": words["inputs.next"] }, "›");
  const grid = el("div", { class: "inputs-grid" });
  element.replaceChildren(el("div", { class: "inputs-bar" }, back, label, next, slider), legend(words), grid);
  let chosen = 0; // 0: the round with the most drafts
  let drawn = "";

  slider.addEventListener("input", () => choose(Number(slider.value)));
  const go = (by) => choose(Math.max(1, Math.min(Number(slider.max), Number(slider.value) + by)));

  function choose(number) {
    chosen = number;
    draw();
  }

  function draw() {
    const { state } = player;
    const requests = firstOfEach(state);
    const { most, best } = roundsOf(requests);
    const number = Math.min(chosen || best, most);
    const key = `${player.runId} ${player.cursor} ${number}`;
    if (key === drawn) return;
    drawn = key;
    Object.assign(slider, { max: String(Math.max(1, most)), value: String(number) });
    label.textContent = fill(words["inputs.label"], { round: number, rounds: most });
    grid.replaceChildren(...requests.map((request) => cardOf(request, number, words, options.families ?? {})));
    if (!requests.length) grid.append(el("p", {}, words.empty));
  }

  const stop = player.subscribe(draw);
  return { update() {}, destroy: stop };
}

/** One request of each drafter. */
function firstOfEach(state) {
  const found = new Map();
  for (const name of state.order) {
    const request = state.requests[name];
    const drafter = request.submitted?.draft_length ? request.submitted.drafter : "";
    if (drafter && !found.has(drafter)) found.set(drafter, request);
  }
  return [...found.values()];
}

function cardOf(request, number, words, families) {
  const drafter = request.submitted.drafter.split(":")[0];
  const facts = readsOf(request, number);
  const title = el("h4", { class: "inputs-name" }, symbol(families[drafter] ?? "plain"), nameOf(request.submitted.drafter, words));
  const card = el("article", { class: `inputs-card inputs-${facts?.kind ?? "none"}`, "data-drafter": request.submitted.drafter });
  if (!facts) return append(card, title, el("p", { class: "inputs-said" }, words["inputs.over"]));
  return append(card, title, el("p", { class: "inputs-said" }, sentenceOf(facts, words)), columnsOf(facts, words), elsewhereOf(facts, words));
}

function sentenceOf(facts, words) {
  const { kind, drafts, foundAt, key, numOwn, numCached, drafter } = facts;
  if (!drafts.length) return words["reads.nothing"];
  const name = kind !== "lookup" ? (words[`reads.${drafter}`] ? drafter : kind) : foundAt < 0 ? "table" : "lookup";
  const values = { key, position: foundAt, own: numOwn, cached: numCached };
  return fill(words[`reads.${name}`] ?? words["reads.other"], values);
}

/** The last known tokens and the drafts, below each whether its hidden state is read, guessed, or not known. */
function columnsOf(facts, words) {
  const known = facts.known.slice(-KNOWN);
  const start = known.length - facts.numTokens;
  const felt = facts.drafts.length && FELT[facts.kind] ? known.length - 2 : -1; // the newest token's comes with this pass
  const table = el("div", { class: "inputs-columns", role: "img", "aria-label": sentenceOf(facts, words) });
  known.forEach(({ text }, at) => {
    const isRead = at >= start || (facts.kind === "unshifted" && at === felt);
    const cell = el("span", { class: `inputs-token${isRead ? " is-read" : ""}` });
    paint(cell, text);
    table.append(el("div", { class: "inputs-column" }, cell, statesOf(facts, at === felt ? "true" : "")));
  });
  facts.drafts.slice(0, MOST_DEPTH).forEach((siblings, depth) => {
    const isGuessed = GUESSES_STATES.includes(facts.kind) && depth < facts.drafts.length - 1;
    table.append(el("div", { class: "inputs-column is-draft" }, ...siblingsOf(siblings), statesOf(facts, isGuessed ? "guess" : "")));
  });
  return table;
}

function siblingsOf(siblings) {
  const order = { accepted: 0, rejected: 1, unreached: 2 };
  const sorted = [...siblings].sort((a, b) => order[a.verdict] - order[b.verdict]);
  const cells = sorted.slice(0, MOST_SIBLINGS).map(({ text, verdict }) => {
    const cell = el("span", { class: `inputs-draft is-${verdict}` });
    paint(cell, text);
    return cell;
  });
  if (sorted.length > MOST_SIBLINGS) cells.push(el("span", { class: "inputs-more" }, `+${sorted.length - MOST_SIBLINGS}`));
  return cells;
}

/** Dots for hidden states: filled where the target's own is read, hollow where the draft goes on from its own guess. */
function statesOf(facts, kind) {
  const row = el("span", { class: "inputs-states" });
  if (kind) row.append(...Array.from({ length: kind === "true" ? FELT[facts.kind] : 1 }, () => el("i", { class: `inputs-state is-${kind}` })));
  return row;
}

/** What lies elsewhere: the place that was copied, the cache, or the guesses of earlier rounds. */
function elsewhereOf(facts, words) {
  if (facts.foundAt >= 1) return placeOf(facts, words);
  if (facts.kind === "window") return guessesOf(facts.round.probed, words);
  if (facts.view) return viewOf(facts.view, words);
  const num = facts.kind === "self" ? facts.numCached : facts.numOwn;
  if (!facts.drafts.length || !num || !HAS_CACHE.includes(facts.kind)) return null;
  const share = el("i", { class: `inputs-cache-fill is-${facts.kind === "self" ? "target" : "own"}` });
  share.style.width = `${Math.min(100, (100 * num) / Math.max(1, facts.known.length))}%`;
  return el("p", { class: "inputs-elsewhere" }, el("span", { class: "inputs-cache" }, share), fill(words[facts.kind === "self" ? "inputs.cache.target" : "inputs.cache.own"], { num, all: facts.known.length }));
}

function placeOf({ known, foundAt, key, numCopied }, words) {
  const first = Math.max(0, foundAt - Math.min(key, BEFORE));
  const cells = known.slice(first, foundAt + Math.max(1, Math.min(numCopied, MOST_DEPTH))).map(({ text }, at) => {
    const cell = el("span", { class: `inputs-token ${first + at < foundAt ? "is-read" : "is-copied"}` });
    paint(cell, text);
    return cell;
  });
  return el("p", { class: "inputs-elsewhere" }, el("span", { class: "inputs-where" }, fill(words["inputs.place"], { position: foundAt, all: known.length })), ...cells);
}

/** The blocks of the target's cache, filled those that a draft step saw; of a long cache the first and the last ones. */
function viewOf({ num_blocks: all, sinks, retrieved, recent }, words) {
  const seen = new Set([...sinks, ...retrieved, ...recent]);
  const numLeftOut = Math.max(0, all - FIRST_BLOCKS - LAST_BLOCKS);
  const blocks = Array.from({ length: all - numLeftOut }, (_, nth) => {
    const at = nth < FIRST_BLOCKS ? nth : nth + numLeftOut;
    return el("i", { class: `inputs-block${seen.has(at) ? " is-seen" : ""}` });
  });
  if (numLeftOut) blocks.splice(FIRST_BLOCKS, 0, el("span", { class: "inputs-gap" }, "…"));
  return el("p", { class: "inputs-elsewhere" }, ...blocks, fill(words["inputs.view"], { num: seen.size, all }));
}

function guessesOf(probed, words) {
  const pieces = probed?.pieces ?? [];
  const cells = pieces.slice(0, 10).map((text) => append(el("span", { class: "inputs-token is-guess" }), text.replaceAll("\n", "↵")));
  return el("p", { class: "inputs-elsewhere" }, el("span", { class: "inputs-where" }, fill(words["inputs.window"], { num: pieces.length, caught: probed?.caught?.length ?? 0 })), ...cells);
}

function legend(words) {
  const token = (kind) => el("span", { class: `inputs-token ${kind}` }, "abc");
  const entry = (mark, key) => el("li", {}, mark, words[`inputs.legend.${key}`]);
  return el("ul", { class: "inputs-legend" }, entry(token("is-read"), "read"), entry(el("i", { class: "inputs-state is-true" }), "state"),
    entry(el("i", { class: "inputs-state is-guess" }), "guess"), entry(el("span", { class: "inputs-draft is-accepted" }, "abc"), "accepted"), entry(el("span", { class: "inputs-draft is-rejected" }, "abc"), "rejected"));
}

function append(node, ...children) {
  node.append(...children.filter((child) => child !== null));
  return node;
}
