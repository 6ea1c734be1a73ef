// Draws what happens to a pass's cache slots: above what the rows wrote, below what the accepted path keeps.
// Knows nothing of runs: rows, the accepted path and words are given.

import { el } from "./dom.js";
import { paint } from "./glyphs.js";

/** Draw into `host`; `pass` has rows and path (rows from the root down). Where not `isDone`, the lower row is empty. */
export function drawSlots(host, { rows, path }, words, isDone) {
  const size = rows.length;
  const written = rows.map((row, index) => cellOf(row.label, path.includes(index) ? "is-kept" : "is-freed"));
  const kept = rows.map((_, offset) => {
    if (offset >= path.length) return cellOf("", "is-empty");
    return cellOf(rows[path[offset]].label, path[offset] === offset ? "is-kept" : "is-kept is-moved");
  });
  const lines = el("svg", { class: "moved-lines", viewBox: `0 0 ${size} 1`, preserveAspectRatio: "none", "aria-hidden": "true" });
  path.forEach((row, offset) => lines.append(el("line", { x1: row + 0.5, y1: 0, x2: offset + 0.5, y2: 1, class: row === offset ? "" : "is-moved" })));
  const offsets = rows.map((_, index) => el("span", { class: "moved-offset" }, String(index)));
  host.classList.toggle("is-done", isDone);
  host.style.setProperty("--slots", size);
  host.replaceChildren(el("p", { class: "moved-name" }, words.slots_before), el("div", { class: "moved-line" }, ...offsets),
    el("div", { class: "moved-line" }, ...written), lines, el("div", { class: "moved-line" }, ...kept), el("p", { class: "moved-name" }, words.slots_after));
}

function cellOf(label, look) {
  const cell = el("span", { class: `moved-box ${look}`, title: label });
  paint(cell, label);
  return cell;
}
