"""What EAGLE-1 and EAGLE-3 do before and after their one layer: how features come in, and how words go out.

Knows nothing of the layer between, of rows or of caches. EAGLE-1 (and EAGLE-2, which only drafts otherwise) reads the
target's last hidden state after the final norm and speaks through the target's own output head: eagle/model/cnets1.py
of SafeAILab/EAGLE. EAGLE-3 mixes three hidden states and has words of its own: cnets.py there; vLLM's llama_eagle3.py;
models/eagle3/core.py of vllm-project/speculators, which adds norms before `fc` and before the residual.
"""

import torch
from torch import Tensor

from engine.model import Model
from engine.published import Published
from kernels import linear, rms_norm
from kernels.linear import Packed
from kernels.memory import Slab


class HeadWeights:
    """Takes a head's tensors by name and packs them as the target's are: int8 targets keep their head in fp16."""

    def __init__(self, published: Published, model: Model) -> None:
        self.tensors, self._device = published.tensors, model.device
        self._dtype = model.norm.dtype  # of what flows between the target's layers
        self._kept = model.dtype if model.dtype != "int8" else "float16"
        self._slab = Slab()

    def matrix(self, *names: str) -> Packed:
        """Stacked, so that one product computes them all."""
        return linear.pack(torch.cat([self.tensors[name] for name in names]).to(self._device), self._kept, self._slab)

    def vector(self, *names: str) -> Tensor | None:
        """A norm's weights or a bias, several in a row; None where the file has none."""
        if not all(name in self.tensors for name in names):
            return None
        return torch.cat([self.tensors[name] for name in names]).to(self._device, self._dtype)


class Eagle1Ends:
    """fc joins token and feature; what comes out is what runs past the layer and what its attention reads."""

    def __init__(self, published: Published, weights: HeadWeights, model: Model) -> None:
        self._model = model
        self._fuse, self._fuse_bias = weights.matrix("fc.weight"), weights.vector("fc.bias")

    def given(self, felt: Tensor) -> Tensor:
        """felt (rows, hidden), after the target's last layer → what its final norm makes of that, the features."""
        return rms_norm.run(felt, self._model.norm, self._model.config.rms_norm_eps)

    def enter(self, tokens: Tensor, felt: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and features (rows, hidden) each → the residual stream and the input of attention."""
        x = linear.run(torch.cat((tokens, felt), 1), self._fuse, self._fuse_bias)
        return x, x

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) → (rows, vocab). No norm comes before the words, for x is a guess at a normed state."""
        return linear.run(x, self._model.head)


class Eagle3Ends:
    """The layer's attention reads token and mixture side by side, each after a norm of its own."""

    def __init__(self, published: Published, weights: HeadWeights, eps: float) -> None:
        self._eps = eps
        self._fuse, self._input_norm = weights.matrix("fc.weight"), weights.vector("input_norm.weight")
        self._token_norm = weights.vector("layers.0.input_layernorm.weight")
        self._felt_norm = weights.vector("layers.0.hidden_norm.weight")
        self._norm, self._words = weights.vector("norm.weight"), weights.matrix("lm_head.weight")
        self._is_residual_normed = bool(published.config.get("norm_before_residual"))

    def given(self, felt: Tensor) -> Tensor:
        """felt (rows, layers · target's hidden), side by side → the mixture (rows, hidden)."""
        felt = felt if self._input_norm is None else rms_norm.run(felt, self._input_norm, self._eps)
        return linear.run(felt, self._fuse)

    def enter(self, tokens: Tensor, felt: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and features (rows, hidden) each → the residual stream, and twice as wide attention's input."""
        normed = rms_norm.run(felt, self._felt_norm, self._eps)
        read = torch.cat((rms_norm.run(tokens, self._token_norm, self._eps), normed), 1)
        return normed if self._is_residual_normed else felt, read

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) → (rows, words of its own)."""
        return linear.run(rms_norm.run(x, self._norm, self._eps), self._words)
