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
  const draft = round.verified ? round.verified.verdicts.indexOf("rejected") : -1;
  const index = draft < 0 ? round.sampled.at(-1) ?? -1 : -1;
  const isAccepted = draft < 0 && index >= 0 && (round.verified?.num_accepted ?? 0) >= round.sampled.length;
  return { request, round: round.round, draft: isAccepted ? round.sampled.length - 1 : draft, index };
}
