// Account: a race in numbers at a moment, from the folded state; the same arithmetic as lessons/live_lab_account.py.
// Knows nothing of the page. Seconds are each request's own; a round counts once its bill is in.

export const VANILLA = "vanilla";
export const SPECULATIVE = "speculative";
const [SHORTEST, LONGEST] = [1e-9, 1e6]; // seconds that a pass can take, and a race

/** Everything that the ledger shows; parts are null until there is something to divide, or where it cannot be. */
export function account(state) {
  const vanilla = paceOf(state.requests[VANILLA]);
  const speculative = paceOf(state.requests[SPECULATIVE]);
  const areSound = [vanilla, speculative].every((pace) => !pace?.numPasses || isSound(pace));
  const rounds = areSound && speculative ? roundsOf(speculative) : null;
  const costs = costsOf(vanilla, speculative, rounds);
  return { vanilla, speculative, rounds, costs, speedup: speedupOf(vanilla, speculative, rounds, costs), identity: identityOf(state) };
}

/** Speed of one request: time to the first token, then tokens after it over the time after it. */
export function paceOf(request) {
  if (!request) return null;
  const billed = request.rounds.filter((round) => round.bill);
  const first = billed.find((round) => round.sampled.includes(0));
  const generation = first ? billed.filter((round) => round.sampled.length > 0 && round !== first) : [];
  const numGenerated = sum(generation, (round) => round.sampled.length);
  const ttft = first ? first.bill.request_clock : null;
  const seconds = first ? request.clock - ttft : 0;
  return {
    generation, numGenerated, seconds, ttft, total: request.clock, numTokens: request.tokens.length,
    numPasses: generation.length, isFinished: request.status === "finished",
    tpot: numGenerated ? seconds / numGenerated : null,
    speed: numGenerated && seconds ? numGenerated / seconds : null,
  };
}

/** Whether the times can be times, and every verdict has its draft: a reader's file may hold anything. */
function isSound({ generation, ttft, total, tpot }) {
  const bills = generation.map((round) => round.bill);
  const seconds = bills.flatMap((bill) => [bill.seconds_draft, bill.seconds_forward, bill.seconds_accept + bill.seconds_other]);
  const isForward = ttft >= 0 && total <= LONGEST && tpot >= SHORTEST;
  const areTimes = seconds.every((value) => value >= 0 && value <= LONGEST) && sum(bills, (bill) => bill.seconds_forward) / bills.length >= SHORTEST;
  return isForward && areTimes && generation.every((round) => depthsOf(round.drafted).length === (round.verified?.verdicts.length ?? 0));
}

function roundsOf(pace) {
  const positions = [];
  let numDrafted = 0;
  for (const { drafted, verified } of pace.generation) {
    if (!verified) continue;
    numDrafted += verified.verdicts.length;
    const depths = depthsOf(drafted);
    verified.verdicts.forEach((verdict, node) => {
      const place = (positions[depths[node]] ??= { lookedAt: 0, accepted: 0 });
      if (verdict !== "unreached") place.lookedAt += 1;
      if (verdict === "accepted") place.accepted += 1;
    });
  }
  const lookedAt = sum(positions, (place) => place.lookedAt);
  const accepted = sum(positions, (place) => place.accepted);
  const count = pace.generation.length;
  return {
    count, drafted: numDrafted, lookedAt, accepted, positions,
    tau: count ? pace.numGenerated / count : null,
    saved: pace.numGenerated - count,
    alpha: lookedAt ? accepted / lookedAt : null,
    perRound: count ? numDrafted / count : null,
  };
}

/** How deep each draft stands in its tree; empty where one hangs on a draft that does not stand before it. */
export function depthsOf(drafted) {
  const depths = [];
  for (const [node, parent] of (drafted?.parents ?? []).entries()) {
    if (parent < -1 || parent >= node) return [];
    depths.push(parent < 0 ? 0 : depths[parent] + 1);
  }
  return depths;
}

/** Means over rounds, in seconds; `c` and `verifyRatio` are in units of one plain step and of one plain pass. */
function costsOf(vanilla, speculative, rounds) {
  if (!vanilla?.tpot || !rounds?.count) return null;
  const mean = (pace, field) => sum(pace.generation, (round) => round.bill[field]) / pace.generation.length;
  const plain = vanilla.tpot;
  const draft = mean(speculative, "seconds_draft");
  const verify = mean(speculative, "seconds_forward");
  const other = mean(speculative, "seconds_accept") + mean(speculative, "seconds_other");
  const plainPass = mean(vanilla, "seconds_forward");
  return { plain, draft, verify, other, plainPass, c: rounds.perRound ? draft / rounds.perRound / plain : null, verifyRatio: verify / plainPass };
}

/** Measured: ratio of speeds. Predicted: E[τ] for one α at every position, over what a round costs. */
function speedupOf(vanilla, speculative, rounds, costs) {
  if (!costs || !speculative.tpot) return null;
  const { plain, draft, verify, other } = costs;
  const drafts = speculative.generation.map((round) => round.verified?.verdicts.length ?? 0);
  const expected = sum(drafts, (length) => expectedTokens(rounds.alpha ?? 0, length)) / rounds.count;
  const ratio = (tau, parts) => (tau * plain) / sum(parts, (part) => part);
  const cured = { // as engine.accounting.explain_speedup: one term alone made ideal
    acceptance: ratio(Math.max(rounds.tau, rounds.perRound + 1), [draft, verify, other]),
    draft: ratio(rounds.tau, [verify, other]),
    verify: ratio(rounds.tau, [draft, Math.min(verify, plain), other]),
    other: ratio(rounds.tau, [draft, verify]),
  };
  const worst = Object.keys(cured).reduce((best, code) => (cured[code] > cured[best] ? code : best));
  return {
    expected, cured, worst,
    measured: vanilla.tpot / speculative.tpot,
    predicted: ratio(expected, [draft, verify, other]),
    textbook: ratio(expected, [draft, plain]),
  };
}

/** E[τ] = 1 + α + … + α^K, bonus included. */
export function expectedTokens(alpha, length) {
  return alpha >= 1 ? length + 1 : (1 - alpha ** (length + 1)) / (1 - alpha);
}

/**
 * Whether the two texts are the same as far as both go; `differsAt` is the first index where they are not, −1 if none.
 * Only of two that ended by themselves does the length count: a text that was stopped is compared as far as it goes.
 */
function identityOf(state) {
  const [plain, fast] = [state.requests[VANILLA], state.requests[SPECULATIVE]];
  if (!plain?.submitted || !fast?.submitted) return null;
  const length = Math.min(plain.token_ids.length, fast.token_ids.length);
  let differsAt = -1;
  for (let index = 0; index < length && differsAt < 0; index += 1) {
    if (plain.token_ids[index] !== fast.token_ids[index]) differsAt = index;
  }
  const areFinished = [plain, fast].every((request) => ["stop", "length"].includes(request.finished?.finish_reason));
  if (differsAt < 0 && areFinished && plain.token_ids.length !== fast.token_ids.length) differsAt = length;
  const isGreedy = [plain, fast].every((request) => request.submitted.temperature < 1e-5);
  return { isGreedy, isExpected: isGreedy || fast.submitted.rule === "sampler_match", length, differsAt, areFinished };
}

function sum(items, value) {
  return items.reduce((total, item) => total + value(item), 0);
}
