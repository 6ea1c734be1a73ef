"""A small world around a block pool: a naive twin, a memory that is really written, and the events folded back.

Knows nothing of engines: tokens are written to slots the moment they are appended.
"""

import random

from naive_pool import NaivePool

from engine.blocks import BlockPool
from engine.errors import OutOfBlocks
from engine.events import EngineStarted
from engine.prefix import hash_block
from engine.trace import State, apply

BASE = random.Random(7)
TEXTS = [[BASE.randrange(3) for _ in range(40)] for _ in range(3)]
TEXTS.append(TEXTS[0][:14] + TEXTS[1][:26])  # shares a prefix with the first that ends inside a block
KEYS = ((), ("salt",))


class World:
    """Does everything three times (pool, twin, memory) and compares. `hash_block` other than ours: without the twin."""

    def __init__(self, num_blocks: int, block_size: int, hash_function=hash_block) -> None:
        self.size = block_size
        self.events = [_started(num_blocks, block_size)]
        self.state = State()
        apply(self.state, self.events[0])
        self.pool = BlockPool(num_blocks, block_size, report=self._report, hash_block=hash_function)
        self.twin = NaivePool(num_blocks, block_size) if hash_function is hash_block else None
        self.memory: list[int | None] = [None] * (num_blocks * block_size)
        self.texts: dict[str, list[int]] = {}
        self.keys: dict[str, tuple] = {}
        self.num_names = 0
        self.num_refused = 0

    def allocate(self, text: list[int], num_tokens: int, keys: tuple) -> None:
        name = self._name()
        expected = self._try(lambda: self.twin.allocate(name, num_tokens, text, keys))
        reused = self._try(lambda: self.pool.allocate(name, num_tokens, text, keys), self.pool)
        if self.twin:
            assert reused == expected
        if reused is not None:
            self.texts[name], self.keys[name] = text[:num_tokens], keys
            self._write(name, reused)

    def append(self, name: str, tokens: list[int]) -> None:
        begin = len(self.texts[name])
        needed = self.pool.num_needed(name, len(tokens))
        free = self.pool.num_free
        expected = self._try(lambda: self.twin.append(name, len(tokens)))
        copies = self._try(lambda: self.pool.append(name, len(tokens)), self.pool)
        assert (copies is None) == (needed > free)
        if self.twin:
            assert (None if copies is None else bool(copies)) == expected
        if copies is not None:
            for copy in copies:
                assert copy.num_tokens == begin % self.size
                source, target = copy.source * self.size, copy.target * self.size
                self.memory[target : target + copy.num_tokens] = self.memory[source : source + copy.num_tokens]
            self.texts[name] = self.texts[name] + tokens
            self._write(name, begin)

    def fork(self, parent: str, num_tokens: int) -> None:
        child = self._name()
        self.pool.fork(parent, child, num_tokens)
        if self.twin:
            self.twin.fork(parent, child, num_tokens)
        self.texts[child], self.keys[child] = self.texts[parent][:num_tokens], self.keys[parent]

    def truncate(self, name: str, num_tokens: int) -> None:
        self.pool.truncate(name, num_tokens)
        if self.twin:
            self.twin.truncate(name, num_tokens)
        self.texts[name] = self.texts[name][:num_tokens]

    def commit(self, name: str, num_cached: int) -> None:
        self.pool.commit(name, self.texts[name], num_cached, self.keys[name])
        if self.twin:
            self.twin.commit(name, self.texts[name], num_cached, self.keys[name])

    def free(self, name: str) -> None:
        self.pool.free(name)
        if self.twin:
            self.twin.free(name)
        del self.texts[name], self.keys[name]

    def check(self) -> None:
        """Everything that must be true after every operation."""
        seen = self.pool.snapshot()
        tables, counts, hashes = seen["tables"], seen["ref_counts"], seen["hashes"]
        assert seen["num_free"] + len(counts) == self.pool.num_blocks == seen["num_free"] + self.pool.num_used
        assert set(counts) == {block for table in tables.values() for block in table}
        assert sum(counts.values()) == sum(map(len, tables.values()))
        ledger = self.pool._ledger
        free = [*ledger._free, *ledger._cached]
        assert len(set(free)) == len(free)
        assert not set(free) & set(counts)
        assert set(ledger._cached) == set(hashes) - set(counts)
        for name, text in self.texts.items():
            assert self.read(name) == text
        assert {name: table for name, table in tables.items() if table} == self.state.tables
        assert (counts, hashes) == (self.state.ref_counts, self.state.hashes)
        if self.twin:
            assert tables == self.twin.tables
            assert seen["lengths"] == self.twin.lengths
            assert set(hashes) == set(self.twin.known)

    def read(self, name: str) -> list[int | None]:
        """The sequence's tokens, read through its table."""
        slots = [block * self.size + offset for block in self.pool.table(name) for offset in range(self.size)]
        return [self.memory[slot] for slot in slots[: self.pool.length(name)]]

    def _write(self, name: str, begin: int) -> None:
        table = self.pool.table(name)
        for position in range(begin, len(self.texts[name])):
            block = table[position // self.size]
            assert self.pool.ref_count(block) == 1, "a shared block was written"
            assert block not in self.state.hashes, "a hashed block was written"
            self.memory[block * self.size + position % self.size] = self.texts[name][position]

    def _try(self, act, pool=None):
        """What `act` gives, or None where the blocks do not suffice; then nothing of `pool` may have changed."""
        if pool is None and self.twin is None:
            return None
        before = pool and (pool.snapshot(), len(self.events))
        try:
            return act()
        except OutOfBlocks:
            if pool:
                self.num_refused += 1
                assert (pool.snapshot(), len(self.events)) == before
            return None

    def _name(self) -> str:
        self.num_names += 1
        return f"s{self.num_names}"

    def _report(self, event_class, **fields) -> None:
        event = event_class(step=len(self.events), clock=0.001 * len(self.events), **fields)
        self.events.append(event)
        apply(self.state, event)
        written = {"BlockTaken": "block", "BlockCopied": "target"}.get(event_class.__name__)
        if written:  # whoever takes a block may find anything in it
            block = getattr(event, written)
            self.memory[block * self.size : (block + 1) * self.size] = [None] * self.size


def random_act(world: World, dice: random.Random) -> None:
    """One random operation of the kinds that an engine does."""
    kind = dice.choices(("allocate", "append", "round", "fork", "truncate", "commit", "free"), (3, 6, 3, 2, 1, 4, 2))[0]
    names = list(world.texts)
    if not names or (kind == "allocate" and len(names) < 7):
        text = dice.choice(TEXTS)[: dice.randint(0, 40)]
        num_tokens = len(text) if dice.random() < 0.7 else dice.randint(0, len(text))
        world.allocate(text, num_tokens, dice.choice(KEYS))
        return
    name = dice.choice(names)
    length = len(world.texts[name])
    if kind == "fork" and len(names) < 7:
        world.fork(name, dice.choice((length, dice.randint(0, length))))
    elif kind == "truncate":
        world.truncate(name, dice.randint(max(0, length - 9), length))
    elif kind == "commit":
        world.commit(name, dice.choice((length, dice.randint(0, length))))
    elif kind == "free":
        world.free(name)
    elif kind == "round":  # drafts are written, some are taken back, the rest becomes final
        world.append(name, [dice.randrange(3) for _ in range(dice.randint(1, 6))])
        world.truncate(name, dice.randint(length, len(world.texts[name])))
        world.commit(name, max(0, len(world.texts[name]) - 1))
    else:
        world.append(name, [dice.randrange(3) for _ in range(dice.choice((0, 1, 1, 1, 2, 5)))])


def _started(num_blocks: int, block_size: int) -> EngineStarted:
    return EngineStarted(
        step=0, clock=0.0, model="none", weights_sha256="", dtype="float32", cache_dtype="float32", device="cpu",
        device_name="", threads=1, block_size=block_size, num_blocks=num_blocks, context_length=64,
        recorded="2026-11-29", versions=(("python", "3.11"),),
    )  # fmt: skip


def pool_that_gives(order, num_blocks, block_size=4):
    """A pool whose next free blocks come in this order."""
    pool = BlockPool(num_blocks, block_size)
    for block in range(num_blocks):
        pool.allocate(f"block {block}", 1)
    rest = [block for block in range(num_blocks) if block not in order]
    for block in rest + list(reversed(order)):
        pool.free(f"block {block}")
    return pool


def commit_all(pool, seq, token_ids, extra_keys=()):
    pool.commit(seq, token_ids, len(token_ids), extra_keys)


def run_once(pool, seq, token_ids, extra_keys=()):
    """Allocate, compute and end a sequence; returns how many of its tokens were reused."""
    reused = pool.allocate(seq, len(token_ids), token_ids, extra_keys)
    commit_all(pool, seq, token_ids, extra_keys)
    pool.free(seq)
    return reused
