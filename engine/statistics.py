"""How far counts are from a law: Pearson's χ² with its p-value, and the total variation between two laws.

Knows nothing of where the counts come from.
"""

from typing import NamedTuple

import numpy as np
import torch

from engine.errors import EngineError

SMALLEST_EXPECTED = 5.0  # below this a cell's count is too far from normal for the χ² law (Cochran 1954)


class ChiSquare(NamedTuple):
    """`p_value`: how often counts that do follow the law would be at least this far from it."""

    statistic: float
    dof: int
    p_value: float


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> ChiSquare:
    """Test counts (cells,) against a law (cells,), normalised here; cells of few expected counts are pooled.

    A count where the law is 0 refutes it: p-value 0. With one cell left there is nothing to test: p-value 1.
    Raises EngineError("bad_law") if the shapes differ or the law has no mass.
    """
    counts, law = np.asarray(counts, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if counts.ndim != 1 or counts.shape != law.shape or not law.sum() > 0.0:
        sentence = f"counts {counts.shape} and law {law.shape} must be equally long lists, the law with some mass"
        raise EngineError("bad_law", sentence)
    if counts[law == 0.0].any():
        return ChiSquare(float("inf"), int(np.count_nonzero(law)) - 1, 0.0)
    expected = law * (counts.sum() / law.sum())
    observed, expected = _pooled(counts[law > 0.0], expected[law > 0.0])
    dof = len(expected) - 1
    if dof < 1:
        return ChiSquare(0.0, 0, 1.0)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    halves = torch.tensor([dof / 2, statistic / 2], dtype=torch.float64)
    return ChiSquare(statistic, dof, float(torch.special.gammaincc(halves[0], halves[1])))


def _pooled(counts: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put the cells of fewest expected counts together until each cell expects enough."""
    order = np.argsort(expected, kind="stable")
    counts, expected = counts[order], expected[order]
    summed = np.cumsum(expected)
    num_small = int(np.count_nonzero(expected < SMALLEST_EXPECTED))
    if num_small > 0 and summed[num_small - 1] < SMALLEST_EXPECTED:
        num_small += 1  # all the small ones together are still too few: the next larger joins them
    if num_small < 2:
        return counts, expected
    pool = slice(0, num_small)
    return np.append(counts[num_small:], counts[pool].sum()), np.append(expected[num_small:], expected[pool].sum())


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Return ½ Σ |p − q|: the largest difference between the probabilities that two laws give to any event."""
    return abs(np.asarray(p) - np.asarray(q)).sum() / 2
