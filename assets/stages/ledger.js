// Ledger: the race in numbers, following the cursor: speeds, tokens per pass, what a round costs, and the sum of it all.
// Knows nothing of how they were measured; the arithmetic is assets/account.js.

import { el, fill, formatNumber, formatSeconds } from "../player.js";
import { account } from "../account.js";
import { badge, runBadge } from "../origin.js";

const PARTS = ["draft", "verify", "other"];

export function mount(element, { words, player, language }) {
  const number = (value, digits = 3) => (value === null || value === undefined ? "–" : formatNumber(value, digits, language));
  const cards = [speeds(words, number), passes(words, number), bill(words, number), reckoning(words, number)];
  element.replaceChildren(...cards.map((card) => card.node));
  const stop = player.subscribe((events, cursor, state) => {
    const facts = account(state);
    for (const card of cards) {
      card.origin.draw(player);
      card.draw(facts);
    }
  });
  return { update() {}, destroy: stop };
}

function card(name, words, draw, ...children) {
  const origin = runBadge(words);
  const head = el("header", { class: "ledger-head" }, el("h3", {}, words[`ledger.${name}`]), origin.node);
  return { node: el("section", { class: `ledger-card ledger-${name}` }, head, ...children), origin, draw };
}

/** A text node that is only touched when it changes. */
function slot(tag = "span", attributes = {}) {
  const node = el(tag, attributes);
  return { node, put(text) { if (node.textContent !== text) node.textContent = text; } };
}

function speeds(words, number) {
  const rows = ["speed", "ttft", "tpot", "total", "tokens", "passes"];
  const cells = rows.map(() => [slot("td"), slot("td")]);
  const head = el("tr", {}, el("td", {}), el("th", { scope: "col" }, words["race.vanilla"]), el("th", { scope: "col" }, words["race.speculative"]));
  const body = rows.map((row, at) => el("tr", {}, el("th", { scope: "row", title: words[`ledger.${row}.title`] }, words[`ledger.${row}`]), ...cells[at].map((cell) => cell.node)));
  const seconds = (value) => (value === null ? "–" : formatSeconds(value));
  const texts = (pace) => (pace ? [number(pace.speed), seconds(pace.ttft), seconds(pace.tpot), seconds(pace.total), String(pace.numTokens), String(pace.numPasses)] : rows.map(() => "–"));
  function draw({ vanilla, speculative }) {
    [vanilla, speculative].forEach((pace, column) => texts(pace).forEach((text, row) => cells[row][column].put(text)));
  }
  return card("speeds", words, draw, el("table", { class: "ledger-table" }, el("thead", {}, head), el("tbody", {}, ...body)));
}

function passes(words, number) {
  const tau = slot("b", { class: "ledger-big" });
  const how = slot("p", { class: "ledger-note" });
  const saved = slot("p", { class: "ledger-note" });
  const bars = el("ol", { class: "ledger-positions" });
  function draw({ rounds }) {
    tau.put(number(rounds?.tau ?? null));
    const values = { tokens: rounds ? rounds.saved + rounds.count : 0, passes: rounds?.count ?? 0, saved: rounds?.saved ?? 0 };
    how.put(fill(words["ledger.tau.how"], values));
    saved.put(fill(words["ledger.saved"], values));
    const places = (rounds?.positions ?? []).filter(Boolean);
    places.forEach((place, at) => {
      if (!bars.children[at]) bars.append(el("li", {}, el("span", {}, String(at + 1)), el("div", {}, el("i", {})), el("span", {})));
      const [, bar, text] = bars.children[at].children;
      const share = place.lookedAt ? place.accepted / place.lookedAt : 0;
      bar.firstChild.style.width = `${100 * share}%`;
      text.textContent = place.lookedAt ? fill(words["ledger.position"], { share, accepted: place.accepted, looked: place.lookedAt }) : "–";
    });
    while (bars.children.length > places.length) bars.lastChild.remove();
  }
  return card("tau", words, draw, el("p", { class: "ledger-figure" }, tau.node), how.node, saved.node, el("h4", {}, words["ledger.positions"]), bars);
}

/** What one round costs, drawn to scale under what one plain step costs. */
function bill(words, number) {
  const plain = el("div", { class: "ledger-bar ledger-bar-plain" }, el("i", { class: "ledger-part ledger-plain" }));
  const parts = PARTS.map((part) => el("i", { class: `ledger-part ledger-${part}` }));
  const round = el("div", { class: "ledger-bar" }, ...parts);
  const facts = ["draft", "verify", "other"].map((part) => ({ part, text: slot("span") }));
  const list = el("ul", { class: "ledger-costs" }, ...facts.map(({ part, text }) => el("li", {}, el("i", { class: `ledger-part ledger-${part}` }), text.node)));
  const note = (key) => el("p", { class: "ledger-note" }, words[key]);
  function draw({ costs, rounds }) {
    const steps = costs ? PARTS.map((part) => costs[part] / costs.plain) : [0, 0, 0];
    const longest = Math.max(1, steps.reduce((sum, step) => sum + step, 0));
    plain.firstChild.style.width = `${100 / longest}%`;
    parts.forEach((part, at) => { part.style.width = `${(100 * steps[at]) / longest}%`; });
    const values = { c: number(costs?.c ?? null), k: number(rounds?.perRound ?? null, 2), ratio: number(costs?.verifyRatio ?? null),
      rows: number(rounds?.perRound === undefined || rounds.perRound === null ? null : rounds.perRound + 1, 2),
      draft: number(costs ? steps[0] : null), verify: number(costs ? steps[1] : null), other: number(costs ? steps[2] : null) };
    facts.forEach(({ part, text }) => text.put(fill(words[`ledger.bill.${part}`], values)));
  }
  return card("bill", words, draw, note("ledger.bill.plain"), plain, note("ledger.bill.round"), round, list);
}

/** Predicted against measured, which term lost the race, and whether the two texts are the same. */
function reckoning(words, number) {
  const measured = slot("b", { class: "ledger-big" });
  const equation = slot("p", { class: "ledger-equation" });
  const predicted = slot("p", { class: "ledger-note" });
  const reason = slot("p", { class: "ledger-reason", role: "status" });
  const identity = slot("p", { class: "ledger-identity" });
  const theory = badge("theory", words);
  function draw(facts) {
    const { speedup, costs, rounds } = facts;
    measured.put(speedup ? `${number(speedup.measured)}×` : "–");
    measured.node.classList.toggle("is-slower", Boolean(speedup && speedup.measured < 1));
    const values = speedup && {
      alpha: number(rounds.alpha), k: number(rounds.perRound, 2), expected: number(speedup.expected), c: number(costs.c),
      v: number(costs.verify / costs.plain), o: number(costs.other / costs.plain), predicted: number(speedup.predicted), textbook: number(speedup.textbook),
    };
    const hasDrafts = Boolean(values && rounds.drafted);
    theory.hidden = !hasDrafts;
    equation.put(hasDrafts ? fill(words["ledger.equation"], values) : "");
    predicted.put(hasDrafts ? fill(words["ledger.predicted"], values) : "");
    reason.put(speedup && speedup.measured < 1 ? fill(words[`ledger.lost.${speedup.worst}`], { ...values, cured: number(speedup.cured[speedup.worst]) }) : "");
    identity.put(identityText(facts.identity, words));
  }
  const figure = el("p", { class: "ledger-figure" }, measured.node, " ", el("span", {}, words["ledger.speedup.unit"]));
  return card("speedup", words, draw, figure, equation.node, theory, predicted.node, reason.node, identity.node);
}

function identityText(identity, words) {
  if (!identity?.length) return "";
  if (identity.differsAt < 0) return fill(words[identity.areFinished ? "ledger.identity.yes" : "ledger.identity.sofar"], { length: identity.length });
  return identity.isExpected ? fill(words["ledger.identity.no"], { index: identity.differsAt + 1 }) : words["ledger.identity.law"];
}
