"""EAGLE heads as others published them: one decoder layer beside any target, drafting as `engine.head.Head` does.

Knows nothing of sequences, drafts or files. The first token of a text has no row in these heads, since nothing was felt
before it (eagle/model/cnets.py feeds `input_ids[:, 1:]`, vLLM shifts likewise). Here the row of token i lies in slot i,
so that a block depends on nothing after it, and turns by the angle of i − 1; slot 0 is seen by nobody else.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.accounting import blocks_needed
from engine.cache import KVCache
from engine.features import FeatureCache
from engine.head import SCRATCH
from engine.model import Model, rotations
from engine.published import Published, bad
from engine.published_ends import Eagle1Ends, Eagle3Ends, HeadWeights
from engine.published_shape import eagle_shape
from kernels import linear, paged_attention, rms_norm, rope, swiglu
from kernels.paged_attention import Seen


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRows:
    """Where rows of one pass stand: their angles, the slots that they write, and the slots that they see."""

    angles: tuple[Tensor, Tensor]
    slots: Tensor  # (rows,) int32
    seen: Seen


class PublishedHead:
    """The layer's weights beside their target's; one cache of keys and values and one of features serve all requests.

    What is asked for by position or slot may lie on the CPU, and logits come back to it, so that trees grow there
    whatever device computes.
    """

    lag = 0  # a row holds the token after the feature

    def __init__(self, published: Published, model: Model, cache: KVCache) -> None:
        """`cache` is the target's: block numbers and dtype are shared. Raises EngineError as `eagle_shape`."""
        self.shape, self._model = eagle_shape(published, model.config), model
        self.vocab_size = model.config.vocab_size
        self.draft_ids = _draft_ids(published, self.shape.num_draft_ids, self.vocab_size)
        config, self._eps = self.shape.config, self.shape.config.rms_norm_eps
        dtype = str(cache.keys[0].dtype).removeprefix("torch.")
        num_blocks = cache.num_blocks + blocks_needed(SCRATCH, cache.block_size)
        self.cache = KVCache(config, num_blocks, cache.block_size, dtype, model.device)
        self.scratch = range(cache.num_slots, cache.num_slots + SCRATCH)  # slots for the nodes of a tree that grows
        place = (cache.num_slots, cache.block_size, dtype, model.device)
        self.features = FeatureCache(self.shape.layers, self.shape.target_hidden, *place)
        self._cos, self._sin = (table.to(model.device) for table in rotations(config))
        weights = HeadWeights(published, model)
        self._read_layer(weights)
        is_old = published.layout == "eagle"
        self._ends = Eagle1Ends(published, weights, model) if is_old else Eagle3Ends(published, weights, self._eps)

    def _read_layer(self, weights: HeadWeights) -> None:
        attention, mlp, embedding = "layers.0.self_attn.", "layers.0.mlp.", "embed_tokens.weight"
        products = [f"{attention}{part}_proj." for part in "qkv"]
        self._embedding = weights.matrix(embedding) if embedding in weights.tensors else self._model.embedding
        self._qkv = weights.matrix(*(name + "weight" for name in products))
        self._qkv_bias = weights.vector(*(name + "bias" for name in products))
        self._query_norm, self._key_norm = (weights.vector(f"{attention}{part}_norm.weight") for part in "qk")
        self._output = weights.matrix(f"{attention}o_proj.weight")
        self._output_bias = weights.vector(f"{attention}o_proj.bias")
        self._mlp_norm = weights.vector("layers.0.post_attention_layernorm.weight")
        self._gate_up = weights.matrix(f"{mlp}gate_proj.weight", f"{mlp}up_proj.weight")
        self._down = weights.matrix(f"{mlp}down_proj.weight")

    def given(self, slots: list[int]) -> Tensor:
        """What the target felt at the tokens of these slots, as the layer wants it: (slots, hidden)."""
        if not slots:
            return torch.zeros(0, self.shape.config.hidden_size, device=self._model.device)
        return self._ends.given(self.features.read(slots).to(self._model.norm.dtype))

    def guess(self, felt: Tensor, token_ids: list[int], rows: PublishedRows, num_told: int) -> tuple[Tensor, Tensor]:
        """felt (rows, hidden), one token before each row → of the last `num_told` rows the hidden states, guessed, and
        the logits of the draft's own words (num_told, len(draft_ids)), fp32.
        """
        dtype = self._model.norm.dtype
        tokens = linear.embed(self._embedding, torch.tensor(token_ids, device=self._model.device))
        x, read = self._ends.enter(tokens.to(dtype), felt.to(dtype))
        x = x + self._attend(read, rows)
        normed = rms_norm.run(x, self._mlp_norm, self._eps)
        x = x + linear.run(swiglu.run(linear.run(normed, self._gate_up)), self._down)
        x = x[len(x) - num_told :]
        return x, self._ends.logits(x).float().cpu()

    def _attend(self, read: Tensor, rows: PublishedRows) -> Tensor:
        config = self.shape.config
        heads, kv_heads = config.num_heads, config.num_kv_heads
        qkv = linear.run(read, self._qkv, self._qkv_bias).view(len(read), heads + 2 * kv_heads, config.head_dim)
        q, k, v = qkv.split((heads, kv_heads, kv_heads), 1)  # (rows, heads | kv_heads, head_dim) each
        if self._query_norm is not None:
            q = rms_norm.run(q, self._query_norm, self._eps)
            k = rms_norm.run(k, self._key_norm, self._eps)
        cached = self.cache.keys[0], self.cache.values[0]
        q = rope.run(q, k, v, rows.angles, cached, rows.slots)
        attended = paged_attention.run(q, *cached, rows.seen)
        return linear.run(attended.reshape(len(read), heads * config.head_dim), self._output, self._output_bias)

    # ---- where rows stand ---------------------------------------------------------------------------------------

    def rows(self, first: int, table: Tensor, slots: list[int]) -> PublishedRows:
        """Rows of one sequence, a chain from position `first` on with block table (1, blocks), written at `slots`."""
        at = torch.arange(first, first + len(slots))
        number = torch.arange(min(1, int(at[-1])), int(at[-1]) + 1)  # all but the first token, if there are others
        seen = torch.where(number <= at[:, None], self._slots(number, table), -1)
        seen[at == 0, 0] = self._slots(at[:1] * 0, table)  # the first token's row has itself to look at
        return self._rows(at, torch.tensor(slots), seen)

    def tree_rows(self, position: int, table: Tensor, num_seen: int, slots: Tensor, paths: Tensor) -> PublishedRows:
        """As `engine.head.Head`: rows of one level, each seeing the first `num_seen` tokens and its own path."""
        known = self._slots(torch.arange(min(1, num_seen - 1), num_seen), table).expand(len(slots), -1)
        return self._rows(torch.full((len(slots),), position), slots, torch.cat((known, paths), 1))

    def _slots(self, number: Tensor, table: Tensor) -> Tensor:
        """The slots of these tokens of the sequence: int64."""
        size = self.cache.block_size
        return table[0].long()[number // size] * size + number % size

    def _rows(self, at: Tensor, slots: Tensor, seen: Tensor) -> PublishedRows:
        """What a row sees is listed slot by slot, for a prefix in a block table cannot leave out its first token."""
        device = self._model.device
        angle = (at - 1).clamp(min=0).to(device)
        nothing = torch.zeros(len(at), dtype=torch.int32, device=device)
        listed = Seen(nothing[:1, None], self.cache.block_size, nothing, nothing, seen.int().contiguous().to(device))
        return PublishedRows((self._cos[angle], self._sin[angle]), slots.int().to(device), listed)


def _draft_ids(published: Published, count: int, vocab_size: int) -> Tensor:
    """The target's ids of the draft's words: (count,). `d2t` holds what is to be added to a word's own number."""
    ids = torch.arange(count)
    if "d2t" not in published.tensors:
        return ids
    ids = ids + published.tensors["d2t"].long()
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size or len(ids.unique()) != count:
        raise bad(published, f"d2t must give {count} different ids below {vocab_size}, and does not", tensor="d2t")
    return ids
