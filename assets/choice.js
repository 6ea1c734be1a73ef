// Choice: the token or draft that the reader has picked, shared by all stages that follow one player.
// Knows nothing of stages. A pick is { request, round, draft, index }: draft −1 is no draft, index −1 no output token;
// isAutomatic marks one that nobody asked for.

const choices = new WeakMap();

/** The choice that belongs to a player: `value` (null at first), `set(value)`, `subscribe(fn)` → unsubscribe. */
export function choiceOf(player) {
  if (!choices.has(player)) choices.set(player, makeChoice());
  return choices.get(player);
}

function makeChoice() {
  const listeners = new Set();
  return {
    value: null,
    set(value) {
      this.value = value;
      for (const listener of listeners) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** What to look at in a round: the draft that was refused, or else its last token. `round` is the fold's. */
export function decisive(request, round) {
  const verdicts = round.verified?.verdicts ?? [];
  const refused = verdicts.indexOf("rejected");
  if (refused >= 0) return { request, round: round.round, draft: refused, index: -1 };
  const accepted = verdicts.flatMap((verdict, node) => (verdict === "accepted" ? [node] : []));
  return { request, round: round.round, draft: accepted[round.sampled.length - 1] ?? -1, index: round.sampled.at(-1) ?? -1 };
}
