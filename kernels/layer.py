"""Transformer layers over rows: one native call for all of them, from the parts that the other modules show singly.

Knows the Llama family's layer; nothing of requests, schedules or sampling. A pass over few rows reads all weights once
and does 2 operations per weight and row, so it lasts about as long as the reading.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels import build, linear, paged_attention, rms_norm, rope, swiglu
from kernels.linear import PANEL, Matrix, Packed
from kernels.paged_attention import Attention, Seen
from kernels.rope import CACHE_KINDS, MOST_DIM, Angles

ROOMS = ("normed", "qkv", "queries", "attended", "gate", "up", "inner")  # what lies between, in the order of layer.c


class Weights(ctypes.Structure):
    """Weights of layer.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("qkv", "output", "gate", "up", "down")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("attention_norm", "mlp_norm")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("qkv_bias", "query_norm", "key_norm")]
    _fields_ += [(name, ctypes.c_int64) for name in ("hidden", "inner", "heads", "kv_heads", "d", "window")]
    _fields_ += [(name, ctypes.c_float) for name in ("eps", "scale")]


class Place(ctypes.Structure):
    """Place of layer.c."""

    _fields_ = [("attention", Attention)] + [(name, ctypes.c_void_p) for name in ("cos", "sin", "slots")]


class Stack(ctypes.Structure):
    """Stack of layer.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("weights", "places", "keys", "values", "taps")]
    _fields_ += [(name, ctypes.c_int64) for name in ("num_layers", "rows", "kind")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("x", *ROOMS)]


@dataclass(frozen=True, slots=True, eq=False)
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
    halves: tuple[Matrix, Matrix] | None = field(init=False, repr=False)  # gate and up, as the native code sees them
    record: Weights | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        matrices = (self.qkv, self.output, self.gate_up, self.down)
        vectors = (self.attention_norm, self.mlp_norm, self.qkv_bias, self.query_norm, self.key_norm)
        is_native = all(packed.matrix is not None for packed in matrices) and build.is_native(*vectors)
        fits = self.head_dim <= MOST_DIM and self.head_dim % 2 == 0 and self.down.shape[1] % PANEL == 0
        object.__setattr__(self, "halves", linear.halves(self.gate_up) if is_native and fits else None)
        object.__setattr__(self, "record", None)
        if self.halves is None:
            return
        used = (self.qkv.matrix, self.output.matrix, *self.halves, self.down.matrix)
        pointers = [ctypes.addressof(matrix) for matrix in used]
        pointers += [None if vector is None else vector.data_ptr() for vector in vectors]
        sizes = (self.qkv.shape[1], self.down.shape[1], self.num_heads, self.num_kv_heads, self.head_dim, self.window)
        object.__setattr__(self, "record", Weights(*pointers, *sizes, self.eps, self.head_dim**-0.5))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Where the rows of this pass stand; the same for every layer. Fields as in paged_attention.Seen."""

    angles: Angles | None  # cos, sin (rows, d/2) fp32; None for a layer without positions
    slots: Tensor  # (rows,) int32: where each row's key and value are written
    tables: Tensor
    block_size: int
    sequence: Tensor
    prefix: Tensor
    extra: Tensor
    record: Place | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        integers = (self.tables, self.sequence, self.prefix, self.extra, self.slots)
        is_native = all(x.is_cpu and x.dtype is torch.int32 and x.is_contiguous() for x in integers)
        object.__setattr__(self, "record", None)
        if not is_native or (self.angles is not None and not build.is_native(*self.angles)):
            return
        attention = Attention(None, None, None, *(x.data_ptr() for x in integers[:4]), rows=len(self.slots))
        attention.max_blocks, attention.block_size = self.tables.shape[1], self.block_size
        attention.num_extra = self.extra.shape[1]
        angles = (None, None) if self.angles is None else (self.angles[0].data_ptr(), self.angles[1].data_ptr())
        object.__setattr__(self, "record", Place(attention, *angles, self.slots.data_ptr()))

    def to(self, device: torch.device) -> "Rows":
        """The same rows, told on that device."""
        angles = None if self.angles is None else (self.angles[0].to(device), self.angles[1].to(device))
        sequence, prefix, extra = (x.to(device) for x in (self.sequence, self.prefix, self.extra))
        return Rows(angles, self.slots.to(device), self.tables.to(device), self.block_size, sequence, prefix, extra)


# ---- one layer, or several one after another ------------------------------------------------------------------------


def reference(x: Tensor, weights: LayerWeights, rows: Rows, keys: Tensor, values: Tensor) -> Tensor:
    """The layer out of the single kernels."""
    heads, kv_heads, d = weights.num_heads, weights.num_kv_heads, weights.head_dim
    normed = rms_norm.run(x, weights.attention_norm, weights.eps)
    qkv = linear.run(normed, weights.qkv, weights.qkv_bias).view(x.shape[0], heads + 2 * kv_heads, d)
    q, k, v = qkv.split((heads, kv_heads, kv_heads), 1)
    if weights.query_norm is not None:
        q = rms_norm.run(q, weights.query_norm, weights.eps)
        k = rms_norm.run(k, weights.key_norm, weights.eps)
    q = rope.run(q, k, v, rows.angles, (keys, values), rows.slots)
    seen = Seen(rows.tables, rows.block_size, rows.sequence, rows.prefix, rows.extra, weights.window)
    attended = paged_attention.run(q, keys, values, seen)
    x = x + linear.run(attended.reshape(x.shape[0], heads * d), weights.output)
    normed = rms_norm.run(x, weights.mlp_norm, weights.eps)
    return x + linear.run(swiglu.run(linear.run(normed, weights.gate_up)), weights.down)


Taps = Mapping[int, Tensor]  # after how many layers, and where what comes out of them is kept: (rows, hidden)


def native_all(
    x: Tensor,
    weights: Sequence[LayerWeights],
    rows: Sequence[Rows],
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    taps: Taps,
) -> Tensor:
    """The C kernel: all layers in one parallel region; `can_run` says what it takes."""
    work = stack(x.clone(), weights, rows, keys, values, taps)
    build.function("layers", "pi")(ctypes.addressof(work.record), torch.get_num_threads())
    return work.x


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A native record and what it points to; x (rows, hidden) goes in and comes out."""

    record: Stack
    x: Tensor
    kept: tuple[object, ...]


def stack(
    x: Tensor,
    weights: Sequence[LayerWeights],
    rows: Sequence[Rows],
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    taps: Taps,
) -> Work:
    """The layers' work on `x`, which will be overwritten, as layer.c wants it."""
    first, num_rows = weights[0], len(x)
    queries = first.num_heads * first.head_dim
    inner = first.down.shape[1]
    widths = (x.shape[1], first.qkv.shape[0], queries, queries, inner, inner, inner)
    room = torch.empty(num_rows * sum(widths))
    pointers = ctypes.c_void_p * len(weights)
    record = Stack(num_layers=len(weights), rows=num_rows, kind=CACHE_KINDS[keys[0].dtype], x=x.data_ptr())
    arrays = (
        pointers(*[ctypes.addressof(layer.record) for layer in weights]),
        pointers(*[ctypes.addressof(row.record) for row in rows]),
        pointers(*[tensor.data_ptr() for tensor in keys]),
        pointers(*[tensor.data_ptr() for tensor in values]),
        pointers(*[taps[number].data_ptr() if number in taps else None for number in range(1, 1 + len(weights))]),
    )
    record.weights, record.places, record.keys, record.values, record.taps = map(ctypes.addressof, arrays)
    at = room.data_ptr()
    for name, width in zip(ROOMS, widths, strict=True):
        setattr(record, name, at)
        at += 4 * num_rows * width
    return Work(record, x, (room, arrays))


def can_run(
    x: Tensor, weights: Sequence[LayerWeights], rows: Sequence[Rows], keys: Sequence[Tensor], values: Sequence[Tensor]
) -> bool:
    """fp32 rows on the CPU, records for all weights and rows, contiguous caches of one known type."""
    if not build.is_native(x) or any(part.record is None for part in (*weights, *rows)):
        return False
    dtype = keys[0].dtype
    return dtype in CACHE_KINDS and all(x.dtype is dtype and x.is_contiguous() for x in (*keys, *values))


NO_TAPS: Taps = {}


def run_all(
    x: Tensor,
    weights: Sequence[LayerWeights],
    rows: Sequence[Rows],
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    taps: Taps = NO_TAPS,
) -> Tensor:
    """x (rows, hidden) through layers of one shape, one after another → (rows, hidden).

    The four sequences have one entry per layer. Each layer writes its keys and values (slots, kv_heads, d) at
    rows.slots. taps: contiguous tensors that are filled on the way. Natively a row's bits do not depend on how many
    rows there are.
    """
    x = x.contiguous()
    if len(weights) and len(x) and can_run(x, weights, rows, keys, values):
        return native_all(x, weights, rows, keys, values, taps)
    for number, arguments in enumerate(zip(weights, rows, keys, values, strict=True), start=1):
        x = reference(x, *arguments)
        if number in taps:
            taps[number].copy_(x)
    return x


def run(x: Tensor, weights: LayerWeights, rows: Rows, keys: Tensor, values: Tensor) -> Tensor:
    """x (rows, hidden) → (rows, hidden) through one layer; see `run_all`."""
    return run_all(x, (weights,), (rows,), (keys,), (values,))


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, LayerWeights, Rows, Tensor, Tensor]:
    """Arguments for `run`: five rows through a small layer after 256 tokens, fp16 weights and cache."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(*shape: int) -> Packed:
        return linear.pack((torch.randn(shape, generator=generator) / shape[1] ** 0.5).to(device), "float16")

    ones = torch.ones(64, device=device)
    qkv, output, gate_up, down = matrix(128, 64), matrix(64, 64), matrix(256, 64), matrix(64, 128)
    weights = LayerWeights(4, 2, 16, 1e-5, ones, qkv, None, None, None, output, ones, gate_up, down)
    positions = torch.arange(256, 261, device=device)
    angles = positions[:, None] * 1e5 ** (-torch.arange(8, device=device) / 8)
    tables, sequence = torch.arange(32, device=device)[None].int(), torch.zeros(5, device=device).int()
    seen = (tables, 16, sequence, positions.int() + 1, torch.empty(5, 0, device=device).int())
    keys, values = torch.randn(2, 512, 2, 16, generator=generator).half().to(device)
    x = torch.randn(5, 64, generator=generator).to(device)
    return x, weights, Rows((angles.cos(), angles.sin()), positions.int(), *seen), keys, values
