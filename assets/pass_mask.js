// Pass mask: which row of one pass sees which, drawn from the parents of its rows. Row 0 is the last known token.
// Knows nothing of what the rows are for: each row names its kind, and a kind is a class.

import { el } from "./dom.js";

const PIXELS = 14; // of one row
const MOST_PIXELS = 260;

/** For each row the rows that it sees, itself included; parents count without row 0, −1 is row 0. */
export function visibleRows(parents) {
  const seen = [[0]];
  parents.forEach((parent, at) => seen.push([...seen[parent + 1], at + 1]));
  return seen;
}

/** An SVG of the whole mask; kinds: one class name per row. */
export function maskPicture(parents, kinds, label) {
  const size = parents.length + 1;
  const cells = visibleRows(parents).flatMap((seen, row) =>
    seen.map((column) => el("rect", { x: column, y: row, width: 0.86, height: 0.86, class: `pass-mask-${kinds[row]}` })));
  const frame = el("rect", { x: -0.07, y: -0.07, width: size, height: size, class: "pass-mask-frame" });
  const width = `width: min(100%, ${Math.min(MOST_PIXELS, size * PIXELS)}px)`;
  return el("svg", { style: width, viewBox: `-0.3 -0.3 ${size + 0.5} ${size + 0.5}`, role: "img", "aria-label": label, class: "pass-mask" }, frame, ...cells);
}
