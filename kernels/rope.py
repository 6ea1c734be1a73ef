"""Rotary positions (Su et al. 2021), and the write of keys and values to the cache.

Knows nothing of frequencies: cosines and sines are given. The pair (a, b) = (x[i], x[i + d/2]) of each head becomes
(a·cos − b·sin, b·cos + a·sin). A row moves 4·(heads + 2·kv_heads)·d bytes in and about as many out, with 3 operations
an element. The native kernel is in rows.c.
"""

import ctypes

import torch
from torch import Tensor

from kernels import build
from kernels.linear import KINDS

MOST_DIM = 256  # of a head, in the native kernels
CACHE_KINDS = {torch.float32: KINDS["float32"], torch.float16: KINDS["float16"], torch.bfloat16: KINDS["bfloat16"]}

Angles = tuple[Tensor, Tensor]  # cos, sin (rows, d/2) fp32
Cache = tuple[Tensor, Tensor]  # keys, values (slots, kv_heads, d)


class Rope(ctypes.Structure):
    """Rope of native.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("q", "k", "v", "cos", "sin", "query_norm", "key_norm", "out")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("keys", "values", "slots")]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "heads", "kv_heads", "d", "kind")]
    _fields_ += [(name, ctypes.c_int64) for name in ("q_stride", "k_stride", "v_stride")]
    _fields_ += [("eps", ctypes.c_float)]


def _native():
    return build.function("rope", "pi")


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (rows, heads, d); cos, sin (rows, d/2) fp32 → a rotated copy."""
    first, second = x.float().chunk(2, dim=-1)  # (rows, heads, d/2) each
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def reference(q: Tensor, k: Tensor, v: Tensor, angles: Angles | None, cache: Cache, slots: Tensor) -> Tensor:
    """As `run`, in PyTorch."""
    if angles is not None:
        q, k = rotate(q, *angles), rotate(k, *angles)
    keys, values = cache
    keys[slots.long()] = k.to(keys.dtype)
    values[slots.long()] = v.to(values.dtype)
    return q.contiguous()


def native(q: Tensor, k: Tensor, v: Tensor, angles: Angles | None, cache: Cache, slots: Tensor) -> Tensor:
    """The C kernel; see `can_run` for what it takes."""
    rows, heads, d = q.shape
    cos, sin = (None, None) if angles is None else (angles[0].data_ptr(), angles[1].data_ptr())
    out = torch.empty(rows, heads, d)
    keys, values = cache
    pointers = (q.data_ptr(), k.data_ptr(), v.data_ptr(), cos, sin, None, None, out.data_ptr())
    cache_pointers = (keys.data_ptr(), values.data_ptr(), slots.data_ptr())
    sizes = (rows, heads, k.shape[1], d, CACHE_KINDS[keys.dtype], q.stride(0), k.stride(0), v.stride(0))
    job = Rope(*pointers, *cache_pointers, *sizes, 0.0)
    _native()(ctypes.addressof(job), torch.get_num_threads() if rows > 16 else 1)
    return out


def can_run(q: Tensor, k: Tensor, v: Tensor, angles: Angles | None, cache: Cache, slots: Tensor) -> bool:
    """fp32 rows on the CPU whose heads lie side by side, a contiguous cache of a known type, int32 slots."""
    rows = (q, k, v)
    are_rows = all(x.is_cpu and x.dtype is torch.float32 and x.stride()[1:] == (x.shape[2], 1) for x in rows)
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in rows)
    is_cache = all(x.is_contiguous() and x.dtype in CACHE_KINDS for x in cache) and slots.dtype is torch.int32
    fits = q.shape[2] <= MOST_DIM and q.shape[2] % 2 == 0
    return are_rows and not wants_gradient and is_cache and fits and (angles is None or build.is_native(*angles))


def run(q: Tensor, k: Tensor, v: Tensor, angles: Angles | None, cache: Cache, slots: Tensor) -> Tensor:
    """Rotates q and k, writes k and v to `cache` = (keys, values) at `slots` (rows,) int32.

    q, k, v: (rows, heads | kv_heads, d), also views of one fused product. angles = (cos, sin), each (rows, d/2) fp32,
    or None for a layer without positions. Returns the rotated q, contiguous.
    """
    if can_run(q, k, v, angles, cache, slots) and _native() is not None:
        return native(q, k, v, angles, cache, slots.contiguous())
    return reference(q, k, v, angles, cache, slots)


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Angles, Cache, Tensor]:
    """Arguments for `run`: five rows of SmolLM2's size at positions 256 … 260, an fp16 cache."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(5, 15, 64, generator=generator).to(device).split((9, 3, 3), 1)
    positions = torch.arange(256, 261, device=device)
    angles = positions[:, None] * 1e5 ** (-torch.arange(32, device=device) / 32)
    cache = tuple(torch.zeros(512, 3, 64, dtype=torch.float16, device=device) for _ in range(2))
    return q, k, v, (angles.cos(), angles.sin()), cache, positions.int()
