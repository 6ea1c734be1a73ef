"""Many rows (a prompt) times a packed weight matrix: y = x · Wᵀ + bias.

Knows nothing of models. With r rows it does 2·r·out·in operations; the weights are read once per 96 rows, so
arithmetic decides. The native kernel is the thin one's (linear.c): a prompt's rows equal generated rows bit for bit.
Without it, here the library's product takes all rows at once.
"""

import torch
from torch import Tensor

from kernels import build, linear
from kernels.linear import Packed

reference = linear.reference
native = linear.native


def run(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) → (rows, out)."""
    if packed.matrix is not None:
        x = x.contiguous()
        if build.is_native(x, bias):
            return native(x, packed, bias)
    return reference(x, packed, bias)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, Packed]:
    """Arguments for `run`: sixty rows and one matrix of SmolLM2's size, fp16."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(1536, 576, generator=generator) * 576**-0.5
    return torch.randn(60, 576, generator=generator).to(device), linear.pack(weight.to(device), "float16")
