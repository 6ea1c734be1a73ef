"""Attention over blocks: against dense PyTorch, across company, chains and trees, and with garbage in unused slots."""

from dataclasses import dataclass

import pytest
import torch

from kernels import build, paged_attention, prompt_attention
from kernels.paged_attention import Seen
from kernels.prompt_attention import Place

needs_compiler = pytest.mark.skipif(build.library() is None, reason="no C compiler")
SHAPES = [(1, 1, 64), (2, 1, 8), (9, 3, 64), (4, 4, 80), (8, 2, 128), (40, 1, 16), (3, 1, 5), (2, 2, 256)]


@dataclass
class World:
    """A cache of `num_blocks` shuffled blocks, of which the table's first `used` slots hold tokens, the rest NaN."""

    keys: torch.Tensor
    values: torch.Tensor
    table: torch.Tensor
    block_size: int

    @classmethod
    def make(cls, used: int, kv_heads: int, d: int, dtype=torch.float32, block_size: int = 16) -> "World":
        generator = torch.Generator().manual_seed(used + d)
        num_blocks = -(-used // block_size) + 3
        slots = num_blocks * block_size
        keys = torch.full((slots, kv_heads, d), float("nan"), dtype=dtype)
        world = cls(keys, keys.clone(), torch.randperm(num_blocks, generator=generator).int(), block_size)
        written = world.slots(used)
        world.keys[written] = torch.randn(used, kv_heads, d, generator=generator).to(dtype)
        world.values[written] = torch.randn(used, kv_heads, d, generator=generator).to(dtype)
        return world

    def slots(self, count: int) -> torch.Tensor:
        """The slots of positions 0 … count − 1."""
        positions = torch.arange(count)
        return self.table.long()[positions // self.block_size] * self.block_size + positions % self.block_size

    def attend(self, queries: torch.Tensor, prefixes: list[int], extras: list[list[int]], window: int = 0):
        """paged_attention.run with −1 filled in behind each row's extra slots."""
        width = max(map(len, extras))
        extra = torch.tensor([row + [-1] * (width - len(row)) for row in extras], dtype=torch.int32)
        prefix = torch.tensor(prefixes, dtype=torch.int32)
        sequence = torch.zeros_like(prefix)
        where = (self.table[None], self.block_size, sequence, prefix, extra.view(len(prefixes), width))
        return paged_attention.run(queries, self.keys, self.values, Seen(*where, window))


def random_queries(rows: int, heads: int, d: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(rows, heads, d, generator=torch.Generator().manual_seed(seed))


def dense(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One row against (visible, kv_heads, d) in float64."""
    group = query.shape[0] // keys.shape[1]
    k, v = (x.double().repeat_interleave(group, 1) for x in (keys, values))
    scores = torch.einsum("hd,vhd->hv", query.double(), k) / query.shape[1] ** 0.5
    return torch.einsum("hv,vhd->hd", scores.softmax(-1), v)


# ---- against dense attention ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("heads", "kv_heads", "d"), SHAPES)
def test_a_chain_equals_dense_attention(heads, kv_heads, d, dtype):
    world = World.make(200, kv_heads, d, dtype)
    prefixes = [1, 2, 31, 32, 33, 63, 64, 65, 128, 129, 199, 200]
    queries = random_queries(len(prefixes), heads, d)
    out = world.attend(queries, prefixes, [[]] * len(prefixes))
    for row, prefix in enumerate(prefixes):
        seen = world.slots(prefix)
        expected = dense(queries[row], world.keys[seen], world.values[seen])
        assert torch.allclose(out[row].double(), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
@pytest.mark.parametrize("context", [0, 1, 63, 64, 100])
def test_a_prompt_equals_dense_attention_row_by_row(context, block_size):
    world = World.make(context + 70, 3, 64, block_size=block_size)
    queries = random_queries(70, 9, 64)
    out = prompt_attention.run(queries, world.keys, world.values, Place(world.table, block_size, context))
    for row in range(70):
        seen = world.slots(context + row + 1)
        expected = dense(queries[row], world.keys[seen], world.values[seen])
        assert torch.allclose(out[row].double(), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("window", [1, 5, 64, 70, 1000])
def test_a_sliding_window_hides_all_but_the_last_tokens(window):
    world = World.make(150, 2, 16)
    queries = random_queries(150, 4, 16)
    prompt = prompt_attention.run(queries, world.keys, world.values, Place(world.table, 16, 0, window))
    paged = world.attend(queries[100:], list(range(101, 151)), [[]] * 50, window)
    for row in range(150):
        seen = world.slots(row + 1)[-window:]
        expected = dense(queries[row], world.keys[seen], world.values[seen])
        assert torch.allclose(prompt[row].double(), expected, rtol=1e-5, atol=2e-6)
    assert torch.allclose(paged, prompt[100:], rtol=1e-5, atol=2e-6)


def test_rows_of_several_sequences_read_their_own_tables():
    world = World.make(160, 2, 16)
    tables = torch.stack((world.table[:5], world.table[5:10]))
    sequence = torch.tensor([0, 0, 1, 0, 1], dtype=torch.int32)
    prefix = torch.tensor([80, 5, 80, 30, 1], dtype=torch.int32)
    seen = Seen(tables, 16, sequence, prefix, torch.empty(5, 0, dtype=torch.int32))
    queries = random_queries(5, 4, 16)
    out = paged_attention.run(queries, world.keys, world.values, seen)
    assert torch.allclose(out, paged_attention.reference(queries, world.keys, world.values, seen), atol=2e-6)


# ---- trees ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("context", [0, 1, 60, 63, 64, 130])
def test_a_path_of_a_tree_has_the_bits_of_the_same_chain(context, dtype):
    world = World.make(context + 6, 3, 64, dtype)
    queries = random_queries(6, 9, 64)
    slots = world.slots(context + 6).tolist()
    chain = world.attend(queries, [context + row + 1 for row in range(6)], [[]] * 6)
    tree = world.attend(queries, [context] * 6, [slots[context : context + row + 1] for row in range(6)])
    if build.library() is None:
        assert torch.allclose(chain, tree, atol=2e-6)
    else:
        assert torch.equal(chain, tree)


def test_two_branches_see_their_ancestors_and_not_each_other():
    world = World.make(74, 1, 8)
    first, *rest = world.slots(74).tolist()[70:]
    queries = random_queries(3, 2, 8)
    out = world.attend(queries, [70] * 3, [[first], [first, rest[0]], [first, rest[1]]])
    for row, path in enumerate(([first], [first, rest[0]], [first, rest[1]])):
        seen = torch.tensor([*world.slots(70).tolist(), *path])
        assert torch.allclose(out[row].double(), dense(queries[row], world.keys[seen], world.values[seen]), atol=2e-6)


def test_a_window_over_a_tree_counts_positions_along_the_path():
    world = World.make(74, 1, 8)
    path = world.slots(74).tolist()[70:]
    queries = random_queries(1, 2, 8)
    out = world.attend(queries, [70], [path], window=6)
    seen = torch.tensor(world.slots(74).tolist()[-6:])
    assert torch.allclose(out[0].double(), dense(queries[0], world.keys[seen], world.values[seen]), atol=2e-6)


# ---- bits ----


@needs_compiler
@pytest.mark.parametrize("window", [0, 40])
@pytest.mark.parametrize(("heads", "kv_heads", "d"), SHAPES)
def test_a_rows_bits_do_not_depend_on_company_role_or_threads(heads, kv_heads, d, window):
    world = World.make(150, kv_heads, d, torch.float16)
    queries = random_queries(50, heads, d)
    prefixes = list(range(101, 151))
    alone = torch.cat([world.attend(queries[r : r + 1], [prefixes[r]], [[]], window) for r in range(50)])
    threads = torch.get_num_threads()
    try:
        for num_threads in (1, 2, 3):
            torch.set_num_threads(num_threads)
            for rows in (2, 5, 8, 32, 50):
                together = world.attend(queries[:rows], prefixes[:rows], [[]] * rows, window)
                assert torch.equal(together, alone[:rows])
            place = Place(world.table, world.block_size, 100, window)
            prompt = prompt_attention.run(queries, world.keys, world.values, place)
            assert torch.equal(prompt, alone)
    finally:
        torch.set_num_threads(threads)


def test_garbage_in_slots_that_nobody_sees_changes_nothing():
    world = World.make(100, 3, 64)
    queries = random_queries(4, 9, 64)
    clean = world.attend(queries, [97, 98, 99, 100], [[]] * 4)
    for garbage in (float("inf"), 1e30, 0.0):
        unused = torch.ones(len(world.keys), dtype=torch.bool)
        unused[world.slots(100)] = False
        world.keys[unused], world.values[unused] = garbage, garbage
        assert torch.equal(world.attend(queries, [97, 98, 99, 100], [[]] * 4), clean)
    assert clean.isfinite().all()


def test_a_nan_that_is_seen_is_not_hidden():
    world = World.make(100, 1, 8)
    world.keys[world.slots(100)[50], 0, 3] = float("nan")
    out = world.attend(random_queries(2, 1, 8), [100, 50], [[]] * 2)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def test_scores_far_apart_do_not_overflow():
    world = World.make(70, 1, 8)
    world.keys[world.slots(70)] *= 300
    queries = random_queries(1, 1, 8) * 30
    seen = world.slots(70)
    out = world.attend(queries, [70], [[]])
    assert torch.allclose(out[0].double(), dense(queries[0], world.keys[seen], world.values[seen]), atol=1e-5)


def test_the_examples_run():
    for module in (paged_attention, prompt_attention):
        arguments = module.example()
        assert torch.allclose(module.run(*arguments), module.reference(*arguments), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("window", [0, 3, 20])
def test_all_rows_at_once_equal_row_by_row(window):
    """What runs on a GPU, here on the CPU: two tables of unequal length, a chain and a tree, NaN in unused slots."""
    world = World.make(64, 2, 16, torch.float16)
    tables = torch.stack((world.table[:3], torch.tensor([world.table[3], 0, 0]))).int()
    sequence = torch.tensor([0, 0, 1, 1], dtype=torch.int32)
    prefix = torch.tensor([40, 41, 9, 9], dtype=torch.int32)
    first = int(world.table[3]) * 16 + 9
    extra = torch.tensor([[-1, -1], [-1, -1], [first, -1], [first, first + 2]], dtype=torch.int32)
    arguments = (world.keys, world.values, Seen(tables, 16, sequence, prefix, extra, window))
    queries = random_queries(4, 4, 16)
    expected = paged_attention.reference(queries, *arguments)
    assert torch.allclose(paged_attention.gathered(queries, *arguments), expected, atol=2e-6)
    narrow = paged_attention.gathered(queries.half(), *arguments)
    assert narrow.dtype is torch.float16
    assert torch.allclose(narrow.float(), expected, atol=5e-3)
