"""The block ledger: in how many tables each block is, and which free block is taken next.

Knows nothing of sequences. A free block that is still hashed can be found again; it is taken only when no other is
left, and then the one that was let go longest ago goes first, in O(1).
"""

from collections import OrderedDict
from collections.abc import Callable

from engine.events import BlockEvicted
from engine.prefix import PrefixIndex


class BlockLedger:
    """Reference counts, the free list, and the least-recently-used order of free blocks that are still hashed."""

    def __init__(self, num_blocks: int, index: PrefixIndex, report: Callable[..., None] | None) -> None:
        self.counts = [0] * num_blocks
        self._index = index
        self._report = report
        self._free = list(range(num_blocks - 1, -1, -1))  # taken from its end: at first block 0, then the last freed
        self._cached: OrderedDict[int, None] = OrderedDict()  # free and hashed, least recently let go first

    @property
    def num_free(self) -> int:
        """Blocks in no table."""
        return len(self._free) + len(self._cached)

    @property
    def num_cached(self) -> int:
        """Blocks in no table that can still be found by their hash."""
        return len(self._cached)

    def take(self) -> int:
        """A free block to be written anew, with count 1; if it was hashed, it is forgotten. One must be free."""
        if self._free:
            block = self._free.pop()
        else:
            block, _ = self._cached.popitem(last=False)
            forgotten = self._index.forget(block)
            if self._report:
                self._report(BlockEvicted, block=block, hash=forgotten)
        self.counts[block] = 1
        return block

    def reuse(self, block: int) -> int:
        """Count one more table for a block in use or found by its hash; returns the count, 1 where it was free."""
        count = self.counts[block] = self.counts[block] + 1
        if count == 1:
            del self._cached[block]
        return count

    def let_go(self, block: int) -> int:
        """Count one table less; returns the count. At 0 the block is free, and still found if it is hashed."""
        count = self.counts[block] = self.counts[block] - 1
        if count == 0 and self._index.of_block[block] is None:
            self._free.append(block)
        elif count == 0:
            self._cached[block] = None
        return count

    def is_frozen(self, block: int) -> bool:
        """Whether writing into the block would change what another table, or the index, says of it."""
        return self.counts[block] > 1 or self._index.of_block[block] is not None
