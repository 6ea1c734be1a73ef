"""The block pool: which block holds which tokens of which sequence, who shares it, and what can be found again.

Integers only. Knows nothing of tensors, models, requests or time; whoever owns the memory does the copies it asks for.

A block is written only by a sequence that holds it alone, and never once it is hashed: an `append` that would write
into a shared or hashed block moves the sequence to a copy first. Only full blocks of final tokens are hashed
(`commit`), so a draft, which may be taken back, never reaches a hashed block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine import events
from engine.errors import EngineError, OutOfBlocks
from engine.ledger import BlockLedger
from engine.prefix import HashBlock, Prefix, PrefixIndex, hash_block


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the first `num_tokens` slots of block `source` to block `target`, before anything else is written."""

    source: int
    target: int
    num_tokens: int


@dataclass(slots=True, eq=False)
class _Held:
    """What one sequence holds. Always len(table) = ⌈length / block_size⌉."""

    table: list[int]
    length: int
    num_filled: int  # leading blocks whose tokens are all computed and final
    prefix: Prefix | None  # contents of those blocks; None where prefix caching is off


class BlockPool:
    """Hands out `num_blocks` blocks of `block_size` slots to sequences named by strings.

    Every call either does all that it says or raises and changes nothing. `report(event_class, **fields)` gets the
    block events of `engine.events` (without step and clock) in an order that rebuilds the tables exactly.
    Source: Kwon et al. 2023 (PagedAttention), §4.2-4.4.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        prefix_caching: bool = True,
        report: Callable[..., None] | None = None,
        hash_block: HashBlock = hash_block,
    ) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_size", block_size)):
            if value.__class__ is not int or value < 1:
                raise EngineError("bad_config", f"{name} is {value!r}; it must be a whole number ≥ 1", name=name)
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self._report = report
        self._index = PrefixIndex(num_blocks, block_size, hash_block)
        self._ledger = BlockLedger(num_blocks, self._index, report)
        self._held: dict[str, _Held] = {}

    # ---- what a sequence does -----------------------------------------------------------------------------------

    def allocate(
        self, seq: str, num_tokens: int, token_ids: Sequence[int] = (), extra_keys: tuple[str, ...] = ()
    ) -> int:
        """Open a sequence with slots for `num_tokens` tokens; returns how many of them are already computed.

        `token_ids` is the whole prompt, even where `num_tokens` covers only a first part of it. Whole blocks are
        reused, and at least one token of the prompt is left to compute, since its logits are needed.
        Raises EngineError("sequence_exists"/"bad_sequence"/"bad_num_tokens"), OutOfBlocks.
        """
        self._check_new(seq)
        self._check_num_tokens(num_tokens)
        hits = self._find(token_ids, extra_keys, num_tokens)
        num_new = -(-num_tokens // self.block_size) - len(hits)
        self._check_free(num_new + sum(self._ledger.counts[block] == 0 for block in hits))
        held = self._held[seq] = _Held([], 0, 0, None)
        for block in hits:
            self._reuse(seq, held.table, block)
        self._take(seq, held.table, num_new)
        held.length = num_tokens
        held.num_filled = len(hits)
        held.prefix = self._index.of_block[hits[-1]] if hits else None
        return len(hits) * self.block_size

    def append(self, seq: str, num_tokens: int = 1) -> list[Copy]:
        """Give the sequence slots for `num_tokens` more tokens; returns the copies to do before they are written.

        At most one copy: of the partly filled last block, where it is shared or hashed. A full last block is never
        copied, a fresh one follows it. Raises OutOfBlocks, EngineError("unknown_sequence"/"bad_num_tokens").
        """
        held = self._held.get(seq)
        if held is None or num_tokens.__class__ is not int or num_tokens < 0:
            self._get(seq)
            self._check_num_tokens(num_tokens)
        table, length = held.table, held.length
        num_new = -(-(length + num_tokens) // self.block_size) - len(table)
        copies = []
        if length % self.block_size and num_tokens and self._ledger.is_frozen(table[-1]):
            self._check_free(num_new + 1)
            copies.append(self._copy_last(seq, table, length % self.block_size))
        if num_new:
            self._check_free(num_new)
            self._take(seq, table, num_new)
        held.length = length + num_tokens
        return copies

    def fork(self, parent: str, child: str, num_tokens: int | None = None) -> None:
        """Open sequence `child` on the first `num_tokens` tokens (default: all) of `parent`, sharing their blocks.

        Takes no block: whichever of the two writes first into a shared last block is given a copy of it.
        Raises EngineError("unknown_sequence"), EngineError("sequence_exists"), EngineError("bad_num_tokens").
        """
        held = self._get(parent)
        self._check_new(child)
        num_tokens = held.length if num_tokens is None else num_tokens
        self._check_num_tokens(num_tokens, held.length)
        num_filled = min(held.num_filled, num_tokens // self.block_size)
        prefix = self._ancestor(held, num_filled)
        opened = self._held[child] = _Held([], num_tokens, num_filled, prefix)
        for block in held.table[: -(-num_tokens // self.block_size)]:
            self._reuse(child, opened.table, block)

    def truncate(self, seq: str, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens: the blocks beyond are let go, the partly filled last one stays.

        Raises EngineError("unknown_sequence"), EngineError("bad_num_tokens") beyond the present length.
        """
        held = self._get(seq)
        self._check_num_tokens(num_tokens, held.length)
        self._release(seq, held.table, -(-num_tokens // self.block_size))
        num_filled = min(held.num_filled, num_tokens // self.block_size)
        held.prefix = self._ancestor(held, num_filled)
        held.num_filled = num_filled
        held.length = num_tokens

    def free(self, seq: str) -> None:
        """Close the sequence; its last block is let go first, so a prefix outlives what follows it in the cache.

        Raises EngineError("unknown_sequence"), also when it was freed before.
        """
        self._release(seq, self._get(seq).table, 0)
        del self._held[seq]

    # ---- what can be found again --------------------------------------------------------------------------------

    def match(self, token_ids: Sequence[int], extra_keys: tuple[str, ...] = ()) -> int:
        """How many leading tokens of this prompt `allocate` would reuse: at most ⌊(L − 1) / B⌋ · B. Changes nothing."""
        return len(self._find(token_ids, extra_keys, len(token_ids))) * self.block_size

    def commit(self, seq: str, token_ids: Sequence[int], num_cached: int, extra_keys: tuple[str, ...] = ()) -> None:
        """Say that the first `num_cached` of the sequence's `token_ids` are computed and final.

        Reports blocks that became full, and makes them findable under their tokens, all tokens before them and
        `extra_keys`. Of two blocks with the same contents the first stays the findable one.
        Raises EngineError("unknown_sequence"), EngineError("bad_num_tokens").
        """
        held = self._get(seq)
        self._check_num_tokens(num_cached, min(held.length, len(token_ids)))
        for index in range(held.num_filled, num_cached // self.block_size):
            block = held.table[index]
            if self._report:
                self._report(events.BlockFilled, request_id=seq, index=index, block=block)
            if self.prefix_caching:
                self._publish(held, block, self._index.extend(held.prefix, token_ids, index, extra_keys))
            held.num_filled = index + 1

    # ---- what can be asked --------------------------------------------------------------------------------------

    def __contains__(self, seq: str) -> bool:
        return seq in self._held

    def __len__(self) -> int:
        return len(self._held)

    def table(self, seq: str) -> tuple[int, ...]:
        """The sequence's blocks in order: token i lies in slot i mod B of block table[i // B]."""
        return tuple(self._get(seq).table)

    def length(self, seq: str) -> int:
        """Tokens that the sequence has slots for, drafts included."""
        return self._get(seq).length

    def ref_count(self, block: int) -> int:
        """How many tables the block is in. Raises EngineError("unknown_block")."""
        if block not in range(self.num_blocks):
            raise EngineError(
                "unknown_block", f"there is no block {block!r}; blocks are 0 to {self.num_blocks - 1}", block=block
            )
        return self._ledger.counts[block]

    def num_needed(self, seq: str, num_tokens: int = 1) -> int:
        """Free blocks that `append(seq, num_tokens)` would take, its copy included."""
        held = self._get(seq)
        self._check_num_tokens(num_tokens)
        num_new = -(-(held.length + num_tokens) // self.block_size) - len(held.table)
        is_copied = held.length % self.block_size and num_tokens and self._ledger.is_frozen(held.table[-1])
        return num_new + bool(is_copied)

    @property
    def num_free(self) -> int:
        """Blocks in no table, those that can still be found included."""
        return self._ledger.num_free

    @property
    def num_used(self) -> int:
        """Distinct blocks in tables: num_free + num_used = num_blocks."""
        return self.num_blocks - self.num_free

    @property
    def num_cached(self) -> int:
        """Free blocks that can still be found by their hash."""
        return self._ledger.num_cached

    @property
    def num_shared(self) -> int:
        """Blocks that are in more than one table."""
        return sum(count > 1 for count in self._ledger.counts)

    def waste(self) -> int:
        """Slots of blocks in use that no sequence has a token in: fragmentation, less than one block a sequence."""
        fills: dict[int, int] = {}
        for held in self._held.values():
            for index, block in enumerate(held.table):
                fill = min(self.block_size, held.length - index * self.block_size)
                fills[block] = max(fill, fills.get(block, 0))
        return self.num_used * self.block_size - sum(fills.values())

    def utilisation(self) -> float:
        """Share of the slots in use that hold a token; 1.0 when nothing is in use."""
        return 1.0 - self.waste() / (self.num_used * self.block_size) if self.num_used else 1.0

    def snapshot(self) -> dict[str, object]:
        """Everything as plain dicts and lists, for pictures and tests."""
        return {
            "tables": {seq: list(held.table) for seq, held in self._held.items()},
            "lengths": {seq: held.length for seq, held in self._held.items()},
            "ref_counts": {block: count for block, count in enumerate(self._ledger.counts) if count},
            "hashes": {block: prefix_hash for prefix_hash, block in self._index.by_hash.items()},
            "num_free": self.num_free,
        }

    # ---- the small steps, each with its event -------------------------------------------------------------------

    def _take(self, seq: str, table: list[int], num_blocks: int) -> None:
        for _ in range(num_blocks):
            block = self._ledger.take()
            table.append(block)
            if self._report:
                self._report(events.BlockTaken, request_id=seq, index=len(table) - 1, block=block)

    def _reuse(self, seq: str, table: list[int], block: int) -> None:
        count = self._ledger.reuse(block)
        table.append(block)
        if self._report and count == 1:
            self._report(events.BlockHit, request_id=seq, index=len(table) - 1, block=block)
        elif self._report:
            self._report(events.BlockShared, request_id=seq, index=len(table) - 1, block=block, ref_count=count)

    def _copy_last(self, seq: str, table: list[int], num_tokens: int) -> Copy:
        source, target = table[-1], self._ledger.take()
        table[-1] = target
        count = self._ledger.let_go(source)
        if self._report:
            names = {"request_id": seq, "index": len(table) - 1, "source": source, "target": target}
            self._report(events.BlockCopied, **names, num_tokens=num_tokens, ref_count=count)
        return Copy(source, target, num_tokens)

    def _release(self, seq: str, table: list[int], num_kept: int) -> None:
        while len(table) > num_kept:
            block = table.pop()
            count = self._ledger.let_go(block)
            if self._report:
                self._report(events.BlockFreed, request_id=seq, index=len(table), block=block, ref_count=count)

    def _publish(self, held: _Held, block: int, prefix: Prefix) -> None:
        held.prefix = self._index.publish(block, prefix)
        if self._report and self._index.of_block[block] is prefix:
            self._report(events.BlockHashed, block=block, hash=prefix.hash)

    def _find(self, token_ids: Sequence[int], extra_keys: tuple[str, ...], num_tokens: int) -> list[int]:
        if not self.prefix_caching:
            return []
        return self._index.find(token_ids, extra_keys, min(num_tokens, len(token_ids) - 1) // self.block_size)

    def _ancestor(self, held: _Held, num_filled: int) -> Prefix | None:
        prefix = held.prefix
        for _ in range(held.num_filled - num_filled if prefix else 0):
            prefix = prefix.parent
        return prefix

    def _get(self, seq: str) -> _Held:
        held = self._held.get(seq)
        if held is None:
            raise EngineError("unknown_sequence", f"sequence {seq!r} holds no blocks (or was freed)", seq=seq)
        return held

    def _check_new(self, seq: str) -> None:
        if not isinstance(seq, str):
            raise EngineError("bad_sequence", f"a sequence is named by a text, not by {seq!r:.40}", seq=repr(seq))
        if seq in self._held:
            raise EngineError("sequence_exists", f"sequence {seq!r} already holds blocks; free it first", seq=seq)

    def _check_num_tokens(self, value: int, largest: int | None = None) -> None:
        if value.__class__ is not int or value < 0 or (largest is not None and value > largest):
            limit = "≥ 0" if largest is None else f"from 0 to {largest}"
            sentence = f"num_tokens is {value!r}; it must be a whole number {limit}"
            raise EngineError("bad_num_tokens", sentence, value=value, largest=largest)

    def _check_free(self, needed: int) -> None:
        if needed > self.num_free:
            raise OutOfBlocks(needed, self.num_free)
