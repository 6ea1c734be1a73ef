"""The block pool's rules written with plain dictionaries and searches, whatever they cost: an oracle for tests.

Knows nothing of events, and shares no code with the real one.
"""

from engine.errors import OutOfBlocks


class NaivePool:
    """Takes the same blocks in the same order as `engine.blocks.BlockPool`."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.size = block_size
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}
        self.num_filled: dict[str, int] = {}
        self.unknown = list(reversed(range(num_blocks)))  # free, last freed last
        self.known: dict[int, tuple] = {}  # block: (all tokens up to its end, extra keys)
        self.idle: list[int] = []  # free but known, longest idle first

    def count(self, block: int) -> int:
        return sum(table.count(block) for table in self.tables.values())

    def num_blocks(self, num_tokens: int) -> int:
        return (num_tokens + self.size - 1) // self.size

    def hits(self, token_ids, keys, num_tokens: int) -> list[int]:
        found = []
        for end in range(self.size, min(num_tokens, len(token_ids) - 1) + 1, self.size):
            same = [block for block, content in self.known.items() if content == (tuple(token_ids[:end]), keys)]
            if not same:
                break
            found += same
        return found

    def demand(self, num_blocks: int) -> None:
        free = len(self.unknown) + len(self.idle)
        if num_blocks > free:
            raise OutOfBlocks(num_blocks, free)

    def take(self) -> int:
        if self.unknown:
            return self.unknown.pop()
        block = self.idle.pop(0)
        del self.known[block]
        return block

    def drop(self, block: int) -> None:
        if self.count(block) == 0:
            (self.idle if block in self.known else self.unknown).append(block)

    def allocate(self, seq, num_tokens, token_ids, keys) -> int:
        hits = self.hits(token_ids, keys, num_tokens)
        num_new = self.num_blocks(num_tokens) - len(hits)
        self.demand(num_new + sum(block in self.idle for block in hits))
        self.idle = [block for block in self.idle if block not in hits]
        self.tables[seq] = hits + [self.take() for _ in range(num_new)]
        self.lengths[seq], self.num_filled[seq] = num_tokens, len(hits)
        return len(hits) * self.size

    def append(self, seq, num_tokens) -> bool:
        table, length = self.tables[seq], self.lengths[seq]
        num_new = self.num_blocks(length + num_tokens) - len(table)
        is_partial = length % self.size != 0 and num_tokens > 0
        is_copied = is_partial and (self.count(table[-1]) > 1 or table[-1] in self.known)
        self.demand(num_new + is_copied)
        if is_copied:
            source, table[-1] = table[-1], self.take()
            self.drop(source)
        for _ in range(num_new):
            table.append(self.take())
        self.lengths[seq] += num_tokens
        return is_copied

    def fork(self, parent, child, num_tokens) -> None:
        self.tables[child] = self.tables[parent][: self.num_blocks(num_tokens)]
        self.lengths[child] = num_tokens
        self.num_filled[child] = min(self.num_filled[parent], num_tokens // self.size)

    def truncate(self, seq, num_tokens) -> None:
        while len(self.tables[seq]) > self.num_blocks(num_tokens):
            self.drop(self.tables[seq].pop())
        self.lengths[seq] = num_tokens
        self.num_filled[seq] = min(self.num_filled[seq], num_tokens // self.size)

    def free(self, seq) -> None:
        self.truncate(seq, 0)
        del self.tables[seq], self.lengths[seq], self.num_filled[seq]

    def commit(self, seq, token_ids, num_cached, keys) -> None:
        for index in range(self.num_filled[seq], num_cached // self.size):
            block = self.tables[seq][index]
            content = (tuple(token_ids[: (index + 1) * self.size]), keys)
            if block not in self.known and content not in self.known.values():
                self.known[block] = content
        self.num_filled[seq] = max(self.num_filled[seq], num_cached // self.size)
