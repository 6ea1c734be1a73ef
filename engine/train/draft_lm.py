"""The tiny language model in training: distilled from the target, between the target's own embedding and words.

Knows nothing of where data comes from. Parameters have the names and shapes of the file that is shipped.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.draft_lm import LmShape
from engine.train.loop import Class
from engine.train.words import Words, drawn, rms, rotated


class TinyLm(nn.Module):
    """A small Llama; only what lies between the frozen ends is learned."""

    def __init__(self, shape: LmShape, embedding: Tensor, words: Words, norm: Tensor) -> None:
        """embedding (vocab, target) and norm (target,) are the target's, the words' rows are those of its head."""
        super().__init__()
        self.shape, self.words, self._embedding = shape, words, embedding
        scale = torch.cat((embedding.std()[None], norm.abs().mean()[None]))  # of the two ends
        wanted = shape.tensors(len(words.draft_ids))
        for name, size in wanted.items():
            if name == "draft_ids":
                continue
            is_last = name.startswith(("output_", "down_"))
            gain = 1 / math.sqrt(2 * shape.num_layers) if is_last else 1.0
            value = nn.Parameter(torch.ones(size)) if len(size) == 1 else drawn(*size, gain)
            self.register_parameter(name, value)
        with torch.no_grad():
            self.get_parameter("project").div_(scale[0])
            self.get_parameter("return").mul_(scale[1])

    def loss(self, batch: Class) -> Tensor:
        """Cross-entropy with the target's law over the draft's vocabulary."""
        rows = batch.is_answer
        return self.words.loss(self._logits(batch)[rows], batch.top_ids[rows], batch.top_probs[rows])

    def unroll(self, batch: Class, steps: int) -> list[Tensor]:
        """As `Pupil`. A chain goes on only while its guesses are the text, so all steps say what the first one does."""
        return [self.words.favourites(self._logits(batch))] * steps

    def _logits(self, batch: Class) -> Tensor:
        weights, shape = dict(self.named_parameters()), self.shape
        x = F.linear(self._embedding[batch.token_ids], weights["project"])
        for index in range(shape.num_layers):
            qkv, output, gate_up, down, before, between = (
                weights[f"{name}_{index}"]
                for name in ("qkv", "output", "gate_up", "down", "attention_norm", "mlp_norm")
            )
            x = x + F.linear(self._attended(rms(x, shape.eps) * before, qkv), output)
            gate, up = F.linear(rms(x, shape.eps) * between, gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return self.words.logits(F.linear(rms(x, shape.eps) * weights["norm"], weights["return"]))

    def _attended(self, x: Tensor, qkv: Tensor) -> Tensor:
        shape, (batch, rows, _) = self.shape, x.shape
        heads, kv_heads = shape.num_heads, shape.num_kv_heads
        parts = F.linear(x, qkv).view(batch, rows, heads + 2 * kv_heads, shape.head_dim).transpose(1, 2)
        q, k, v = parts.split((heads, kv_heads, kv_heads), 1)
        q, k = rotated(q, shape.rope_theta), rotated(k, shape.rope_theta)
        k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
