// Verdict: all that a run reported about one token or draft, gathered from the folded state, and which sentence says it.
// Knows nothing of the page. Probabilities are the trace's own numbers; nothing is recomputed but the ratio p/q.

import { depthsOf } from "./account.js";

/** The facts about a pick, or null where the run, at this moment, has no such token. */
export function factsOf(pick, state) {
  const request = pick && state.requests[pick.request];
  const round = request?.rounds.find((one) => one.round === pick.round);
  if (!round) return null;
  if (pick.index >= 0 && !round.sampled.includes(pick.index)) return null;
  if (pick.draft >= 0 && !(pick.draft < (round.drafted?.pieces.length ?? 0))) return null;
  return pick.draft >= 0 ? draftFacts(pick, round, request) : tokenFacts(pick, round, request);
}

function draftFacts(pick, round, request) {
  const { drafted, verified } = round;
  const at = pick.draft;
  const base = { pick, round, request, token: drafted.token_ids[at], label: drafted.pieces[at], q: drafted.q[at],
    place: depthsOf(drafted)[at] ?? 0, numDrafted: drafted.token_ids.length, isPointMass: drafted.is_point_mass, drafter: drafted.drafter };
  if (!verified?.verdicts[at]) return { ...base, fate: "pending", sentence: "pending" };
  const verdict = verified.verdicts[at];
  const isCut = verdict === "accepted" && pick.index < 0 && round.sampled.length > 0;
  const p = verified.p[at];
  const facts = { ...base, rule: verified.rule, p, u: verified.u[at], pModel: verified.p_model[at] ?? null,
    fate: isCut ? "cut" : verdict, chance: base.q > 0 ? Math.min(1, p / base.q) : null };
  if (verdict !== "unreached") facts.laws = lawsAt(round, base.place, facts);
  return { ...facts, ...outcomeOf(round, request), sentence: isCut ? "cut" : draftSentence(facts) };
}

function draftSentence({ fate, rule, p, q, isPointMass }) {
  if (fate === "unreached") return "unreached";
  if (rule !== "exact") return `${fate}.${rule}`;
  if (isPointMass) return `${fate}.point`;
  return fate === "accepted" && p >= q ? "accepted.sure" : `${fate}.exact`;
}

function tokenFacts(pick, round, request) {
  const token = request.tokens.find((one) => one.index === pick.index);
  const place = round.sampled.indexOf(pick.index);
  const rule = round.verified?.rule ?? (request.submitted?.temperature < 1e-5 ? "greedy" : "exact");
  const facts = { pick, round, request, token: token.token_id, label: token.label, place, rule, fate: token.fate,
    p: token.p, pModel: token.p_model, q: null, u: null, chance: null, isPointMass: round.drafted?.is_point_mass ?? false,
    numDrafted: round.drafted?.token_ids.length ?? 0 };
  facts.laws = lawsAt(round, place, facts);
  facts.residual = facts.laws?.rows.find((row) => row.token === facts.token)?.residual ?? null;
  return { ...facts, ...outcomeOf(round, request), sentence: tokenSentence(facts) };
}

function tokenSentence({ fate, rule, pick, residual }) {
  if (fate === "target" && pick.index === 0) return rule === "greedy" ? "first.greedy" : "first";
  if (fate === "target") return rule === "greedy" ? "target.greedy" : "target";
  if (fate === "resampled") return rule === "exact" ? (residual === null ? "resampled.plain" : "resampled") : `resampled.${rule}`;
  return rule === "greedy" ? `${fate}.greedy` : fate;
}

/** What the refused draft of a round was, and what stands in its place. */
function outcomeOf(round, request) {
  const at = round.verified ? round.verified.verdicts.indexOf("rejected") : -1;
  const last = request.tokens.find((token) => token.index === round.sampled.at(-1));
  return { refused: at < 0 ? "" : round.drafted.pieces[at], replacement: last && last.fate !== "accepted" ? last.label : "" };
}

/** The largest entries of the laws at a place of the round, the token in question and the outcome among them. */
function lawsAt(round, place, { token, isPointMass }, size = 10) {
  const seen = round.inspected.find((one) => one.position === place);
  if (!seen) return null;
  const drafted = round.drafted?.token_ids;
  const hasDraft = place < (drafted?.length ?? 0);
  const onPath = drafted ? depthsOf(round.drafted).indexOf(place) : -1;
  const rows = seen.token_ids.map((id, at) => ({
    token: id, label: seen.pieces[at], pModel: seen.p_model[at], p: seen.p[at],
    q: seen.q.length ? seen.q[at] : hasDraft && isPointMass ? Number(id === drafted[onPath]) : null,
    residual: seen.residual.length ? seen.residual[at] : null,
    isSubject: id === token,
  }));
  const weight = (row) => Math.max(row.p, row.q ?? 0, row.pModel, row.residual ?? 0);
  const sorted = [...rows].sort((one, other) => weight(other) - weight(one));
  const kept = sorted.slice(0, size);
  const subject = rows.find((row) => row.isSubject);
  if (subject && !kept.includes(subject)) kept.splice(-1, 1, subject);
  return { rows: kept, hasDraft: rows.some((row) => row.q !== null), hasResidual: seen.residual.length > 0 };
}
