"""Medusa heads as others published them: residual blocks, and for each head words of its own.

Knows nothing of sequences, trees or files. Head k is `{k}.{layer}.linear` for each block, x + SiLU(W x + b), then
`{k}.{layers}.weight` over the whole vocabulary (FasterDecoding/Medusa, medusa/model/medusa_model.py); where that last
matrix is missing, the target's own serves (medusa_model_legacy.py). A config may tell fewer heads than its file holds,
as that of medusa-vicuna-7b-v1.3 does; all that are there are used.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.cache import KVCache
from engine.features import FeatureCache
from engine.model import Model
from engine.published import Published, bad
from engine.published_ends import HeadWeights
from engine.published_shape import check_size, check_tensors
from kernels import linear, rms_norm


class PublishedMedusa:
    """The heads beside their target; drafts as `engine.medusa.Medusa` does."""

    def __init__(self, published: Published, model: Model, cache: KVCache) -> None:
        """`cache` is the target's: block numbers and dtype are shared.

        Raises EngineError("other_target") for other sizes than the target's, ("bad_head") for what is missing.
        """
        _check(published, model)
        config, tensors = model.config, published.tensors
        dtype = str(cache.keys[0].dtype).removeprefix("torch.")
        place = (cache.num_slots, cache.block_size, dtype, model.device)
        self.features = FeatureCache((config.num_layers,), config.hidden_size, *place)
        self.draft_ids = torch.arange(config.vocab_size)
        self._model = model
        weights = HeadWeights(published, model)
        num_heads, num_layers = _count(tensors)
        self._blocks = [
            [(weights.matrix(f"{k}.{i}.linear.weight"), weights.vector(f"{k}.{i}.linear.bias"))
             for i in range(num_layers)]
            for k in range(num_heads)
        ]  # fmt: skip
        words = [f"{k}.{num_layers}.weight" for k in range(num_heads)]
        self._words = [weights.matrix(name) if name in tensors else model.head for name in words]

    def logits(self, slot: int) -> Tensor:
        """From what the target felt in that slot → logits of each token ahead: (heads, vocab), fp32 on the CPU."""
        norm = self._model.norm
        felt = rms_norm.run(self.features.read([slot]).to(norm.dtype), norm, self._model.config.rms_norm_eps)
        ahead = []
        for blocks, words in zip(self._blocks, self._words, strict=True):
            x = felt  # (1, hidden), after the target's final norm
            for weight, bias in blocks:
                x = x + F.silu(linear.run(x, weight, bias))
            ahead.append(linear.run(x, words).float())
        return torch.cat(ahead).cpu()


def _count(tensors: dict[str, Tensor]) -> tuple[int, int]:
    """How many heads there are, and how many blocks the first has."""
    numbers = [name.split(".") for name in tensors if name.endswith(".linear.weight")]
    return 1 + max(int(head) for head, *_ in numbers), sum(head == "0" for head, *_ in numbers)


def _check(published: Published, model: Model) -> None:
    tensors, hidden, vocab = published.tensors, model.config.hidden_size, model.config.vocab_size
    strange = sorted(name for name in tensors if not name.split(".")[0].isdecimal())
    if strange:
        raise bad(published, f"{strange[0]} has no place in the layout medusa", tensor=strange[0])
    check_size(published, "hidden_size", tensors["0.0.linear.weight"].shape[-1], hidden)
    num_heads, num_layers = _count(tensors)
    told = [published.config.get(name) for name in ("medusa_num_heads", "medusa_num_layers")]
    if (isinstance(told[0], int) and told[0] > num_heads) or told[1] not in (None, num_layers):
        found = f"the file has {num_heads} of {num_layers}"
        raise bad(published, f"the config tells {told[0]} heads of {told[1]} blocks each, {found}")
    blocks = [f"{k}.{i}.linear." for k in range(num_heads) for i in range(num_layers)]
    wanted = {f"{name}weight": (hidden, hidden) for name in blocks} | {f"{name}bias": (hidden,) for name in blocks}
    if f"0.{num_layers}.weight" in tensors:
        check_size(published, "vocab_size", len(tensors[f"0.{num_layers}.weight"]), vocab)
        wanted |= {f"{k}.{num_layers}.weight": (vocab, hidden) for k in range(num_heads)}
    check_tensors(published, wanted, {})
