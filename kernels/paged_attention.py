"""Attention of a few rows over a cache that lies in blocks: chains and trees alike.

Knows nothing of models or of who owns which block. Per row and head: out = Σ softmax(q · kᵀ / √d) v over what the row
sees. A row reads 2·visible·kv_heads·d cached numbers and does 4·visible·heads·d operations; query heads that share a
key head share its reading (GQA). The native kernel is in attention.c.
"""

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from kernels import build
from kernels.rope import CACHE_KINDS, MOST_DIM


class Seen(NamedTuple):
    """What each row sees: first its prefix through a block table, then slots of its own; of these the last `window`.

    tables (sequences, max_blocks) int32; sequence (rows,) int32: whose table; prefix (rows,) int32: tokens of it;
    extra (rows, E) int32: slots, root first, −1 = none (all of them last). At least one token in all; window 0 = all.
    """

    tables: Tensor
    block_size: int
    sequence: Tensor
    prefix: Tensor
    extra: Tensor
    window: int = 0

    def slots(self, row: int) -> Tensor:
        """The slots that a row sees, in order: (visible,) int64."""
        positions = torch.arange(int(self.prefix[row]), device=self.tables.device)
        table = self.tables[int(self.sequence[row])].long()
        slots = table[positions // self.block_size] * self.block_size + positions % self.block_size
        slots = torch.cat((slots, self.extra[row][self.extra[row] >= 0].long()))
        return slots[max(0, len(slots) - self.window) if self.window else 0 :]


class Attention(ctypes.Structure):
    """Attention of native.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("queries", "keys", "values", "tables")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("sequence", "prefix", "extra", "out")]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "heads", "kv_heads", "d", "kind")]
    _fields_ += [(name, ctypes.c_int64) for name in ("max_blocks", "block_size", "num_extra", "context", "window")]
    _fields_ += [("scale", ctypes.c_float)]


def native_call():
    """The C function, or None."""
    return build.function("attention", "pi")


def can_run(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """fp32 queries and a contiguous cache of a known type, all on the CPU; heads of at most 256."""
    is_cache = all(x.is_contiguous() and x.dtype in CACHE_KINDS for x in (keys, values)) and keys.dtype is values.dtype
    return is_cache and queries.shape[2] <= MOST_DIM and build.is_native(queries) and native_call() is not None


def reference(queries: Tensor, keys: Tensor, values: Tensor, seen: Seen) -> Tensor:
    """Row by row with gathered slots, in PyTorch; see `run`."""
    out = torch.empty_like(queries)
    group = queries.shape[1] // keys.shape[1]
    for row in range(queries.shape[0]):
        slots = seen.slots(row)
        k = keys[slots].float().repeat_interleave(group, 1)  # (visible, heads, d)
        v = values[slots].float().repeat_interleave(group, 1)
        scores = torch.einsum("hd,vhd->hv", queries[row].float(), k) * queries.shape[-1] ** -0.5
        out[row] = torch.einsum("hv,vhd->hd", scores.softmax(-1), v).to(out.dtype)
    return out


def gathered(queries: Tensor, keys: Tensor, values: Tensor, seen: Seen) -> Tensor:
    """All rows at once in PyTorch, over whole tables with a mask: nothing of it waits for a GPU."""
    rows, heads, d = queries.shape
    size = seen.block_size
    positions = torch.arange(seen.tables.shape[1] * size, device=queries.device)
    slots = seen.tables[seen.sequence.long()].long()[:, positions // size] * size + positions % size
    slots = torch.cat((slots, seen.extra.long().clamp_min(0)), 1)  # (rows, seen or not)
    is_seen = torch.cat((positions < seen.prefix[:, None], seen.extra >= 0), 1)
    if seen.window:
        is_seen &= is_seen.cumsum(1) > is_seen.sum(1, keepdim=True) - seen.window
    k, v = keys[slots].float(), values[slots].float()  # (rows, seen or not, kv_heads, d)
    v = v.masked_fill(~is_seen[:, :, None, None], 0)  # an unused slot may hold NaN, and 0 · NaN is NaN
    grouped = queries.float().view(rows, keys.shape[1], -1, d)
    scores = torch.einsum("rkgd,rskd->rkgs", grouped, k) * d**-0.5
    weights = scores.masked_fill(~is_seen[:, None, None], -torch.inf).softmax(-1)
    return torch.einsum("rkgs,rskd->rkgd", weights, v).reshape(rows, heads, d).to(queries.dtype)


def native(queries: Tensor, keys: Tensor, values: Tensor, seen: Seen) -> Tensor:
    """The C kernel; `can_run` says what it takes. All integer tensors int32."""
    rows, heads, d = queries.shape
    integers = [x.int().contiguous() for x in (seen.tables, seen.sequence, seen.prefix, seen.extra)]
    pointers = [x.data_ptr() for x in (queries, keys, values, *integers)]
    out = torch.empty_like(queries)
    lengths = (seen.tables.shape[1], seen.block_size, seen.extra.shape[1], 0, seen.window)
    sizes = (rows, heads, keys.shape[1], d, CACHE_KINDS[keys.dtype], *lengths)
    job = Attention(*pointers, out.data_ptr(), *sizes, d**-0.5)
    native_call()(ctypes.addressof(job), torch.get_num_threads())
    return out


def run(queries: Tensor, keys: Tensor, values: Tensor, seen: Seen) -> Tensor:
    """queries (rows, heads, d); keys, values (slots, kv_heads, d) → (rows, heads, d).

    Natively a row's bits depend on what it sees alone, in that order: so a chain and the same path in a tree agree
    exactly.
    """
    queries = queries.contiguous()
    slow = reference if queries.is_cpu else gathered
    attend = native if can_run(queries, keys, values) else slow
    return attend(queries, keys, values, seen)


def example(device: str = "cpu", seed: int = 0) -> tuple:
    """Arguments for `run`: five rows of one sequence at context 256, as a chain, over an fp16 cache."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 512, 3, 64, generator=generator).half().to(device)
    tables = torch.randperm(32, generator=generator)[None].int().to(device)
    queries = torch.randn(5, 9, 64, generator=generator).to(device)
    prefix = torch.arange(257, 262, dtype=torch.int32, device=device)
    extra = torch.empty(5, 0, dtype=torch.int32, device=device)
    return queries, keys, values, Seen(tables, 16, torch.zeros_like(prefix), prefix, extra)
