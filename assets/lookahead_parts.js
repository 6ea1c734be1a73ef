// Parts of the window stage: the window with its diagonals, the verify branch, the pool, as DOM from one pass.
// Knows nothing of players nor of cursors.

import { el, fill } from "./dom.js";
import { name, paint } from "./glyphs.js";

/** A token in a small box. */
export function chip(label, kind, title = "") {
  const node = el("span", { class: `window-chip window-${kind}`, title: title || name(label) });
  paint(node, label);
  return node;
}

/** The two-dimensional window, one row per level; a column is a diagonal, since level k stands k places later. */
export function windowGrid(pass, width, words, picked, pick) {
  const { pieces, favourite_pieces: favourites } = pass.probed;
  const levels = pieces.length / width;
  const places = width + levels;
  const grid = el("div", { class: "window-grid", role: "group", "aria-label": words["window.title"] });
  grid.style.setProperty("--places", places);
  const rows = Array.from({ length: levels + 1 }, (_, level) => level);
  for (const level of rows) {
    const isTop = level === levels;
    const head = isTop ? words["window.favourites"] : fill(words["window.level"], { level });
    grid.append(el("span", { class: "window-level", style: `grid-row: ${level + 2}` }, head));
    for (let column = 0; column < width; column += 1) {
      const label = isTop ? favourites[(levels - 1) * width + column] : pieces[level * width + column];
      const node = chip(label, isTop ? "favourite" : "guess");
      node.style.gridArea = `${level + 2} / ${column + level + 2}`;
      node.classList.toggle("is-picked", column === picked);
      node.addEventListener("pointerenter", () => pick(column));
      node.addEventListener("click", () => pick(column));
      grid.append(node);
    }
  }
  for (let place = 0; place < places; place += 1) {
    grid.append(el("span", { class: "window-place", style: `grid-area: 1 / ${place + 2}` }, `+${place + 1}`));
  }
  return grid;
}

/** What the picked column spells. */
export function spelled(pass, width, words, picked, pieceOf) {
  const gram = pass.probed.caught[picked];
  if (!gram) return el("p", { class: "window-note" }, words["window.filling"]);
  return el("p", { class: "window-note" }, words["window.caught"], " ", el("span", { class: "window-gram" }, ...gram.map((id) => chip(pieceOf(id), "favourite"))));
}

/** The n-grams that were verified: one line per leaf of the tree, each with what became of it. */
export function verifyBranch(pass, root, words) {
  const lines = pass.drafted ? leavesOf(pass.drafted.parents).map((leaf) => pathTo(leaf, pass.drafted.parents)) : [];
  const verdict = (node) => pass.verified?.verdicts[node] ?? "unreached";
  const given = pass.sampled.at(-1);
  const list = lines.map((path) => el("li", {}, chip(root, "root"), ...path.map((node) =>
    chip(pass.drafted.pieces[node], verdict(node), words[`verdict.${verdict(node)}`]))));
  if (!lines.length) list.push(el("li", {}, chip(root, "root"), el("span", { class: "window-note" }, words["verify.none"])));
  const out = pass.sampled.map((token) => chip(token.label, token === given ? "given" : "accepted", words[token === given ? "verdict.given" : "verdict.accepted"]));
  return [el("ol", { class: "window-branch" }, ...list), el("p", { class: "window-out" }, el("span", { class: "window-note" }, words["verify.out"]), ...out)];
}

function leavesOf(parents) {
  const inner = new Set(parents);
  return parents.map((_, node) => node).filter((node) => !inner.has(node));
}

function pathTo(node, parents) {
  return node < 0 ? [] : [...pathTo(parents[node], parents), node];
}

/** The pool as chips: new ones marked, those that begin with the next root lit. */
export function poolList(grams, root, pieceOf, most) {
  const order = [...grams].sort((a, b) => (b.ids[0] === root) - (a.ids[0] === root) || b.since - a.since);
  const items = order.slice(0, most).map((gram) => {
    const kind = `window-gram${gram.isNew ? " is-new" : ""}${gram.ids[0] === root ? " is-next" : ""}`;
    return el("li", { class: kind }, ...gram.ids.map((id) => chip(pieceOf(id), "pooled")));
  });
  return el("ul", { class: "window-pool" }, ...items);
}
