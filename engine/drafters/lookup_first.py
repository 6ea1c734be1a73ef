"""Lookup first: where a text repeats itself a copy costs nothing, and only elsewhere another drafter is asked.

Knows nothing of that other drafter. One that writes to a cache catches up, when it is asked again, on what was copied.
"""

from collections.abc import Callable
from collections.abc import Sequence as Ids

import torch

from engine.drafters.drafter import Drafter, Proposal
from engine.drafters.ngram import NgramDrafter
from engine.sequence import Sequence

GoOn = Callable[[Ids[int], int], tuple[int, ...]]  # known tokens, how many at most → what may follow, for nothing


class LookupFirstDrafter:
    """Prompt lookup in front of `other`, which is asked for at most `most` drafts; behind its chain comes `go_on`."""

    def __init__(self, other: Drafter, most: int = 16, go_on: GoOn | None = None) -> None:
        self.needs_slots, self.caches, self.features = other.needs_slots, other.caches, other.features
        self._other, self._most, self._go_on = other, most, go_on
        self._lookup = NgramDrafter()
        self._was_found = False  # the last draft, by the lookup

    @property
    def num_cached(self) -> int:
        """Tokens in the other drafter's own cache."""
        return self._other.num_cached

    @num_cached.setter
    def num_cached(self, number: int) -> None:
        self._other.num_cached = number

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """The lookup's draft, else the other's and what goes on from there."""
        found = self._lookup.propose(sequence, num_tokens, table)
        self._was_found = bool(found.token_ids)
        if self._was_found:
            return found
        drafts = self._other.propose(sequence, min(num_tokens, self._most), table)
        return drafts if self._go_on is None else self._longer(drafts, sequence, num_tokens)

    def _longer(self, drafts: Proposal, sequence: Sequence, num_tokens: int) -> Proposal:
        """A chain `drafts` and, as point masses, what goes on behind it."""
        more = self._go_on([*sequence.token_ids[-2:], *drafts.token_ids], num_tokens - len(drafts.token_ids))
        laws = drafts.laws
        if laws is not None and more:
            certain = torch.nn.functional.one_hot(torch.tensor(more), laws.shape[1]).to(laws.dtype)
            laws = torch.cat((laws, certain))
        return Proposal(drafts.token_ids + more, laws)

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """The lookup remembers whether it pays; the other's drafts say nothing about that."""
        if self._was_found:
            self._lookup.update(sequence, num_drafted, num_accepted)
            num_drafted = num_accepted = 0
        self._other.update(sequence, num_drafted, num_accepted)
