"""The most probable token of each row of logits: the lowest index among equals.

Knows nothing of sampling. Reads 4·vocab bytes a row twice at most. The native kernel is in vocabulary.c.
"""

import torch
from torch import Tensor

from kernels import build


def _native():
    return build.function("argmax", "ppiii")


def reference(logits: Tensor) -> Tensor:
    """logits (rows, vocab) → (rows,) int64; −1 where the largest entry is not finite (NaN, +∞, or all −∞)."""
    largest = logits.amax(-1, keepdim=True)  # NaN wins
    return torch.where(largest[:, 0].isfinite(), (logits == largest).int().argmax(-1), -1)


def native(logits: Tensor) -> Tensor:
    """The C kernel, for contiguous fp32."""
    best = torch.empty(logits.shape[0], dtype=torch.int64)
    _native()(logits.data_ptr(), best.data_ptr(), *logits.shape, torch.get_num_threads())
    return best


def run(logits: Tensor) -> Tensor:
    """logits (rows, vocab) → (rows,) int64; −1 where the largest entry is not finite (NaN, +∞, or all −∞)."""
    if build.is_native(logits) and _native() is not None:
        return native(logits)
    return reference(logits)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor]:
    """Arguments for `run`: five rows over SmolLM2's vocabulary."""
    return (torch.randn(5, 49152, generator=torch.Generator().manual_seed(seed)).to(device),)
