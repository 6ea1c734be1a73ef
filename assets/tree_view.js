// Draws a candidate tree: the root at the left, one column per level, a chip per node, a curve to its parent.
// Knows nothing of what a node's look means: labels, classes and tags are given. Rows never cross.

import { el } from "./dom.js";
import { paint } from "./glyphs.js";
import { depths, places } from "./tree.js";

const ROOMY = { column: 86, gap: 26 }; // pixels: the narrowest column, and what is left for the curves
const NARROW = { column: 70, gap: 14 }; // on a phone

/**
 * Draw nodes {parent, label, number, classes, tag, title, box} into `host`, root first; `box` (true, false or absent) is
 * a box to tick. Returns the chips. `heard`: {point(node or -1), pick(node), tick(node)}, each may be absent.
 */
export function drawTree(host, nodes, heard = {}) {
  const parents = nodes.map((node) => node.parent);
  const depth = depths(parents);
  const { rows, num_rows } = places(parents);
  const height = num_rows > 26 ? 20 : 27;
  const levels = Math.max(...depth) + 1;
  const isNarrow = (host.clientWidth || 320) < 420;
  const least = isNarrow ? NARROW : ROOMY;
  const width = Math.max(levels * least.column + (levels - 1) * least.gap, host.clientWidth || 320);
  const column = Math.min(170, (width - (levels - 1) * least.gap) / levels);
  const left = (node) => depth[node] * (column + least.gap);
  const middle = (node) => (rows[node] + 0.5) * height;
  const canvas = el("div", { class: `tree-canvas${num_rows > 26 ? " is-dense" : ""}${isNarrow ? " is-narrow" : ""}` });
  canvas.style.height = `${num_rows * height}px`;
  canvas.style.width = `${levels * column + (levels - 1) * least.gap}px`;
  const lines = el("svg", { class: "tree-lines", "aria-hidden": "true", width: canvas.style.width, height: canvas.style.height });
  nodes.forEach((node, index) => {
    if (index === 0) return;
    const [x1, y1, x2, y2] = [left(node.parent) + column, middle(node.parent), left(index), middle(index)];
    const bend = (x1 + x2) / 2;
    lines.append(el("path", { d: `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`, class: `tree-line ${node.classes ?? ""}` }));
  });
  const chips = nodes.map((node, index) => {
    const chip = chipOf(node, index, heard);
    Object.assign(chip.style, { left: `${left(index)}px`, top: `${middle(index) - height / 2 + 2}px`, width: `${column}px`, height: `${height - 4}px` });
    return chip;
  });
  canvas.append(lines, ...chips);
  const kept = host.scrollLeft;
  host.replaceChildren(canvas);
  host.scrollLeft = kept;
  return chips;
}

function chipOf(node, index, heard) {
  const label = el("span", { class: "tree-label" });
  paint(label, node.label);
  const number = node.number === undefined ? null : el("span", { class: "tree-number" }, node.number);
  const tag = node.tag ? el("span", { class: `tree-tag ${node.tagClass ?? ""}` }, node.tag) : null;
  const body = el(heard.pick ? "button" : "span", { class: "tree-body", title: node.title ?? node.label, type: heard.pick ? "button" : null }, tag, label, number);
  if (heard.pick) body.addEventListener("click", () => heard.pick(index));
  const chip = el("div", { class: `tree-chip ${node.classes ?? ""}`, "data-node": index }, boxOf(node, index, heard), body);
  if (heard.point) {
    chip.addEventListener("pointerenter", () => heard.point(index));
    chip.addEventListener("pointerleave", () => heard.point(-1));
  }
  return chip;
}

function boxOf(node, index, heard) {
  if (node.box === undefined || !heard.tick) return null;
  const box = el("input", { type: "checkbox", class: "tree-box", checked: node.box, "aria-label": node.boxLabel ?? node.label });
  box.addEventListener("change", () => heard.tick(index));
  return box;
}

/** A probability in two digits, small ones in three: .45, 1, .015. */
export function short(value) {
  if (value >= 0.995) return "1";
  if (value < 0.0005) return "0";
  return value < 0.0995 ? (value + 1e-9).toFixed(3).slice(1).replace(/0$/, "") : value.toFixed(2).slice(1);
}
