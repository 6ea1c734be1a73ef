// Passes: the rounds of one request of a run, each with all that was reported of it and the place where it ends.
// Knows nothing of drawing nor of what a drafter means by its drafts.

/** { submitted, passes, tokens }: a pass has known, drafted, verified, probed, sampled, rows, seconds and its cursor. */
export function passesOf(events, id) {
  const found = { submitted: null, passes: [], tokens: [] };
  let pass = fresh(0);
  events.forEach((event, at) => {
    if (event.type === "Forwarded" && event.request_ids.includes(id)) {
      pass.rows = event.num_generated_rows;
      pass.seconds = event.seconds;
    }
    if (event.request_id !== id) return;
    if (event.type === "Submitted") found.submitted = event;
    if (event.type === "Drafted") pass.drafted = event;
    if (event.type === "Verified") pass.verified = event;
    if (event.type === "Probed") pass.probed = event;
    if (event.type === "Sampled") {
      pass.sampled.push(event);
      found.tokens.push(event);
    }
    if (event.type !== "RoundFinished") return;
    pass.cursor = at + 1;
    if (pass.sampled.length) found.passes.push(pass);
    pass = fresh(found.tokens.length);
  });
  return found;
}

function fresh(known) {
  return { known, drafted: null, verified: null, probed: null, sampled: [], rows: 0, seconds: 0, cursor: 0 };
}

/** Calls `read` with all events of the player's run whenever there are more of them, and hands on what it gave. */
export function reading(player, read) {
  let [source, length, found] = [null, -1, null];
  return () => {
    if (source !== player.runId || length !== player.events.length) {
      [source, length, found] = [player.runId, player.events.length, read(player.events)];
    }
    return found;
  };
}
