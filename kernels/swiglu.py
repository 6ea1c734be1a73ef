"""SwiGLU: silu(gate) · up, elementwise on the two halves of one product."""

import torch.nn.functional as F
from torch import Tensor


def reference(gate_up: Tensor) -> Tensor:
    """gate_up (rows, 2·inner): the gate first → (rows, inner)."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


def run(gate_up: Tensor) -> Tensor:
    """gate_up (rows, 2·inner): the gate first → (rows, inner)."""
    return reference(gate_up)
