// What a drafter looked at in one round, worked out from the run's events: tokens, hidden states, a cache, a copied place.
// Knows nothing of drawing. Kinds are drafters by name; a name that is not known here reads nothing that could be shown.

import { depthsOf } from "./zoo_account.js";

const KINDS = {
  ngram: "lookup", suffix: "lookup", ngram_table: "lookup",
  layer_skip: "self", early_exit: "self", draft_lm: "model", specinfer: "model", draft_model: "model",
  medusa: "medusa", eagle: "eagle", eagle2: "eagle", eagle3: "eagle3", eagle_unshifted: "unshifted",
  eagle3_lookup: "eagle3_lookup", // where there is nothing to copy
  lookahead: "window", jacobi: "jacobi", magicdec: "sparse", triforce: "sparse",
};
const LONGEST_KEY = { ngram: 4 };
const TABLE_KEY = 2;

/** The facts of one request's round; null where that round is not there, or is that of the first token. */
export function readsOf(request, number) {
  const round = request.rounds.find((one) => one.round === number);
  if (!round?.sampled.length || round.sampled.includes(0)) return null;
  const known = knownBefore(request, number);
  const before = request.rounds.findLast((one) => one.round < number)?.bill;
  const drafted = round.drafted;
  const [name, variant] = request.submitted.drafter.split(":");
  const behindLookup = drafted?.found_at >= 1 ? "ngram" : `${name}_lookup`; // a copy, or what is asked else
  const drafter = variant === "lookup" ? behindLookup : name;
  const facts = {
    drafter, kind: KINDS[drafter] ?? "other", known, drafts: draftsOf(round), round, foundAt: drafted?.found_at ?? -1,
    numCached: before?.num_cached ?? 0, numOwn: before?.num_draft_cached ?? 0, key: 0, numCopied: 0,
    view: round.viewed,
  };
  if (facts.kind === "lookup") lookUp(facts);
  facts.numTokens = tokensRead(facts);
  return facts;
}

/** The rounds that can be shown, and the one with most to see: requests that are in it, that draft, that are right. */
export function roundsOf(requests) {
  const most = Math.max(0, ...requests.map((request) => request.rounds.at(-1)?.round ?? 0));
  const counts = Array(most + 1).fill(0);
  counts[0] = -1; // the round of the first token drafts nothing
  for (const { rounds } of requests) {
    for (const { round, drafted, verified } of rounds) {
      if (round in counts) counts[round] += 1 + Boolean(drafted) + Boolean(verified?.num_accepted);
    }
  }
  return { most, best: counts.indexOf(Math.max(...counts)) };
}

function knownBefore(request, number) {
  const { prompt_ids: ids, pieces } = request.submitted;
  const made = request.tokens.filter((token) => token.round < number);
  return [...ids.map((id, at) => ({ id, text: pieces[at] ?? "" })), ...made.map((token) => ({ id: token.token_id, text: token.label }))];
}

/** Drafts by depth: each {text, verdict}. */
function draftsOf({ drafted, verified }) {
  const columns = [];
  if (!drafted) return columns;
  depthsOf(drafted.parents).forEach((depth, at) => {
    (columns[depth] ??= []).push({ id: drafted.token_ids[at], text: drafted.pieces[at], verdict: verified?.verdicts[at] ?? "unreached" });
  });
  return columns;
}

/** How many of the last tokens stood before the copied place too, and how many drafts come from there. */
function lookUp(facts) {
  const { known, foundAt, drafts } = facts;
  if (foundAt < 1) {
    facts.key = drafts.length ? TABLE_KEY : 0;
    return;
  }
  const longest = LONGEST_KEY[facts.drafter] ?? foundAt;
  while (facts.key < Math.min(longest, foundAt) && known[known.length - 1 - facts.key].id === known[foundAt - 1 - facts.key].id) facts.key += 1;
  while (facts.numCopied < drafts.length && foundAt + facts.numCopied < known.length && drafts[facts.numCopied][0].id === known[foundAt + facts.numCopied].id) facts.numCopied += 1;
}

/** How many of the last tokens the drafter reads as tokens, beside what its cache holds. */
function tokensRead({ kind, key, drafts }) {
  if (kind === "lookup") return key;
  return { self: 1, sparse: 1, model: 1, eagle: 1, eagle3: 1, eagle3_lookup: 1, window: drafts.length ? 1 : 0 }[kind] ?? 0;
}
