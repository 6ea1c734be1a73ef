"""A candidate tree while it grows, and the proposal that is cut from it (EAGLE-2: Li et al., EMNLP 2024, §4).

Knows nothing of who guesses: nodes come with values, estimates of the chance that they are accepted.
"""

import numpy as np
from torch import Tensor

from engine.drafters.drafter import NOTHING, Candidates, Proposal
from engine.drafters.worth import best_size
from engine.errors import EngineError

BRANCHES = 4  # children of an expanded node, and nodes that are expanded in one step
MOST_NODES = 15  # a pass over 16 rows is the widest that was measured


def likeliest(logits: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The BRANCHES most probable words of each row and their probabilities, falling: (rows, BRANCHES) each.

    logits (rows, words) fp32; of equals the lowest comes first. In NumPy, which does little around such small work.
    Raises EngineError("bad_logits").
    """
    rows = logits.numpy().copy()
    every, words, best = np.arange(len(rows)), [], []
    for _ in range(min(BRANCHES, rows.shape[1])):
        words.append(rows.argmax(1))
        best.append(rows[every, words[-1]])
        rows[every, words[-1]] = -np.inf
    if not np.isfinite(best[0]).all():
        raise EngineError("bad_logits", "the drafter's logits have no finite largest entry")
    best = np.stack(best, 1)
    weights = np.exp(best - best[:, :1])
    rest = np.exp(rows - best[:, :1]).sum(1, keepdims=True)
    return np.stack(words, 1), weights / (weights.sum(1, keepdims=True) + rest)


def largest(values: np.ndarray) -> np.ndarray:
    """Where the BRANCHES largest of values (n,) are, rising; of equals the first count."""
    return np.sort(np.argsort(-values, kind="stable")[:BRANCHES])


class Grown:
    """All nodes so far, level by level: tokens, parents (−1 the root) and values, and which were expanded."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self.parents: list[int] = []
        self.values: list[float] = []
        self.expanded: list[int] = []

    def add(self, token_ids: list[int], nodes: list[int], values: list[float]) -> int:
        """Equally many children for each of `nodes`; returns the first one's number."""
        first, each = len(self.token_ids), len(token_ids) // len(nodes)
        self.token_ids += token_ids
        self.parents += [node for node in nodes for _ in range(each)]
        self.values += values
        return first

    def best(self) -> list[float]:
        """The largest values that a proposal may hold, falling."""
        return sorted(self.values, reverse=True)[:MOST_NODES]

    def proposal(self, spent: float) -> Proposal:
        """The most valuable nodes, as many as a pass is worth after so much time (in plain steps) was spent on them.

        Ties go to the shallower. A node is worth no more than its parent and comes after it, so parents are kept too.
        """
        order = sorted(range(len(self.values)), key=lambda node: (-self.values[node], node))[:MOST_NODES]
        ranked = order[: best_size([self.values[node] for node in order], spent)]
        if not ranked:
            return NOTHING
        kept = sorted(ranked)
        place = {-1: -1} | {node: index for index, node in enumerate(kept)}
        candidates = Candidates(*map(tuple, (self.token_ids, self.parents, self.values, self.expanded, ranked)))
        token_ids = tuple(self.token_ids[node] for node in kept)
        return Proposal(token_ids, parents=tuple(place[self.parents[node]] for node in kept), candidates=candidates)
