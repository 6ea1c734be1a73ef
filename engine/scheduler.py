"""Who runs in the next step, and with how many tokens: first come, first served, within a budget of rows.

Knows nothing of tensors, of the model or of drafting; it hands out rows and blocks.
"""

from collections import deque
from dataclasses import dataclass

from engine.accounting import blocks_needed
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
        """Moves waiting sequences to the running ones and takes the blocks of what they have to compute.

        Stops at the first that does not fit: nobody overtakes. Who was preempted comes back only when there is a block
        to spare for everybody who runs, or it would go again at once. `only` admits nobody but that one.
        """
        admitted = []
        for sequence in [item for item in self.waiting if only in (None, item.id)]:
            spare = len(self.running) if sequence.num_output else 0
            num_tokens = sequence.num_to_prefill
            is_tight = self._pool.num_free < blocks_needed(num_tokens, self._pool.block_size) + spare
            if len(self.running) >= self._max_running or (spare and is_tight):
                break
            try:
                num_reused = self._pool.allocate(sequence.id, num_tokens, sequence.token_ids, sequence.extra_keys)
            except OutOfBlocks:
                break
            sequence.begin(num_reused)
            self.waiting.remove(sequence)
            self.running.append(sequence)
            admitted.append(sequence)
        return admitted

    def schedule(self, only: str | None = None) -> tuple[list[Work], list[Sequence]]:
        """Rows for the running sequences, one token and K drafts each first, then pieces of prompts; who was preempted.

        A sequence whose K + 1 rows are not to be had waits for another step; its K is never shrunk. One that lacks
        blocks gets those of the last to come. Whoever has waited longest comes first, so nobody waits for ever.
        """
        chosen = [sequence for sequence in self.running if only in (None, sequence.id)]
        works: list[Work] = []
        preempted: list[Sequence] = []
        rows_left, blocks_taken = self._max_batch_tokens, 0
        for sequence in sorted(chosen, key=lambda item: (-item.num_waited, item.is_prefilling)):
            if sequence in preempted:
                continue
            num_rows = self._num_rows(sequence, rows_left)
            has_room = 0 < num_rows <= rows_left or (num_rows > 0 and not works)
            num_slots = sequence.num_cached + num_rows - self._pool.length(sequence.id)
            if has_room and num_slots > 0:  # a prompt has its slots since it was admitted, but for a fork's last token
                num_blocks = self._pool.num_needed(sequence.id, num_slots) + blocks_taken
                while num_blocks > self._pool.num_free and only is None:
                    victim = self._last_after(sequence, works)
                    if victim is None:
                        break
                    self.preempt(victim)
                    preempted.append(victim)
                    num_blocks = self._pool.num_needed(sequence.id, num_slots) + blocks_taken
                has_room = num_blocks <= self._pool.num_free
                blocks_taken = num_blocks if has_room else blocks_taken
            sequence.num_waited = 0 if has_room else sequence.num_waited + 1
            if has_room:
                works.append(Work(sequence, num_rows, sequence.is_prefilling))
                rows_left -= num_rows
        return works, preempted

    def preempt(self, sequence: Sequence) -> None:
        """Takes its blocks and lets it wait in front; what it has said stays and will be computed again."""
        self._pool.free(sequence.id)
        self.running.remove(sequence)
        self.waiting.appendleft(sequence)
        sequence.begin(0)

    def _num_rows(self, sequence: Sequence, rows_left: int) -> int:
        if sequence.is_prefilling:
            return min(rows_left, sequence.num_to_prefill - sequence.num_cached)
        return 1 + sequence.draft_length

    def _last_after(self, sequence: Sequence, works: list[Work]) -> Sequence | None:
        """The last to come of those that came after `sequence` and do not run in this step."""
        is_working = {work.sequence.id for work in works}
        later = self.running[self.running.index(sequence) + 1 :]
        return next((item for item in reversed(later) if item.id not in is_working), None)
