"""One pass of the model as a ragged batch: rows of tokens, each with its place, its slot and what it may see.

Knows nothing of requests, of why a row is computed, or of the model. A span is the rows of one sequence; row i of a
span is written at the cache index context + i, the nodes of a tree too.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine import tree
from engine.errors import EngineError

ROLES = ("prompt", "generated")


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive rows of one sequence, `context` of whose tokens are cached already.

    role: "prompt" or "generated"; it alone decides which kernels compute the rows. parents: None for a chain, else the
    tree (see `engine.tree`) that the rows form; only generated rows may form one. blocks_seen: which blocks of the
    table a generated chain sees, as increasing indices; None for all. Those that its rows are written to must be there.
    Positions and slots stay those of the whole table: a sparse view hides keys, it moves none. A model's own sliding
    window then counts what is seen.
    """

    role: str
    start: int
    num_rows: int
    table: Sequence[int]
    context: int
    parents: tuple[int, ...] | None = None
    blocks_seen: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one sequence with their tokens: what `Batch.join` makes a span of.

    num_logits: how many of the last rows shall give logits; -1 means all, 0 none. The rest as in `Span`.
    """

    role: str
    token_ids: Sequence[int]
    table: Sequence[int]
    context: int
    parents: tuple[int, ...] | None = None
    num_logits: int = -1
    blocks_seen: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """All rows of one pass. `logit_rows` index `token_ids`; logits come back in that order."""

    token_ids: torch.Tensor  # (rows,) int64
    spans: tuple[Span, ...]
    logit_rows: torch.Tensor  # (n,) int64

    @classmethod
    def join(cls, parts: Sequence[Part]) -> "Batch":
        """Lays the parts one after the other."""
        token_ids: list[int] = []
        logit_rows: list[int] = []
        spans = []
        for part in parts:
            start, num_rows = len(token_ids), len(part.token_ids)
            token_ids.extend(part.token_ids)
            num_logits = num_rows if part.num_logits < 0 else part.num_logits
            logit_rows.extend(range(start + num_rows - num_logits, start + num_rows))
            place = part.table, part.context, part.parents, part.blocks_seen
            spans.append(Span(part.role, start, num_rows, *place))
        as_tensor = torch.tensor(token_ids, dtype=torch.int64), torch.tensor(logit_rows, dtype=torch.int64)
        return cls(as_tensor[0], tuple(spans), as_tensor[1])


# ---- what the model derives from a batch, once per pass -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows first … last − 1 of a plan: a piece of one prompt, causal after `context` cached tokens."""

    first: int
    last: int
    table: torch.Tensor  # (blocks,) int32
    context: int


@dataclass(frozen=True, slots=True)
class Visible:
    """What generated rows see: the first row_prefix tokens of their table, then the slots row_extra.

    In a table stand only the blocks that its sequence's rows see.
    """

    tables: torch.Tensor  # (sequences, blocks) int32
    row_sequence: torch.Tensor  # (rows,) int32
    row_prefix: torch.Tensor  # (rows,) int32
    row_extra: torch.Tensor  # (rows, depth) int32: the path through a tree, root first, then -1; depth 0 without trees


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch with its prompt rows first, and every index that a layer needs, on the model's device."""

    token_ids: torch.Tensor  # (rows,) int64
    positions: torch.Tensor  # (rows,) int64
    slots: torch.Tensor  # (rows,) int32
    logit_rows: torch.Tensor  # (n,) int64
    num_prompt_rows: int
    pieces: tuple[Piece, ...]  # cover the prompt rows
    visible: Visible | None  # of the rows after the prompt rows


def plan(batch: Batch, num_blocks: int, block_size: int, device: torch.device) -> Plan:
    """Derives positions, slots and visibility. Raises EngineError("bad_batch") before anything is computed."""
    _check(batch, num_blocks, block_size)
    spans = sorted((span for span in batch.spans if span.num_rows), key=lambda span: ROLES.index(span.role))
    laid = [_lay(span, block_size) for span in spans]
    prompts = [rows for rows in laid if rows.span.role == "prompt"]
    generated = [rows for rows in laid if rows.span.role == "generated"]
    token_ids, logit_rows = batch.token_ids, batch.logit_rows
    starts = [span.start for span in spans]
    if starts != sorted(starts):
        order = torch.cat([torch.arange(span.start, span.start + span.num_rows) for span in spans])
        place = order.argsort()  # row of the batch → row of the plan
        token_ids, logit_rows = token_ids[order], place[logit_rows]
    return Plan(
        token_ids=token_ids.to(device),
        positions=_put([rows.positions for rows in laid], device),
        slots=_put([rows.slots for rows in laid], device),
        logit_rows=logit_rows.to(device),
        num_prompt_rows=sum(rows.span.num_rows for rows in prompts),
        pieces=_pieces(prompts, device),
        visible=_visible(generated, device) if generated else None,
    )


@dataclass(frozen=True, slots=True)
class _Laid:
    """A span whose rows have found their places."""

    span: Span
    table: np.ndarray  # (blocks,) int32, those that are seen
    slots: np.ndarray  # (rows,) int32
    positions: np.ndarray  # (rows,) int64
    prefix: np.ndarray  # (rows,) int32, how many tokens of the sequence a row sees through the table
    path: np.ndarray  # (rows, depth) int64, in a tree: offsets of the nodes that a row sees beyond the prefix, then -1


def _lay(span: Span, block_size: int) -> _Laid:
    table = np.array(span.table, np.int32)
    index = np.arange(span.context, span.context + span.num_rows)
    slots = table[index // block_size] * np.int32(block_size) + (index % block_size).astype(np.int32)
    if span.parents is None:
        prefix, nothing = index + 1, np.empty((span.num_rows, 0), np.int64)
        if span.blocks_seen is not None:  # a block that is not seen lies before the rows and is full
            num_before = span.context // block_size
            num_hidden = num_before - sum(block < num_before for block in span.blocks_seen)
            table, prefix = table[list(span.blocks_seen)], prefix - num_hidden * block_size
        return _Laid(span, table, slots, index, prefix.astype(np.int32), nothing)
    positions = span.context + tree.depths(span.parents)
    prefix = np.full(span.num_rows, span.context, np.int32)
    return _Laid(span, table, slots, positions, prefix, tree.paths(span.parents))


def _pieces(laid: list[_Laid], device: torch.device) -> tuple[Piece, ...]:
    pieces, first = [], 0
    for rows in laid:
        last = first + rows.span.num_rows
        pieces.append(Piece(first, last, _put([rows.table], device), rows.span.context))
        first = last
    return tuple(pieces)


def _visible(laid: list[_Laid], device: torch.device) -> Visible:
    num_rows = [rows.span.num_rows for rows in laid]
    tables = np.zeros((len(laid), max(len(rows.table) for rows in laid)), np.int32)
    extra = np.full((sum(num_rows), max(rows.path.shape[1] for rows in laid)), -1, np.int32)
    first = 0
    for sequence, rows in enumerate(laid):
        tables[sequence, : len(rows.table)] = rows.table
        last, depth = first + rows.span.num_rows, rows.path.shape[1]
        extra[first:last, :depth] = np.where(rows.path >= 0, rows.slots[rows.path], -1)
        first = last
    return Visible(
        tables=_put([tables], device),
        row_sequence=_put([np.repeat(np.arange(len(laid), dtype=np.int32), num_rows)], device),
        row_prefix=_put([rows.prefix for rows in laid], device),
        row_extra=_put([extra], device),
    )


def _put(arrays: list[np.ndarray], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(arrays[0] if len(arrays) == 1 else np.concatenate(arrays)).to(device)


def _check(batch: Batch, num_blocks: int, block_size: int) -> None:
    if not len(batch.token_ids) or sum(span.num_rows for span in batch.spans) != len(batch.token_ids):
        raise EngineError("bad_batch", f"the spans do not cover the {len(batch.token_ids)} rows of the batch once each")
    for span in batch.spans:
        needed = -(-(span.context + span.num_rows) // block_size)
        if len(span.table) < needed:
            sentence = f"{span.context + span.num_rows} tokens need {needed} blocks; the table has {len(span.table)}"
            raise EngineError("bad_batch", sentence, needed=needed, blocks=len(span.table))
        if not 0 <= min(span.table) <= max(span.table) < num_blocks:
            sentence = f"a table names blocks {min(span.table)} to {max(span.table)}; the cache has {num_blocks}"
            raise EngineError("bad_batch", sentence, num_blocks=num_blocks)
        if span.role not in ROLES or (span.parents is not None and span.role == "prompt"):
            raise EngineError("bad_batch", f"role {span.role!r} with parents {span.parents}", role=span.role)
        if span.parents is not None and len(tree.checked(span.parents)) != span.num_rows:
            sentence = f"a tree of {len(span.parents)} nodes cannot be laid on {span.num_rows} rows"
            raise EngineError("bad_batch", sentence, nodes=len(span.parents), rows=span.num_rows)
        if span.blocks_seen is not None:
            _check_seen(span, span.context // block_size, needed)


def _check_seen(span: Span, first_written: int, needed: int) -> None:
    """A sparse view must be of a generated chain, name blocks of its table in order, and have what is written."""
    seen = span.blocks_seen
    if span.role != "generated" or span.parents is not None:
        raise EngineError("bad_batch", "only generated rows that form a chain can see some blocks alone", seen=seen)
    is_rising = all(one < other for one, other in itertools.pairwise(seen))
    if not is_rising or not {*range(first_written, needed)} <= {*seen} <= {*range(len(span.table))}:
        sentence = f"blocks {seen} of {len(span.table)} must rise and hold {first_written} to {needed - 1}"
        raise EngineError("bad_batch", sentence, seen=seen, first=first_written, last=needed - 1)
