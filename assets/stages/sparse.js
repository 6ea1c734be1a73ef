// Sparse: the target's cache as a strip of blocks, one strip per drafter with the blocks that its drafts see; below it
// what was drafted in this round and what became of it, and the bytes that a pass reads. Knows nothing of how blocks are chosen.

import { el, fill, formatNumber } from "../player.js";

const SHARE = ["sinks", "retrieved", "recent"];
const OPENS_AT = 0.7; // of the steps of a recorded run

export function mount(element, { words, options, player, language }) {
  const told = el("p", { class: "sparse-told", role: "status" });
  const lanes = el("div", { class: "sparse-lanes" });
  const rows = new Map();
  let settings = options;
  let picked = null;
  let last = null;
  let opened = "";
  element.replaceChildren(legend(words), lanes, told);
  lanes.addEventListener("pointerover", (event) => pick(event.target.closest(".sparse-block")));
  lanes.addEventListener("click", (event) => pick(event.target.closest(".sparse-block")));
  lanes.addEventListener("keydown", move);

  function pick(cell) {
    if (!cell) return;
    picked = { id: cell.closest(".sparse-lane").dataset.request, block: Number(cell.dataset.block) };
    tell();
  }

  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const strip = event.target.closest(".sparse-strip");
    if (!step || !strip) return;
    event.preventDefault();
    event.stopPropagation();
    const id = strip.closest(".sparse-lane").dataset.request;
    const at = picked?.id === id ? picked.block + step : 0;
    picked = { id, block: Math.max(0, Math.min(strip.children.length - 1, at)) };
    tell();
  }

  function tell() {
    for (const cell of lanes.querySelectorAll(".is-picked")) cell.classList.remove("is-picked");
    const request = last?.requests[picked?.id];
    const cell = rows.get(picked?.id)?.strip.children[picked.block];
    if (!request || !cell) { told.textContent = words.hint; return; }
    for (const { strip } of rows.values()) strip.children[picked.block]?.classList.add("is-picked");
    const size = last.engine?.block_size ?? 16;
    const first = picked.block * size;
    const pieces = [...(request.submitted?.pieces ?? []), ...request.tokens.map((token) => token.label)].slice(first, first + size);
    const values = { block: picked.block, first, end: first + pieces.length - 1, kind: words[`kind.${cell.dataset.kind}`] };
    told.replaceChildren(fill(words.block, values), " ", el("q", {}, pieces.join("").replaceAll("\n", " ↵ ")));
  }

  /** A recorded run opens in the middle of its drafting: the last round is cut short by the end of the text. */
  function open() {
    if (!player.about?.recorded || !player.isComplete || opened === player.runId) return;
    opened = player.runId;
    if (player.cursor === player.events.length) player.seekMark(Math.floor(OPENS_AT * player.marks.length));
  }

  function draw(events, cursor, state) {
    open();
    last = state;
    const ids = state.order;
    for (const id of [...rows.keys()]) if (!ids.includes(id)) { rows.get(id).node.remove(); rows.delete(id); }
    for (const id of ids) {
      if (!rows.has(id)) rows.set(id, makeLane(id, words));
      const lane = rows.get(id);
      if (lane.node.parentNode !== lanes) lanes.append(lane.node);
      lane.draw(state, settings, language);
    }
    tell();
  }

  const stop = player.subscribe(draw);
  return { update(next) { settings = next ?? settings; if (last) draw(null, 0, last); }, destroy: stop };
}

function legend(words) {
  const key = (kind) => el("span", { class: "sparse-key" }, el("i", { class: `sparse-swatch is-${kind}` }), words[`key.${kind}`]);
  return el("div", { class: "sparse-keys" }, ...["all", ...SHARE, "hidden"].map(key));
}

function makeLane(id, words) {
  const name = el("h4", { class: "sparse-name" });
  const facts = el("span", { class: "sparse-facts" });
  const strip = el("div", { class: "sparse-strip", tabindex: "0", role: "group" });
  const round = el("div", { class: "sparse-round" });
  const bytes = el("div", { class: "sparse-bytes" });
  const node = el("section", { class: "sparse-lane", "data-request": id }, el("div", { class: "sparse-head" }, name, facts), strip, round, bytes);

  function draw(state, settings, language) {
    const request = state.requests[id];
    const size = state.engine?.block_size ?? 16;
    const viewed = request.rounds.findLast((one) => one.viewed)?.viewed ?? null;
    const num = viewed?.num_blocks ?? Math.ceil((request.prompt_length + request.tokens.length) / size);
    const kinds = kindsOf(viewed, num);
    name.textContent = nameOf(request, words);
    paint(strip, kinds);
    const seen = kinds.filter((kind) => kind !== "hidden").length;
    const values = { seen, num, share: num ? seen / num : 0, tokens: request.tokens.length, rounds: request.rounds.filter((one) => one.sampled.length).length };
    facts.textContent = fill(words[viewed ? "facts.sparse" : "facts.all"], values);
    strip.setAttribute("aria-label", `${name.textContent}: ${facts.textContent}`);
    drawRound(round, request, words);
    drawBytes(bytes, settings.costs?.[state.engine?.model], { seen: seen * size, all: num * size, isSparse: Boolean(viewed) }, words, language);
  }
  return { node, strip, draw };
}

function nameOf(request, words) {
  const drafter = request.submitted?.drafter || "none";
  const kind = drafter.endsWith(",0") ? "bare" : drafter.split(":")[0];
  const text = words[`lane.${kind}`];
  return text ? `${text}${kind === "none" ? "" : ` · ${drafter}`}` : drafter;
}

/** What each block of the table is to the draft; where nothing was hidden, all are read. */
function kindsOf(viewed, num) {
  const kinds = Array(num).fill(viewed ? "hidden" : "all");
  if (viewed) for (const name of SHARE) for (const block of viewed[name]) kinds[block] = name;
  return kinds;
}

function paint(strip, kinds) {
  kinds.forEach((kind, at) => {
    if (!strip.children[at]) strip.append(el("i", { class: "sparse-block", "data-block": at }));
    const cell = strip.children[at];
    if (cell.dataset.kind === kind) return;
    cell.dataset.kind = kind;
    cell.className = `sparse-block is-${kind}`;
  });
  while (strip.children.length > kinds.length) strip.lastChild.remove();
}

/** The drafts of the last round and their verdicts, then the target's own token. */
function drawRound(node, request, words) {
  const last = request.rounds.findLast((one) => one.drafted);
  if (!last) { node.replaceChildren(); return; }
  const verdicts = last.verified?.verdicts ?? [];
  const drafts = last.drafted.pieces.map((piece, at) =>
    el("span", { class: `token fate-${verdicts[at] === "accepted" ? "accepted" : "rejected"}` }, visible(piece)));
  const own = request.tokens.filter((token) => last.sampled.includes(token.index) && token.fate !== "accepted");
  const values = { round: last.round, drafted: drafts.length, accepted: last.verified?.num_accepted ?? 0 };
  node.replaceChildren(el("span", { class: "sparse-label" }, fill(words.round, values)), ...drafts,
    ...own.map((token) => el("span", { class: `token fate-${token.fate}` }, visible(token.label))));
}

function visible(piece) {
  return piece.replaceAll("\n", "↵").replace(/^ +/, (blanks) => "␣".repeat(blanks.length));
}

/** Two bars on one scale: what a draft step reads, and what a pass of the target does. */
function drawBytes(node, costs, { seen, all, isSparse }, words, language) {
  if (!costs || !isSparse) { node.replaceChildren(); return; }
  const total = costs.weights + costs.token * all;
  const bar = (name, tokens) => {
    const cache = costs.token * tokens;
    const part = (kind, bytes) => {
      const piece = el("i", { class: `sparse-part is-${kind}` });
      piece.style.width = `${(100 * bytes) / total}%`;
      return piece;
    };
    const megabytes = (bytes) => formatNumber(bytes / 1e6, 3, language);
    const text = fill(words.megabytes, { weights: megabytes(costs.weights), cache: megabytes(cache) });
    return el("div", { class: "sparse-bar" }, el("span", { class: "sparse-label" }, words[`bytes.${name}`]),
      el("span", { class: "sparse-track" }, part("weights", costs.weights), part("cache", cache)), el("span", { class: "sparse-number" }, text));
  };
  node.replaceChildren(bar("draft", seen), bar("verify", all));
}
