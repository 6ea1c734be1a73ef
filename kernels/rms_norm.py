"""RMSNorm (Zhang & Sennrich 2019): y = x / √(mean(x²) + eps) · weight, row by row.

Knows nothing of where the rows come from. Reads and writes 4·hidden bytes a row, 4 operations an element: memory
would decide, were the rows not in the cache already. The native kernel is in rows.c.
"""

import torch
from torch import Tensor

from kernels import build


def _native():
    return build.function("rms_norm", "pppiifi")


def reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (…, hidden); the mean is over the last dimension, in fp32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def native(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The C kernel, for contiguous fp32."""
    y = torch.empty_like(x)
    hidden = x.shape[-1]
    rows = x.numel() // hidden
    threads = torch.get_num_threads() if rows > 16 else 1  # below, waking a second thread costs more than it does
    _native()(x.data_ptr(), weight.data_ptr(), y.data_ptr(), rows, hidden, eps, threads)
    return y


def run(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (…, hidden), weight (hidden,) → as x."""
    if x.is_cpu and _native() is not None:
        x = x.contiguous()
        if build.is_native(x, weight) and x.numel():
            return native(x, weight, eps)
    return reference(x, weight, eps)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, Tensor, float]:
    """Arguments for `run`: five rows of 576."""
    generator = torch.Generator().manual_seed(seed)
    weight = 1 + 0.1 * torch.randn(576, generator=generator)
    return torch.randn(5, 576, generator=generator).to(device), weight.to(device), 1e-5
