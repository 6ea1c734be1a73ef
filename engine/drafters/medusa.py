"""Medusa's candidate tree: every head guesses its own place, guesses are combined (Cai et al., ICML 2024, §2.2).

Knows nothing of the heads' inside. Heads do not see each other's words, so a node's value is the product of the
confidences on its path whatever the words are. Where Medusa ships one fixed tree, this one keeps the combinations that
are most confident in this round. Nodes are chosen, not drawn: a tree is a set of point masses.
"""

from collections.abc import Sequence as Ids

import numpy as np
import torch

from engine.drafters.drafter import NOTHING, Proposal
from engine.drafters.grown import Grown, largest, likeliest
from engine.drafters.worth import MEDUSA
from engine.medusa import Medusa
from engine.sequence import Sequence


class MedusaDrafter:
    """Trees from one set of heads; they and their features serve all requests."""

    needs_slots = False

    def __init__(self, heads: Medusa) -> None:
        self.caches = self.features = (heads.features,)
        self.num_cached = 0
        self._heads = heads

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A tree at most min(num_tokens, heads) deep; nothing where none is worth the wider pass."""
        last = len(sequence) - 2  # the newest token's own hidden state is known only after this round
        if num_tokens < 1 or last < 0:
            return NOTHING
        size = self._heads.features.block_size
        self.num_cached = last + 1
        words, confidences = likeliest(self._heads.logits(table[last // size] * size + last % size)[:num_tokens])
        grown, above, nodes = Grown(), np.ones(1, np.float32), [-1]
        for row, confidence in zip(words, confidences, strict=True):
            grown.expanded += [node for node in nodes if node >= 0]
            values = (above[:, None] * confidence).ravel()
            first = grown.add(
                self._heads.draft_ids[torch.from_numpy(row)].tolist() * len(nodes), nodes, values.tolist()
            )
            best = largest(values)
            above, nodes = values[best], [first + node for node in best.tolist()]
        return grown.proposal(MEDUSA)

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Nothing to forget: the verify pass writes the features of every token that stays."""
