"""Prompt lookup: the draft is whatever followed the last tokens the time before (Saxena 2023).

Knows nothing of any model: it costs microseconds, and wins where the output repeats the prompt.
"""

from collections.abc import Sequence as Ids

from engine.drafters.drafter import NOTHING, Proposal
from engine.sequence import Sequence

LONGEST = 4  # tokens of the longest key
SHORTEST = 2
FEWEST = 2  # drafts: a pass over three rows costs hardly more than a plain step
GROWTH = 4  # times as many after a draft that was accepted as a whole
WORTH = 0.25  # accepted tokens per lookup below which only the longest keys are trusted
MEMORY = 0.25  # weight of the newest lookup in that average


class NgramDrafter:
    """Finds the latest earlier place where the sequence's last 4, 3 or 2 tokens stood, and copies on from there.

    Wide verify passes cost more than a plain step. So a draft gets longer when the one before was accepted as a whole,
    and as short as the accepted part when not; and where lookups have not paid lately, a short key is not enough.
    """

    needs_slots = False
    caches = features = ()
    num_cached = 0

    def __init__(self) -> None:
        self._last_end: dict[tuple[int, ...], int] = {}  # key → index after its latest occurrence
        self._num_indexed = 0
        self._mean_accepted = 1.0
        self._length = 2 * FEWEST  # of the next draft

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """The continuation of the latest match of the longest key, or nothing."""
        token_ids = sequence.token_ids
        self._index(token_ids)
        shortest = SHORTEST if self._mean_accepted >= WORTH else LONGEST
        for length in range(LONGEST, shortest - 1, -1):
            end = self._last_end.get(tuple(token_ids[-length:]))
            if end is not None and len(token_ids) > length:
                return Proposal(_copy(token_ids, end, min(num_tokens, self._length)), found_at=end)
        return NOTHING

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Remembers whether lookups pay, and how far to trust the next."""
        if num_drafted:
            self._length = max(FEWEST, GROWTH * num_drafted if num_accepted == num_drafted else num_accepted)
            self._mean_accepted += MEMORY * (num_accepted - self._mean_accepted)

    def _index(self, token_ids: list[int]) -> None:
        # A key that ends at the last token has no continuation yet, so it stays out until there is one.
        for end in range(max(self._num_indexed, SHORTEST), len(token_ids)):
            for length in range(SHORTEST, min(LONGEST, end) + 1):
                self._last_end[tuple(token_ids[end - length : end])] = end
        self._num_indexed = len(token_ids)


def _copy(token_ids: list[int], start: int, num_tokens: int) -> tuple[int, ...]:
    """`num_tokens` tokens from `start`; past the end it goes on with what it has copied itself (a repeating text)."""
    period = len(token_ids) - start
    return tuple(token_ids[start + index % period] for index in range(num_tokens))
