"""A smaller model of the same tokenizer drafts (Leviathan et al. 2023; Chen et al. 2023).

Knows nothing of the target but its vocabulary. The draft's cache has the target's block tables and its own tensors.
"""

from collections.abc import Callable
from collections.abc import Sequence as Ids

import torch

from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.drafters.drafter import NOTHING, Proposal, draw, draw_word, spread, stack
from engine.model import Model
from engine.sequence import Sequence

CHUNK = 256  # rows of one catching-up pass


class DraftModelDrafter:
    """Runs `model` on its own cache; `vocab_size` is the target's, onto whose ids the draft's law is cut or padded.

    Laws are drawn on the CPU, whatever device computes.
    """

    needs_slots = True
    features = ()

    def __init__(self, model: Model, cache: KVCache, vocab_size: int) -> None:
        self.caches = (cache,)
        self.num_cached = 0
        self._model = model
        self._cache = cache
        self._vocab_size = vocab_size
        self._draft_ids: torch.Tensor | None = getattr(model, "draft_ids", None)

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A chain of `num_tokens` drafts, fewer where the draft's window or vocabulary ends."""
        num_tokens = min(num_tokens, self._model.config.context_length - len(sequence))
        if num_tokens < 1 or max(sequence.token_ids[self.num_cached :]) >= self._model.config.vocab_size:
            return NOTHING
        history = list(sequence.token_ids)
        logits = self._catch_up(history, sequence.num_prompt, table)
        drafts, laws = [], []
        while True:
            token, law = self._draw(logits, sequence, history)
            drafts.append(token)
            laws.append(law)
            history.append(token)
            if len(drafts) == num_tokens:
                return stack(drafts, laws)
            logits = self._forward("generated", history[-1:], table, len(history) - 1)
            self.num_cached = len(history)

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Keeps what was accepted; a last draft that was accepted but never fed follows in the next round."""
        self.num_cached = min(self.num_cached, len(sequence) - 1)

    def _catch_up(self, token_ids: list[int], num_prompt: int, table: Ids[int]) -> torch.Tensor:
        """Feeds what the cache lacks and returns the logits after the last token: (vocab,)."""
        logits = torch.empty(0)
        while self.num_cached < len(token_ids):
            is_prompt = self.num_cached < num_prompt
            end = min(num_prompt if is_prompt else len(token_ids), self.num_cached + CHUNK)
            rows = token_ids[self.num_cached : end]
            logits = self._forward("prompt" if is_prompt else "generated", rows, table, self.num_cached)
            self.num_cached = end
        return logits

    def _forward(self, role: str, rows: list[int], table: Ids[int], context: int) -> torch.Tensor:
        return self._model.forward(Batch.join([Part(role, rows, table, context, num_logits=1)]), self._cache)[0].cpu()

    def _draw(self, logits: torch.Tensor, sequence: Sequence, history: list[int]) -> tuple[int, torch.Tensor | None]:
        """The next token and its law over the target's vocabulary."""
        if self._draft_ids is not None:
            return draw_word(logits, self._draft_ids, self._vocab_size, sequence.params, history)
        return draw(self._on_shared_ids(logits), sequence.params, history)

    def _on_shared_ids(self, logits: torch.Tensor) -> torch.Tensor:
        """Vocabularies differ, by padding or because the draft has few words: what one side lacks is impossible."""
        if self._draft_ids is not None:
            return spread(logits, self._draft_ids, self._vocab_size, float("-inf"))
        missing = self._vocab_size - len(logits)
        if missing <= 0:
            return logits[: self._vocab_size]
        return torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))


class StreamingDraftDrafter(DraftModelDrafter):
    """The same with a streaming cache: each row sees the first tokens and the latest (Xiao et al., ICLR 2024).

    Positions stay those of the text; only what is seen is bounded, and with it what a step reads.
    """

    def __init__(
        self, model: Model, cache: KVCache, vocab_size: int, seen: Callable[[int, int], tuple[int, ...]]
    ) -> None:
        """seen: (tokens up to and with the first row, rows) → the blocks in view, as entries of the table."""
        super().__init__(model, cache, vocab_size)
        self._seen = seen

    def _forward(self, role: str, rows: list[int], table: Ids[int], context: int) -> torch.Tensor:
        seen = self._seen(context + 1, len(rows))
        part = Part("generated", rows, table, context, num_logits=1, blocks_seen=seen)
        return self._model.forward(Batch.join([part]), self._cache)[0].cpu()
