"""How large a draft is worth its cost: measured pass times against the drafts' own confidence.

Knows nothing of any drafter. Times are in plain steps: t(1) = 1. The table is fixed, so that a seed gives the same text
on every machine. On a machine unlike the one it was measured on, a draft of the wrong size costs time and nothing else.
"""

import bisect
from collections.abc import Sequence

# fp16, 2 cores, `python -m engine.bench kernels` ("pass n" over "pass 1").
MEASURED_ON = "Intel Xeon, AVX-512, 2026-11-30"
ROWS, TIMES = (1, 2, 4, 5, 8, 16), (1.0, 1.0, 1.05, 1.10, 1.18, 2.03)
STEP = 0.13  # one step of a trained head: `python -m engine.bench drafters`, the same machine
MEDUSA = 0.13  # all of Medusa's heads once and the tree made of them
HOPE = 0.6  # what children add to the expected number of accepted drafts, as a share of their parents' values


def time_of_pass(num_rows: int) -> float:
    """t(n)/t(1), between and beyond the measured sizes on straight lines."""
    at = min(max(1, bisect.bisect_left(ROWS, num_rows)), len(ROWS) - 1)
    (low, high), (first, last) = ROWS[at - 1 : at + 1], TIMES[at - 1 : at + 1]
    return first + (last - first) * (num_rows - low) / (high - low)


def best_size(values: Sequence[float], spent: float) -> int:
    """How many of the most confident drafts to verify, so that tokens per time are most.

    values: probability that a draft is accepted, falling; their sum is the expected number of accepted drafts. spent:
    on drafting already.
    """
    expected, best = 1.0, (1.0 / (spent + 1.0), 0)
    for size, value in enumerate(values, start=1):
        expected += value
        best = max(best, (expected / (spent + time_of_pass(1 + size)), size), key=lambda pair: pair[0])
    return best[1]


def is_worth_a_step(values: Sequence[float], expanded: float, spent: float) -> bool:
    """Whether drafting one level more is likely to raise tokens per time.

    values: of the drafts so far, falling. expanded: sum of the values of the nodes that would get children; what these
    will be worth is guessed as HOPE times that.
    """
    size = best_size(values, spent)
    tokens, time = 1.0 + sum(values[:size]), spent + time_of_pass(1 + size)
    more = time + STEP + time_of_pass(3 + size) - time_of_pass(1 + size)
    return (tokens + HOPE * expanded) / more > tokens / time
