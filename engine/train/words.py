"""What all drafters in training share: the draft's small vocabulary and the small functions of their layers.

Knows nothing of any one of them.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Words:
    """Ids that may be proposed, and how they are scored and learned."""

    def __init__(self, vocab: int, draft_ids: Tensor, head: Tensor) -> None:
        """draft_ids (drafts,) int64, sorted; head (drafts, hidden): one row each."""
        self.draft_ids, self.head = draft_ids.to(head.device), head
        self._index = torch.full((vocab,), -1, dtype=torch.int64, device=head.device)
        self._index[self.draft_ids] = torch.arange(len(draft_ids), device=head.device)

    def logits(self, x: Tensor) -> Tensor:
        """(…, hidden) → (…, drafts)."""
        return x @ self.head.T

    def loss(self, logits: Tensor, ids: Tensor, probs: Tensor) -> Tensor:
        """Mean cross-entropy with the target's laws, as far as they are about ids that may be proposed.

        logits (rows, drafts); ids, probs (rows, TOP), the laws cut to their likeliest.
        """
        index, logits = self._index[ids], logits.float()
        probs = probs * (index >= 0)
        picked = logits.gather(1, index.clamp(min=0))
        return (logits.logsumexp(1) * probs.sum(1) - (picked * probs).sum(1)).mean()

    def favourites(self, logits: Tensor) -> Tensor:
        """(…, drafts) → the target's id of each row's largest."""
        return self.draft_ids[logits.argmax(-1)]


def rms(x: Tensor, eps: float) -> Tensor:
    """x scaled to root mean square 1 along its last axis."""
    return F.rms_norm(x, x.shape[-1:], eps=eps)


def later(x: Tensor, rows: int = 1) -> Tensor:
    """Row i becomes row i + rows along the last axis but one; zeros come first."""
    return F.pad(x, (0, 0, rows, 0))[..., : x.shape[-2], :]


def drawn(num_out: int, num_in: int, scale: float = 1.0) -> nn.Parameter:
    """A matrix (num_out, num_in) that keeps the size of what it multiplies, times `scale`."""
    return nn.Parameter(torch.randn(num_out, num_in) * scale / math.sqrt(num_in))


def rotated(x: Tensor, theta: float) -> Tensor:
    """Rotary positions 0 … rows − 1, halves paired as in Llama: x (…, rows, d)."""
    rows, d = x.shape[-2:]
    positions, pairs = (torch.arange(*ends, device=x.device).float() for ends in ((rows,), (0, d, 2)))
    angles = torch.outer(positions, theta ** (-pairs / d))
    cos, sin = angles.cos(), angles.sin()
    one, other = x.chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1)
