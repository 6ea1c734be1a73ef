"""RMSNorm, rotary positions, SwiGLU, argmax and softmax: against PyTorch and numbers worked by hand."""

import math

import pytest
import torch

from kernels import argmax, rms_norm, rope, softmax, swiglu


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- RMSNorm ----


def test_rms_norm_of_three_and_four_by_hand():
    y = rms_norm.run(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0]), 0.0)
    assert y[0].tolist() == pytest.approx([3 / math.sqrt(12.5), 8 / math.sqrt(12.5)])


@pytest.mark.parametrize("hidden", [1, 7, 8, 40, 100, 576])
@pytest.mark.parametrize("rows", [1, 3, 33])
def test_rms_norm_equals_pytorch(rows, hidden):
    x, weight = random(rows, hidden), random(hidden, seed=1)
    expected = torch.nn.functional.rms_norm(x.double(), (hidden,), weight.double(), 1e-5)
    assert torch.allclose(rms_norm.run(x, weight, 1e-5).double(), expected, rtol=1e-5, atol=1e-6)


def test_rms_norm_takes_heads_and_views():
    x, weight = random(4, 9, 64)[:, 2:5], random(64, seed=1)
    assert torch.allclose(rms_norm.run(x, weight, 1e-6), rms_norm.reference(x, weight, 1e-6), rtol=1e-5, atol=1e-6)
    assert rms_norm.run(x[:0], weight, 1e-6).shape == (0, 3, 64)


# ---- rotary positions ----


def angles(positions: list[int], d: int) -> tuple[torch.Tensor, torch.Tensor]:
    turns = torch.tensor(positions)[:, None] * 10000.0 ** (-torch.arange(d // 2) / (d // 2))
    return turns.cos(), turns.sin()


@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("heads", "kv_heads", "d"), [(1, 1, 2), (4, 2, 20), (9, 3, 64), (2, 1, 80), (2, 2, 128)])
def test_rope_equals_pytorch(heads, kv_heads, d, cache_dtype):
    q, k, v = random(5, heads + 2 * kv_heads, d).split((heads, kv_heads, kv_heads), 1)
    slots = torch.tensor([3, 0, 7, 1, 9], dtype=torch.int32)
    mine, theirs = (tuple(torch.full((10, kv_heads, d), 7.0).to(cache_dtype) for _ in range(2)) for _ in range(2))
    for turn in (angles([0, 1, 5, 100, 4000], d), None):
        rotated = rope.run(q, k, v, turn, mine, slots)
        expected = rope.reference(q, k, v, turn, theirs, slots)
        assert torch.allclose(rotated, expected, rtol=1e-5, atol=1e-6)
        for written, right in zip(mine, theirs, strict=True):
            step = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[cache_dtype]
            assert torch.allclose(written.float(), right.float(), rtol=step, atol=1e-6)
            assert (written[[2, 4, 5, 6, 8]] == 7).all()


def test_a_quarter_turn_maps_first_half_to_second_half():
    q = torch.tensor([[[1.0, 0.0]]])
    turned = rope.rotate(q, torch.zeros(1, 1), torch.ones(1, 1))
    assert turned[0, 0].tolist() == [0.0, 1.0]


def test_rounding_to_the_caches_type_is_to_the_nearest_even():
    v = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, 65504.0, 1e-7, 1e6, float("nan"), -(2.0**-24), 0.0])[None, None]
    for dtype in (torch.float16, torch.bfloat16):
        cache = tuple(torch.zeros(1, 1, 8, dtype=dtype) for _ in range(2))
        rope.run(v, v, v, None, cache, torch.tensor([0], dtype=torch.int32))
        assert torch.equal(cache[1].nan_to_num(nan=5.0), v.to(dtype).nan_to_num(nan=5.0))


# ---- SwiGLU ----


@pytest.mark.parametrize("inner", [1, 7, 8, 100, 1536])
def test_swiglu_equals_pytorch_for_small_and_huge_gates(inner):
    gate_up = random(3, 2 * inner) * 4
    gate_up[0, 0], gate_up[1, 0], gate_up[2, 0] = -200.0, 200.0, -80.0
    assert torch.allclose(swiglu.run(gate_up), swiglu.reference(gate_up), rtol=1e-5, atol=1e-30)


def test_swiglu_of_zero_and_ln_three_by_hand():
    y = swiglu.run(torch.tensor([[0.0, math.log(3), 5.0, 4.0]]))
    assert y[0].tolist() == pytest.approx([0.0, 0.75 * math.log(3) * 4])


# ---- over the vocabulary ----


def test_argmax_takes_the_lowest_index_among_equals_and_minus_one_where_nothing_is_finite():
    nan, inf = float("nan"), float("inf")
    rows = [[1, 3, 3, 0], [nan, 1, 2, 3], [-inf] * 4, [0, inf, 1, 1], [-inf, -5, -inf, -5], [1, 2, 3, nan]]
    for columns in (4, 37):
        logits = torch.full((6, columns), -inf)
        logits[:, :4] = torch.tensor(rows)
        expected = [1, -1, -1, -1, 1, -1]
        assert argmax.run(logits).tolist() == expected
        assert argmax.reference(logits).tolist() == expected


@pytest.mark.parametrize("vocab", [1, 7, 1000, 1025, 49152])
def test_argmax_and_softmax_equal_pytorch(vocab):
    logits = random(3, vocab) * 5
    assert torch.equal(argmax.run(logits), logits.argmax(-1))
    for temperature in (0.1, 1.0, 3.0):
        exact = (logits.double() / temperature).softmax(-1)
        assert torch.allclose(softmax.run(logits, temperature).double(), exact, rtol=2e-5, atol=1e-30)


def test_softmax_gives_masked_tokens_exactly_zero():
    p = softmax.run(torch.tensor([[0.0, -float("inf"), 0.0]]))
    assert p[0].tolist() == [0.5, 0.0, 0.5]


def test_the_examples_run():
    for module in (rms_norm, swiglu, argmax, softmax):
        assert torch.allclose(module.run(*module.example()), module.reference(*module.example()), rtol=2e-5, atol=1e-6)
    assert rope.run(*rope.example()).shape == (5, 9, 64)
