"""An EAGLE head in training: one decoder layer that guesses the target's next hidden state from the last one.

Knows nothing of where data comes from or how long it is trained. Row i is made of token i and of what the target felt
one token earlier (the shifted token: Li et al. 2024, EAGLE, fig. 5). With training-time test (Li et al. 2025, EAGLE-3,
§3.2) the head also practises on its own guesses: step s of row i builds on its own step s − 1 of row i − 1.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.head import HeadShape
from engine.train.loop import Class
from engine.train.words import Words, drawn, later, rms, rotated


@dataclass(frozen=True, slots=True)
class Aims:
    """steps: of training-time test, 1 without. feature_weight: of smooth-L1 on the hidden state (EAGLE-1), or 0."""

    steps: int = 1
    feature_weight: float = 1.0
    law_weight: float = 0.5
    step_decay: float = 0.8
    is_shifted: bool = True  # False is the ablation: the head does not know which token followed the feature


class EagleHead(nn.Module):
    """Parameters have the names and shapes of the file that is shipped."""

    def __init__(self, shape: HeadShape, aims: Aims, embedding: Tensor, words: Words, norm: Tensor) -> None:
        """embedding (vocab, hidden) and norm (hidden,) are the target's, the words' rows are those of its head."""
        super().__init__()
        self.shape, self.aims = shape, aims
        h, d = shape.hidden, shape.head_dim
        self.token_norm = nn.Parameter(torch.ones(h))
        self.feature_norm = nn.Parameter(torch.ones(h))
        self.fuse = nn.Parameter(torch.cat((torch.zeros(h, h), torch.eye(h)), 1))  # starts by repeating the feature
        self.attention_norm = nn.Parameter(torch.ones(h))
        self.qkv = drawn((shape.num_heads + 2 * shape.num_kv_heads) * d, h)
        self.output = drawn(h, shape.num_heads * d, 0.1)
        self.mlp_norm = nn.Parameter(torch.ones(h))
        self.gate_up = drawn(2 * shape.inner, h)
        self.down = drawn(h, shape.inner, 0.1)
        self.norm = nn.Parameter(norm.clone())
        if len(shape.layers) > 1:
            self.mix = drawn(h, len(shape.layers) * h)
        self._embedding, self.words = embedding, words

    # ---- what is learned ----

    def loss(self, batch: Class) -> Tensor:
        """Cross-entropy with the target's law over the draft's vocabulary, and the distance of the hidden states."""
        target = self._target_feature(batch)
        total, weight = torch.zeros(()), 1.0
        for step, x in enumerate(self._steps(batch, self.aims.steps)):
            rows = batch.is_answer.clone()
            rows[:, :step] = False
            law = self.words.loss(self._logits(x[rows]), batch.top_ids[rows], batch.top_probs[rows])
            total = total + weight * self.aims.law_weight * law
            if self.aims.feature_weight:
                distance = F.smooth_l1_loss(x[rows], target[rows])
                total = total + weight * self.aims.feature_weight * distance
            weight *= self.aims.step_decay
        return total

    def unroll(self, batch: Class, steps: int) -> list[Tensor]:
        """The favourite of each row, step by step, as the target's token ids: steps × (sequences, tokens)."""
        return [self.words.favourites(self._logits(x)) for x in self._steps(batch, steps)]

    def _logits(self, x: Tensor) -> Tensor:
        return self.words.logits(rms(x, self.shape.eps) * self.norm)

    # ---- the head ----

    def _given(self, batch: Class) -> Tensor:
        """What the target felt at each token: (sequences, tokens, hidden), of RMS 1 per layer before it is mixed."""
        h, count = self.shape.hidden, len(self.shape.layers)
        if count == 1:
            return rms(batch.features[..., -h:], self.shape.eps)
        tapped = batch.features[..., : count * h].unflatten(-1, (count, h))
        return F.linear(rms(tapped, self.shape.eps).flatten(-2), self.mix)

    def _target_feature(self, batch: Class) -> Tensor:
        return rms(batch.features[..., -self.shape.hidden :], self.shape.eps)

    def _steps(self, batch: Class, steps: int) -> list[Tensor]:
        """The hidden state that each row guesses, step by step."""
        tokens = rms(self._embedding[batch.token_ids], self.shape.eps) * self.token_norm
        feature = later(self._given(batch))
        if not self.aims.is_shifted:
            tokens = later(tokens)
        keys, values, outputs = [], [], []
        for step in range(steps):
            joined = torch.cat((tokens, rms(feature, self.shape.eps) * self.feature_norm), -1)
            x = F.linear(joined, self.fuse)
            x = x + self._attend(rms(x, self.shape.eps) * self.attention_norm, keys, values, step)
            gate, up = F.linear(rms(x, self.shape.eps) * self.mlp_norm, self.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, self.down)
            outputs.append(x)
            feature = later(x)
        return outputs

    def _attend(self, x: Tensor, keys: list[Tensor], values: list[Tensor], step: int) -> Tensor:
        """Row i of a later step sees step 0 up to row i − step, and of each step between the one row on its chain."""
        shape, (batch, rows, _) = self.shape, x.shape
        heads, kv_heads, d = shape.num_heads, shape.num_kv_heads, shape.head_dim
        qkv = F.linear(x, self.qkv).view(batch, rows, heads + 2 * kv_heads, d).transpose(1, 2)
        q, k, v = qkv.split((heads, kv_heads, kv_heads), 1)
        q, k = rotated(q, shape.rope_theta), rotated(k, shape.rope_theta)
        keys.append(k.repeat_interleave(heads // kv_heads, 1))
        values.append(v.repeat_interleave(heads // kv_heads, 1))
        if step == 0:
            attended = F.scaled_dot_product_attention(q, keys[0], values[0], is_causal=True)
        else:
            attended = _attended_along_chains(q, keys, values, step)
        return F.linear(attended.transpose(1, 2).flatten(-2), self.output)


def _attended_along_chains(q: Tensor, keys: list[Tensor], values: list[Tensor], step: int) -> Tensor:
    """q (sequences, heads, rows, d); keys and values one of that shape per step."""
    rows, d = q.shape[-2:]
    hidden = torch.ones(rows, rows, dtype=torch.bool, device=q.device).triu(1 - step)
    hidden[:step, 0] = False  # rows that no chain reaches: anything, but no NaN
    scores = (q @ keys[0].transpose(-1, -2)).masked_fill(hidden, -math.inf)
    behind = range(step - 1, -1, -1)  # how many rows back the chain was at steps 1 … step
    own = [(q * later(k, back)).sum(-1, keepdim=True) for k, back in zip(keys[1:], behind, strict=True)]
    weights = torch.softmax(torch.cat([scores, *own], -1) / math.sqrt(d), -1)
    gathered = weights[..., :rows] @ values[0]
    for number, back in enumerate(behind):
        gathered = gathered + weights[..., rows + number, None] * later(values[1 + number], back)
    return gathered
