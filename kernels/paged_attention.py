"""Attention of a few rows over a cache that lies in blocks: chains and trees alike."""

import torch
from torch import Tensor


def reference(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    block_size: int,
    row_sequence: Tensor,
    row_prefix: Tensor,
    row_extra: Tensor,
    window: int = 0,
) -> Tensor:
    """Row by row with gathered slots; see `run`."""
    out = torch.empty_like(queries)
    group = queries.shape[1] // keys.shape[1]
    for row in range(queries.shape[0]):
        positions = torch.arange(int(row_prefix[row]), device=queries.device)
        table = tables[int(row_sequence[row])].long()
        slots = table[positions // block_size] * block_size + positions % block_size
        slots = torch.cat((slots, row_extra[row][row_extra[row] >= 0].long()))
        slots = slots[max(0, len(slots) - window) if window else 0 :]
        k = keys[slots].float().repeat_interleave(group, 1)  # (visible, heads, d)
        v = values[slots].float().repeat_interleave(group, 1)
        scores = torch.einsum("hd,vhd->hv", queries[row].float(), k) * queries.shape[-1] ** -0.5
        out[row] = torch.einsum("hv,vhd->hd", scores.softmax(-1), v).to(out.dtype)
    return out


def run(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    block_size: int,
    row_sequence: Tensor,
    row_prefix: Tensor,
    row_extra: Tensor,
    window: int = 0,
) -> Tensor:
    """queries (rows, heads, d); keys, values (slots, kv_heads, d); tables (sequences, max_blocks) int32.

    Row r sees the first `row_prefix[r]` tokens of sequence `row_sequence[r]` through its table, then the slots
    `row_extra[r]` (rows, E) int32, −1 = none, root first. Only the last `window` of these count (0 = all).
    """
    return reference(queries, keys, values, tables, block_size, row_sequence, row_prefix, row_extra, window)
