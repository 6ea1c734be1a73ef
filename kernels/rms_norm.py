"""RMSNorm: y = x / √(mean(x²) + eps) · weight, row by row."""

import torch
from torch import Tensor


def reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (rows, hidden), or any (…, hidden); the mean is over the last dimension, in fp32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def run(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (…, hidden), weight (hidden,) → as x."""
    return reference(x, weight, eps)
