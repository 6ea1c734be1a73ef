"""One step of a drafting head: token and feature joined, one layer, a small vocabulary, in one native call.

Knows an EAGLE head's inside; nothing of sequences or of who drafts. A step reads each weight once, some megabytes in
int8; in one call, so that Python has nothing to do in between. The native kernel is in draft_head.c.
"""

import ctypes
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels import build, layer, linear, rms_norm
from kernels.layer import LayerWeights, Rows
from kernels.linear import Packed


class Record(ctypes.Structure):
    """DraftHead of draft_head.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("embedding", "fuse", "words")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("token_norm", "feature_norm", "norm", "ones")]
    _fields_ += [("eps", ctypes.c_float)]


class Step(ctypes.Structure):
    """DraftStep of draft_head.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("head", "stack", "tokens", "felt", "joined", "normed", "logits")]
    _fields_ += [("told", ctypes.c_int64)]


@dataclass(frozen=True, slots=True, eq=False)
class DraftHead:
    """Weights. embedding (vocab, hidden), fuse (hidden, 2 · hidden): the token's half first; words (words, hidden)."""

    embedding: Packed
    fuse: Packed
    words: Packed
    token_norm: Tensor  # (hidden,), as the other norms
    feature_norm: Tensor
    norm: Tensor
    layer: LayerWeights
    ones: Tensor = field(init=False, repr=False)
    record: Record | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ones", torch.ones_like(self.norm))
        object.__setattr__(self, "record", None)
        matrices, vectors = (self.embedding, self.fuse, self.words), (self.token_norm, self.feature_norm, self.norm)
        if self.layer.record is None or any(one.matrix is None for one in matrices) or not build.is_native(*vectors):
            return
        pointers = [ctypes.addressof(one.matrix) for one in matrices]
        pointers += [vector.data_ptr() for vector in (*vectors, self.ones)]
        object.__setattr__(self, "record", Record(*pointers, self.layer.eps))


def reference(
    felt: Tensor, token_ids: Tensor, head: DraftHead, rows: Rows, keys: Tensor, values: Tensor, num_told: int
) -> tuple[Tensor, Tensor]:
    """The step out of the single kernels. `rows` may lie on the CPU, and the logits come to it, wherever felt lies."""
    eps, rows = head.layer.eps, rows.to(felt.device)
    tokens = linear.embed(head.embedding, token_ids.clamp(min=0)).to(felt.dtype) * (token_ids >= 0)[:, None]
    tokens = rms_norm.run(rms_norm.run(tokens, head.ones, eps), head.token_norm, eps)
    joined = torch.cat((tokens, rms_norm.run(felt, head.feature_norm, eps)), 1)  # (rows, 2 · hidden)
    x = layer.run(linear.run(joined, head.fuse), head.layer, rows, keys, values)[len(felt) - num_told :]
    return x, linear.run(rms_norm.run(x, head.norm, eps), head.words).float().cpu()


def native(
    felt: Tensor, token_ids: Tensor, head: DraftHead, rows: Rows, keys: Tensor, values: Tensor, num_told: int
) -> tuple[Tensor, Tensor]:
    """The C kernel; `can_run` says what it takes."""
    num_rows, hidden = felt.shape
    work = layer.stack(torch.empty_like(felt), (head.layer,), (rows,), (keys,), (values,), layer.NO_TAPS)
    joined, normed = torch.empty(num_rows, 2 * hidden), torch.empty(num_told, hidden)
    logits = torch.empty(num_told, head.words.shape[0])
    pointers = [ctypes.addressof(head.record), ctypes.addressof(work.record)]
    pointers += [tensor.data_ptr() for tensor in (token_ids, felt, joined, normed, logits)]
    step = Step(*pointers, num_told)
    build.function("draft_step", "pi")(ctypes.addressof(step), torch.get_num_threads())
    return work.x[num_rows - num_told :], logits


def can_run(felt: Tensor, token_ids: Tensor, head: DraftHead, rows: Rows, keys: Tensor, values: Tensor) -> bool:
    """fp32 features and int64 ids on the CPU, records for all weights and rows."""
    is_plain = token_ids.dtype is torch.int64 and token_ids.is_cpu and token_ids.is_contiguous()
    return is_plain and head.record is not None and layer.can_run(felt, (head.layer,), (rows,), (keys,), (values,))


def run(
    felt: Tensor, token_ids: Tensor, head: DraftHead, rows: Rows, keys: Tensor, values: Tensor, num_told: int
) -> tuple[Tensor, Tensor]:
    """→ guessed hidden states (num_told, hidden) and logits (num_told, words), fp32, of the last `num_told` rows.

    felt (rows, hidden): what the target felt before each row. token_ids (rows,): what the row holds, −1 for nothing.
    keys, values (slots, kv_heads, d) are written at rows.slots. Natively a row's bits do not depend on its company.
    """
    felt = felt.contiguous()
    if can_run(felt, token_ids, head, rows, keys, values):
        return native(felt, token_ids, head, rows, keys, values, num_told)
    return reference(felt, token_ids, head, rows, keys, values, num_told)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, Tensor, DraftHead, Rows, Tensor, Tensor, int]:
    """Arguments for `run`: the layer's example with 96 words behind it."""
    x, weights, rows, keys, values = layer.example(device, seed)
    generator = torch.Generator().manual_seed(seed)

    def matrix(*shape: int) -> Packed:
        return linear.pack((torch.randn(shape, generator=generator) / shape[1] ** 0.5).to(device), "float16")

    ones = torch.ones(64, device=device)
    head = DraftHead(matrix(320, 64), matrix(64, 128), matrix(96, 64), ones, ones, ones, weights)
    token_ids = torch.tensor([-1, 0, 319, 17, 5], device=device)
    return x, token_ids, head, rows, keys, values, 2
