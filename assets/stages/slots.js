// Slots: labelled rows of cache slots, each good, garbage or empty; what a wrong rule leaves behind, beside the right one.
// Knows nothing of the rules: rows in, boxes out.

import { el } from "../player.js";

export function mount(element, { words, value }) {
  function draw(given) {
    const rows = (given?.rows ?? []).map(({ label, cells, verdict, note }) =>
      el("div", { class: `slots-row is-${verdict}` },
        el("span", { class: "slots-label" }, label),
        el("span", { class: "slots-cells" }, ...cells.map((cell) =>
          el("span", { class: `slots-cell is-${cell.kind}`, title: words[cell.kind], "aria-label": `${cell.text} ${words[cell.kind]}` }, cell.text))),
        el("span", { class: "slots-note" }, note)));
    element.replaceChildren(...rows);
  }
  draw(value);
  return { update(options, given) { draw(given); }, destroy() {} };
}
