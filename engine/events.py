"""Every fact that the engine can report, as frozen records of numbers, strings and tuples.

Knows nothing of how the facts come about, nor of who reads them. Field `step` counts the engine's steps; `clock` is
the engine's own time in seconds (compute only: neither drawing nor inspection is in it).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have in common."""

    step: int
    clock: float


# ---- the engine and its requests --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted(Event):
    """First event of every run: what ran, and on what. `recorded` is an ISO date."""

    model: str
    weights_sha256: str
    dtype: str
    cache_dtype: str
    device: str
    device_name: str
    threads: int
    block_size: int
    num_blocks: int
    context_length: int
    recorded: str
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Event):
    """A request was accepted by the engine. `pieces[i]` is the text of `prompt_ids[i]` alone, for display.

    `parent` is the request that it was forked from ("" if none), `fork_at` the number of tokens that it has of it.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    drafter: str
    draft_length: int
    draft_temperature: float | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    rule: str
    seed: int
    max_new_tokens: int
    parent: str
    fork_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted(Event):
    """A waiting request began to run."""

    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted(Event):
    """A running request gave its blocks to an earlier one; it waits in front, and what it had is computed again."""

    request_id: str
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """A request ended: "stop" (end token or stop string), "length", "abort" or "error" (then `message` says why)."""

    request_id: str
    text: str
    finish_reason: str
    message: str
    num_tokens: int


# ---- blocks -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTaken(Event):
    """A free block became entry `index` of the request's table; its reference count is now 1."""

    request_id: str
    index: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShared(Event):
    """A block in use became entry `index` of one more table; `ref_count` counts this table too."""

    request_id: str
    index: int
    block: int
    ref_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCopied(Event):
    """Copy-on-write: entry `index` now names `target` (reference count 1), a copy of `num_tokens` slots of `source`.

    The reference count of `source` fell by one, to `ref_count`.
    """

    request_id: str
    index: int
    source: int
    target: int
    num_tokens: int
    ref_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFilled(Event):
    """Every slot of the block now holds the key and value of a token that is part of the sequence."""

    request_id: str
    index: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHashed(Event):
    """A full block got its chained hash (hexadecimal) and can be found by other requests."""

    block: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHit(Event):
    """A block that nobody was using was found by its hash and became entry `index` of the table (count 1)."""

    request_id: str
    index: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvicted(Event):
    """A free block lost its hash, because its slots are to be written anew."""

    block: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFreed(Event):
    """The last entry (`index`) left the request's table; at `ref_count` 0 the block can be taken again."""

    request_id: str
    index: int
    block: int
    ref_count: int


# ---- compute ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded(Event):
    """One pass of the target over a ragged batch, `seconds` long."""

    request_ids: tuple[str, ...]
    num_prompt_rows: int
    num_generated_rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled(Event):
    """`num_tokens` prompt tokens from position `start` were computed; `num_reused` before them came from the cache."""

    request_id: str
    start: int
    num_tokens: int
    num_reused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeGrown(Event):
    """All nodes that a drafter's tree had in a round before it was cut to those that `Drafted` names; parents as there.

    `values`: the product of the confidences along each node's path. `expanded`: nodes that got children, in that order.
    `ranked`: the nodes that are verified, the most valuable first.
    """

    request_id: str
    round: int
    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    parents: tuple[int, ...]
    values: tuple[float, ...]
    expanded: tuple[int, ...]
    ranked: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewed(Event):
    """What a drafter saw of the target's cache when a round's drafting began; the verify pass reads all `num_blocks`.

    `num_tokens` is the length of the sequence then. `sinks`, `retrieved` and `recent` are entries of the block table:
    the first blocks, those that attention asked for, and the latest; the others were hidden.
    """

    request_id: str
    round: int
    num_tokens: int
    num_blocks: int
    sinks: tuple[int, ...]
    retrieved: tuple[int, ...]
    recent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted(Event):
    """Tokens proposed in a round, root first. `parents[i]` is the index of the node before token i, −1 the root.

    `q[i]` is the draft's probability of token i under the law it was drawn from (1.0 for a point mass).
    `found_at` is the position in the sequence that a lookup copied from, −1 if it is not a lookup.
    """

    request_id: str
    round: int
    drafter: str
    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    parents: tuple[int, ...]
    q: tuple[float, ...]
    is_point_mass: bool
    found_at: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Event):
    """What became of each drafted token: `verdicts[i]` is "accepted", "rejected" or "unreached".

    p, q: probabilities of the token under the laws used; u: the coin, None where none was thrown (greedy, unreached).
    `p_model` are the model's own probabilities at temperature 1 (only with `watch={"distributions"}`, else empty).
    `num_rows` is the width of the pass.
    """

    request_id: str
    round: int
    rule: str
    token_ids: tuple[int, ...]
    p: tuple[float, ...]
    p_model: tuple[float, ...]
    q: tuple[float, ...]
    u: tuple[float | None, ...]
    verdicts: tuple[str, ...]
    num_accepted: int
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed(Event):
    """Rows that rode along in a pass and were never up for acceptance: Lookahead's window, level by level.

    `parents` count the round's drafts first, then the probes; −1 is the last known token. `favourite_ids` are what the
    target preferred behind each probe, `caught` the n-grams that were completed by them.
    """

    request_id: str
    round: int
    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    parents: tuple[int, ...]
    favourite_ids: tuple[int, ...]
    favourite_pieces: tuple[str, ...]
    caught: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected(Event):
    """The largest entries of the laws at one position of a round (only with `watch={"distributions"}`).

    `position` 0 is the law of the first new token of the round; ids are the union of the top ten of p and of q.
    `q` is empty where nothing was drafted or the draft is a point mass, `residual` where it was not needed.
    """

    request_id: str
    round: int
    position: int
    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    p_model: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    residual: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Event):
    """One output token, in order. `fate`: "target", "accepted", "resampled" or "bonus".

    `piece` is the text that became readable with this token ("" while a character is incomplete); `label` shows the
    token alone. Concatenated pieces, with what `Finished` adds, equal the decoded output. `p` is the token's
    probability under the law it was drawn from or checked against; `p_model` the model's own at temperature 1 (None
    unless distributions are watched).
    """

    request_id: str
    round: int
    index: int
    token_id: int
    piece: str
    label: str
    fate: str
    p: float
    p_model: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFinished(Event):
    """The bill of one round, in seconds on the request's own clock, and how many tokens each cache now holds."""

    request_id: str
    round: int
    seconds_draft: float
    seconds_forward: float
    seconds_accept: float
    seconds_other: float
    request_clock: float
    num_cached: int
    num_draft_cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut(Event):
    """A round's tree was computed once more, laid on the rows in one `way` (see `engine.layouts`), after the run.

    The nodes are the root and the verified drafts; `parents[0]` is -1. `positions` are what each row was told.
    `errors`: by how much a row's logits differ at most from those of its path decoded alone; `favourite_ids` is what
    the row prefers, `plain_ids` what the path alone prefers. `path` and `plain_path` are the nodes, root first, that
    greedy acceptance keeps by the one and by the other.
    """

    request_id: str
    of_round: int
    way: str
    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    parents: tuple[int, ...]
    positions: tuple[int, ...]
    errors: tuple[float, ...]
    favourite_ids: tuple[int, ...]
    favourite_pieces: tuple[str, ...]
    plain_ids: tuple[int, ...]
    plain_pieces: tuple[str, ...]
    path: tuple[int, ...]
    plain_path: tuple[int, ...]


EVENT_TYPES: tuple[type[Event], ...] = (
    EngineStarted, Submitted, Admitted, Preempted, Finished,
    BlockTaken, BlockShared, BlockCopied, BlockFilled, BlockHashed, BlockHit, BlockEvicted, BlockFreed,
    Forwarded, Prefilled, TreeGrown, Viewed, Drafted, Verified, Probed, Inspected, Sampled, RoundFinished, LaidOut,
)  # fmt: skip
