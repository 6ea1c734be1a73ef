"""One transformer layer over generated rows, in a single native call.

Knows the Llama family's shape; nothing of requests, schedules or sampling.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import linear, paged_attention, rms_norm, rope, swiglu
from kernels.linear import Packed


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. qkv is (heads·d + 2·kv_heads·d, hidden), gate_up (2·inner, hidden): stacked before packing."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    eps: float
    attention_norm: Tensor  # (hidden,)
    qkv: Packed
    qkv_bias: Tensor | None
    query_norm: Tensor | None  # (head_dim,), Qwen3
    key_norm: Tensor | None
    output: Packed
    mlp_norm: Tensor
    gate_up: Packed
    down: Packed
    window: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of this pass stand; the same for every layer. Fields as in paged_attention.run."""

    angles: tuple[Tensor, Tensor] | None  # cos, sin (rows, d/2) fp32; None for a layer without positions
    slots: Tensor  # (rows,) int32: where each row's key and value are written
    tables: Tensor
    block_size: int
    sequence: Tensor
    prefix: Tensor
    extra: Tensor


def reference(x: Tensor, weights: LayerWeights, rows: Rows, keys: Tensor, values: Tensor) -> Tensor:
    """The layer out of the single kernels."""
    heads, kv_heads, d = weights.num_heads, weights.num_kv_heads, weights.head_dim
    normed = rms_norm.run(x, weights.attention_norm, weights.eps)
    qkv = linear.run(normed, weights.qkv, weights.qkv_bias).view(x.shape[0], heads + 2 * kv_heads, d)
    q, k, v = qkv.split((heads, kv_heads, kv_heads), 1)
    if weights.query_norm is not None:
        q = rms_norm.run(q, weights.query_norm, weights.eps)
        k = rms_norm.run(k, weights.key_norm, weights.eps)
    q = rope.rope_and_write(q, k, v, rows.angles, (keys, values), rows.slots)
    attended = paged_attention.run(
        q, keys, values, rows.tables, rows.block_size, rows.sequence, rows.prefix, rows.extra, weights.window
    )
    x = x + linear.run(attended.reshape(x.shape[0], heads * d), weights.output)
    normed = rms_norm.run(x, weights.mlp_norm, weights.eps)
    return x + linear.run(swiglu.run(linear.run(normed, weights.gate_up)), weights.down)


def run(x: Tensor, weights: LayerWeights, rows: Rows, keys: Tensor, values: Tensor) -> Tensor:
    """x (rows, hidden) fp32 → (rows, hidden); writes keys and values (slots, kv_heads, d) at rows.slots."""
    with torch.no_grad():
        return reference(x, weights, rows, keys, values)
