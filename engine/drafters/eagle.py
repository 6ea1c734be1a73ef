"""EAGLE: a trained head continues the target's own hidden states (Li et al., ICML 2024; EAGLE-3: Li et al., 2025).

Knows nothing of the head's inside. Slot i of its cache holds token i together with what the target felt at token i − 1,
so a block of it depends on nothing that comes after the block. Where a draft was accepted, the head's own guess of the
feature is replaced by the true one in the next round.
"""

from collections.abc import Sequence as Ids

import torch

from engine.cache import KVCache
from engine.drafters.drafter import NOTHING, Proposal, draw_word, stack
from engine.features import FeatureCache
from engine.head import Head, pad_first
from engine.sequence import Sequence

CHUNK = 96  # rows of one catching-up pass


class EagleDrafter:
    """A chain of drafts from one head; `head` and its caches serve all requests."""

    needs_slots = True

    def __init__(self, head: Head) -> None:
        self.caches: tuple[KVCache | FeatureCache, ...] = (head.cache, head.features)
        self.features = (head.features,)
        self.num_cached = 0
        self._head = head

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A chain of `num_tokens` drafts."""
        if num_tokens < 1:
            return NOTHING
        history = list(sequence.token_ids)
        table_row = torch.tensor([table], dtype=torch.int32)
        x, logits = self._catch_up(history, table, table_row)
        head, drafts, laws = self._head, [], []
        while True:
            token, law = draw_word(logits[0], head.draft_ids, head.vocab_size, sequence.params, history)
            drafts.append(token)
            laws.append(law)
            history.append(token)
            if len(drafts) == num_tokens:
                return stack(drafts, laws)
            last = len(history) - 1
            rows = head.rows(last, table_row, head.cache.slots(table, last, last + 1))
            x, logits = head.guess(x, [history[last - head.lag]], rows, 1)

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Slots of drafts hold guessed features: they count as not cached, accepted or not."""

    def _catch_up(
        self, token_ids: list[int], table: Ids[int], table_row: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Feeds the tokens whose features are known by now; returns the guess at the last one and its logits."""
        head = self._head
        x = logits = torch.empty(0)
        while self.num_cached < len(token_ids):
            first, last = self.num_cached, min(len(token_ids), self.num_cached + CHUNK)
            felt = head.given(head.cache.slots(table, max(0, first - 1), last - 1))
            felt = pad_first(felt) if first == 0 else felt
            rows = head.rows(first, table_row, head.cache.slots(table, first, last))
            ids = [-1, *token_ids][first + 1 - head.lag : last + 1 - head.lag]
            x, logits = head.guess(felt, ids, rows, int(last == len(token_ids)))
            self.num_cached = last
        return x, logits
