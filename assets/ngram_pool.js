// The n-gram pool of Lookahead as it stands after each pass: first token → continuations, the oldest fall out.
// Knows nothing of drawing: it folds the caught n-grams that passes report, as the engine's drafter does.

/** The pool after `passes`: n-grams as { ids, isNew }, oldest first. guesses: how many one first token may have. */
export function poolAfter(passes, guesses) {
  const pool = new Map();
  passes.forEach((pass, at) => {
    for (const ids of pass.probed?.caught ?? []) {
      const known = pool.get(ids[0]) ?? new Map();
      pool.set(ids[0], known);
      const key = ids.slice(1).join(" ");
      const isKnown = known.has(key);
      const before = known.get(key);
      known.delete(key);
      known.set(key, { ids, since: isKnown ? before.since : at });
      if (known.size > guesses) known.delete(known.keys().next().value);
    }
  });
  const last = passes.length - 1;
  return [...pool.values()].flatMap((known) => [...known.values()]).map((gram) => ({ ...gram, isNew: gram.since === last }));
}
