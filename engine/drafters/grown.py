"""A candidate tree while it grows, and the proposal that is cut from it (EAGLE-2: Li et al., EMNLP 2024, §4).

Knows nothing of who guesses: nodes come with values, estimates of the chance that they are accepted.
"""

from engine.drafters.drafter import NOTHING, Candidates, Proposal
from engine.drafters.worth import best_size

BRANCHES = 4  # children of an expanded node, and nodes that are expanded in one step
MOST_NODES = 15  # a pass over 16 rows is the widest that was measured


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
