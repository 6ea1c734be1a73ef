"""Thin products: a few activation rows times a weight matrix stored as fp32, fp16 or int8.

Knows nothing of models; it sees one matrix at a time.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

PANEL = 16  # outputs that lie side by side in memory


@dataclass(frozen=True, slots=True)
class Packed:
    """A weight matrix as the kernels want it. `shape` is (out, in), whatever `data` looks like."""

    dtype: str
    data: Tensor
    scale: Tensor | None
    shape: tuple[int, int]


def pack(weight: Tensor, dtype: str) -> Packed:
    """(out, in) fp32 weights, stored as "float32", "float16", "bfloat16" or "int8" (one scale per output)."""
    shape = tuple(weight.shape)
    if dtype == "int8":
        weight = weight.float()
        scale = weight.abs().amax(1).clamp_min(1e-30) / 127
        return Packed(dtype, torch.round(weight / scale[:, None]).to(torch.int8), scale, shape)
    return Packed(dtype, weight.to(getattr(torch, dtype)), None, shape)


def unpack(packed: Packed) -> Tensor:
    """The stored values as an (out, in) fp32 matrix."""
    weight = packed.data.float()
    return weight if packed.scale is None else weight * packed.scale[:, None]


def embed(packed: Packed, token_ids: Tensor) -> Tensor:
    """Rows `token_ids` of the matrix as fp32: lets tied embeddings live in the output head's memory."""
    rows = packed.data[token_ids].float()
    return rows if packed.scale is None else rows * packed.scale[token_ids, None]


def reference(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) → (rows, out)."""
    return F.linear(x, unpack(packed), bias)


def run(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) fp32 → (rows, out) fp32; a row's result is bit-identical whatever rows go with it."""
    return reference(x, packed, bias)
