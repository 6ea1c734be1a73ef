"""Causal attention of one sequence's prompt rows over its blocks.

Knows nothing of models. The same sum as paged_attention.py, for rows that follow one another: row r sees positions
0 … context + r. With n rows that is about 4·n·(context + n/2)·heads·d operations; the native kernel (attention.c)
widens a tile of 64 keys and values once for up to 32 queries.
"""

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.paged_attention import Attention, can_run, native_call
from kernels.rope import CACHE_KINDS


class Place(NamedTuple):
    """Where the rows stand: table (blocks,) int32, tokens before them, and how many tokens a row sees (0 = all)."""

    table: Tensor
    block_size: int
    context: int
    window: int = 0


def reference(queries: Tensor, keys: Tensor, values: Tensor, place: Place) -> Tensor:
    """One dense masked softmax over gathered slots; see `run`."""
    rows, heads, d = queries.shape
    table, block_size, context, window = place
    positions = torch.arange(context + rows, device=queries.device)
    slots = table.long()[positions // block_size] * block_size + positions % block_size
    group = heads // keys.shape[1]
    k = keys[slots].float().repeat_interleave(group, 1)  # (visible, heads, d)
    v = values[slots].float().repeat_interleave(group, 1)
    own = positions[context:, None]
    is_hidden = positions[None] > own  # (rows, visible)
    if window:
        is_hidden |= positions[None] <= own - window
    scores = torch.einsum("rhd,vhd->hrv", queries.float(), k) * d**-0.5
    return torch.einsum("hrv,vhd->rhd", scores.masked_fill(is_hidden, -torch.inf).softmax(-1), v).to(queries.dtype)


def native(queries: Tensor, keys: Tensor, values: Tensor, place: Place) -> Tensor:
    """The C kernel; `paged_attention.can_run` says what it takes."""
    rows, heads, d = queries.shape
    table = place.table.int().contiguous()
    out = torch.empty_like(queries)
    pointers = (queries.data_ptr(), keys.data_ptr(), values.data_ptr(), table.data_ptr(), None, None, None)
    lengths = (len(table), place.block_size, 0, place.context, place.window)
    sizes = (rows, heads, keys.shape[1], d, CACHE_KINDS[keys.dtype], *lengths)
    job = Attention(*pointers, out.data_ptr(), *sizes, d**-0.5)
    native_call()(ctypes.addressof(job), torch.get_num_threads())
    return out


def run(queries: Tensor, keys: Tensor, values: Tensor, place: Place) -> Tensor:
    """queries (rows, heads, d) at positions context … context + rows − 1 → (rows, heads, d).

    Row r sees positions 0 … context + r (already written to the cache), only the last `window` if that is not 0.
    """
    queries = queries.contiguous()
    attend = native if can_run(queries, keys, values) else reference
    return attend(queries, keys, values, place)


def example(device: str = "cpu", seed: int = 0) -> tuple:
    """Arguments for `run`: sixty prompt rows after 100 cached tokens, over an fp16 cache."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 512, 3, 64, generator=generator).half().to(device)
    table = torch.randperm(32, generator=generator).int().to(device)
    return torch.randn(60, 9, 64, generator=generator).to(device), keys, values, Place(table, 16, 100)
