"""Opened files: from a reader's bytes to a run, or a refusal. A file may be damaged, or made to do harm.

Knows nothing of pages, nor of the engine's thread. What is refused here is what no engine reports and what would break
a stage, the server's memory or its stream.
"""

import dataclasses
import functools
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine import (
    Drafted,
    EngineError,
    EngineStarted,
    Event,
    Inspected,
    LaidOut,
    Probed,
    Sampled,
    Submitted,
    TreeGrown,
    Verified,
    Viewed,
    fold,
    parse_trace,
)
from lessons.runs import Run, recorded

MAX_BYTES = 64 * 2**20  # of JSON lines, after decompression
MAX_LINE_BYTES = 2**20
MAX_EVENTS = 200_000
MAX_BLOCK_SIZE = 4096
MAX_BLOCKS = 2**20
MAX_VIEWED = 2**13  # blocks of one sequence
LARGEST = 2**53  # whole numbers beyond it are not exact in a browser
LONGEST_TIME = 1e7  # seconds: four months
MAX_DRAFT_LENGTH = 64
MAX_NODES = 256  # of a tree that grew
MAX_ROWS = 65  # of a tree that is verified, its root among them: a mask has as many squares as their square
ANY_NUMBER = ("seed", "found_at")  # may be negative


def read(path: str | Path) -> Run:
    """The run in a file of JSON lines, gzip or not.

    Raises EngineError("bad_trace", line=n), "too_large" or "too_many_events".
    """
    events: list[Event] = []
    for event in parse_trace(_lines(_unpacked(Path(path)))):
        if len(events) == MAX_EVENTS:
            raise EngineError("too_many_events", f"the file has more than {MAX_EVENTS} events", largest=MAX_EVENTS)
        events.append(event)
    check(events)
    fold(events)  # events that contradict each other would break the stages
    return recorded(events)


def _unpacked(path: Path) -> bytes:
    """All members of a gzip file, or the file itself; read no further than one byte more than is allowed."""
    with path.open("rb") as file:
        is_zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            data = (gzip.GzipFile(fileobj=file) if is_zipped else file).read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as problem:
            raise EngineError("bad_trace", f"the file is damaged or cut short: {problem}", line=1) from problem
    if len(data) > MAX_BYTES:
        raise EngineError("too_large", "the file is too large to open", megabytes=MAX_BYTES // 2**20)
    return data


def _lines(data: bytes) -> Iterator[bytes]:
    """A line longer than any that an engine writes comes in pieces, the first of which is no JSON."""
    return iter(functools.partial(io.BytesIO(data).readline, MAX_LINE_BYTES), b"")


# ---- what no engine reports ---------------------------------------------------------------------------------------


def check(events: Sequence[Event]) -> None:
    """Refuse events that no engine reports: EngineError("bad_trace", line=n) with what is wrong with the first."""
    if not events or not isinstance(events[0], EngineStarted):
        raise EngineError("bad_trace", "line 1: a run begins with EngineStarted", line=1)
    if not any(isinstance(event, Submitted) for event in events):
        raise EngineError("bad_trace", "line 1: in this run nothing was ever asked", line=1)
    order = Order(num_blocks=events[0].num_blocks)
    for number, event in enumerate(events, start=1):
        fault = fault_of_values(event) or fault_of_lists(event) or order.fault_of(event)
        if fault:
            raise EngineError("bad_trace", f"line {number}: {type(event).__name__}: {fault}", line=number)


def fault_of_values(event: Event) -> str:
    """What is wrong with a single value of an event; "" if nothing."""
    for item in dataclasses.fields(event):
        name, value = item.name, getattr(event, item.name)
        is_time = name in ("clock", "request_clock") or name.startswith("seconds")
        is_count = isinstance(value, int) and name not in ANY_NUMBER
        if any(isinstance(leaf, int) and abs(leaf) > LARGEST for leaf in _leaves(value)):
            return f"{name} holds a number beyond 2**53"
        if (is_time or is_count) and value < 0:
            return f"{name} is {value:.6g}; it cannot be negative"
        if is_time and value > LONGEST_TIME:
            return f"{name} is {value:.6g}; no run lasts that many seconds"
        if any(isinstance(leaf, str) and not _is_text(leaf) for leaf in _leaves(value)):
            return f"{name} holds half a character"
    return ""


def fault_of_lists(event: Event) -> str:
    """What is wrong with the sizes of an event and with its lists among each other; "" if nothing."""
    match event:
        case EngineStarted():
            if not 1 <= event.block_size <= MAX_BLOCK_SIZE:
                return f"block_size is {event.block_size}, not 1 to {MAX_BLOCK_SIZE}"
            if not 1 <= event.num_blocks <= MAX_BLOCKS:
                return f"num_blocks is {event.num_blocks}, not 1 to {MAX_BLOCKS}"
        case Submitted():
            return _unequal(event, "prompt_ids", "pieces") or _more(event.draft_length, MAX_DRAFT_LENGTH, "drafts")
        case Drafted():
            if any(not -1 <= parent < node for node, parent in enumerate(event.parents)):
                return "a parent does not come before its node"
            return _unequal(event, "token_ids", "pieces", "parents", "q")
        case TreeGrown():
            if any(not -1 <= parent < node for node, parent in enumerate(event.parents)):
                return "a parent does not come before its node"
            if any(not _is_choice(chosen, len(event.token_ids)) for chosen in (event.expanded, event.ranked)):
                return "a chosen node is not one of the tree, or is chosen twice"
            size = _more(len(event.ranked), MAX_ROWS - 1, "verified nodes")
            size = size or _more(len(event.parents), MAX_NODES, "nodes")
            return size or _unequal(event, "token_ids", "pieces", "parents", "values")
        case Viewed():
            if event.num_blocks > MAX_VIEWED:
                return _more(event.num_blocks, MAX_VIEWED, "blocks")
            seen = event.sinks + event.retrieved + event.recent
            if not _is_choice(seen, event.num_blocks) or list(seen) != sorted(seen):
                return f"the blocks that are seen are not some of {event.num_blocks}, in order"
        case LaidOut():
            nodes = ("pieces", "parents", "positions", "errors", "favourite_ids", "favourite_pieces")
            fault = _unequal(event, "token_ids", *nodes, "plain_ids", "plain_pieces") or _fault_of_paths(event)
            return fault or _more(len(event.parents), MAX_ROWS, "rows")
        case Probed():
            return _unequal(event, "token_ids", "pieces", "parents", "favourite_ids", "favourite_pieces")
        case Verified():
            if event.num_accepted > len(event.token_ids):
                return f"{event.num_accepted} of {len(event.token_ids)} drafts are accepted"
            return _unequal(event, "token_ids", "p", "q", "u", "verdicts") or _unequal_or_empty(event, "p_model")
        case Inspected():
            lists = ("p_model", "p", "q", "residual")
            return _unequal(event, "token_ids", "pieces") or _unequal_or_empty(event, *lists)
    return ""


class Order:
    """What an event may not say after those before it: clocks, rounds and indices only grow."""

    def __init__(self, num_blocks: int):
        self._num_blocks = num_blocks
        self._clock = 0.0
        self._rounds: dict[str, int] = {}  # of each request, the last
        self._num_tokens: dict[str, int] = {}
        self._drafts: dict[str, Drafted] = {}  # of each request, the last

    def fault_of(self, event: Event) -> str:
        """What is wrong with the next event; "" if nothing."""
        if event.clock < self._clock:
            return f"the clock goes back from {self._clock} to {event.clock}"
        self._clock = event.clock
        blocks = (getattr(event, name, 0) for name in ("block", "source", "target"))
        if any(block >= self._num_blocks for block in blocks):
            return f"there are only {self._num_blocks} blocks"
        return self._fault_of_round(event) or self._fault_of_tokens(event)

    def _fault_of_round(self, event: Event) -> str:
        if not hasattr(event, "round"):
            return ""
        last = self._rounds.get(event.request_id, 0)
        self._rounds[event.request_id] = event.round
        return "" if event.round >= last else f"round {event.round} comes after round {last}"

    def _fault_of_tokens(self, event: Event) -> str:
        match event:
            case Submitted():
                of_parent = self._num_tokens.get(event.parent, 0)
                self._num_tokens[event.request_id] = max(0, min(of_parent, event.fork_at - len(event.prompt_ids)))
            case Sampled():
                expected = self._num_tokens.get(event.request_id, 0)
                self._num_tokens[event.request_id] = expected + 1
                if event.index != expected:
                    return f"token {event.index} comes where token {expected} should"
            case Drafted():
                self._drafts[event.request_id] = event
            case Verified():
                drafted = self._drafts.get(event.request_id)
                if drafted is None or (drafted.round, drafted.token_ids) != (event.round, event.token_ids):
                    return "what is verified is not what was drafted"
            case Probed():
                drafted = self._drafts.get(event.request_id)
                before = len(drafted.token_ids) if drafted and drafted.round == event.round else 0
                if any(not -1 <= parent < before + probe for probe, parent in enumerate(event.parents)):
                    return "a probe's parent does not come before it"
        return ""


def _fault_of_paths(event: LaidOut) -> str:
    """A path must be some of the nodes, from the root down, and every parent come before its node."""
    if not event.parents or event.parents[0] != -1:
        return "the first node is no root"
    if any(not 0 <= parent < node for node, parent in enumerate(event.parents[1:], start=1)):
        return "a parent does not come before its node"
    paths = (event.path, event.plain_path)
    if not all(path[:1] == (0,) and _is_choice(path, len(event.parents)) for path in paths):
        return "a path is not one of the tree's"
    return ""


def _is_choice(nodes: tuple[int, ...], num_nodes: int) -> bool:
    """Whether these are different nodes of a tree of so many."""
    return len(set(nodes)) == len(nodes) and all(0 <= node < num_nodes for node in nodes)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _is_text(text: str) -> bool:
    """Whether it can be sent: JSON can name half of a surrogate pair, UTF-8 cannot."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _unequal(event: Event, first: str, *others: str) -> str:
    length = len(getattr(event, first))
    wrong = [name for name in others if len(getattr(event, name)) != length]
    return f"{wrong[0]} and {first} have different lengths" if wrong else ""


def _more(number: int, largest: int, what: str) -> str:
    return f"{number} {what}; at most {largest} can be shown" if number > largest else ""


def _unequal_or_empty(event: Event, *names: str) -> str:
    return _unequal(event, "token_ids", *(name for name in names if getattr(event, name)))
