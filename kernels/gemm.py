"""Many rows (a prompt) times a packed weight matrix.

Knows nothing of models; thin products are in linear.py.
"""

from torch import Tensor

from kernels import linear
from kernels.linear import Packed

reference = linear.reference


def run(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) fp32 → (rows, out) fp32."""
    return reference(x, packed, bias)
