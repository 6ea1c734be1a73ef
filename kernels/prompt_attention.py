"""Causal attention of one sequence's prompt rows over its blocks."""

import torch
from torch import Tensor


def reference(
    queries: Tensor, keys: Tensor, values: Tensor, table: Tensor, block_size: int, context: int, window: int = 0
) -> Tensor:
    """One dense masked softmax over gathered slots; see `run`."""
    rows, heads, d = queries.shape
    positions = torch.arange(context + rows, device=queries.device)
    slots = table.long()[positions // block_size] * block_size + positions % block_size
    group = heads // keys.shape[1]
    k = keys[slots].float().repeat_interleave(group, 1)
    v = values[slots].float().repeat_interleave(group, 1)
    own = positions[context:, None]
    hidden = positions[None] > own
    if window:
        hidden |= positions[None] <= own - window
    scores = torch.einsum("rhd,vhd->hrv", queries.float(), k) * d**-0.5
    return torch.einsum("hrv,vhd->rhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v).to(queries.dtype)


def run(
    queries: Tensor, keys: Tensor, values: Tensor, table: Tensor, block_size: int, context: int, window: int = 0
) -> Tensor:
    """queries (rows, heads, d) at positions context … context + rows − 1; table (blocks,) int32 → (rows, heads, d).

    Row r sees positions 0 … context + r (already written to the cache), only the last `window` if that is not 0.
    """
    return reference(queries, keys, values, table, block_size, context, window)
