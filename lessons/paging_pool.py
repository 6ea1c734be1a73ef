"""A small pool for the reader's hands: the engine's own BlockPool without a model, each operation one step of events.

Knows nothing of pages. Tokens are numbered, not computed: token 3 of a sequence that began as A is "a3".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine import BlockPool, EngineStarted, Event, OutOfBlocks, Prefilled, RoundFinished, Sampled, Submitted, encode

NUM_BLOCKS, BLOCK_SIZE = 12, 4
MOST_OPERATIONS = 80
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KINDS = ("new", "again", "append", "fork", "free")

Operation = tuple[str, str, int]  # kind, sequence ("" for a new one), number of tokens


@dataclass(slots=True)
class Bench:
    """The pool after some operations; `refusal` is what the last one ran into, and then it changed nothing."""

    pool: BlockPool
    events: list[Event] = field(default_factory=list)
    families: dict[str, str] = field(default_factory=dict)  # sequence → letter of the first tokens' owner
    counts: dict[str, int] = field(default_factory=dict)  # sequence → forks it has had
    num_opened: int = 0
    step: int = 0
    refusal: OutOfBlocks | None = None

    @property
    def sequences(self) -> list[str]:
        """Those that hold blocks."""
        return [name for name in self.families if name in self.pool]

    def as_value(self) -> dict[str, object]:
        """What the stage draws."""
        return {"events": [encode(event) for event in self.events]}


def play(operations: Sequence[Operation], num_blocks: int = NUM_BLOCKS, block_size: int = BLOCK_SIZE) -> Bench:
    """Does all operations on a fresh pool; one that is refused ends the play, and the pool is as before it."""
    bench = Bench(BlockPool(num_blocks, block_size))
    bench.pool = BlockPool(num_blocks, block_size, report=lambda kind, **fields: _report(bench, kind, **fields))
    nothing = dict.fromkeys(
        ("model", "weights_sha256", "dtype", "cache_dtype", "device", "device_name", "recorded"), ""
    )
    sizes = {"threads": 0, "block_size": block_size, "num_blocks": num_blocks, "context_length": 0, "versions": ()}
    _report(bench, EngineStarted, **nothing, **sizes)
    for bench.step, operation in enumerate(operations, start=1):
        try:
            _do(bench, operation)
        except OutOfBlocks as refusal:
            bench.refusal = refusal
            break
    return bench


def fill_up(operations: Sequence[Operation], num_tokens: int) -> list[Operation]:
    """The operations, and new sequences of so many tokens until the pool refuses one; that one is the last."""
    filled = list(operations)
    while len(filled) < MOST_OPERATIONS and play(filled).refusal is None:
        filled.append(("new", "", num_tokens))
    return filled


def _do(bench: Bench, operation: Operation) -> None:
    kind, name, num_tokens = operation
    if kind in ("new", "again"):
        _open(bench, name if kind == "again" else "", num_tokens)
    elif name not in bench.pool:
        return
    elif kind == "append":
        bench.pool.append(name, num_tokens)
        _written(bench, name, num_tokens)
    elif kind == "fork":
        _fork(bench, name)
    else:
        bench.pool.free(name)


def _open(bench: Bench, like: str, num_tokens: int) -> None:
    """A new sequence; `like` names one whose first tokens it repeats."""
    name = LETTERS[bench.num_opened % len(LETTERS)]
    family = bench.families.get(like, name)
    num_reused = bench.pool.allocate(name, num_tokens, _ids(family, num_tokens))
    bench.num_opened += 1
    bench.families[name] = family
    _submit(bench, name, _pieces(family, num_tokens))
    _report(
        bench, Prefilled, request_id=name, start=num_reused, num_tokens=num_tokens - num_reused, num_reused=num_reused
    )
    _commit(bench, name)


def _fork(bench: Bench, parent: str) -> None:
    bench.counts[parent] = bench.counts.get(parent, 0) + 1
    child = f"{parent}/{bench.counts[parent]}"
    bench.families[child] = bench.families[parent]
    length = bench.pool.length(parent)
    bench.pool.fork(parent, child)
    _submit(bench, child, _pieces(bench.families[parent], length), parent, length)
    _commit(bench, child)


def _written(bench: Bench, name: str, num_tokens: int) -> None:
    length, family = bench.pool.length(name), bench.families[name]
    for index in range(length - num_tokens, length):
        label = _pieces(family, length)[index]
        named = {"piece": label, "label": label, "fate": "target"}
        _report(
            bench, Sampled, request_id=name, round=bench.step, index=index, token_id=index, p=1.0, p_model=None, **named
        )
    _commit(bench, name)


def _commit(bench: Bench, name: str) -> None:
    """All tokens count as computed; full blocks get their hash."""
    length = bench.pool.length(name)
    bench.pool.commit(name, _ids(bench.families[name], length), length, ())
    seconds = ("seconds_draft", "seconds_forward", "seconds_accept", "seconds_other", "request_clock")
    bill = dict.fromkeys(seconds, 0.0) | {"round": bench.step, "num_cached": length, "num_draft_cached": 0}
    _report(bench, RoundFinished, request_id=name, **bill)


def _submit(bench: Bench, name: str, pieces: tuple[str, ...], parent: str = "", fork_at: int = 0) -> None:
    greedy = {"draft_temperature": None, "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "rule": "exact"}
    plain = {
        "drafter": "none",
        "draft_length": 0,
        "seed": 0,
        "max_new_tokens": 0,
        "prompt_ids": tuple(range(len(pieces))),
    }
    _report(bench, Submitted, request_id=name, pieces=pieces, parent=parent, fork_at=fork_at, **greedy, **plain)


def _ids(family: str, num_tokens: int) -> list[int]:
    return [1000 * LETTERS.index(family) + index for index in range(num_tokens)]


def _pieces(family: str, num_tokens: int) -> tuple[str, ...]:
    return tuple(f"{family.lower()}{index}" for index in range(num_tokens))


def _report(bench: Bench, kind: type[Event], **fields: object) -> None:
    bench.events.append(kind(step=bench.step, clock=0.0, **fields))
