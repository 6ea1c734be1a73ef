"""SwiGLU (Shazeer 2020): silu(gate) · up with silu(z) = z / (1 + e^−z), on the two halves of one product.

Knows nothing of the product. Reads 8 and writes 4 bytes an element, about 20 operations. The native kernel is in
rows.c.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import build


def _native():
    return build.function("swiglu", "ppiii")


def reference(gate_up: Tensor) -> Tensor:
    """gate_up (rows, 2·inner): the gate first → (rows, inner)."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


def native(gate_up: Tensor) -> Tensor:
    """The C kernel, for contiguous fp32."""
    rows, inner = gate_up.shape[0], gate_up.shape[1] // 2
    y = torch.empty(rows, inner)
    _native()(gate_up.data_ptr(), y.data_ptr(), rows, inner, torch.get_num_threads() if rows > 4 else 1)
    return y


def run(gate_up: Tensor) -> Tensor:
    """gate_up (rows, 2·inner): the gate first → (rows, inner)."""
    if build.is_native(gate_up) and _native() is not None:
        return native(gate_up)
    return reference(gate_up)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor]:
    """Arguments for `run`: five rows of SmolLM2's size."""
    return (torch.randn(5, 3072, generator=torch.Generator().manual_seed(seed)).to(device),)
