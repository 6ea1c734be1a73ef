"""Softmax over the vocabulary at a temperature: e^((z − max z) / T) / Σ.

Knows nothing of sampling. Reads 4·vocab bytes a row twice and writes them twice. The native kernel is in vocabulary.c.
"""

import torch
from torch import Tensor

from kernels import build


def _native():
    return build.function("softmax", "ppiifi")


def reference(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """logits (rows, vocab) → probabilities of the same type; temperature > 0."""
    return ((logits - logits.amax(-1, keepdim=True)) / temperature).softmax(-1)


def native(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """The C kernel, for contiguous fp32."""
    y = torch.empty_like(logits)
    _native()(logits.data_ptr(), y.data_ptr(), *logits.shape, temperature, torch.get_num_threads())
    return y


def run(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """logits (rows, vocab) → probabilities of the same type; temperature > 0. A logit of −∞ gets 0 exactly."""
    if build.is_native(logits) and _native() is not None:
        return native(logits, temperature)
    return reference(logits, temperature)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, float]:
    """Arguments for `run`: five rows over SmolLM2's vocabulary."""
    return 3 * torch.randn(5, 49152, generator=torch.Generator().manual_seed(seed)).to(device), 0.8
