"""Rotary positions: pairs (i, i + d/2) of each head are turned by an angle; keys and values then go to the cache."""

import torch
from torch import Tensor


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, dim=-1)  # (rows, heads, d/2) each
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def reference(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """q (rows, heads, d), k (rows, kv_heads, d); cos, sin (rows, d/2) fp32."""
    return _rotate(q, cos, sin), _rotate(k, cos, sin)


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """q (rows, heads, d), k (rows, kv_heads, d); cos, sin (rows, d/2) fp32 → rotated copies."""
    return reference(q, k, cos, sin)


def reference_and_write(
    q: Tensor, k: Tensor, v: Tensor, angles: tuple[Tensor, Tensor] | None, cache: tuple[Tensor, Tensor], slots: Tensor
) -> Tensor:
    """As `rope_and_write`, in PyTorch."""
    if angles is not None:
        q, k = reference(q, k, *angles)
    keys, values = cache
    keys[slots.long()] = k.to(keys.dtype)
    values[slots.long()] = v.to(values.dtype)
    return q


def rope_and_write(
    q: Tensor, k: Tensor, v: Tensor, angles: tuple[Tensor, Tensor] | None, cache: tuple[Tensor, Tensor], slots: Tensor
) -> Tensor:
    """Rotates q and k, writes k and v to `cache` = (keys, values), each (slots, kv_heads, d), at `slots` (rows,) int32.

    q, k, v: (rows, heads | kv_heads, d), also views of one fused product. angles = (cos, sin), each (rows, d/2) fp32,
    or None for a layer without positions. Returns the rotated q, contiguous.
    """
    return reference_and_write(q, k, v, angles, cache, slots)
