"""The Llama-family transformer over a ragged batch and a paged cache, top to bottom.

Knows nothing of requests, sampling or scheduling. What a row is (prompt or generated) decides which kernels compute it,
never how many rows there are: so a pass that verifies drafts and a plain step agree bit for bit on a CPU.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.batch import Batch, Piece, Plan, plan
from engine.cache import KVCache
from engine.errors import EngineError
from engine.features import FeatureCache
from engine.model_config import ModelConfig
from engine.weights import LoadedModel
from kernels import gemm, layer, linear, prompt_attention, rms_norm, rope, swiglu
from kernels.layer import LayerWeights, Rows
from kernels.linear import Packed
from kernels.memory import Slab
from kernels.prompt_attention import Place

Angles = tuple[Tensor, Tensor] | None  # cos, sin (rows, head_dim / 2) fp32 each; None for a layer without positions


class Model:
    """One model with its weights packed for the kernels. dtype is how they are stored; a CPU computes in fp32."""

    def __init__(self, loaded: LoadedModel, dtype: str = "float32", device: str | torch.device = "cpu") -> None:
        """Does not keep `loaded`: whoever drops it frees the original tensors."""
        self.name, self.sha256 = loaded.name, loaded.sha256
        self.config = config = loaded.config
        self.dtype, self.device = dtype, torch.device(device)
        self._activation_dtype = _activation_dtype(dtype, self.device)
        store = _Store(loaded.tensors, dtype, self._activation_dtype, self.device)
        self.embedding = store.matrix("model.embed_tokens.weight")
        self.layers = tuple(_layer_weights(store, config, index) for index in range(config.num_layers))
        self.norm = store.vector("model.norm.weight")
        self.head = self.embedding if config.tie_embeddings else store.matrix("lm_head.weight")
        self.num_bytes = store.num_bytes
        try:
            self._cos, self._sin = (table.to(self.device) for table in rotations(config))
        except RuntimeError as error:
            sentence = f"the angles of {config.context_length} positions do not fit into memory"
            raise EngineError("bad_model_config", sentence, name="max_position_embeddings") from error

    @torch.no_grad()
    def forward(
        self,
        batch: Batch,
        cache: KVCache,
        layers: Sequence[int] | None = None,
        features: Sequence[FeatureCache] = (),
    ) -> Tensor:
        """Computes all rows, writes their keys and values, returns the logits of `batch.logit_rows`: (n, vocab) fp32.

        `layers` names the layers to run (None: all); the others neither read nor write their part of the cache.
        `features` keep hidden states on the way. Raises EngineError("bad_batch") before anything is written.
        """
        return self.compute(plan(batch, cache.num_blocks, cache.block_size, self.device), cache, layers, features)

    @torch.no_grad()
    def compute(
        self, rows: Plan, cache: KVCache, layers: Sequence[int] | None = None, features: Sequence[FeatureCache] = ()
    ) -> Tensor:
        """As `forward`, for rows whose positions, slots and sight are settled already."""
        x = linear.embed(self.embedding, rows.token_ids).to(self._activation_dtype)  # (rows, hidden)
        layers = range(self.config.num_layers) if layers is None else layers
        taps = {number: torch.empty_like(x) for kept in features for number in kept.layers}
        x = self._run_layers(x, rows, cache, layers, taps)
        for kept in features:
            kept.write(rows.slots, [taps[number] for number in kept.layers])
        x = rms_norm.run(x[rows.logit_rows], self.norm, self.config.rms_norm_eps)  # (n, hidden)
        return linear.run(x, self.head).float()

    def wait(self) -> None:
        """Returns when the device has finished what it was given; a CPU always has."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def angles(self, positions: Tensor | slice) -> tuple[Tensor, Tensor]:
        """cos and sin of the rotary angles at these positions, (rows,) or a slice: (rows, head_dim / 2) fp32 each."""
        return self._cos[positions], self._sin[positions]

    def _run_layers(
        self, x: Tensor, rows: Plan, cache: KVCache, layers: Sequence[int], taps: Mapping[int, Tensor]
    ) -> Tensor:
        """x (rows, hidden) → (rows, hidden). Prompt rows go layer by layer, generated rows in one call.

        taps: filled with what comes out of so many layers, (rows, hidden) each.
        """
        prompt, generated = x[: rows.num_prompt_rows], x[rows.num_prompt_rows :]
        turned = _by_role(rows, self.angles(rows.positions), cache.block_size)
        unturned = _by_role(rows, None, cache.block_size) if self.config.no_rope_layers else turned
        places = [unturned if index in self.config.no_rope_layers else turned for index in layers]
        weights = [self.layers[index] for index in layers]
        keys, values = [cache.keys[index] for index in layers], [cache.values[index] for index in layers]
        if rows.pieces:
            for number, (one, (place, _), *cached) in enumerate(zip(weights, places, keys, values, strict=True), 1):
                prompt = prompt_layer(prompt, one, place, *cached)
                if number in taps:
                    taps[number][: len(prompt)] = prompt
        if rows.visible is not None:
            below = {number: tap[len(prompt) :] for number, tap in taps.items()}
            generated = layer.run_all(generated, weights, [place for _, place in places], keys, values, below)
        return torch.cat((prompt, generated)) if rows.pieces else generated


def check_device(name: str) -> None:
    """Raises EngineError("no_device") where PyTorch cannot compute on the device of that name."""
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        sentence = f"the device {name!r} cannot be used here ({reason}); device cpu always works"
        raise EngineError("no_device", sentence, device=name, reason=reason) from error


def _activation_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """What flows between the layers: fp32 on a CPU, elsewhere the type of the weights."""
    if device.type == "cpu":
        return torch.float32
    return torch.float16 if dtype == "int8" else getattr(torch, dtype)


# ---- one layer over prompt rows (what kernels.layer does for generated rows) ----------------------------------------


@dataclass(frozen=True, slots=True)
class PromptRows:
    """Where the prompt rows of a pass stand; the same for every layer."""

    angles: Angles
    slots: Tensor  # (rows,) int32
    pieces: tuple[Piece, ...]  # one per sequence
    block_size: int


def prompt_layer(x: Tensor, weights: LayerWeights, rows: PromptRows, keys: Tensor, values: Tensor) -> Tensor:
    """x (rows, hidden) → (rows, hidden); writes keys and values (slots, kv_heads, head_dim) at rows.slots."""
    normed = rms_norm.run(x, weights.attention_norm, weights.eps)
    x = x + gemm.run(prompt_attend(normed, weights, rows, keys, values), weights.output)
    normed = rms_norm.run(x, weights.mlp_norm, weights.eps)
    return x + gemm.run(swiglu.run(gemm.run(normed, weights.gate_up)), weights.down)


def prompt_attend(x: Tensor, weights: LayerWeights, rows: PromptRows, keys: Tensor, values: Tensor) -> Tensor:
    """x (rows, hidden), normed → what each head gathered, side by side: (rows, heads · head_dim)."""
    heads, kv_heads = weights.num_heads, weights.num_kv_heads
    qkv = gemm.run(x, weights.qkv, weights.qkv_bias).view(len(x), heads + 2 * kv_heads, weights.head_dim)
    q, k, v = qkv.split((heads, kv_heads, kv_heads), dim=1)  # (rows, heads | kv_heads, head_dim) each
    if weights.query_norm is not None:
        q = rms_norm.run(q, weights.query_norm, weights.eps)
        k = rms_norm.run(k, weights.key_norm, weights.eps)
    q = rope.run(q, k, v, rows.angles, (keys, values), rows.slots)
    attended = []
    for piece in rows.pieces:
        place = Place(piece.table, rows.block_size, piece.context, weights.window)
        attended.append(prompt_attention.run(q[piece.first : piece.last], keys, values, place))
    return torch.cat(attended).view(len(x), heads * weights.head_dim)


def _by_role(rows: Plan, angles: Angles, block_size: int) -> tuple[PromptRows | None, Rows | None]:
    """The plan in the words of the two ways through a layer; None for a role that has no rows."""
    first, last = slice(rows.num_prompt_rows), slice(rows.num_prompt_rows, None)
    prompt_rows = generated_rows = None
    if rows.pieces:
        prompt_rows = PromptRows(_cut(angles, first), rows.slots[first], rows.pieces, block_size)
    if rows.visible is not None:
        seen = (rows.visible.row_sequence, rows.visible.row_prefix, rows.visible.row_extra)
        generated_rows = Rows(_cut(angles, last), rows.slots[last], rows.visible.tables, block_size, *seen)
    return prompt_rows, generated_rows


def _cut(angles: Angles, part: slice) -> Angles:
    return None if angles is None else (angles[0][part], angles[1][part])


# ---- weights --------------------------------------------------------------------------------------------------------


class _Store:
    """Takes tensors by name, stacks, packs and counts them."""

    def __init__(
        self, tensors: Mapping[str, Tensor], dtype: str, vector_dtype: torch.dtype, device: torch.device
    ) -> None:
        self.tensors, self.dtype, self.vector_dtype, self.device = tensors, dtype, vector_dtype, device
        self.num_bytes = 0
        self._slab = Slab()  # all matrices share huge pages

    def matrix(self, *names: str) -> Packed:
        """The matrices stacked, so that one product computes them all: (sum of out, in)."""
        parts = [self.tensors[name].to(self.device) for name in names]
        packed = linear.pack(parts[0] if len(parts) == 1 else torch.cat(parts), self.dtype, self._slab)
        self.num_bytes += packed.data.nbytes + (0 if packed.scale is None else packed.scale.nbytes)
        return packed

    def vector(self, *names: str) -> Tensor:
        """Norm weights or biases, stacked, in the type of the activations that they meet."""
        vector = torch.cat([self.tensors[name].to(self.device, self.vector_dtype) for name in names])
        self.num_bytes += vector.nbytes
        return vector


def _layer_weights(store: _Store, config: ModelConfig, index: int) -> LayerWeights:
    attention, mlp = f"model.layers.{index}.self_attn.", f"model.layers.{index}.mlp."
    products = [attention + name for name in ("q_proj", "k_proj", "v_proj")]
    return LayerWeights(
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        eps=config.rms_norm_eps,
        attention_norm=store.vector(f"model.layers.{index}.input_layernorm.weight"),
        qkv=store.matrix(*(name + ".weight" for name in products)),
        qkv_bias=store.vector(*(name + ".bias" for name in products)) if config.qkv_bias else None,
        query_norm=store.vector(attention + "q_norm.weight") if config.qk_norm else None,
        key_norm=store.vector(attention + "k_norm.weight") if config.qk_norm else None,
        output=store.matrix(attention + "o_proj.weight"),
        mlp_norm=store.vector(f"model.layers.{index}.post_attention_layernorm.weight"),
        gate_up=store.matrix(mlp + "gate_proj.weight", mlp + "up_proj.weight"),
        down=store.matrix(mlp + "down_proj.weight"),
        window=config.sliding_window or 0,
    )


# ---- positions ------------------------------------------------------------------------------------------------------


def rotations(config: ModelConfig) -> tuple[Tensor, Tensor]:
    """cos and sin of every position's angles, (context, head_dim / 2) each.

    In fp32 whatever the weights are: bf16 cannot tell position 1000 from 1001.
    """
    positions = torch.arange(config.context_length, dtype=torch.float32)
    angles = torch.outer(positions, frequencies(config))
    return angles.cos(), angles.sin()


def frequencies(config: ModelConfig) -> Tensor:
    """Radians per token of each pair of a head, θ^(−2i/d), fp32 (head_dim / 2,), scaled as the config says.

    "linear" stretches all positions by a factor. "llama3" (Llama 3.1) stretches the waves that are longer than the
    original context over low_freq_factor, keeps those shorter than it over high_freq_factor, and blends in between.
    """
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequency = 1.0 / config.rope_theta**exponent
    scaling = config.rope_scaling
    if scaling is None:
        return frequency
    stretched = frequency / scaling["factor"]
    if scaling["rope_type"] == "linear":
        return stretched
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)  # in the original context
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return keep * frequency + (1 - keep) * stretched
