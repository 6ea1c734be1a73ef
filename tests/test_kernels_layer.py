"""Whole layers in one native call: against the layer composed of single kernels, and across company."""

import pytest
import torch

from kernels import build, layer, linear, paged_attention, rms_norm, rope, swiglu
from kernels.layer import LayerWeights, Rows
from kernels.paged_attention import Seen

needs_compiler = pytest.mark.skipif(build.library() is None, reason="no C compiler")
CONTEXT, BLOCK_SIZE, HIDDEN, INNER = 70, 8, 40, 48
PLAIN = {"heads": 6, "kv_heads": 2, "d": 16}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make_weights(seed: int, dtype="float32", heads=6, kv_heads=2, d=16, window=0, extras=False) -> LayerWeights:
    """Random weights; `extras` adds a bias (Qwen2) and the norms of queries and keys (Qwen3)."""
    out_qkv = (heads + 2 * kv_heads) * d

    def matrix(num_out: int, num_in: int, salt: int) -> linear.Packed:
        return linear.pack(random(num_out, num_in, seed=seed * 10 + salt) * num_in**-0.5, dtype)

    norms = [1 + 0.1 * random(d if i > 1 else HIDDEN, seed=seed + i) for i in range(4)]
    optional = (random(out_qkv, seed=seed), norms[2], norms[3]) if extras else (None, None, None)
    return LayerWeights(
        heads, kv_heads, d, 1e-5, norms[0], matrix(out_qkv, HIDDEN, 1), *optional,
        matrix(HIDDEN, heads * d, 2), norms[1], matrix(2 * INNER, HIDDEN, 3), matrix(HIDDEN, INNER, 4), window,
    )  # fmt: skip


def make_cache(weights: LayerWeights, dtype=torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (20 * BLOCK_SIZE, weights.num_kv_heads, weights.head_dim)
    return random(*shape, seed=8).to(dtype), random(*shape, seed=9).to(dtype)


def make_rows(num_rows: int, d: int, parents: list[int] | None = None, turns: bool = True) -> Rows:
    """Rows behind CONTEXT cached tokens of one sequence: a chain, or the tree that `parents` describes."""
    table = torch.randperm(20, generator=torch.Generator().manual_seed(3)).int()
    places = torch.arange(CONTEXT, CONTEXT + num_rows)
    slots = (table.long()[places // BLOCK_SIZE] * BLOCK_SIZE + places % BLOCK_SIZE).int()
    paths = [[row] for row in range(num_rows)]
    if parents is not None:
        for row in range(1, num_rows):
            paths[row] = [*paths[parents[row]], row]
        extra = torch.full((num_rows, num_rows), -1, dtype=torch.int32)
        for row, path in enumerate(paths):
            extra[row, : len(path)] = slots[path]
        prefix = torch.full((num_rows,), CONTEXT, dtype=torch.int32)
        positions = torch.tensor([CONTEXT + len(path) - 1 for path in paths])
    else:
        extra, prefix, positions = torch.empty(num_rows, 0, dtype=torch.int32), (places + 1).int(), places
    turn = positions[:, None] * 1e4 ** (-torch.arange(d // 2) / (d // 2))
    angles = (turn.cos(), turn.sin()) if turns else None
    return Rows(angles, slots, table[None], BLOCK_SIZE, torch.zeros(num_rows, dtype=torch.int32), prefix, extra)


def plain_layer(x, weights: LayerWeights, rows: Rows, keys, values):
    """The layer out of the references alone."""
    heads, kv_heads, d = weights.num_heads, weights.num_kv_heads, weights.head_dim
    normed = rms_norm.reference(x, weights.attention_norm, weights.eps)
    qkv = linear.reference(normed, weights.qkv, weights.qkv_bias).view(len(x), -1, d)
    q, k, v = qkv.split((heads, kv_heads, kv_heads), 1)
    if weights.query_norm is not None:
        q, k = (rms_norm.reference(*pair, weights.eps) for pair in ((q, weights.query_norm), (k, weights.key_norm)))
    q = rope.reference(q, k, v, rows.angles, (keys, values), rows.slots)
    seen = Seen(rows.tables, rows.block_size, rows.sequence, rows.prefix, rows.extra, weights.window)
    attended = paged_attention.reference(q, keys, values, seen)
    x = x + linear.reference(attended.reshape(len(x), heads * d), weights.output)
    normed = rms_norm.reference(x, weights.mlp_norm, weights.eps)
    return x + linear.reference(swiglu.reference(linear.reference(normed, weights.gate_up)), weights.down)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    "shape",
    [
        PLAIN,
        {"heads": 1, "kv_heads": 1, "d": 80},
        {"heads": 2, "kv_heads": 1, "d": 128, "window": 20},
        {**PLAIN, "extras": True},
    ],
)
def test_a_layer_equals_its_references_chain_and_tree(shape, dtype):
    weights = make_weights(1, dtype, **shape)
    for num_rows, parents in ((1, None), (7, None), (6, [-1, 0, 0, 1, 1, 2])):
        rows = make_rows(num_rows, weights.head_dim, parents)
        x, mine, theirs = random(num_rows, HIDDEN, seed=4), make_cache(weights), make_cache(weights)
        out, expected = layer.run(x, weights, rows, *mine), plain_layer(x, weights, rows, *theirs)
        assert torch.allclose(out, expected, rtol=1e-5, atol=1e-5)
        assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(mine, theirs, strict=True))


def test_a_layer_without_positions_turns_nothing():
    weights, rows, x = make_weights(1, **PLAIN), make_rows(3, 16, turns=False), random(3, HIDDEN)
    out = layer.run(x, weights, rows, *make_cache(weights))
    assert torch.allclose(out, plain_layer(x, weights, rows, *make_cache(weights)), atol=1e-5)


def test_several_layers_in_one_call_equal_the_layers_one_by_one():
    stack = [make_weights(seed, "float16", **PLAIN) for seed in (1, 2, 3)]
    turned, unturned = make_rows(5, 16), make_rows(5, 16, turns=False)
    rows = [turned, unturned, turned]
    caches, again = ([make_cache(w, torch.float16) for w in stack] for _ in range(2))
    x = one_by_one = random(5, HIDDEN)
    together = layer.run_all(x, stack, rows, [c[0] for c in caches], [c[1] for c in caches])
    for weights, row, cache in zip(stack, rows, again, strict=True):
        one_by_one = layer.run(one_by_one, weights, row, *cache)
    assert torch.equal(together, one_by_one)
    assert torch.equal(x, random(5, HIDDEN))
    for mine, theirs in zip(caches, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@needs_compiler
def test_a_chains_rows_have_the_bits_of_single_steps():
    weights, x = make_weights(1, "float16", **PLAIN), random(32, HIDDEN)
    step_cache = make_cache(weights, torch.float16)
    whole = make_rows(32, 16)
    steps = []
    for row in range(32):
        one = slice(row, row + 1)
        angles = tuple(table[one] for table in whole.angles)
        parts = (whole.sequence[one], whole.prefix[one], whole.extra[one])
        place = Rows(angles, whole.slots[one], whole.tables, BLOCK_SIZE, *parts)
        steps.append(layer.run(x[one], weights, place, *step_cache))
    for count in (2, 5, 8, 9, 25, 32):
        cache = make_cache(weights, torch.float16)
        assert torch.equal(layer.run(x[:count], weights, make_rows(count, 16), *cache), torch.cat(steps[:count]))


@needs_compiler
def test_a_path_in_a_tree_has_the_bits_of_the_same_chain():
    weights, x = make_weights(1, "float16", **PLAIN), random(4, HIDDEN)
    chain = layer.run(x, weights, make_rows(4, 16), *make_cache(weights))
    tree = layer.run(x, weights, make_rows(4, 16, [-1, 0, 1, 2]), *make_cache(weights))
    assert torch.equal(chain, tree)


@needs_compiler
def test_the_single_kernels_have_the_bits_of_the_fused_layer():
    weights, rows, x = make_weights(1, "float16", **PLAIN, extras=True), make_rows(5, 16), random(5, HIDDEN)
    fused = layer.run(x, weights, rows, *make_cache(weights))
    assert torch.equal(layer.reference(x, weights, rows, *make_cache(weights)), fused)


def test_no_rows_come_out_of_no_rows():
    weights = make_weights(1, **PLAIN)
    assert layer.run(torch.empty(0, HIDDEN), weights, make_rows(0, 16), *make_cache(weights)).shape == (0, HIDDEN)


@pytest.mark.parametrize("is_native", [True, False])
def test_what_comes_out_of_a_layer_can_be_kept_on_the_way(is_native, monkeypatch):
    stack, rows = [make_weights(seed, d=16) for seed in (1, 2, 3)], [make_rows(4, 16)] * 3
    caches, x = [make_cache(weights) for weights in stack], random(4, HIDDEN)
    expected, one_by_one = [], x
    for weights, row, cache in zip(stack, rows, [make_cache(weights) for weights in stack], strict=True):
        one_by_one = layer.run(one_by_one, weights, row, *cache)
        expected.append(one_by_one)
    if not is_native:
        monkeypatch.setattr(layer, "can_run", lambda *arguments: False)
    taps = {number: torch.full((6, HIDDEN), -1.0)[2:] for number in (1, 3)}
    out = layer.run_all(x, stack, rows, [cache[0] for cache in caches], [cache[1] for cache in caches], taps)
    assert torch.equal(taps[1], expected[0])
    assert torch.equal(taps[3], expected[2])
    assert torch.equal(out, expected[2])
