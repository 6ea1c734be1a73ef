"""The prefix index: which block holds the tokens of which full block of text, after which tokens before it.

Knows nothing of sequences, free lists or reference counts. A hash only proposes a block: before a block is used, its
tokens, its extra keys and the whole chain before it are compared, so a colliding hash is a miss.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HashBlock = Callable[[str, tuple[int, ...], tuple[str, ...]], str]


@dataclass(slots=True, eq=False)
class Prefix:
    """The contents of one full block and, through `parent`, of all blocks before it."""

    hash: str
    token_ids: tuple[int, ...]
    extra_keys: tuple[str, ...]
    parent: "Prefix | None"


def hash_block(parent: str, token_ids: tuple[int, ...], extra_keys: tuple[str, ...]) -> str:
    """Hash of a full block, chained on the hash of the block before it ("" for the first): 64 bits, hexadecimal."""
    return hashlib.blake2b(repr((parent, token_ids, extra_keys)).encode(), digest_size=8).hexdigest()


class PrefixIndex:
    """Finds hashed blocks by their contents. Of two blocks with the same hash the first one stays."""

    def __init__(self, num_blocks: int, block_size: int, hash_block: HashBlock) -> None:
        self.of_block: list[Prefix | None] = [None] * num_blocks
        self.by_hash: dict[str, int] = {}
        self._block_size = block_size
        self._hash_block = hash_block

    def extend(
        self, parent: Prefix | None, token_ids: Sequence[int], index: int, extra_keys: tuple[str, ...]
    ) -> Prefix:
        """The contents of block `index` of a sequence with these tokens; `parent` is the contents of the one before."""
        ids = tuple(token_ids[index * self._block_size : (index + 1) * self._block_size])
        keys = tuple(extra_keys)
        return Prefix(self._hash_block(parent.hash if parent else "", ids, keys), ids, keys, parent)

    def find(self, token_ids: Sequence[int], extra_keys: tuple[str, ...], num_blocks: int) -> list[int]:
        """The longest run of hashed blocks that holds the first (at most `num_blocks`) full blocks of the tokens."""
        found: list[int] = []
        prefix = None
        for index in range(num_blocks):
            wanted = self.extend(prefix, token_ids, index, extra_keys)
            block = self.by_hash.get(wanted.hash)
            if block is None or not _is_same(self.of_block[block], wanted):
                break
            prefix = self.of_block[block]
            found.append(block)
        return found

    def publish(self, block: int, prefix: Prefix) -> Prefix:
        """Make the block findable, unless it already is or its hash is taken; returns what later blocks chain on.

        That is the prefix that was there first if it says the same, so that equal chains become one.
        """
        there = self.of_block[block]
        if there is None:
            first = self.by_hash.setdefault(prefix.hash, block)
            if first == block:
                self.of_block[block] = prefix
                return prefix
            there = self.of_block[first]
        return there if _is_same(there, prefix) else prefix

    def forget(self, block: int) -> str:
        """Take a block out of the index; returns the hash that it had."""
        prefix = self.of_block[block]
        self.of_block[block] = None
        del self.by_hash[prefix.hash]
        return prefix.hash


def _is_same(held: Prefix, wanted: Prefix) -> bool:
    """Whether two chains say the same; if so they are joined, so that the next comparison ends where this one began."""
    left, right = held, wanted
    while left is not right:
        if left is None or right is None:
            return False
        if left.token_ids != right.token_ids or left.extra_keys != right.extra_keys:
            return False
        left, right = left.parent, right.parent
    held.parent = wanted.parent
    return True
