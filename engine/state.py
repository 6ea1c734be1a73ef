"""State: what a run's events add up to at a moment. `assets/fold.js` is the same fold in the browser.

Knows nothing of engines or files; every field follows from the events alone, so a lesson needs nothing else.
"""

import dataclasses
from dataclasses import dataclass, field

from engine import events
from engine.events import Event


@dataclass(slots=True)
class Token:
    """One output token, as `Sampled` reported it."""

    index: int
    token_id: int
    piece: str
    label: str
    fate: str
    round: int
    p: float
    p_model: float


@dataclass(slots=True)
class Round:
    """What happened in one round of one request; `sampled` are indices into the request's tokens."""

    round: int
    grown: events.TreeGrown | None = None
    viewed: events.Viewed | None = None
    drafted: events.Drafted | None = None
    verified: events.Verified | None = None
    probed: events.Probed | None = None
    inspected: list[events.Inspected] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    bill: events.RoundFinished | None = None


@dataclass(slots=True)
class RequestState:
    """One request so far. `text` is the readable pieces, at the end the final text; `clock` its own compute time."""

    status: str = "waiting"
    submitted: events.Submitted | None = None
    prompt_length: int = 0
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    cache_length: int = 0
    draft_cache_length: int = 0
    num_reused: int = 0
    num_passes: int = 0
    clock: float = 0.0
    finished: events.Finished | None = None


@dataclass(slots=True)
class State:
    """The whole engine at a moment. `tables` has no entry for a request that holds no block."""

    step: int = 0
    clock: float = 0.0
    engine: events.EngineStarted | None = None
    tables: dict[str, list[int]] = field(default_factory=dict)
    ref_counts: dict[int, int] = field(default_factory=dict)
    hashes: dict[int, str] = field(default_factory=dict)  # of blocks in use and of free ones that can be found
    filled: dict[int, bool] = field(default_factory=dict)  # blocks with a token in every slot
    order: list[str] = field(default_factory=list)  # requests as they were submitted
    requests: dict[str, RequestState] = field(default_factory=dict)

    @property
    def token_ids(self) -> dict[str, list[int]]:
        """Output tokens by request."""
        return {name: request.token_ids for name, request in self.requests.items()}

    @property
    def texts(self) -> dict[str, str]:
        """Output text by request."""
        return {name: request.text for name, request in self.requests.items()}

    def as_dict(self) -> dict[str, object]:
        """The state as JSON can carry it, with the same names and values as in the browser."""
        return plain(self)


def plain(value: object) -> object:
    """A part of the state as JSON can carry it: keys are strings, events carry their type."""
    if isinstance(value, Event):
        named = {"type": type(value).__name__}
    else:
        named = {}
    if dataclasses.is_dataclass(value):
        return named | {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def apply(state: State, event: Event) -> None:
    """Change the state by one event."""
    state.step, state.clock = event.step, event.clock
    match event:
        case events.EngineStarted():
            state.engine = event
        case events.Forwarded():
            for name in event.request_ids:
                _request(state, name).num_passes += 1
        case events.BlockTaken() | events.BlockHit():
            _enter(state, event.request_id, event.block, 1)
            if isinstance(event, events.BlockTaken):
                state.filled.pop(event.block, None)
        case events.BlockShared():
            _enter(state, event.request_id, event.block, event.ref_count)
        case events.BlockCopied():
            state.tables[event.request_id][event.index] = event.target
            state.filled.pop(event.target, None)
            _count(state, event.target, 1)
            _count(state, event.source, event.ref_count)
        case events.BlockFreed():
            _leave(state, event)
        case events.BlockFilled():
            state.filled[event.block] = True
        case events.BlockHashed():
            state.hashes[event.block] = event.hash
        case events.BlockEvicted():
            state.hashes.pop(event.block, None)
        case _:
            _apply_to_request(state, _request(state, event.request_id), event)


def _apply_to_request(state: State, request: RequestState, event: Event) -> None:
    match event:
        case events.Submitted():
            request.submitted = event
            request.prompt_length = len(event.prompt_ids)
            if event.parent in state.requests:
                parent = state.requests[event.parent]
                request.cache_length = min(event.fork_at - 1, parent.cache_length)  # the last one's row is its own
                request.tokens = parent.tokens[: max(0, event.fork_at - request.prompt_length)]
                request.token_ids = [token.token_id for token in request.tokens]
                request.text = "".join(token.piece for token in request.tokens)
        case events.Admitted():
            request.status = "running"
        case events.Preempted():
            request.status = "waiting"
            request.cache_length = request.draft_cache_length = 0
        case events.Prefilled():
            request.cache_length = event.start + event.num_tokens
            request.num_reused = max(request.num_reused, event.num_reused)
        case events.TreeGrown():
            _round(request, event.round).grown = event
        case events.Viewed():
            _round(request, event.round).viewed = event
        case events.Drafted():
            _round(request, event.round).drafted = event
        case events.Verified():
            _round(request, event.round).verified = event
        case events.Probed():
            _round(request, event.round).probed = event
        case events.Inspected():
            _round(request, event.round).inspected.append(event)
        case events.Sampled():
            _round(request, event.round).sampled.append(event.index)
            request.tokens.append(Token(**{item.name: getattr(event, item.name) for item in dataclasses.fields(Token)}))
            request.token_ids.append(event.token_id)
            request.text += event.piece
        case events.RoundFinished():
            _round(request, event.round).bill = event
            request.clock = event.request_clock
            request.cache_length, request.draft_cache_length = event.num_cached, event.num_draft_cached
        case events.Finished():
            request.status = "finished"
            request.finished = event
            request.text = event.text


def _request(state: State, name: str) -> RequestState:
    if name not in state.requests:
        state.order.append(name)
        state.requests[name] = RequestState()
    return state.requests[name]


def _round(request: RequestState, number: int) -> Round:
    if not request.rounds or request.rounds[-1].round != number:  # an engine's rounds come one after the other
        request.rounds.append(Round(number))
    return request.rounds[-1]


def _enter(state: State, name: str, block: int, ref_count: int) -> None:
    state.tables.setdefault(name, []).append(block)
    state.ref_counts[block] = ref_count


def _leave(state: State, event: events.BlockFreed) -> None:
    table = state.tables[event.request_id]
    table.pop()
    if not table:
        del state.tables[event.request_id]
    _count(state, event.block, event.ref_count)
    request = state.requests.get(event.request_id)
    if request and state.engine:
        request.cache_length = min(request.cache_length, event.index * state.engine.block_size)


def _count(state: State, block: int, ref_count: int) -> None:
    if ref_count:
        state.ref_counts[block] = ref_count
    else:
        state.ref_counts.pop(block, None)
