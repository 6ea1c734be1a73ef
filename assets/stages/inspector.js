// Inspector: one token under the glass: p, q, the coin on its bar, the verdict in a sentence, and the laws behind it.
// Knows nothing of how the reader picked it; with no pick it shows what decided the latest round.

import { el, fill } from "../player.js";
import { SPECULATIVE } from "../account.js";
import { choiceOf, decisive } from "../choice.js";
import { name, paint } from "../glyphs.js";
import { factsOf } from "../verdict.js";

const NAMES = { pModel: "model" };
const CALM = 900; // milliseconds between two changes of subject that nobody asked for
const LINKED = 7; // entries of a law that ride in the link, beside the rest
const SLOW = 0.25; // up to this speed the panel follows the run
const NARROW = "(max-width: 900px)"; // as in the styles

export function mount(element, { words, options, player }) {
  const choice = choiceOf(player);
  const body = el("div", {});
  const close = el("button", { type: "button", class: "inspector-close", "aria-label": words["inspector.close"], onclick: () => choice.set(null) }, "×");
  element.replaceChildren(close, body);
  let last = { key: null, time: 0, run: "" };
  let state = null;

  /** What the reader picked; else what the run itself brings forward, marked for the other stages too. */
  function subject() {
    const own = choice.value && !choice.value.isAutomatic ? factsOf(choice.value, state) : null;
    if (own) return own;
    const id = state.requests[SPECULATIVE] ? SPECULATIVE : Object.keys(state.requests)[0];
    const round = id && roundToShow(state.requests[id].rounds, isMoving());
    return round ? factsOf({ ...decisive(id, round), isAutomatic: true }, state) : null;
  }

  const isMoving = () => player.isPlaying || (player.isFollowing && !player.isComplete);

  function draw(isAsked) {
    if (last.run !== player.runId) return begin();
    const isTooSoon = player.speed > SLOW || performance.now() - last.time < CALM;
    const facts = !isAsked && isMoving() && isTooSoon ? awaited() : subject();
    const key = facts ? JSON.stringify([facts.pick, facts.sentence]) : "";
    if (key !== last.key) put(facts, key);
    return undefined;
  }

  /** In motion nothing new is brought forward; what was shown is hidden until the replay reaches it. */
  function awaited() {
    const facts = choice.value && factsOf(choice.value, state);
    return facts && { ...facts, isAwaited: true };
  }

  function put(facts, key) {
    last = { key, time: performance.now(), run: player.runId };
    body.replaceChildren(...(facts ? panel(facts, words, options) : [el("p", { class: "inspector-hint" }, words["inspector.empty"])]));
    if (facts?.pick.isAutomatic && !facts.isAwaited && (choice.value?.isAutomatic ?? true)) choice.set(facts.pick);
  }

  /** Another run: what was picked in the last one means nothing here. */
  function begin() {
    last.run = player.runId;
    if (choice.value) choice.set(null);
    put(null, "");
    if (!isMoving()) draw(false);
  }

  const stop = player.subscribe((events, cursor, now) => { state = now; draw(false); });
  const stopChoice = choice.subscribe((pick) => {
    state = player.state; // a pick may come with a move of the cursor that is not drawn yet
    draw(true);
    lift(element, Boolean(pick && !pick.isAutomatic));
  });
  return { update(next) { Object.assign(options, next); }, destroy() { stop(); stopChoice(); } };
}

/** On a narrow screen the panel comes up over the page (see the styles), and what was touched stays in view. */
function lift(element, isAsked) {
  element.classList.toggle("is-lifted", isAsked);
  const touched = document.activeElement?.closest(".token")?.getBoundingClientRect();
  const hidden = isAsked && touched && matchMedia(NARROW).matches ? touched.bottom + 12 - element.getBoundingClientRect().top : 0;
  if (hidden > 0) window.scrollBy({ top: hidden });
}

/** In motion the latest round; at rest the refusal that was least clear, because there is most to see. */
function roundToShow(rounds, isMoving) {
  const done = rounds.filter((round) => round.bill);
  const refusals = isMoving ? [] : done.filter((round) => round.verified?.verdicts.includes("rejected"));
  const doubt = ({ verified }) => {
    const at = verified.verdicts.indexOf("rejected");
    return Math.min(verified.p[at], verified.q[at] - verified.p[at]);
  };
  const best = refusals.reduce((kept, round) => (kept && doubt(kept) >= doubt(round) ? kept : round), null);
  return best ?? done.at(-1) ?? rounds.find((round) => round.sampled.length > 0);
}

function panel(facts, words, options) {
  return [heading(facts, words), verdict(facts, words), coin(facts, words), numbers(facts, words), laws(facts, words), why(facts, words, options)].filter(Boolean);
}

function heading(facts, words) {
  const { fate } = facts;
  const shape = fate === "pending" ? "race-pending" : ["rejected", "unreached", "cut"].includes(fate) ? "fate-rejected" : `fate-${fate}`;
  const chip = el("span", { class: `token ${shape} inspector-token` });
  paint(chip, facts.label);
  const key = facts.numDrafted && facts.pick.draft >= 0 ? "inspector.where.draft" : "inspector.where.token";
  const values = { round: facts.pick.round, place: facts.place + 1, drafted: facts.numDrafted, index: facts.pick.index + 1 };
  const where = fill(words[key], Object.fromEntries(Object.entries(values).filter(([one]) => words[key].includes(`{{${one}`))));
  return el("header", { class: "inspector-head" }, chip, el("div", {}, el("h3", { class: "inspector-fate" }, words[`fate.${fate}`]), el("p", { class: "inspector-where" }, where)));
}

function verdict(facts, words) {
  const text = words[`verdict.${facts.sentence}`] ?? words[`verdict.${facts.fate}`] ?? "";
  const near = [facts.u, facts.chance].every((value) => typeof value === "number") && show(facts.u) === show(facts.chance);
  const values = {
    token: name(facts.label), p: show(facts.p), q: show(facts.q), u: show(facts.u, near), chance: show(facts.chance, near), drafted: facts.numDrafted,
    residual: show(facts.residual), refused: name(facts.refused ?? ""), replacement: name(facts.replacement ?? ""),
  };
  const used = Object.fromEntries(Object.entries(values).filter(([one]) => text.includes(`{{${one}`)));
  return el("p", { class: `inspector-verdict is-${facts.fate}`, "aria-live": "polite" }, fill(text, used));
}

/** A probability for people: 0 and 1 only where it is exactly that; `isNear` asks for more digits, where two would look equal. */
export function show(value, isNear = false) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || value === 1) return String(value);
  if (value > 0 && value < 0.0005) return value.toExponential(1).replace("e-", "e−");
  return value.toFixed(isNear ? 6 : 3);
}

/** The coin on its bar: below min(1, p/q) the draft stays. Only where a coin was thrown by the exact rule. */
function coin(facts, words) {
  if (facts.rule !== "exact" || typeof facts.u !== "number" || facts.chance === null) return null;
  const keep = el("i", { class: "inspector-keep" });
  const mark = el("i", { class: `inspector-coin ${facts.u < facts.chance ? "is-kept" : "is-refused"}` });
  const bound = el("span", { class: "inspector-bound" }, "min(1, p/q) = ", el("data", { value: String(facts.chance), class: "inspector-chance" }, show(facts.chance)));
  const thrown = el("span", { class: "inspector-thrown" }, "u = ", el("data", { value: String(facts.u), class: "inspector-u" }, show(facts.u)));
  keep.style.width = `${100 * facts.chance}%`;
  for (const [node, at] of [[mark, facts.u], [thrown, facts.u], [bound, facts.chance]]) node.style.setProperty("--at", at);
  const label = fill(words["inspector.coin"], { u: show(facts.u), chance: show(facts.chance) });
  return el("div", { class: "inspector-bar", role: "img", "aria-label": label }, thrown, el("div", { class: "inspector-rail" }, keep, mark), bound);
}

function numbers(facts, words) {
  const entries = [["p", facts.p], ["q", facts.q], ["residual", facts.residual], ["model", facts.pModel]];
  const shown = entries.filter(([, value]) => typeof value === "number");
  if (facts.rule === "greedy") shown.splice(0, shown.length, ...shown.filter(([key]) => key === "model" || (key === "q" && !facts.isPointMass)));
  const items = shown.map(([key, value]) => el("div", {}, el("dt", {}, words[`inspector.${key}`]), el("dd", {}, el("data", { value: String(value), class: `inspector-${key}` }, show(value)))));
  return el("dl", { class: "inspector-numbers" }, ...items);
}

/** The laws, largest entries first: p, q and the residual as bars, a tick where the model's own probability stands. */
function laws(facts, words) {
  if (!facts.laws) return facts.fate === "unreached" || facts.fate === "pending" ? null : el("p", { class: "inspector-hint" }, words["inspector.unwatched"]);
  const isGreedy = facts.rule === "greedy";
  const series = [isGreedy ? "pModel" : "p", facts.laws.hasDraft ? "q" : "", facts.laws.hasResidual && !isGreedy ? "residual" : ""].filter(Boolean);
  const most = Math.max(...facts.laws.rows.flatMap((row) => series.map((one) => row[one] ?? 0)), 1e-9);
  const names = series.map((one) => el("span", { class: `inspector-key inspector-law-${one}` }, el("i", {}), words[`inspector.law.${NAMES[one] ?? one}`]));
  const hasTick = (row) => !isGreedy && Math.abs(row.pModel - row.p) > 0.02 * most;
  if (facts.laws.rows.some(hasTick)) names.push(el("span", { class: "inspector-key inspector-tick-key" }, el("i", {}), words["inspector.law.model"]));
  const rows = facts.laws.rows.map((row) => lawRow(row, series, most, facts, hasTick(row)));
  return el("div", { class: "inspector-laws" }, el("div", { class: "inspector-keys" }, ...names), el("ol", { class: "inspector-rows", "aria-label": words["inspector.laws"] }, ...rows));
}

function lawRow(row, series, most, facts, hasTick) {
  const label = el("span", { class: "inspector-name" });
  paint(label, row.label);
  const bars = series.map((one) => {
    const bar = el("i", { class: `inspector-law-${one}` });
    bar.style.width = `${(100 * (row[one] ?? 0)) / most}%`;
    return bar;
  });
  const cell = el("span", { class: "inspector-bars" }, ...bars);
  if (hasTick) {
    const tick = el("b", { class: "inspector-tick" });
    tick.style.setProperty("--at", Math.min(1, row.pModel / most));
    cell.append(tick);
  }
  const figures = series.map((one) => el("data", { value: String(row[one] ?? 0), class: `inspector-law-${one}` }, show(row[one])));
  const isOutcome = name(row.label) === name(facts.replacement ?? "") && facts.fate === "rejected";
  return el("li", { class: `${row.isSubject ? "is-subject" : ""} ${isOutcome ? "is-outcome" : ""}` }, label, cell, el("span", { class: "inspector-figures" }, ...figures));
}

/** The way to the proof, where the residual was needed; the laws of this very place ride along. */
function why(facts, words, options) {
  if (!options.proof || facts.rule === "greedy" || !["rejected", "resampled"].includes(facts.fate)) return null;
  const link = new URLSearchParams(options.proof);
  if (facts.laws?.hasDraft && facts.rule === "exact") for (const law of ["p", "q"]) link.set(law, typed(facts.laws.rows, law));
  return el("p", { class: "inspector-why" }, el("a", { href: `?${link}` }, words["inspector.why"]));
}

/** A law as a reader would type it: its largest entries, then the rest as one. */
function typed(rows, law) {
  const entries = rows.slice(0, LINKED).map((row) => row[law]);
  const rest = Math.max(0, 1 - entries.reduce((sum, entry) => sum + entry, 0));
  return [...entries, rest].map((entry) => String(Number(entry.toFixed(4)))).join(", ");
}
