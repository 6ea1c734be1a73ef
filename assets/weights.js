// Weights: those that the server's engine runs, as this page last heard, and whether a run was made with them.
// Knows nothing of drawing.

const listeners = new Set();
let own = null; // { model, sha256 } of the engine; null while none is loaded
const NAME = 40; // characters: what a reader opens may name its model anything

/** What the server said of its engine; an empty hash is no engine. */
export function hearWeights(weights) {
  if (weights?.sha256 === own?.sha256) return;
  own = weights?.sha256 ? weights : null;
  for (const listener of listeners) listener();
}

/** Call back whenever other weights are heard of. Returns how to end that. */
export function whenHeard(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Names and hashes for a sentence if a run (its EngineStarted) has other weights than the engine here; else null. */
export function otherWeights(started) {
  const theirs = started?.weights_sha256;
  if (!own || !theirs || theirs === own.sha256) return null;
  return { model: short(started.model), sha256: theirs.slice(0, 8), own_model: short(own.model), own_sha256: own.sha256.slice(0, 8) };
}

/** The last part of a path, and no more than fits a line. */
function short(name) {
  const last = name.split(/[\\/]/).findLast(Boolean) ?? name;
  return last.length > NAME ? `${last.slice(0, NAME)}…` : last;
}
