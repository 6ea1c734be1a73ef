"""SpecInfer: several drafters' guesses merged into one tree, sampled exactly (Miao et al., ASPLOS 2024).

Knows nothing of the drafters but what they propose. A language model draws several continuations at each level, each
node from its own law given its path; to these come the chains of other drafters. Siblings may be equal, and each says
which law it was drawn from, so that multi-step speculative sampling makes up for every refusal exactly.
"""

from collections.abc import Sequence as Ids

import torch
from torch import Tensor

from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.drafter import NOTHING, Drafter, Proposal
from engine.drafters.grown import BRANCHES
from engine.model import Model
from engine.sampling import draft_params, probabilities, sample, uniform
from engine.sequence import Sequence

EXPANSION = (3, 1, 1)  # children of every node, level by level (the paper's ⟨k₁, k₂, …⟩)
OTHERS_AT_MOST = 4  # drafts of each other drafter


class SpecInferDrafter(DraftModelDrafter):
    """A tree from one language model and the chains of `others`."""

    def __init__(
        self, model: Model, cache: KVCache, vocab_size: int, num_blocks: int, others: Ids[Drafter] = ()
    ) -> None:
        """num_blocks: of the target's pool; the cache's blocks beyond it are scratch for the nodes of a tree."""
        super().__init__(model, cache, vocab_size)
        self._scratch = tuple(range(num_blocks, cache.num_blocks))
        self._others = others

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A tree at most `num_tokens` deep; where the draft is greedy the likeliest children instead of drawn ones."""
        num_tokens = min(num_tokens, self._model.config.context_length - len(sequence))
        if num_tokens < 1 or max(sequence.token_ids[self.num_cached :]) >= self._model.config.vocab_size:
            return NOTHING
        nodes, laws, parents = self._grow(sequence, num_tokens, table)
        vocab = self._vocab_size
        for other in self._others:
            chain = other.propose(sequence, min(num_tokens, OTHERS_AT_MOST), table)
            for at, token in enumerate(chain.token_ids):
                parents.append(-1 if at == 0 else len(nodes) - 1)
                nodes.append(token)
                laws.append(torch.nn.functional.one_hot(torch.tensor(token), vocab).float())
        if sequence.params.is_draft_greedy:
            return _without_twins(nodes, parents)
        return Proposal(tuple(nodes), torch.stack(laws), tuple(parents), "each")

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """As its model's, and the others hear of it too."""
        super().update(sequence, num_drafted, num_accepted)
        for other in self._others:
            other.update(sequence, 0, 0)

    def _grow(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> tuple[list[int], list[Tensor], list[int]]:
        """The model's own nodes: tokens, the laws that they were drawn from, parents."""
        history, params = list(sequence.token_ids), sequence.params
        logits = self._catch_up(history, sequence.num_prompt, table)[None]
        nodes: list[int] = []
        laws: list[Tensor] = []
        parents: list[int] = []
        paths: dict[int, list[int]] = {-1: history}
        level = [-1]
        for depth, width in enumerate(EXPANSION[:num_tokens]):
            below = []
            for node, row in zip(level, logits, strict=True):
                for token, law in self._children(row, params, paths[node], width, len(nodes)):
                    paths[len(nodes)] = [*paths[node], token]
                    below.append(len(nodes))
                    nodes.append(token)
                    laws.append(law)
                    parents.append(node)
            level = below
            if depth + 1 < min(num_tokens, len(EXPANSION)):
                logits = self._level(history, nodes, parents, len(level), table)
        return nodes, laws, parents

    def _children(
        self, logits: Tensor, params: object, path: list[int], width: int, first: int
    ) -> list[tuple[int, Tensor]]:
        """`width` children of one node: drawn independently, or the likeliest; each with the law it came from."""
        wide = self._on_shared_ids(logits)
        if params.is_draft_greedy:
            return [(int(token), wide) for token in wide.topk(min(width, BRANCHES)).indices]
        law = probabilities(wide[None], draft_params(params), path)[0]
        coins = [uniform(params.seed, len(path), "draft", first + at) for at in range(width)]
        return [(sample(law, coin), law) for coin in coins]

    def _level(
        self, history: list[int], nodes: list[int], parents: list[int], num_last: int, table: Ids[int]
    ) -> Tensor:
        """Runs the whole tree so far and returns the logits of its last level: (num_last, vocab).

        The last known token is its root. Rows that do not fit behind it in its own block go to scratch blocks.
        """
        root = len(history) - 1
        places = (*table[: root // self._cache.block_size + 1], *self._scratch)
        rooted = (-1, *(parent + 1 for parent in parents))
        part = Part("generated", [history[-1], *nodes], places, root, rooted, num_logits=num_last)
        return self._model.forward(Batch.join([part]), self._cache).cpu()


def _without_twins(nodes: list[int], parents: list[int]) -> Proposal:
    """Chosen siblings that are equal become one: a greedy walk looks at the first only."""
    place: dict[int, int] = {-1: -1}
    known: dict[tuple[int, int], int] = {}
    tokens: list[int] = []
    above: list[int] = []
    for node, (token, parent) in enumerate(zip(nodes, parents, strict=True)):
        key = (place[parent], token)
        if key not in known:
            known[key] = len(tokens)
            tokens.append(token)
            above.append(place[parent])
        place[node] = known[key]
    return Proposal(tuple(tokens), parents=tuple(above))
