"""Drafting with a part of the target's own cache, for long texts: MagicDec, and TriForce with a drafter below it.

Knows nothing of a second set of weights. The target drafts for itself and sees only some blocks of its cache: the first
ones (attention sinks, Xiao et al. 2024, StreamingLLM), the latest ones, and for TriForce those that its attention asks
for. Keys are cached with their rotation, so positions stay true. As with layer skipping, drafts are written to the
target's own slots, and the verify pass, which sees everything, writes them again: so the text stays exact. Where the
view would hide nothing, a draft step would cost a plain step; then nothing is proposed.
"""

import copy
import dataclasses
from collections.abc import Sequence as Ids

import torch
from torch import Tensor

from engine.accept import accept_chain, accept_greedy
from engine.accounting import blocks_needed
from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.drafters.drafter import NOTHING, Drafter, Proposal, View, draw, stack
from engine.features import FeatureCache
from engine.model import Model
from engine.sampling import draft_params, greedy_tokens, probabilities, uniform
from engine.sequence import Sequence
from engine.verdict import Verdict
from kernels import linear, rms_norm, rope

SINKS = 4  # tokens; more help little (Xiao et al. 2024). Whole blocks are kept
WINDOW = 256  # tokens that a draft step sees beside the sinks, by default
STREAM = 256  # tokens that a tiny model below TriForce sees beside the sinks
MOST_INNER = 4  # tokens that TriForce's inner drafter is asked for at once
REFRESH = 8  # rounds for which retrieved blocks are kept


class SparseTarget:
    """The target with a view of its cache: sinks, the last `window` tokens, and blocks that the caller names."""

    def __init__(
        self, model: Model, cache: KVCache, window: int, features: Ids[FeatureCache] = (), sinks: int = SINKS
    ) -> None:
        """features: what an inner drafter reads of the target's hidden states; the sparse pass fills them too."""
        self.model, self.cache, self.window, self.features = model, cache, window, features
        self.num_sinks = blocks_needed(sinks, cache.block_size)

    def hidden(self, num_tokens: int) -> range:
        """The blocks between sinks and window: what a row hides if it is the last of `num_tokens` tokens."""
        return range(self.num_sinks, max(self.num_sinks, (num_tokens - self.window) // self.cache.block_size))

    def seen(self, num_tokens: int, num_rows: int, kept: Ids[int] = ()) -> tuple[int, ...]:
        """The blocks in view of `num_rows` rows, the first of which is the last of `num_tokens` tokens."""
        return self.view(num_tokens, num_rows, kept).blocks

    def view(self, num_tokens: int, num_rows: int = 1, kept: Ids[int] = ()) -> View:
        """The same, told apart by why a block is seen."""
        num_blocks = blocks_needed(num_tokens - 1 + num_rows, self.cache.block_size)
        hidden = self.hidden(num_tokens)
        retrieved = tuple(sorted({*kept} & {*hidden}))
        recent = tuple(range(hidden.stop, num_blocks))
        return View(num_tokens, num_blocks, tuple(range(hidden.start)), retrieved, recent)

    def logits(self, history: Ids[int], drafts: Ids[int], table: Ids[int], kept: Ids[int] = ()) -> Tensor:
        """What follows the last token of `history`, and each of `drafts` after it: (1 + drafts, vocab)."""
        rows, num_tokens = [history[-1], *drafts], len(history)
        seen = self.seen(num_tokens, len(rows), kept)
        part = Part("generated", rows, table, num_tokens - 1, blocks_seen=seen)
        return self.model.forward(Batch.join([part]), self.cache, features=self.features)


# ---- MagicDec -------------------------------------------------------------------------------------------------------


class MagicDecDrafter:
    """Sinks and a window of the target's cache draft one token after the other (Chen et al. 2024, arXiv 2408.11049).

    The paper drafts for many sequences in one pass, where reading their caches costs more than reading the weights;
    here each sequence drafts alone, so that the weights are read for each.
    """

    needs_slots = True
    caches = features = ()
    num_cached = 0

    def __init__(self, model: Model, cache: KVCache, window: int = WINDOW, sinks: int = SINKS) -> None:
        """sinks: 0 for a window alone, which shows what the first tokens are worth."""
        self._target = SparseTarget(model, cache, window, sinks=sinks)

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A chain of `num_tokens` drafts, or nothing where the view is the whole cache."""
        if not self._target.hidden(len(sequence)):
            return NOTHING
        history = list(sequence.token_ids)
        drafts, laws = [], []
        for _ in range(num_tokens):
            token, law = draw(self._target.logits(history, (), table)[0], sequence.params, history)
            drafts.append(token)
            laws.append(law)
            history.append(token)
        return dataclasses.replace(stack(drafts, laws), view=self._target.view(len(sequence)))

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Nothing to forget: the verify pass wrote every slot that drafting had written."""


# ---- TriForce -------------------------------------------------------------------------------------------------------


class TriForceDrafter:
    """A cheap drafter, the sparse target above it, the target above that (Sun et al., COLM 2024, arXiv 2404.11912).

    The sparse target verifies the cheap drafts for its own law q: what comes out are draws from q, whatever the cheap
    drafter is, and they are proposed with q. Its coins ("middle") are thrown for nothing else, and what decides over a
    token depends on earlier tokens only; so the target's test of them is exact.

    Half of the window are the latest tokens. The other half are retrieved: chunks (here: blocks) whose mean key has the
    largest attention from the query of the last token. The paper chooses for each layer apart; here all layers share
    one table, so attention is summed over the heads of three of them, and chosen anew every REFRESH rounds.
    """

    needs_slots = True

    def __init__(self, model: Model, cache: KVCache, inner: Drafter, window: int = WINDOW) -> None:
        """inner: proposes chains; its own state must be in attributes, of which dicts and lists are copied singly."""
        self.caches, self.features = inner.caches, inner.features
        self._inner = inner
        self._target = SparseTarget(model, cache, max(1, window // 2), inner.features)
        self._num_kept = max(1, window // 2 // cache.block_size)
        self._kept: tuple[int, ...] = ()
        self._age = REFRESH  # rounds since blocks were retrieved
        self._first: tuple[int, Proposal] | None = None  # the inner drafter's first chain of the round, where it starts

    @property
    def num_cached(self) -> int:
        """Tokens in the inner drafter's own cache."""
        return self._inner.num_cached

    @num_cached.setter
    def num_cached(self, number: int) -> None:
        self._inner.num_cached = number

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A chain of `num_tokens` drafts, or nothing where the view is the whole cache."""
        hidden = self._target.hidden(len(sequence))
        if len(hidden) <= self._num_kept:
            return NOTHING
        if self._age >= REFRESH:
            self._kept, self._age = retrieve(self._target, sequence.token_ids, table, hidden, self._num_kept), 0
        self._age += 1
        return self._run_ahead(sequence, num_tokens, table)

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """The inner drafter hears of its first chain only, as if the text ended with the first token that differs."""
        if self._first is None:
            self._inner.update(sequence, 0, 0)
            return
        (start, guess), self._first = self._first, None
        pairs = zip(guess.token_ids, sequence.token_ids[start:], strict=False)
        are_equal = [drafted == token for drafted, token in pairs]
        num_right = (*are_equal, False).index(False)
        text = dataclasses.replace(sequence, token_ids=sequence.token_ids[: start + num_right + 1])
        self._inner.update(text, len(guess.token_ids), num_right)

    def _run_ahead(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """Cheap draft, sparse verification, and again, until there are `num_tokens` tokens.

        After the first chain a copy of the inner drafter is asked, because a drafter cannot forget all that it hears
        and what is asked then stands on tokens that may never become text.
        """
        self._first = None
        ahead = dataclasses.replace(sequence, token_ids=list(sequence.token_ids))
        inner, laws = self._inner, []
        while (num_left := len(sequence) + num_tokens - len(ahead)) > 0:
            guess = NOTHING
            if num_left > 1:  # the sparse target adds one token itself
                guess = inner.propose(ahead, min(num_left - 1, MOST_INNER), table)
                guess = guess if guess.parents is None else NOTHING
            if self._first is None:
                self._first = len(sequence), guess
            verdict, law = self._verify(ahead, guess, table)
            ahead.token_ids += verdict.tokens
            laws.append(law)
            if len(ahead) < len(sequence) + num_tokens:
                inner = _twin(inner) if inner is self._inner else inner
                inner.update(ahead, len(guess.token_ids), verdict.num_accepted)
        drafts, view = ahead.token_ids[len(sequence) :], self._target.view(len(sequence), kept=self._kept)
        return Proposal(tuple(drafts), None if laws[0] is None else torch.cat(laws), view=view)

    def _verify(self, ahead: Sequence, guess: Proposal, table: Ids[int]) -> tuple[Verdict, Tensor | None]:
        """What the sparse target makes of a chain, and the laws (tokens, vocab) that its tokens were drawn from."""
        params, drafts, position = ahead.params, guess.token_ids, len(ahead)
        logits = self._target.logits(ahead.token_ids, drafts, table, self._kept)  # (1 + drafts, vocab)
        histories = [[*ahead.token_ids, *drafts[:number]] for number in range(1 + len(drafts))]
        if params.is_draft_greedy:
            return accept_greedy(greedy_tokens(logits, params, histories), drafts), None

        def coin(number: int, index: int) -> float:
            return uniform(params.seed, position + number, "middle", index)

        laws = probabilities(logits, draft_params(params), histories)
        coins = [coin(number, 0) for number in range(len(drafts))]
        verdict = accept_chain(laws, guess.laws, drafts, coins, lambda accepted: coin(accepted, 1))
        return verdict, laws[: len(verdict.tokens)]


def _twin(drafter: Drafter) -> Drafter:
    """A drafter that goes on from the same state and leaves it alone; weights and caches are shared."""
    twin = copy.copy(drafter)
    for name, value in vars(twin).items():
        if isinstance(value, dict | list):
            setattr(twin, name, value.copy())
    return twin


# ---- retrieval ------------------------------------------------------------------------------------------------------


class Probe:
    """Catches what comes out of some layers in one pass; the model takes it for a feature cache."""

    def __init__(self, layers: Ids[int]) -> None:
        self.layers = tuple(layers)
        self.caught: dict[int, Tensor] = {}  # after so many layers: (rows, hidden)

    def write(self, slots: Tensor, states: Ids[Tensor]) -> None:
        """Called by the model; states (rows, hidden) after each of `layers`."""
        self.caught = dict(zip(self.layers, states, strict=True))


def retrieve(
    target: SparseTarget, token_ids: Ids[int], table: Ids[int], blocks: Ids[int], number: int
) -> tuple[int, ...]:
    """The `number` of `blocks` (indices into the table) that the last token attends to most, by their mean keys.

    One row runs through the first two thirds of the layers with the whole cache in view, and writes what the verify
    pass will write again.
    """
    num_layers = target.model.config.num_layers
    probe = Probe(sorted({num_layers // 3, num_layers // 2, 2 * num_layers // 3} - {0}))
    part = Part("generated", token_ids[-1:], table, len(token_ids) - 1, num_logits=0)
    below = range(max(probe.layers, default=0))
    target.model.forward(Batch.join([part]), target.cache, below, features=(probe,))
    chunks = torch.tensor([table[block] for block in blocks], device=target.model.device)
    scores = torch.zeros(len(blocks), device=target.model.device)
    for layer, x in probe.caught.items():
        query = _query(target.model, layer, x, len(token_ids) - 1)  # (heads, head_dim)
        scores += chunk_attention(query, target.cache.keys[layer], chunks, target.cache.block_size)
    best = scores.argsort(descending=True, stable=True)[:number].tolist()
    return tuple(sorted(blocks[index] for index in best))


def chunk_attention(query: Tensor, keys: Tensor, chunks: Tensor, block_size: int) -> Tensor:
    """Attention of one query to the mean key of each chunk, summed over its heads: (chunks,) fp32.

    query (heads, head_dim); keys (slots, kv_heads, head_dim); chunks (chunks,) the numbers of full blocks.
    """
    kv_heads, head_dim = keys.shape[1:]
    means = keys.view(-1, block_size, kv_heads, head_dim)[chunks].float().mean(1)  # (chunks, kv_heads, head_dim)
    grouped = query.float().view(kv_heads, -1, head_dim)  # (kv_heads, heads per kv_head, head_dim)
    scores = torch.einsum("kgd,ckd->kgc", grouped, means) * head_dim**-0.5
    return scores.softmax(-1).sum((0, 1))


def _query(model: Model, layer: int, x: Tensor, position: int) -> Tensor:
    """The query that the layer with this index makes of x (1, hidden) at `position`: (heads, head_dim)."""
    weights = model.layers[layer]
    normed = rms_norm.run(x, weights.attention_norm, weights.eps)
    qkv = linear.run(normed, weights.qkv, weights.qkv_bias)
    query = qkv[:, : weights.num_heads * weights.head_dim].view(1, weights.num_heads, weights.head_dim)
    if weights.query_norm is not None:
        query = rms_norm.run(query, weights.query_norm, weights.eps)
    if layer not in model.config.no_rope_layers:
        query = rope.rotate(query, *model.angles(torch.tensor([position], device=model.device)))
    return query[0]
