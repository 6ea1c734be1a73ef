"""What the target's layers said about each token, kept in the same numbered slots as its keys and values.

Knows nothing of who reads them (trained heads do). Because features lie where keys and values lie, prefix caching,
forks, copy-on-write and the accepted path of a tree work for them as for the cache.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import EngineError
from kernels import memory


class FeatureCache:
    """(slots, features · hidden): row s holds the hidden states of the token in slot s after `layers` many layers."""

    def __init__(
        self, layers: Sequence[int], hidden: int, num_slots: int, block_size: int, dtype: str, device: torch.device
    ) -> None:
        """layers: increasing; (10, 30) keeps what comes out of layers 9 and 29. dtype: float16 and the like."""
        self.layers = tuple(layers)
        self.block_size = block_size
        self.hidden = hidden
        try:
            self._rows = memory.zeros((num_slots, len(self.layers) * hidden), getattr(torch, dtype), device)
        except (RuntimeError, OverflowError) as error:
            sentence = f"features of {len(self.layers)} layers for {num_slots} slots do not fit into memory"
            raise EngineError("bad_config", sentence, name="num_blocks") from error

    @property
    def num_bytes(self) -> int:
        """Memory of all features, used or not."""
        return self._rows.nbytes

    def write(self, slots: Tensor, states: Sequence[Tensor]) -> None:
        """Keeps the hidden states (rows, hidden) after each of `layers`, at `slots` (rows,)."""
        self._rows.index_copy_(0, slots.long(), torch.cat(tuple(states), 1).to(self._rows.dtype))

    def read(self, slots: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """(slots, features · hidden), in the type that the reader computes in."""
        return self._rows[torch.tensor(slots, dtype=torch.int64, device=self._rows.device)].to(dtype)

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """As the cache's: copies the first `num_tokens` slots of block `source` to block `target`."""
        read, write = source * self.block_size, target * self.block_size
        self._rows[write : write + num_tokens] = self._rows[read : read + num_tokens]

    def move(self, from_slots: Sequence[int], to_slots: Sequence[int]) -> None:
        """As the cache's: copies each slot of `from_slots` to its partner in `to_slots`; the two may overlap."""
        if from_slots:
            device = self._rows.device
            self._rows[torch.tensor(to_slots, device=device)] = self._rows[torch.tensor(from_slots, device=device)]
