// Pool view: what the block pool looks like at a moment, worked out from events and their fold.
// Knows nothing of the page: plain objects in, plain objects out.

const SHOWN_WHOLE = 40; // a pool of at most so many blocks is shown as a whole
const SPARE = 6; // free blocks shown beside those that the run touches
const NUM_OWNERS = 8; // colours and patterns there are

/** Everything that the pictures show: sizes, sequences, blocks, totals. */
export function viewOf(events, state, shownIds) {
  const size = state.engine?.block_size ?? 16;
  const numBlocks = state.engine?.num_blocks ?? 0;
  const sequences = state.order.map((id, index) => sequenceOf(state, id, index, size));
  const owners = new Map();
  for (const sequence of sequences) {
    for (const entry of sequence.entries) {
      const known = owners.get(entry.block) ?? { held: 0, sequences: [] };
      known.held = Math.max(known.held, entry.held);
      known.sequences.push(sequence);
      owners.set(entry.block, known);
    }
  }
  const blocks = shownIds.map((id) => blockOf(state, id, owners.get(id), size));
  return { size, numBlocks, sequences, blocks, totals: totalsOf(state, sequences, owners, size, numBlocks) };
}

function sequenceOf(state, id, index, size) {
  const request = state.requests[id];
  const pieces = piecesOf(state, id);
  const entries = (state.tables[id] ?? []).map((block, at) => ({
    block, index: at, held: clamp(request.cache_length - at * size, size), refs: state.ref_counts[block] ?? 0,
    pieces: pieces.slice(at * size, (at + 1) * size),
  }));
  const parent = request.submitted?.parent ?? "";
  return {
    id, owner: index % NUM_OWNERS, entries, pieces, parent, status: request.status,
    numPrompt: request.prompt_length, numCached: entries.length ? request.cache_length : 0, reused: request.num_reused,
    forkAt: request.submitted?.fork_at ?? 0, reason: request.finished?.finish_reason ?? "",
  };
}

/** The tokens of a request, one text each, prompt and output. */
export function piecesOf(state, id) {
  const request = state.requests[id];
  return [...(request.submitted?.pieces ?? []), ...request.tokens.map((token) => token.label)];
}

function blockOf(state, id, owned, size) {
  const hash = state.hashes[id] ?? "";
  const refs = state.ref_counts[id] ?? 0;
  const held = owned ? owned.held : hash ? size : 0;
  return { id, hash, refs, held, size, owners: owned?.sequences ?? [], kind: refs ? "used" : hash ? "cached" : "free" };
}

function totalsOf(state, sequences, owners, size, numBlocks) {
  const used = owners.size;
  const entries = sequences.reduce((sum, sequence) => sum + sequence.entries.length, 0);
  const cached = Object.keys(state.hashes).filter((block) => !state.ref_counts[block]).length;
  const held = [...owners.values()].reduce((sum, one) => sum + one.held, 0);
  return { used, cached, free: numBlocks - used - cached, entries, spared: entries - used, empty: used * size - held, slots: used * size };
}

/** The blocks to show: all of a small pool, or those that the run ever touches and a few more. */
export function blocksToShow(events) {
  const started = events.find((event) => event.type === "EngineStarted");
  const numBlocks = started?.num_blocks ?? 0;
  if (numBlocks <= SHOWN_WHOLE) return Array.from({ length: numBlocks }, (_, id) => id);
  const touched = new Set();
  for (const event of events) {
    for (const id of [event.block, event.target, event.source]) if (Number.isInteger(id)) touched.add(id);
  }
  for (let id = 0, spare = SPARE; id < numBlocks && spare > 0; id += 1) {
    if (!touched.has(id)) spare -= 1;
    touched.add(id);
  }
  return [...touched].sort((left, right) => left - right);
}

/** The events of the step that the cursor stands at the end of. */
export function eventsOfStep(events, cursor) {
  const step = events[cursor - 1]?.step;
  let start = cursor;
  while (start > 0 && events[start - 1].step === step) start -= 1;
  return events.slice(start, cursor);
}

/** What a step did to each block: the last of "taken", "copied", "source", "hit", "shared", "freed". */
export function tagsOf(step) {
  const tags = new Map();
  for (const event of step) {
    const kind = TAGS[event.type];
    if (kind && !(kind === "shared" && tags.get(event.block)?.kind === "taken")) tags.set(event.block, { kind });
    if (event.type === "BlockCopied") {
      tags.set(event.source, { kind: "source" });
      tags.set(event.target, { kind: "copied", source: event.source });
    }
  }
  return tags;
}

const TAGS = { BlockTaken: "taken", BlockShared: "shared", BlockHit: "hit", BlockFreed: "freed" };

/** The steps worth a visit: {cursor, step, kind, count}; one per step, the rarest kind of event first. */
export function momentsOf(events, marks) {
  const moments = [];
  let start = 0;
  for (const [at, mark] of marks.entries()) {
    const step = events.slice(start, mark.cursor);
    start = mark.cursor;
    const kind = Object.keys(MOMENTS).find((name) => step.some(MOMENTS[name]));
    if (kind) moments.push({ cursor: mark.cursor, step: at + 1, kind, count: step.filter(MOMENTS[kind]).length });
  }
  return moments;
}

const MOMENTS = {
  preempted: (event) => event.type === "Preempted",
  copied: (event) => event.type === "BlockCopied",
  hit: (event) => event.type === "BlockHit",
  fork: (event) => event.type === "Submitted" && event.parent !== "",
  shared: (event) => event.type === "BlockShared",
  finished: (event) => event.type === "Finished",
  evicted: (event) => event.type === "BlockEvicted",
};

function clamp(value, largest) {
  return Math.max(0, Math.min(largest, value));
}
