"""One sequence's share of one step, from its rows to what became of them.

Knows nothing of the other sequences in the step.
"""

from collections.abc import Sequence as Ids
from dataclasses import dataclass

import torch

from engine import tree
from engine.batch import Part
from engine.drafters.drafter import NOTHING, Observer, Proposal
from engine.errors import EngineError
from engine.sequence import Sequence
from engine.verify import Outcome, decide

MOST_ROWS = 256  # drafts and probes of one sequence in one pass


@dataclass(slots=True)
class Round:
    """Filled in as the step goes: drafts, rows, logits, outcome. `is_sample` marks a parallel sample's first token."""

    sequence: Sequence
    part: Part | None = None
    proposal: Proposal = NOTHING
    logits: torch.Tensor | None = None  # (num_logits, vocab)
    outcome: Outcome | None = None
    num_new: int = 0  # tokens that the sequence gained
    caught: tuple[tuple[int, ...], ...] = ()  # n-grams that its probes completed
    error: EngineError | None = None
    seconds_draft: float = 0.0
    seconds_accept: float = 0.0
    is_sample: bool = False

    @property
    def num_logits(self) -> int:
        """Rows of the pass whose logits belong to this round."""
        return len(self.part.token_ids) if self.part.num_logits < 0 else self.part.num_logits

    def draft(self, num_tokens: int, table: Ids[int], vocab_size: int) -> None:
        """Asks the drafter for up to `num_tokens` tokens. A drafter that fails ends its own request only."""
        try:
            proposal = self.sequence.drafter.propose(self.sequence, num_tokens, table)
            _check(proposal, num_tokens, vocab_size)
            self.proposal = proposal
        except Exception as error:
            self.error = _as_engine_error(error)

    @property
    def rows(self) -> tuple[int, ...]:
        """Drafts and probes: the tokens of its rows after the last known one."""
        return self.proposal.row_ids

    def verify(self) -> None:
        """Decides. A row without a law may follow a draft that the target would refuse, so drafts are dropped first."""
        try:
            self.outcome = decide(self.logits[: 1 + len(self.proposal.token_ids)], self.sequence, self.proposal)
        except Exception as error:
            if not self.proposal.token_ids:
                self.error = _as_engine_error(error)
                return
            self.proposal, self.logits = NOTHING, self.logits[:1]
            self.verify()

    def tell_drafter(self) -> None:
        """What became of its drafts; if it fails at that, its request ends with the tokens that it has."""
        drafter = self.sequence.drafter
        try:
            if isinstance(drafter, Observer) and self.rows:
                self.caught = drafter.observe(self.sequence, self.logits, self.outcome.path)
            drafter.update(self.sequence, len(self.proposal.token_ids), len(self.outcome.path))
        except Exception as error:
            self.error = _as_engine_error(error)


def _check(proposal: Proposal, num_tokens: int, vocab_size: int) -> None:
    """Raises EngineError for drafts that would bring down the pass of everybody."""
    if not all(type(token) is int and 0 <= token < vocab_size for token in proposal.row_ids):
        raise EngineError(
            "drafter_failed", f"drafts must be token ids below {vocab_size}, not {proposal.row_ids!r:.80}"
        )
    if proposal.laws is not None and len(proposal.laws) < len(proposal.token_ids):
        sentence = f"{len(proposal.token_ids)} drafts have {len(proposal.laws)} laws"
        raise EngineError("drafter_failed", sentence)
    parents = proposal.row_parents
    if len(proposal.probe_ids) != len(proposal.probe_parents) or (proposal.probe_ids and parents is None):
        raise EngineError("drafter_failed", f"{len(proposal.probe_ids)} probes have no place in a tree")
    if parents is not None and len(tree.with_root(parents)) != 1 + len(proposal.row_ids):
        sentence = f"{len(proposal.token_ids)} drafts have {len(proposal.parents)} parents"
        raise EngineError("drafter_failed", sentence)
    depth = len(proposal.token_ids) if parents is None else int(tree.depths(tree.with_root(proposal.parents)).max())
    if depth > num_tokens or len(proposal.row_ids) > MOST_ROWS:
        sentence = f"{len(proposal.row_ids)} rows, {depth} deep, where {num_tokens} drafts were asked for"
        raise EngineError("drafter_failed", sentence)


def _as_engine_error(error: Exception) -> EngineError:
    """A request's own failure, whatever it was: others in the step must not suffer for it."""
    if isinstance(error, EngineError):
        return error
    return EngineError("drafter_failed", f"the drafter failed: {type(error).__name__}: {error}"[:200])
