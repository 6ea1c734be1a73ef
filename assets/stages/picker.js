// The text of a run as tokens to choose from: each token that had a draft's law beside the target's can be picked.
// Knows nothing of what is done with the choice. Tokens look as everywhere: colour and shape say their fate, and drafts
// that were refused stand where they died.

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
    const { laws, rounds } = gathered(events);
    const num = [...rounds.values()].reduce((sum, round) => sum + round.sampled.length, 0);
    const key = `${player.runId} ${num} ${laws.size}`;
    if (key === drawn) return;
    drawn = key;
    text.replaceChildren(...[...rounds.values()].flatMap((round) => nodesOf(round, laws)));
    if (!rounds.size) text.append(el("span", { class: "picker-empty" }, words.empty));
    mark();
  }

  /** Accepted drafts, then those that died, then the token that the target gave. */
  function nodesOf({ sampled, drafted, verdicts }, laws) {
    const tokens = sampled.map((event, position) => tokenOf(event, position, laws));
    const num = sampled.filter((event) => event.fate === "accepted").length;
    const dead = verdicts.flatMap((verdict, at) => (verdict === "accepted" ? [] : [ghostOf(drafted[at], verdict)]));
    return [...tokens.slice(0, num), ...dead, ...tokens.slice(num)];
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

  function ghostOf(piece, verdict) {
    const node = el("span", { class: `token fate-rejected is-${verdict}`, title: words[verdict] });
    paint(node, piece);
    return node;
  }

  const stop = player.subscribe((events, cursor) => draw(events.slice(0, cursor)));
  return { update() {}, destroy: stop };
}

/** The laws by place, and for each round with a token what was sampled, drafted and decided. */
function gathered(events) {
  const laws = new Map();
  const rounds = new Map();
  const drafts = new Map();
  const decided = new Map();
  for (const event of events) {
    if (event.type === "Inspected") laws.set(`${event.round}.${event.position}`, event);
    if (event.type === "Drafted") drafts.set(event.round, event.pieces);
    if (event.type === "Verified") decided.set(event.round, event.verdicts);
    if (event.type !== "Sampled") continue;
    if (!rounds.has(event.round)) rounds.set(event.round, { sampled: [], drafted: drafts.get(event.round) ?? [], verdicts: decided.get(event.round) ?? [] });
    rounds.get(event.round).sampled.push(event);
  }
  return { laws, rounds };
}
