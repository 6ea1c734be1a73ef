// One card per acceptance rule: what came out of real draws, beside the law it should follow and the target's p.
// Knows nothing of how a rule works: shares, laws and verdicts are given; it reports the card that was chosen.

import { el, fill } from "../dom.js";
import { paint } from "../glyphs.js";

export function mount(element, { words, options, value, trigger }) {
  const grid = el("div", { class: "rules-grid" });
  element.replaceChildren(legend(words), grid);
  let chosen = "";

  function show(next) {
    const focused = element.contains(document.activeElement) ? document.activeElement.dataset.rule : "";
    chosen = next.chosen || chosen;
    const tallest = Math.max(0.05, ...next.p, ...next.cards.flatMap((card) => card.tokens.map((token) => Math.max(token.law, token.kept + token.refilled))));
    grid.replaceChildren(...next.cards.map((card) => cardOf(card, next, tallest * 1.06)));
    if (focused) grid.querySelector(`[data-rule="${focused}"]`)?.focus();
  }

  function cardOf(card, { p, names }, scale) {
    const columns = card.tokens.map((token, i) => columnOf(token, p[i], names[i], scale));
    const head = el("div", { class: "rules-head" }, el("strong", {}, words[`name.${card.rule}`]), el("span", { class: `rules-verdict rules-${card.verdict}` }, words[`verdict.${card.verdict}`]));
    const picture = el("div", { class: "rules-picture", "aria-hidden": "true" }, ...columns);
    const facts = el("dl", { class: "rules-facts" });
    for (const [label, value] of [
      [words.acceptance, fill(words.acceptance_value, { law: card.acceptance, draws: card.accepted })],
      [words.distance, card.distance],
      [words.p_value, card.p_value],
    ]) facts.append(el("dt", {}, label), el("dd", {}, value));
    const node = el("button", { class: `rules-card rules-card-${card.verdict}`, type: "button", "data-rule": card.rule }, head, picture, facts);
    node.setAttribute("aria-pressed", String(card.rule === chosen));
    node.setAttribute("aria-label", fill(words.card, { name: words[`name.${card.rule}`], verdict: words[`verdict.${card.verdict}`], acceptance: card.acceptance, distance: card.distance, p_value: card.p_value }));
    node.addEventListener("click", () => {
      chosen = card.rule;
      for (const other of grid.children) other.setAttribute("aria-pressed", String(other === node));
      trigger("pick", { rule: card.rule });
    });
    return node;
  }

  function columnOf({ law, kept, refilled }, p, name, scale) {
    const percent = (value) => `${(100 * value) / scale}%`;
    const column = el("div", { class: "rules-column" });
    const add = (kind, from, height) => {
      if (height < 1e-4) return;
      const part = el("div", { class: `rules-${kind}` });
      part.style.bottom = percent(from);
      part.style.height = percent(height);
      column.append(part);
    };
    add("target", 0, p);
    add("kept", 0, kept);
    add("refilled", kept, refilled);
    if (law > p + 0.002) add("over", p, law - p);
    if (law < p - 0.002) add("short", law, p - law);
    const tick = el("div", { class: "rules-law" });
    tick.style.bottom = percent(law);
    column.append(tick);
    const label = el("div", { class: "rules-name" });
    paint(label, name);
    return el("div", {}, column, label);
  }

  show(value?.p ? value : options);
  return { update: (first, given) => show(given?.p ? given : first) };
}

function legend(words) {
  const entry = (kind) => el("li", {}, el("i", { class: `rules-key rules-${kind}` }), words[`legend.${kind}`]);
  return el("ul", { class: "rules-legend" }, ...["kept", "refilled", "target", "law", "over", "short"].map(entry));
}
