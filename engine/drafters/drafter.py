"""What a drafter is: something that proposes the next tokens and hears how many were right.

Knows nothing of how proposals are verified.
"""

from collections.abc import Sequence as Ids
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from engine.cache import KVCache
from engine.errors import EngineError
from engine.features import FeatureCache
from engine.request import SamplingParams
from engine.sampling import draft_params, greedy_tokens, probabilities, sample, uniform

if TYPE_CHECKING:
    from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Candidates:
    """All nodes that a tree grew before it was cut, for whoever wants to see it; parents as in `Proposal`.

    values: the product of the confidences on each node's path. expanded: the nodes that got children, in that order.
    ranked: those that are verified, the most valuable first.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    values: tuple[float, ...]
    expanded: tuple[int, ...]
    ranked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """What a draft step sees of a cache of `num_blocks` blocks, as entries of the block table, in rising order.

    sinks: the first blocks. retrieved: those that attention asked for. recent: the latest. num_tokens: the length of
    the sequence.
    """

    num_tokens: int
    num_blocks: int
    sinks: tuple[int, ...]
    retrieved: tuple[int, ...]
    recent: tuple[int, ...]

    @property
    def blocks(self) -> tuple[int, ...]:
        """All that is seen."""
        return self.sinks + self.retrieved + self.recent


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens: a chain (`parents=None`) or a tree (parents[i] is a draft's index, −1 the last known token).

    laws: (drafts, vocab), row i the law that token i was drawn from; None when each token is a point mass. For a tree
    drawn at random, see `engine.accept.DraftTree` for what `children` and `laws` mean. found_at: the position that a
    lookup copied from, −1 otherwise. probes: rows that ride along for what the target says there and are never
    accepted; probe_parents counts drafts first, then probes, and the proposal must be a tree then. view: what was seen
    of the target's cache, where that was not all.
    """

    token_ids: tuple[int, ...]
    laws: torch.Tensor | None = None
    parents: tuple[int, ...] | None = None
    children: str = "given"
    found_at: int = -1
    probe_ids: tuple[int, ...] = ()
    probe_parents: tuple[int, ...] = ()
    candidates: Candidates | None = None
    view: View | None = None

    @property
    def row_ids(self) -> tuple[int, ...]:
        """The tokens of all rows that the pass has on its account."""
        return self.token_ids + self.probe_ids

    @property
    def row_parents(self) -> tuple[int, ...] | None:
        """Their parents, counted as in `parents`."""
        return None if self.parents is None else self.parents + self.probe_parents


NOTHING = Proposal(())


class Drafter(Protocol):
    """One drafter for one sequence; weights and caches are shared by all drafters of their kind.

    needs_slots: whether drafting writes keys and values, so that the blocks must be there before it starts.
    caches: the drafter's own caches; they follow the same block tables as the target's. features: those of them that
    the target fills on its way through the layers.
    """

    needs_slots: bool
    caches: tuple[KVCache | FeatureCache, ...]
    features: tuple[FeatureCache, ...]
    num_cached: int  # tokens of the sequence in the drafter's own cache

    def propose(self, sequence: "Sequence", num_tokens: int, table: Ids[int]) -> Proposal:
        """At most `num_tokens` drafts to follow `sequence.token_ids`; fewer, or none, where drafting does not pay."""

    def update(self, sequence: "Sequence", num_drafted: int, num_accepted: int) -> None:
        """The round is over and `sequence` holds its tokens: forget what was rejected."""


@runtime_checkable
class Observer(Protocol):
    """A drafter that learns from what the target said at its rows."""

    def observe(self, sequence: "Sequence", logits: torch.Tensor, path: Ids[int]) -> tuple[tuple[int, ...], ...]:
        """logits (1 + drafts + probes, vocab) of the pass over its proposal, of which the drafts `path` were accepted.

        Returns the n-grams that its probes completed. Comes right before `update`. Not called where the proposal had
        to be dropped.
        """


def draw(logits: torch.Tensor, params: SamplingParams, history: Ids[int]) -> tuple[int, torch.Tensor | None]:
    """Draws the draft's next token from logits (vocab,), with the draft's own temperature.

    Returns the token and its law (vocab,), or None for the law when the draft is greedy: a point mass.
    """
    if params.is_draft_greedy:
        return int(greedy_tokens(logits[None], params, history)[0]), None
    law = probabilities(logits[None], draft_params(params), history)[0]
    return sample(law, uniform(params.seed, len(history), "draft")), law


def draw_word(
    logits: torch.Tensor, ids: torch.Tensor, vocab_size: int, params: SamplingParams, history: Ids[int]
) -> tuple[int, torch.Tensor | None]:
    """As `draw`, for a draft that has logits of some words only: (words,), at the target's `ids` (words,), rising.

    Its law is over the whole vocabulary, zero at what it cannot propose.
    """
    if params.is_penalised:  # counts tokens by the target's ids
        return draw(spread(logits, ids, vocab_size, float("-inf")), params, history)
    if params.is_draft_greedy:  # NumPy's is the lowest of equals and finds NaN, with the least to do around it
        row = logits.numpy()
        word = row.argmax()
        if not np.isfinite(row[word]):
            raise EngineError("bad_logits", "the drafter's logits have no finite largest entry")
        return int(ids[word]), None
    word, law = draw(logits, params, history)
    return int(ids[word]), spread(law, ids, vocab_size, 0.0)


def spread(row: torch.Tensor, ids: torch.Tensor, vocab_size: int, elsewhere: float) -> torch.Tensor:
    """row (words,) at their ids, `elsewhere` at the others: (vocab_size,)."""
    return torch.full((vocab_size,), elsewhere, dtype=row.dtype).scatter_(0, ids, row)


def stack(token_ids: list[int], laws: list[torch.Tensor | None]) -> Proposal:
    """A chain of drawn tokens as a proposal."""
    drawn = [law for law in laws if law is not None]
    return Proposal(tuple(token_ids), torch.stack(drawn) if drawn else None)
