"""EAGLE-2: the same head, but a tree that grows where the head is confident (Li et al., EMNLP 2024).

Knows nothing of the head's inside. A node's value is the product of the confidences on its path, an estimate of the
chance that it is accepted. Expand: in each step the most valuable nodes of the last level get children. Rerank: of all
nodes the most valuable are verified, as many as the measured time of a pass makes worth while. Nodes are chosen, not
drawn, so a tree is a set of point masses and any acceptance rule for those is exact.
"""

from collections.abc import Sequence as Ids

import numpy as np
import torch
from torch import Tensor

from engine.drafters.drafter import NOTHING, Proposal
from engine.drafters.eagle import EagleDrafter
from engine.drafters.grown import Grown, largest, likeliest
from engine.drafters.worth import STEP, is_worth_a_step
from engine.sequence import Sequence

DEEPEST = 6


class EagleTreeDrafter(EagleDrafter):
    """Dynamic trees from one head. Nodes write their keys and values to scratch slots that nobody else has."""

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A tree at most min(num_tokens, DEEPEST) deep; nothing where none is worth the wider pass."""
        if num_tokens < 1:
            return NOTHING
        table_row = torch.tensor([table], dtype=torch.int32)
        x, logits = self._catch_up(list(sequence.token_ids), table, table_row)
        grown, spent = self._grow(x, logits, len(sequence), min(num_tokens, DEEPEST), table_row)
        return grown.proposal(spent)

    def _grow(self, x: Tensor, logits: Tensor, length: int, depth: int, table_row: Tensor) -> tuple[Grown, float]:
        """Level by level while another is worth a step; returns the nodes, and the time spent in plain steps.

        x (1, hidden), logits (1, words): the guess at the last known token. length: how many tokens are known.
        """
        head, spent, grown = self._head, STEP, Grown()
        scratch = np.array(head.scratch, np.int32)
        above, nodes = np.ones(1, np.float32), [-1]  # values and numbers of the nodes whose guesses are in x
        paths = np.empty((1, 0), np.int32)  # of each, the slots of its ancestors and its own
        for level in range(depth):
            words, confidence = likeliest(logits)
            values = (above[:, None] * confidence).ravel()
            first = grown.add(head.draft_ids[torch.from_numpy(words.ravel())].tolist(), nodes, values.tolist())
            best = largest(values)
            is_last = level + 1 == depth
            if is_last or not is_worth_a_step(grown.best(), float(values[best].sum()), spent):
                break
            above, parent = values[best], best // confidence.shape[1]
            nodes = [first + node for node in best.tolist()]
            slots = scratch[len(grown.expanded) : len(grown.expanded) + len(nodes)]
            grown.expanded += nodes
            paths = np.concatenate((paths[parent], slots[:, None]), 1)
            rows = head.tree_rows(length + level, table_row, length, *map(torch.from_numpy, (slots, paths)))
            drafts = [grown.token_ids[node] for node in nodes]
            x, logits = head.guess(x[torch.from_numpy(parent)], drafts, rows, len(nodes))
            spent += STEP
        return grown, spent
