"""One sequence's share of one step, from its rows to what became of them.

Knows nothing of the other sequences in the step.
"""

from collections.abc import Sequence as Ids
from dataclasses import dataclass

import torch

from engine.batch import Part
from engine.drafters.drafter import NOTHING, Proposal
from engine.errors import EngineError
from engine.sequence import Sequence
from engine.verify import Outcome, decide


@dataclass(slots=True)
class Round:
    """Filled in as the step goes: drafts, rows, logits, outcome. `is_sample` marks a parallel sample's first token."""

    sequence: Sequence
    part: Part | None = None
    proposal: Proposal = NOTHING
    logits: torch.Tensor | None = None  # (num_logits, vocab)
    outcome: Outcome | None = None
    num_new: int = 0  # tokens that the sequence gained
    error: EngineError | None = None
    seconds_draft: float = 0.0
    seconds_accept: float = 0.0
    is_sample: bool = False

    @property
    def num_logits(self) -> int:
        """Rows of the pass whose logits belong to this round."""
        return len(self.part.token_ids) if self.part.num_logits < 0 else self.part.num_logits

    def draft(self, num_tokens: int, table: Ids[int]) -> None:
        """Asks the drafter for up to `num_tokens` tokens. A drafter that fails (NaN) ends its own request only."""
        try:
            self.proposal = self.sequence.drafter.propose(self.sequence, num_tokens, table)
        except EngineError as error:
            self.error = error

    def verify(self) -> None:
        """Decides. A row without a law may follow a draft that the target would refuse, so drafts are dropped first."""
        try:
            self.outcome = decide(self.logits, self.sequence, self.proposal)
        except EngineError as error:
            if not self.proposal.token_ids:
                self.error = error
                return
            self.proposal, self.logits = NOTHING, self.logits[:1]
            self.verify()
