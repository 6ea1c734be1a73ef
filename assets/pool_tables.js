// Pool tables: for each sequence its block table, logical index above, physical block below; and the tokens of one of
// them cut where the blocks are cut. Knows nothing of the grid; `pick` is the block and slot that the reader points at.

import { el, fill } from "./dom.js";
import { spell } from "./glyphs.js";

/** Tables of all sequences; `onPick(block)` while an entry is pointed at, `onChoose(id)` for a sequence. */
export function makeTables(words, onPick, onChoose) {
  const node = el("div", { class: "blocks-tables", role: "group", "aria-label": words["tables.label"] });
  const cards = new Map();
  const over = (event) => onPick(blockOf(event.target));
  node.addEventListener("mouseover", over);
  node.addEventListener("focusin", over);
  node.addEventListener("mouseleave", () => onPick(null));
  node.addEventListener("focusout", () => onPick(null));
  node.addEventListener("click", (event) => {
    const card = event.target.closest(".blocks-card");
    if (card) onChoose(card.dataset.id);
  });

  function draw(view, chosen) {
    for (const [id, card] of cards) {
      if (view.sequences.some((sequence) => sequence.id === id)) continue;
      card.node.remove();
      cards.delete(id);
    }
    for (const sequence of view.sequences) {
      if (!cards.has(sequence.id)) {
        cards.set(sequence.id, makeCard(sequence, words));
        node.append(cards.get(sequence.id).node);
      }
      cards.get(sequence.id).draw(sequence, view.size, sequence.id === chosen);
    }
  }

  function mark(pick) {
    for (const entry of node.querySelectorAll(".blocks-entry")) entry.classList.toggle("is-picked", Number(entry.dataset.block) === pick?.block);
  }
  return { node, draw, mark };
}

function blockOf(target) {
  const entry = target.closest(".blocks-entry");
  return entry ? Number(entry.dataset.block) : null;
}

function makeCard(sequence, words) {
  const facts = el("span", { class: "blocks-facts" });
  const name = el("button", { type: "button", class: "blocks-name", title: words["tables.choose"] },
    el("span", { class: `blocks-letter owner-${sequence.owner}` }, sequence.id), facts);
  const list = el("div", { class: "blocks-entries" });
  const node = el("div", { class: "blocks-card", "data-id": sequence.id }, name, list);

  function draw(now, size, isChosen) {
    node.classList.toggle("is-chosen", isChosen);
    node.classList.toggle("is-over", now.entries.length === 0);
    name.setAttribute("aria-pressed", String(isChosen));
    facts.textContent = factsOf(now, words);
    now.entries.forEach((entry, at) => {
      const key = `${entry.block} ${entry.held} ${entry.refs}`;
      if (!list.children[at]) list.append(el("button", { type: "button", class: "blocks-entry" }));
      const box = list.children[at];
      if (box.dataset.key === key) return;
      box.dataset.key = key;
      box.dataset.block = entry.block;
      const values = { id: now.id, index: entry.index, block: entry.block, held: entry.held, size, refs: entry.refs };
      box.title = fill(words[entry.refs > 1 ? "entry.shared" : "entry.own"], values);
      box.setAttribute("aria-label", box.title);
      box.classList.toggle("is-shared", entry.refs > 1);
      box.replaceChildren(el("small", {}, String(entry.index)), el("b", {}, String(entry.block)), el("i", { class: `owner-${now.owner}`, style: `--share:${entry.held / size}` }));
    });
    while (list.children.length > now.entries.length) list.lastChild.remove();
  }
  return { node, draw };
}

function factsOf(sequence, words) {
  if (sequence.entries.length) return fill(words["tables.facts"], { tokens: sequence.numCached, blocks: sequence.entries.length });
  return sequence.status === "finished" ? words["tables.finished"] : words["tables.waiting"];
}

/** The tokens of one sequence in rows, one per block; `onToken({block, slot, position})`, `onFork(id, position)`. */
export function makeText(words, onToken, onFork) {
  const rows = el("div", { class: "blocks-rows" });
  const said = el("p", { class: "blocks-address", role: "status" });
  const button = el("button", { type: "button", class: "blocks-fork" }, words["text.fork"]);
  const cost = el("span", { class: "blocks-cost" });
  const forking = el("span", { class: "blocks-forking", hidden: true }, button, cost);
  const node = el("div", { class: "blocks-text" }, el("div", { class: "blocks-line" }, said, forking), rows);
  let shown = "";
  let position = -1;
  let now = null;

  rows.addEventListener("click", (event) => choose(positionOf(event.target)));
  rows.addEventListener("focusin", (event) => choose(positionOf(event.target)));
  rows.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    rows.querySelector(`[data-position="${position + step}"]`)?.focus();
  });
  button.addEventListener("click", () => onFork(now.id, position));

  function choose(next) {
    if (next === null || !now) return;
    position = next;
    point();
    for (const token of rows.querySelectorAll(".token")) {
      const isPicked = Number(token.dataset.position) === position;
      token.classList.toggle("is-picked", isPicked);
      token.tabIndex = isPicked ? 0 : -1;
    }
  }

  /** Say and show where the chosen token lies at this moment. */
  function point() {
    const isChosen = now && position >= 0;
    const entry = isChosen ? now.entries[Math.floor(position / now.size)] : undefined;
    onToken(entry && position < now.numCached ? { block: entry.block, slot: position % now.size } : null);
    forking.hidden = !isChosen || !now.canFork;
    button.disabled = !isChosen || !canForkAt(now, position);
    cost.textContent = isChosen ? costOf(now, position, words) : "";
    said.textContent = isChosen ? address(entry) : words["text.hint"];
  }

  function address(entry) {
    if (!entry) return words["text.gone"];
    if (position >= now.numCached) return words["text.pending"];
    const values = { position, size: now.size, index: Math.floor(position / now.size), slot: position % now.size, block: entry.block };
    return fill(words["text.address"], values);
  }

  function draw(sequence, size, canFork) {
    const key = sequence ? [sequence.id, sequence.entries.map((entry) => entry.block), sequence.numCached, ...sequence.pieces].join("\u0000") : "";
    if (key === shown) return;
    const isOther = sequence?.id !== now?.id;
    shown = key;
    now = sequence && { ...sequence, size, canFork };
    if (isOther || position >= (now?.pieces.length ?? 0)) position = -1;
    const hadFocus = rows.contains(document.activeElement);
    rows.replaceChildren(...(now ? rowsOf(now, position, words) : []));
    if (hadFocus) rows.querySelector(`[data-position="${position}"]`)?.focus();
    point();
  }
  return { node, draw };
}

/** A fork goes on after any token but the last, which has no successor yet to differ from. */
function canForkAt(sequence, position) {
  return position < sequence.pieces.length - 1;
}

/** What a fork after this token copies, or why there is none. It computes the row of this token itself. */
function costOf(sequence, position, words) {
  if (!canForkAt(sequence, position)) return words["text.fork.where"];
  const count = position % sequence.size;
  return fill(words[count ? "text.fork.copies" : "text.fork.free"], { count, size: sequence.size });
}

function positionOf(target) {
  const token = target.closest(".token");
  return token ? Number(token.dataset.position) : null;
}

function rowsOf(sequence, position, words) {
  const numRows = Math.ceil(sequence.pieces.length / sequence.size);
  return Array.from({ length: numRows }, (_, index) => {
    const entry = sequence.entries[index];
    const tokens = sequence.pieces.slice(index * sequence.size, (index + 1) * sequence.size).map((piece, slot) => {
      const at = index * sequence.size + slot;
      const kind = at < sequence.numPrompt ? "fate-prompt" : "blocks-new";
      const isLast = entry && at >= sequence.numCached;
      const token = el("button", { type: "button", class: `token ${kind}${isLast ? " is-pending" : ""}${at === position ? " is-picked" : ""}`,
        "data-position": at, tabindex: at === (position < 0 ? 0 : position) ? 0 : -1, title: isLast ? words["text.pending"] : null });
      for (const run of spell(piece)) token.append(run.isGlyph ? el("i", { class: "glyph" }, run.text) : run.text);
      return token;
    });
    const where = entry ? [el("small", {}, String(index)), "→", el("b", {}, String(entry.block))] : [el("small", {}, String(index)), "→", "–"];
    return el("div", { class: `blocks-row${index % 2 ? " is-odd" : ""}` }, el("span", { class: "blocks-where" }, ...where), el("span", { class: "blocks-tokens" }, ...tokens));
  });
}
