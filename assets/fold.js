// State: what a run's events add up to at a moment; the same fold as engine/state.py, at every event of every run.
// Knows nothing of pages: no DOM, no network. Events are the objects of the JSON lines that engine/trace.py writes.

/** The state before the first event. Maps have no prototype, so no request can be named after a built-in. */
export function emptyState() {
  return {
    step: 0, clock: 0, engine: null,
    tables: Object.create(null), // request id → its blocks in order; no entry for a request that holds none
    ref_counts: Object.create(null), // block → in how many tables it is
    hashes: Object.create(null), // block → hash, of blocks in use and of free ones that can be found
    filled: Object.create(null), // block → true where every slot has a token
    order: [], // requests as they were submitted
    requests: Object.create(null),
  };
}

/** The state after the first `cursor` events. */
export function fold(events, cursor = events.length) {
  const state = emptyState();
  for (let index = 0; index < cursor; index += 1) apply(state, events[index]);
  return state;
}

/** Change the state by one event; a type that this version does not know changes only step and clock. */
export function apply(state, event) {
  state.step = event.step;
  state.clock = event.clock;
  if (Object.hasOwn(ENGINE, event.type)) ENGINE[event.type](state, event);
  else if (Object.hasOwn(REQUEST, event.type)) REQUEST[event.type](requestOf(state, event.request_id), event, state);
}

const ENGINE = {
  EngineStarted(state, event) { state.engine = event; },
  Forwarded(state, event) {
    for (const id of event.request_ids) requestOf(state, id).num_passes += 1;
  },
  BlockTaken(state, event) {
    enter(state, event, 1);
    delete state.filled[event.block];
  },
  BlockHit(state, event) { enter(state, event, 1); },
  BlockShared(state, event) { enter(state, event, event.ref_count); },
  BlockCopied(state, event) {
    state.tables[event.request_id][event.index] = event.target;
    delete state.filled[event.target];
    count(state, event.target, 1);
    count(state, event.source, event.ref_count);
  },
  BlockFreed(state, event) {
    const table = state.tables[event.request_id];
    table.pop();
    if (table.length === 0) delete state.tables[event.request_id];
    count(state, event.block, event.ref_count);
    const request = state.requests[event.request_id];
    if (request && state.engine) {
      request.cache_length = Math.min(request.cache_length, event.index * state.engine.block_size);
    }
  },
  BlockFilled(state, event) { state.filled[event.block] = true; },
  BlockHashed(state, event) { state.hashes[event.block] = event.hash; },
  BlockEvicted(state, event) { delete state.hashes[event.block]; },
};

const REQUEST = {
  Submitted(request, event, state) {
    request.submitted = event;
    request.prompt_length = event.prompt_ids.length;
    const parent = state.requests[event.parent];
    if (!parent) return;
    request.cache_length = Math.min(event.fork_at - 1, parent.cache_length); // the last one's row is its own
    request.tokens = parent.tokens.slice(0, Math.max(0, event.fork_at - request.prompt_length));
    request.token_ids = request.tokens.map((token) => token.token_id);
    request.text = request.tokens.map((token) => token.piece).join("");
  },
  Admitted(request) { request.status = "running"; },
  Preempted(request) {
    request.status = "waiting";
    request.cache_length = 0;
    request.draft_cache_length = 0;
  },
  Prefilled(request, event) {
    request.cache_length = event.start + event.num_tokens;
    request.num_reused = Math.max(request.num_reused, event.num_reused);
  },
  TreeGrown(request, event) { roundOf(request, event.round).grown = event; },
  Viewed(request, event) { roundOf(request, event.round).viewed = event; },
  Drafted(request, event) { roundOf(request, event.round).drafted = event; },
  Verified(request, event) { roundOf(request, event.round).verified = event; },
  Probed(request, event) { roundOf(request, event.round).probed = event; },
  Inspected(request, event) { roundOf(request, event.round).inspected.push(event); },
  LaidOut() {}, // a comparison made after the run changes nothing
  Sampled(request, event) {
    roundOf(request, event.round).sampled.push(event.index);
    const { index, token_id, piece, label, fate, round, p, p_model } = event;
    request.tokens.push({ index, token_id, piece, label, fate, round, p, p_model });
    request.token_ids.push(token_id);
    request.text += piece;
  },
  RoundFinished(request, event) {
    roundOf(request, event.round).bill = event;
    request.clock = event.request_clock;
    request.cache_length = event.num_cached;
    request.draft_cache_length = event.num_draft_cached;
  },
  Finished(request, event) {
    request.status = "finished";
    request.finished = event;
    request.text = event.text;
  },
};

function requestOf(state, id) {
  if (!state.requests[id]) {
    state.order.push(id);
    state.requests[id] = {
      status: "waiting", submitted: null, prompt_length: 0,
      token_ids: [], text: "", tokens: [], rounds: [],
      cache_length: 0, draft_cache_length: 0, num_reused: 0, num_passes: 0, clock: 0, finished: null,
    };
  }
  return state.requests[id];
}

function roundOf(request, number) {
  const last = request.rounds.at(-1);
  if (last?.round === number) return last; // an engine's rounds come one after the other
  const round = {
    round: number, grown: null, viewed: null, drafted: null, verified: null, probed: null, inspected: [], sampled: [], bill: null,
  };
  request.rounds.push(round);
  return round;
}

function enter(state, event, refCount) {
  state.tables[event.request_id] ??= [];
  state.tables[event.request_id].push(event.block);
  count(state, event.block, refCount);
}

function count(state, block, refCount) {
  if (refCount) state.ref_counts[block] = refCount;
  else delete state.ref_counts[block];
}
