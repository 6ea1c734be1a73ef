// The text of a run as tokens to choose from: each token that had a draft's law beside the target's can be picked.
// Knows nothing of what is done with the choice. Tokens look as everywhere: colour and shape say their fate.

import { el, fill } from "../dom.js";
import { paint } from "../glyphs.js";

export function mount(element, { words, player, trigger }) {
  const text = el("div", { class: "picker-text", role: "group", "aria-label": words.label });
  element.replaceChildren(text);
  let picked = "";
  let drawn = "";

  text.addEventListener("click", (event) => {
    const token = event.target.closest("button");
    if (!token) return;
    picked = token.dataset.place;
    mark();
    trigger("pick", { round: Number(token.dataset.round), position: Number(token.dataset.position) });
  });
  text.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = [...text.querySelectorAll("button")];
    buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length]?.focus();
  });

  const mark = () => {
    for (const token of text.querySelectorAll("button")) token.setAttribute("aria-pressed", String(token.dataset.place === picked));
  };

  function draw(events) {
    const laws = new Map();
    const sampled = [];
    for (const event of events) {
      if (event.type === "Inspected") laws.set(`${event.round}.${event.position}`, event);
      if (event.type === "Sampled") sampled.push(event);
    }
    const key = `${player.runId} ${sampled.length} ${laws.size}`;
    if (key === drawn) return;
    drawn = key;
    const first = new Map();
    text.replaceChildren(
      ...sampled.map((event) => {
        if (!first.has(event.round)) first.set(event.round, event.index);
        return tokenOf(event, event.index - first.get(event.round), laws);
      }),
    );
    if (!sampled.length) text.append(el("span", { class: "picker-empty" }, words.empty));
    mark();
  }

  function tokenOf(event, position, laws) {
    const law = laws.get(`${event.round}.${position}`);
    const canBePicked = Boolean(law?.q.length);
    const node = el(canBePicked ? "button" : "span", { class: `token fate-${event.fate}` });
    paint(node, event.label);
    if (!canBePicked) {
      node.title = words.without;
      return node;
    }
    const alpha = law.p.reduce((sum, p, i) => sum + Math.min(p, law.q[i]), 0);
    node.type = "button";
    Object.assign(node.dataset, { round: event.round, position, place: `${event.round}.${position}` });
    node.title = fill(words.token, { overlap: alpha.toFixed(2) });
    return node;
  }

  const stop = player.subscribe((events, cursor) => draw(events.slice(0, cursor)));
  return { update() {}, destroy: stop };
}
