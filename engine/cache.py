"""The keys and values of every token that was computed, in numbered slots.

Knows nothing of sequences or of who owns a block: slot = block · block_size + offset, and whoever writes or reads
brings the slots along.
"""

import math
from collections.abc import Sequence

import torch

from engine.errors import EngineError
from engine.model_config import ModelConfig
from kernels import memory


class KVCache:
    """One tensor of keys and one of values per layer: (slots, kv_heads, head_dim)."""

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int, dtype: str, device: str | torch.device = "cpu"
    ) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.num_slots = num_blocks * block_size
        shape = (config.num_layers, self.num_slots, config.num_kv_heads, config.head_dim)
        # All layers of a kind lie in one allocation, so that a copy of slots is one operation and not one per layer.
        try:
            self._keys = memory.zeros(shape, getattr(torch, dtype), device)
            self._values = memory.zeros(shape, getattr(torch, dtype), device)
        except (RuntimeError, OverflowError) as error:  # torch names no smaller class for a lack of memory on the CPU
            size = 2 * math.prod(shape) * getattr(torch, dtype).itemsize
            sentence = f"num_blocks is {num_blocks}: a cache of {size / 1e9:.1f} GB does not fit into memory"
            raise EngineError("bad_config", sentence, name="num_blocks", bytes=size) from error
        self.keys = self._keys.unbind()  # layers × (slots, kv_heads, head_dim)
        self.values = self._values.unbind()

    @property
    def num_bytes(self) -> int:
        """Memory of all keys and values, used or not."""
        return 2 * self._keys.nbytes

    def slots(self, table: Sequence[int], first: int, last: int) -> list[int]:
        """The slots of tokens first … last − 1 of the sequence that has this block table."""
        size = self.block_size
        return [table[index // size] * size + index % size for index in range(first, last)]

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """Copies the first `num_tokens` slots of block `source` to block `target`, in all layers (copy-on-write)."""
        read, write = source * self.block_size, target * self.block_size
        for tensor in (self._keys, self._values):
            tensor[:, write : write + num_tokens] = tensor[:, read : read + num_tokens]

    def move(self, from_slots: Sequence[int], to_slots: Sequence[int]) -> None:
        """Copies each slot of `from_slots` to its partner in `to_slots`, in all layers; the two may overlap."""
        if not from_slots:
            return
        read = torch.tensor(from_slots, device=self._keys.device)
        write = torch.tensor(to_slots, device=self._keys.device)
        for tensor in (self._keys, self._values):
            tensor[:, write] = tensor[:, read]
