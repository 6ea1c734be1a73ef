"""Who runs in the next step, and with how many tokens: first come, first served, within a budget of rows.

Knows nothing of tensors, of the model or of drafting; it hands out rows and blocks.
"""

from collections import deque
from dataclasses import dataclass

from engine.blocks import BlockPool
from engine.errors import OutOfBlocks
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Work:
    """A sequence's share of one step: `num_rows` prompt tokens to compute, or one known token and its drafts."""

    sequence: Sequence
    num_rows: int
    is_prompt: bool


class Scheduler:
    """Running sequences first, then the waiting ones in order of arrival while room and blocks last."""

    def __init__(self, pool: BlockPool, max_batch_tokens: int, max_running: int) -> None:
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._pool = pool
        self._max_batch_tokens = max_batch_tokens
        self._max_running = max_running

    def add(self, sequence: Sequence) -> None:
        """Queues a new sequence."""
        self.waiting.append(sequence)

    def start(self, sequence: Sequence) -> None:
        """Lets a sequence run at once, because its blocks are another's (a fork or a parallel sample)."""
        self.running.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Takes a sequence out, wherever it is."""
        for queue in (self.running, self.waiting):
            if sequence in queue:
                queue.remove(sequence)

    def admit(self, only: str | None = None) -> list[Sequence]:
        """Moves waiting sequences to the running ones and takes the blocks of their prompts.

        Stops at the first that does not fit: nobody overtakes. `only` admits nobody but that one.
        """
        admitted = []
        for sequence in [item for item in self.waiting if only in (None, item.id)]:
            if len(self.running) >= self._max_running:
                break
            try:
                sequence.num_reused = self._pool.allocate(
                    sequence.id, sequence.num_prompt, sequence.token_ids, sequence.extra_keys
                )
            except OutOfBlocks:
                break
            sequence.num_cached = sequence.num_reused
            if sequence.drafter is not None and sequence.drafter.caches:
                sequence.drafter.num_cached = sequence.num_reused
            self.waiting.remove(sequence)
            self.running.append(sequence)
            admitted.append(sequence)
        return admitted

    def schedule(self, only: str | None = None) -> list[Work]:
        """Rows for each running sequence: one token and K drafts each first, then pieces of prompts.

        A sequence whose K + 1 rows or blocks are not to be had waits for another step; its K is never shrunk.
        """
        chosen = [sequence for sequence in self.running if only in (None, sequence.id)]
        works: list[Work] = []
        rows_left, blocks_left = self._max_batch_tokens, self._pool.num_free
        for sequence in (item for item in chosen if not item.is_prefilling):
            num_rows = 1 + sequence.draft_length
            num_blocks = self._pool.num_needed(sequence.id, num_rows)
            if num_blocks > blocks_left or (num_rows > rows_left and works):
                continue
            works.append(Work(sequence, num_rows, is_prompt=False))
            rows_left, blocks_left = rows_left - num_rows, blocks_left - num_blocks
        for sequence in (item for item in chosen if item.is_prefilling):
            num_rows = min(rows_left, sequence.num_prompt - sequence.num_cached)
            if num_rows > 0:
                works.append(Work(sequence, num_rows, is_prompt=True))
                rows_left -= num_rows
        return works
