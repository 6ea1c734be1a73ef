"""Products of activation rows with a weight matrix stored as fp32, fp16, bf16 or int8: y = x · Wᵀ + bias.

Knows nothing of models; it sees one matrix at a time. With r rows it does 2·r·out·in operations on out·in weights of
4, 2 or 1 bytes each, which all come from memory: a few rows cost what one costs, until arithmetic takes longer than
the reading (about 5 rows of fp16 on two AVX2 cores). The native kernel is in linear.c.
"""

import ctypes
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import build
from kernels.memory import Slab

PANEL = 16  # outputs that lie side by side in the native layout (panels, in, PANEL)
KINDS = {"float32": 0, "float16": 1, "int8": 2, "bfloat16": 3}
PADDED_ROWS = 8  # PyTorch's result for a row depends on how many there are; so without a compiler there are always 8


class Matrix(ctypes.Structure):
    """Matrix of native.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("data", "scale")]
    _fields_ += [(name, ctypes.c_int64) for name in ("outputs", "inputs", "kind")]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A weight matrix as the kernels want it. `shape` is (out, in), whatever `data` looks like (see `unpack`).

    dtype: how weights are stored; scale (out,) fp32 for int8, else None; matrix: the native record, None without one.
    """

    dtype: str
    data: Tensor
    scale: Tensor | None
    shape: tuple[int, int]
    matrix: Matrix | None = field(default=None, repr=False)


def _native():
    return build.function("linear", "ppippi")


# ---- storing weights ------------------------------------------------------------------------------------------------


def pack(weight: Tensor, dtype: str, slab: Slab | None = None) -> Packed:
    """weight (out, in), stored as "float32", "float16", "bfloat16" or "int8" (a scale per output, largest ↦ 127).

    slab: where the native layout shall lie, so that all matrices of a model share huge pages.
    """
    if dtype not in KINDS:
        raise ValueError(f"dtype is {dtype!r}; it must be one of {tuple(KINDS)}")
    num_out, num_in = weight.shape
    scale = None
    if dtype == "int8":
        scale = weight.float().abs().amax(1).clamp_min(1e-30) / 127
        stored = torch.round(weight.float() / scale[:, None]).to(torch.int8)
    else:
        stored = weight.detach().to(getattr(torch, dtype))
    if not weight.is_cpu:
        return Packed(dtype, stored.contiguous(), scale, (num_out, num_in))
    if _native() is None:  # PyTorch on a CPU is fast in fp32 alone; the values stay those of `dtype`
        return Packed(dtype, stored.float().contiguous(), scale, (num_out, num_in))
    stored = F.pad(stored, (0, 0, 0, -num_out % PANEL)).view(-1, PANEL, num_in).transpose(1, 2)
    empty = slab.empty if slab else torch.empty
    panels = empty(stored.shape, dtype=stored.dtype).copy_(stored)
    matrix = Matrix(panels.data_ptr(), None if scale is None else scale.data_ptr(), num_out, num_in, KINDS[dtype])
    return Packed(dtype, panels, scale, (num_out, num_in), matrix)


def halves(packed: Packed) -> tuple[Matrix, Matrix]:
    """Native records of the first and the second half of the outputs, which must be a multiple of 2 · PANEL."""
    whole, half = packed.matrix, packed.shape[0] // 2
    bytes_of_half = packed.data.element_size() * half * packed.shape[1]
    second_scale = None if packed.scale is None else whole.scale + packed.scale.element_size() * half
    first = Matrix(whole.data, whole.scale, half, whole.inputs, whole.kind)
    return first, Matrix(whole.data + bytes_of_half, second_scale, half, whole.inputs, whole.kind)


def unpack(packed: Packed, dtype: torch.dtype = torch.float32) -> Tensor:
    """The stored values as an (out, in) matrix."""
    data = packed.data
    if packed.matrix is not None:
        data = data.transpose(1, 2).reshape(-1, packed.shape[1])[: packed.shape[0]]
    weight = data.to(dtype)
    return weight if packed.scale is None else weight * packed.scale[:, None].to(dtype)


def embed(packed: Packed, token_ids: Tensor) -> Tensor:
    """Rows `token_ids` (n,) of the matrix, fp32 (n, in): tied embeddings live in the output head's memory."""
    if packed.matrix is None:
        rows = packed.data[token_ids].float()
        return rows if packed.scale is None else rows * packed.scale[token_ids, None]
    wanted, (num_out, num_in) = token_ids.tolist(), packed.shape
    if wanted and not 0 <= min(wanted) <= max(wanted) < num_out:
        raise IndexError(f"rows {min(wanted)} to {max(wanted)} of a matrix with {num_out}")
    token_ids, rows = token_ids.long().contiguous(), torch.empty(len(wanted), num_in)
    call = build.function("embed", "ppip")
    call(ctypes.addressof(packed.matrix), token_ids.data_ptr(), len(wanted), rows.data_ptr())
    return rows


# ---- the product ----------------------------------------------------------------------------------------------------


def reference(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) → (rows, out), in PyTorch."""
    return F.linear(x, unpack(packed, x.dtype), bias)


def native(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """The C kernel: x (rows, in) fp32 contiguous → (rows, out) fp32, each output one chain of additions over `in`."""
    y = torch.empty(x.shape[0], packed.shape[0])
    bias_pointer = None if bias is None else bias.data_ptr()
    address = ctypes.addressof(packed.matrix)
    _native()(address, x.data_ptr(), x.shape[0], bias_pointer, y.data_ptr(), torch.get_num_threads())
    return y


def run(x: Tensor, packed: Packed, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) → (rows, out). On a CPU a row's result is bit-identical whatever rows go with it."""
    if packed.matrix is not None:
        x = x.contiguous()
        if build.is_native(x, bias):
            return native(x, packed, bias)
    if not x.is_cpu or x.shape[0] > PADDED_ROWS**2:
        return reference(x, packed, bias)
    weight = unpack(packed, x.dtype)
    padded = F.pad(x, (0, 0, 0, -x.shape[0] % PADDED_ROWS))
    return torch.cat([F.linear(part, weight, bias) for part in padded.split(PADDED_ROWS)])[: x.shape[0]]


def example(device: str = "cpu", seed: int = 0) -> tuple[Tensor, Packed]:
    """Arguments for `run`: five rows and one matrix of SmolLM2's size, fp16."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(1536, 576, generator=generator) * 576**-0.5
    return torch.randn(5, 576, generator=generator).to(device), pack(weight.to(device), "float16")
