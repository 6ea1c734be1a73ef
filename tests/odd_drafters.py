"""Drafters for random runs: a tree whose kept path has to move, and a draft model whose cache is counted."""

from engine.drafters import Proposal
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.layer_skip import LayerSkipDrafter
from tests.toys import VOCAB_SIZE


class DecoyTreeDrafter(LayerSkipDrafter):
    """What all layers of the target say, each token after a wrong sibling, so that what is kept has to move."""

    def propose(self, sequence, num_tokens, table):
        right = super().propose(sequence, num_tokens // 2, table).token_ids
        tokens = [token for drafted in right for token in ((drafted + 1) % VOCAB_SIZE, drafted)]
        return Proposal(tuple(tokens), None, tuple(2 * (node // 2) - 1 for node in range(len(tokens))))


class CountedDraftModel(DraftModelDrafter):
    """A draft model whose cache is counted, both when it has proposed and when the round is over."""

    length = 0  # of the text when it was last asked

    def propose(self, sequence, num_tokens, table):
        before, self.length = self.num_cached, len(sequence)
        assert before < self.length
        proposal = super().propose(sequence, num_tokens, table)
        num_drafts = len(proposal.token_ids)  # the last of them is not fed; who proposes nothing feeds nothing
        assert self.num_cached == (self.length + num_drafts - 1 if num_drafts else before)
        return proposal

    def update(self, sequence, num_drafted, num_accepted):
        super().update(sequence, num_drafted, num_accepted)
        if num_drafted:
            is_whole = len(sequence) == self.length + num_drafted + 1  # all drafts and the bonus
            assert self.num_cached == len(sequence) - (2 if is_whole else 1)
