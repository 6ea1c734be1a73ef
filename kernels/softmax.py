"""Softmax over the vocabulary at a temperature."""

from torch import Tensor


def reference(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """logits (rows, vocab) → probabilities, fp32; temperature > 0."""
    return (logits.float() / temperature).softmax(-1)


def run(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """logits (rows, vocab) → probabilities, fp32; temperature > 0."""
    return reference(logits, temperature)
