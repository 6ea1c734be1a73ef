"""A head's step in one native call: the bits of the single kernels, whatever goes with a row."""

from dataclasses import replace

import pytest
import torch

from kernels import build, draft_head, layer, linear

needs_compiler = pytest.mark.skipif(build.library() is None, reason="no C compiler")


def made(dtype: str = "float16") -> tuple:
    """The example with its matrices stored as `dtype`, and caches of its own."""
    felt, token_ids, head, rows, keys, values, _ = draft_head.example()
    kept = {name: linear.pack(linear.unpack(getattr(head, name)), dtype) for name in ("embedding", "fuse", "words")}
    return felt, token_ids, replace(head, **kept), rows, keys.clone(), values.clone()


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("num_told", [0, 1, 5])
def test_one_call_has_the_bits_of_the_single_kernels(dtype: str, num_told: int) -> None:
    mine, theirs = made(dtype), made(dtype)
    assert draft_head.can_run(*mine)
    x, logits = draft_head.run(*mine, num_told)
    expected, expected_logits = draft_head.reference(*theirs, num_told)
    assert x.shape == (num_told, 64)
    assert logits.shape == (num_told, 96)
    assert torch.equal(x, expected)
    assert torch.equal(logits, expected_logits)
    assert torch.equal(mine[4], theirs[4])
    assert torch.equal(mine[5], theirs[5])


@needs_compiler
def test_a_row_does_not_depend_on_its_company() -> None:
    felt, token_ids, head, rows, keys, values = made()
    x, logits = draft_head.run(felt, token_ids, head, rows, keys, values, 5)
    for row in range(5):
        one = slice(row, row + 1)
        angles = (rows.angles[0][one], rows.angles[1][one])
        seen = (rows.tables, rows.block_size, rows.sequence[one], rows.prefix[one], rows.extra[one])
        alone = layer.Rows(angles, rows.slots[one], *seen)
        found = draft_head.run(felt[one], token_ids[one], head, alone, keys, values, 1)
        assert torch.equal(found[0], x[one])
        assert torch.equal(found[1], logits[one])


def test_in_pytorch_it_is_the_same_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    x, logits = draft_head.run(*made(), 3)
    monkeypatch.setattr(draft_head, "can_run", lambda *arguments: False)
    expected, expected_logits = draft_head.run(*made(), 3)
    torch.testing.assert_close(x, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, expected_logits, atol=1e-4, rtol=1e-4)


def test_no_token_is_as_a_row_of_zeros() -> None:
    felt, token_ids, head, rows, keys, values = made()
    without, _ = draft_head.run(felt, torch.full_like(token_ids, -1), head, rows, keys, values, 5)
    blank = replace(head, embedding=linear.pack(torch.zeros(320, 64), "float32"))
    expected, _ = draft_head.run(felt, token_ids, blank, rows, keys, values, 5)
    assert torch.equal(without, expected)
