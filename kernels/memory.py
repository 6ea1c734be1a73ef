"""Tensors on huge pages: a pass reads every weight and cached token once, and 4 KiB pages make it wait for addresses.

Knows nothing of what is stored. Linux only asks (`madvise`); elsewhere, and where it is refused, the memory is plain.
"""

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

HUGE_PAGE = 2**21
CHUNK = 2**26  # bytes that a slab asks for at a time
_MADV_HUGEPAGE = 14


@functools.cache
def _madvise() -> Callable | None:
    if not sys.platform.startswith("linux"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _empty(num_bytes: int) -> Tensor:
    """Untouched bytes that begin on a huge page, where the system has such pages."""
    memory = torch.empty(num_bytes + HUGE_PAGE, dtype=torch.uint8)
    skipped = -memory.data_ptr() % HUGE_PAGE
    memory = memory[skipped : skipped + num_bytes]
    if _madvise() is not None:
        _madvise()(memory.data_ptr(), num_bytes, _MADV_HUGEPAGE)
    return memory


def zeros(shape: Sequence[int], dtype: torch.dtype, device: str | torch.device = "cpu") -> Tensor:
    """torch.zeros, on huge pages if it is at least one long and lies on the CPU."""
    num_bytes = torch.Size(shape).numel() * dtype.itemsize
    if torch.device(device).type != "cpu" or num_bytes < HUGE_PAGE:
        return torch.zeros(*shape, dtype=dtype, device=device)
    return _empty(num_bytes).view(dtype).view(*shape).zero_()


class Slab:
    """Hands out tensors that lie one after the other in large pieces of memory; they keep the memory alive."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """torch.empty of this shape on the CPU."""
        num_bytes = torch.Size(shape).numel() * dtype.itemsize
        if self._used + num_bytes > len(self._chunk):
            self._chunk, self._used = _empty(max(num_bytes, CHUNK)), 0
        start = self._used
        self._used += -(-num_bytes // 64) * 64  # each begins on a line of its own
        return self._chunk[start : start + num_bytes].view(dtype).view(*shape)
