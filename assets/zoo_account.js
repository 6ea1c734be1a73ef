// The zoo's arithmetic at any moment of a run: the same rows as lessons/drafters_account.py (a test holds them equal).
// Knows nothing of drawing: the folded state in, rows out.

const PLAIN = "plain";
const GREEDY_BELOW = 1e-5;
const [SHORTEST, LONGEST] = [1e-9, 1e6]; // seconds that a run can take

/** One row for each request that has tokens after its first, in the order of the run. */
export function entriesOf(state) {
  const plain = tallyOf(state.requests[PLAIN]);
  return state.order.map((name) => [name, tallyOf(state.requests[name])]).filter(([, tally]) => tally)
    .map(([name, tally]) => entryOf(name, tally, plain));
}

function tallyOf(request) {
  const first = request?.rounds.find((round) => round.sampled.includes(0));
  const rounds = request?.rounds.filter((round) => round.bill && round !== first && round.sampled.length) ?? [];
  if (!request?.submitted || !first?.bill || !rounds.length) return null;
  const seconds = rounds.at(-1).bill.request_clock - first.bill.request_clock;
  if (!(seconds >= SHORTEST && seconds <= LONGEST)) return null;
  const pairs = rounds.filter((round) => round.drafted && round.verified);
  const sum = (list, value) => list.reduce((total, one) => total + value(one), 0);
  const numGenerated = sum(rounds, (round) => round.sampled.length);
  return {
    request, numGenerated, seconds, step: seconds / numGenerated, numRounds: rounds.length, byDepth: byDepthOf(pairs),
    numDrafted: sum(pairs, (round) => round.drafted.token_ids.length),
    secondsDraft: sum(rounds, (round) => round.bill.seconds_draft),
  };
}

/** [accepted, looked at] at each depth; a round counts once, since of several siblings one at most is accepted. */
function byDepthOf(pairs) {
  const counts = [];
  for (const { drafted, verified } of pairs) {
    const depths = depthsOf(drafted.parents);
    const seen = { accepted: new Set(), looked: new Set() };
    verified.verdicts.forEach((verdict, at) => {
      if (depths[at] === undefined) return;
      if (verdict === "accepted") seen.accepted.add(depths[at]);
      if (verdict !== "unreached") seen.looked.add(depths[at]);
    });
    for (const depth of seen.looked) (counts[depth] ??= [0, 0])[1] += 1;
    for (const depth of seen.accepted) (counts[depth] ??= [0, 0])[0] += 1;
  }
  return Array.from(counts, (pair) => pair ?? [0, 0]);
}

/** How deep each draft stands in its tree, from 0. */
export function depthsOf(parents) {
  const depths = [];
  parents.forEach((parent, at) => depths.push(parent >= 0 && parent < at ? depths[parent] + 1 : 0));
  return depths;
}

function entryOf(name, tally, plain) {
  const { request } = tally;
  const { submitted: asked } = request;
  const accepted = tally.byDepth.reduce((sum, pair) => sum + pair[0], 0);
  const looked = tally.byDepth.reduce((sum, pair) => sum + pair[1], 0);
  const mustAgree = plain && asked.temperature < GREEDY_BELOW && asked.rule === "exact";
  const other = plain?.request.token_ids ?? [];
  return {
    name, drafter: name === PLAIN ? PLAIN : asked.drafter, draftLength: asked.draft_length,
    temperature: asked.temperature, rule: asked.rule,
    isLossy: asked.rule === "typical" && asked.temperature >= GREEDY_BELOW,
    isDraftGreedy: asked.draft_temperature !== null && asked.draft_temperature < GREEDY_BELOW,
    numTokens: request.token_ids.length, longest: asked.max_new_tokens,
    tokensPerSecond: 1 / tally.step, tau: tally.numGenerated / tally.numRounds,
    alpha: looked ? accepted / looked : null,
    drafted: tally.numDrafted / tally.numRounds,
    speedUp: plain ? plain.step / tally.step : null,
    roundCost: plain ? tally.seconds / tally.numRounds / plain.step : null,
    draftCost: plain && tally.numDrafted ? tally.secondsDraft / tally.numDrafted / plain.step : null,
    isSame: mustAgree ? request.token_ids.every((id, at) => at >= other.length || id === other[at]) : null,
    isFinished: ["stop", "length"].includes(request.finished?.finish_reason),
  };
}
