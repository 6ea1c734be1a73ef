// Draws the mask of a tree's pass: a row per token, its position, and whom it sees. One row can be pointed at.
// Knows nothing of runs: nodes and who sees whom are given.

import { el, fill } from "./dom.js";
import { paint } from "./glyphs.js";

/**
 * Draw into `host`: nodes {label, position, classes}, sees[row][column]. `words`: position, text, row, and self for the
 * corner. `point(row or −1)` hears which row is under the pointer or has the focus.
 */
export function drawMask(host, { nodes, sees }, words, point) {
  const head = el("tr", {}, el("th", {}), el("th", { class: "mask-position", scope: "col" }, words.position),
    el("th", { class: "mask-text", scope: "col" }, words.text), ...nodes.map((node) => columnHead(node)));
  const body = nodes.map((node, row) => {
    const name = el("button", { type: "button", class: "mask-name", "aria-label": sentenceOf(nodes, sees, row, words) });
    paint(name, node.label);
    name.addEventListener("focus", () => point(row));
    name.addEventListener("blur", () => point(-1));
    const cells = nodes.map((_, column) => el("td", { class: `mask-cell${sees[row][column] ? " is-seen" : ""}${row === column ? " is-self" : ""}` }));
    const line = el("tr", { class: `mask-row ${node.classes ?? ""}`, "data-row": row }, el("th", { scope: "row" }, name),
      el("td", { class: "mask-position" }, String(node.position)), el("td", { class: "mask-cell mask-text is-seen" }), ...cells);
    line.addEventListener("pointerenter", () => point(row));
    line.addEventListener("pointerleave", () => point(-1));
    return line;
  });
  host.replaceChildren(el("table", { class: "mask-table" }, el("thead", {}, head), el("tbody", {}, ...body)));
}

/** What a row sees, in words. */
export function sentenceOf(nodes, sees, row, words) {
  const seen = nodes.filter((_, column) => sees[row][column] && column !== row).map((node) => node.label.trim() || "␣");
  const values = { token: nodes[row].label.trim() || "␣", position: nodes[row].position, root: nodes[0].position, depth: nodes[row].position - nodes[0].position };
  return fill(seen.length ? words.row : words.row_root, { ...values, seen: seen.join(" › ") });
}

/** Mark the row pointed at; −1 marks none. */
export function markRow(host, row) {
  for (const line of host.querySelectorAll(".mask-row")) line.classList.toggle("is-pointed", Number(line.dataset.row) === row);
}

/** The row that the keyboard is on, −1 where it is on none: what counts once the pointer has left. */
export function focusedRow(host) {
  const line = document.activeElement?.closest?.(".mask-row");
  return line && host.contains(line) ? Number(line.dataset.row) : -1;
}

function columnHead(node) {
  const name = el("span", {});
  paint(name, node.label);
  return el("th", { class: "mask-column", scope: "col", title: node.label }, name);
}
