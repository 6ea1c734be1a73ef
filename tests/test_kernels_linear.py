"""Products with packed weights: against PyTorch, against themselves with other company, and at odd sizes."""

import pytest
import torch

from kernels import build, gemm, linear

DTYPES = ("float32", "float16", "bfloat16", "int8")
needs_compiler = pytest.mark.skipif(build.library() is None, reason="no C compiler")


def random_matrix(num_out: int, num_in: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_out, num_in, generator=torch.Generator().manual_seed(seed)) * num_in**-0.5


def random_rows(rows: int, num_in: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(rows, num_in, generator=torch.Generator().manual_seed(seed))


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Differences are measured against the largest expected value."""
    assert (actual - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_out", "num_in"), [(1, 1), (5, 3), (16, 8), (33, 37), (48, 255), (100, 257), (960, 576)])
def test_the_product_equals_pytorch_on_the_stored_values(dtype, num_out, num_in):
    packed = linear.pack(random_matrix(num_out, num_in), dtype)
    bias = random_rows(1, num_out, seed=2)[0]
    for rows in (1, 2, 3, 5, 7, 24, 25, 97, 100):
        x = random_rows(rows, num_in)
        for run in (linear.run, gemm.run):
            assert_close(run(x, packed), linear.reference(x, packed))
            assert_close(run(x, packed, bias), linear.reference(x, packed, bias))


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rows_bits_do_not_depend_on_how_many_rows_there_are(dtype):
    packed = linear.pack(random_matrix(203, 301), dtype)
    x = random_rows(130, 301)
    alone = torch.cat([linear.run(row[None], packed) for row in x])
    for rows in (*range(1, 34), 60, 96, 97, 130):
        assert torch.equal(linear.run(x[:rows], packed), alone[:rows])
        assert torch.equal(gemm.run(x[130 - rows :], packed), alone[130 - rows :])


@needs_compiler
def test_a_rows_bits_do_not_depend_on_the_number_of_threads():
    packed, x = linear.pack(random_matrix(203, 301), "float16"), random_rows(5, 301)
    threads = torch.get_num_threads()
    results = []
    try:
        for num_threads in (1, 2, 3, 5):
            torch.set_num_threads(num_threads)
            results.append(linear.run(x, packed))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unpack_and_embed_give_the_stored_values_back(dtype):
    weight = random_matrix(50, 19)
    packed = linear.pack(weight, dtype)
    stored = linear.unpack(packed)
    steps = {"float32": 0, "float16": 2**-11, "bfloat16": 2**-8, "int8": 0.51 / 127}
    assert (stored - weight).abs().max() <= steps[dtype] * weight.abs().max()
    ids = torch.tensor([0, 49, 16, 15, 16])
    assert torch.equal(linear.embed(packed, ids), stored[ids])
    assert linear.embed(packed, ids[:0]).shape == (0, 19)
    for wrong in ([-1], [50], [3, 2**40]):
        with pytest.raises(IndexError):
            linear.embed(packed, torch.tensor(wrong))


def test_int8_keeps_the_largest_weight_of_each_output_and_survives_a_row_of_zeros():
    weight = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    stored = linear.unpack(linear.pack(weight, "int8"))
    assert stored[0, 1] == -2.0
    assert torch.equal(stored[1], weight[1])


def test_views_and_strided_rows_are_accepted():
    packed = linear.pack(random_matrix(20, 12), "float16")
    wide = random_rows(6, 24)
    assert_close(linear.run(wide[::2, 12:], packed), linear.reference(wide[::2, 12:], packed))


def test_gradients_are_not_lost_where_they_are_asked_for():
    packed, x = linear.pack(random_matrix(20, 12), "float32"), random_rows(3, 12).requires_grad_()
    linear.run(x, packed).sum().backward()
    assert torch.allclose(x.grad, linear.unpack(packed).sum(0).expand(3, 12), atol=1e-6)


def test_an_infinite_or_missing_activation_is_not_hidden():
    packed, x = linear.pack(torch.ones(4, 12), "float16"), torch.ones(2, 12)
    x[0, 3], x[1, 5] = float("nan"), float("inf")
    y = linear.run(x, packed)
    assert y[0].isnan().all()
    assert (y[1] == float("inf")).all()


def test_an_unknown_dtype_is_refused_by_name():
    with pytest.raises(ValueError, match="float8"):
        linear.pack(torch.ones(2, 2), "float8")


def test_the_examples_run():
    assert linear.run(*linear.example()).shape == (5, 1536)
    assert gemm.run(*gemm.example()).shape == (60, 1536)
