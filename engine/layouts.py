"""The trees of a finished run, computed once more: laid on the rows of a pass rightly, and in three wrong ways.

Knows nothing of drafters nor of pages. The truth beside them is plain decoding: each node's path alone, as a chain.
A row writes its keys and values to the slot of its number in every way; what differs is the position that it is told
and what it may see.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine import tree
from engine.accept import accept_greedy
from engine.accounting import blocks_needed
from engine.batch import Batch, Part, Plan, plan
from engine.cache import KVCache
from engine.events import Drafted, Event, LaidOut, Sampled, Submitted

if TYPE_CHECKING:
    from engine.engine import Engine

WAYS = ("tree", "consecutive", "siblings", "flat")  # right; wrong positions; wrong sight; both wrong: a flat chain
MOST_TREES = 8


def compare_layouts(engine: "Engine", events: Sequence[Event]) -> Iterator[Event]:
    """`LaidOut` for each way and each of the first trees, which branch, of a run's first request.

    The engine must be idle. Its own cache is not touched: the text is computed anew in a cache of this call's own.
    """
    submitted = next((event for event in events if isinstance(event, Submitted)), None)
    if submitted is None:
        return
    mine = [event for event in events if getattr(event, "request_id", None) == submitted.request_id]
    sampled = [event for event in mine if isinstance(event, Sampled)]
    trees = [event for event in mine if isinstance(event, Drafted) and event.parents != tree.chain(len(event.parents))]
    known = {event.round: event.index for event in reversed(sampled)}  # output tokens before each round
    trees = [event for event in trees if event.round in known][:MOST_TREES]
    text = [*submitted.prompt_ids, *(event.token_id for event in sampled)]
    bench = _Bench(engine, text, len(submitted.prompt_ids), max((len(event.parents) for event in trees), default=0))
    found: list[LaidOut] = []
    for drafted in reversed(trees):  # a tree is written over the text behind its root, which earlier trees need not
        found = [*bench.compare(drafted, len(submitted.prompt_ids) + known[drafted.round] - 1), *found]
    stamp = {"step": events[-1].step, "clock": events[-1].clock}
    yield from (dataclasses.replace(event, **stamp) for event in found)


class _Bench:
    """A text in a cache of its own, and trees laid behind its tokens."""

    def __init__(self, engine: "Engine", text: Sequence[int], num_prompt: int, most_rows: int) -> None:
        self._model, self._tokenizer = engine.model, engine.tokenizer
        self._text = text
        size, config = engine.config.block_size, engine.config
        num_blocks = blocks_needed(len(text) + most_rows, size)
        self._cache = KVCache(engine.model.config, num_blocks, size, config.resolved_cache_dtype, engine.model.device)
        self._table = range(num_blocks)
        if most_rows:
            self._run([Part("prompt", text[:num_prompt], self._table, 0, num_logits=0)])
            self._run([Part("generated", text[num_prompt:], self._table, num_prompt, num_logits=0)])

    def compare(self, drafted: Drafted, root: int) -> list[LaidOut]:
        """All ways for one tree whose root is token number `root` of the text."""
        token_ids, parents = (self._text[root], *drafted.token_ids), tree.with_root(drafted.parents)
        plain = self._plain(token_ids, parents, root)
        rows = plan(Batch.join([Part("generated", token_ids, self._table, root, parents)]), *self._place)
        found = []
        for way in WAYS:
            laid = lay(rows, root, way)
            logits = self._model.compute(laid, self._cache)
            found.append(self._event(drafted, token_ids, parents, way, laid.positions, logits, plain))
        return found

    def _plain(self, token_ids: Sequence[int], parents: Sequence[int], root: int) -> Tensor:
        """(nodes, vocab): the logits behind each node when its path is decoded as if there were no other."""
        behind: dict[int, Tensor] = {}
        leaves = set(range(len(parents))) - set(parents)
        for path in tree.paths(parents)[sorted(leaves)]:
            nodes = [int(node) for node in path if node >= 0]
            chain = [token_ids[node] for node in nodes]
            behind |= zip(nodes, self._run([Part("generated", chain, self._table, root)]), strict=True)
        return torch.stack([behind[node] for node in range(len(parents))])

    def _run(self, parts: list[Part]) -> Tensor:
        return self._model.compute(plan(Batch.join(parts), *self._place), self._cache)

    @property
    def _place(self) -> tuple[int, int, torch.device]:
        return self._cache.num_blocks, self._cache.block_size, self._model.device

    def _event(self, drafted: Drafted, token_ids, parents, way: str, positions, logits, plain) -> LaidOut:
        favourites, plain_ids = (rows.argmax(-1).tolist() for rows in (logits, plain))
        paths = [
            (0, *(node + 1 for node in accept_greedy(choices, drafted.token_ids, drafted.parents).path))
            for choices in (favourites, plain_ids)
        ]
        labels = [tuple(map(self._tokenizer.label, ids)) for ids in (token_ids, favourites, plain_ids)]
        return LaidOut(
            step=0, clock=0.0, request_id=drafted.request_id, of_round=drafted.round, way=way,
            token_ids=tuple(token_ids), pieces=labels[0], parents=parents, positions=tuple(positions.tolist()),
            errors=tuple((logits - plain).abs().amax(-1).tolist()),
            favourite_ids=tuple(favourites), favourite_pieces=labels[1],
            plain_ids=tuple(plain_ids), plain_pieces=labels[2], path=paths[0], plain_path=paths[1],
        )  # fmt: skip


def lay(rows: Plan, root: int, way: str) -> Plan:
    """The plan of one tree, whose root has position `root`, in one of WAYS."""
    num_rows = len(rows.slots)
    if way in ("consecutive", "flat"):
        in_line = torch.arange(root, root + num_rows, device=rows.positions.device)
        rows = dataclasses.replace(rows, positions=in_line)
    if way in ("siblings", "flat"):
        before = torch.ones(num_rows, num_rows, dtype=torch.bool, device=rows.slots.device).tril()
        extra = torch.where(before, rows.slots[None, :].expand(num_rows, -1), -1).int()
        rows = dataclasses.replace(rows, visible=dataclasses.replace(rows.visible, row_extra=extra))
    return rows
