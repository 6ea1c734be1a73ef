"""Medusa heads in training: each guesses its own place ahead from one hidden state (Cai et al., ICML 2024, Medusa-1).

Knows nothing of where data comes from. Row i is what the target felt at token i; its own next token is the target's
affair, so head k learns the law of token i + 2 + k.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.medusa import MedusaShape
from engine.train.loop import Class
from engine.train.words import Words, later, rms


class MedusaHeads(nn.Module):
    """Parameters have the names and shapes of the file that is shipped."""

    decay = 0.8  # of a head's weight against the one before it

    def __init__(self, shape: MedusaShape, words: Words, norm: Tensor) -> None:
        """norm (hidden,) is the target's last one."""
        super().__init__()
        self.shape, self.words = shape, words
        self.blocks = nn.Parameter(torch.zeros(shape.ahead * shape.hidden, shape.hidden))  # starts as the target's head
        self.norm = nn.Parameter(norm.clone())

    def loss(self, batch: Class) -> Tensor:
        """Cross-entropy of every head with the target's law at its place."""
        total = torch.zeros(())
        for ahead, x in enumerate(self._states(batch)):
            skip = 1 + ahead  # row i of head `ahead` is about the law that stands at row i + skip
            rows = batch.is_answer[:, skip:]
            ids, probs = batch.top_ids[:, skip:][rows], batch.top_probs[:, skip:][rows]
            if len(ids):
                total = total + self.decay**ahead * self.words.loss(self._logits(x[:, :-skip][rows]), ids, probs)
        return total

    def unroll(self, batch: Class, steps: int) -> list[Tensor]:
        """As `Pupil`: step s at row i comes from what was felt at token i − s − 1. At most as many steps as heads."""
        states = self._states(batch)[:steps]
        guessed = [self.words.favourites(self._logits(x)) for x in states]
        return [later(ids[..., None], 1 + step)[..., 0] for step, ids in enumerate(guessed)]

    def _states(self, batch: Class) -> list[Tensor]:
        felt = rms(batch.features[..., -self.shape.hidden :], self.shape.eps)
        blocks = F.linear(felt, self.blocks).unflatten(-1, (self.shape.ahead, -1))
        return [felt + F.silu(blocks[..., ahead, :]) for ahead in range(self.shape.ahead)]

    def _logits(self, x: Tensor) -> Tensor:
        return self.words.logits(rms(x, self.shape.eps) * self.norm)
