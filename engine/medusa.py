"""Medusa heads: four tokens ahead guessed from one hidden state of the target (Cai et al., ICML 2024, Medusa-1).

Knows nothing of sequences or trees. Head k is one residual block, x + SiLU(W x), and guesses the token k places after
the next one. All share one reduced projection onto words: those rows of the target's output head that may be proposed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.cache import KVCache
from engine.features import FeatureCache
from engine.head import HeadFile, check_target, draft_dtype
from engine.model import Model
from kernels import linear, rms_norm
from kernels.memory import Slab


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """Sizes: the target's hidden size and eps, and how many tokens ahead are guessed; read after `layers` layers."""

    hidden: int
    ahead: int
    eps: float
    layers: tuple[int, ...]

    def tensors(self, vocab: int) -> dict[str, tuple[int, ...]]:
        """What the file of such heads holds: names and shapes, with `vocab` ids that they may propose."""
        h = self.hidden
        return {"blocks": (self.ahead * h, h), "norm": (h,), "draft_ids": (vocab,)}


class Medusa:
    """The heads' weights beside their target's; one cache of features serves all requests."""

    def __init__(self, file: HeadFile, model: Model, cache: KVCache) -> None:
        """`cache` is the target's: block numbers and dtype are shared. Raises EngineError as `engine.head.Head`."""
        check_target(file, model)
        self.shape, slab = file.shape, Slab()
        dtype = str(cache.keys[0].dtype).removeprefix("torch.")
        place = (cache.num_slots, cache.block_size, dtype, model.device)
        self.features = FeatureCache(self.shape.layers, self.shape.hidden, *place)
        self.draft_ids = file.tensors["draft_ids"].long()
        kept = draft_dtype(model)
        self._blocks = linear.pack(file.tensors["blocks"].to(model.device).float(), kept, slab)
        self._norm = file.tensors["norm"].to(model.device, model.norm.dtype)
        self._ones = torch.ones_like(self._norm)
        self._head = linear.pack(linear.unpack(model.head)[self.draft_ids.to(model.device)], kept, slab)

    def logits(self, slot: int) -> Tensor:
        """From what the target felt in that slot → logits of each token ahead, fp32 on the CPU.

        They are (ahead, len(draft_ids)).
        """
        eps = self.shape.eps
        felt = rms_norm.run(self.features.read([slot], self._norm.dtype), self._ones, eps)  # (1, hidden)
        x = felt + F.silu(linear.run(felt, self._blocks).view(self.shape.ahead, -1))
        return linear.run(rms_norm.run(x, self._norm, eps), self._head).float().cpu()
