"""What inference costs and what speculation gains: bytes, FLOPs, rooflines, E[τ], speed-ups, as functions of numbers.

Knows nothing of a running engine: plain numbers go in and come out. Units: bytes, FLOPs (a multiply-add is 2), seconds;
α: probability that a draft is accepted where it is looked at; K: drafts per round; c, v: time of one draft step and of
one verify pass, in plain steps; τ: tokens that a round yields, with the correction or bonus token.
`config`: anything with the field names of `engine.model_config.ModelConfig`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import EngineError

# ---- bytes ---------------------------------------------------------------------------------------------------------


def kv_bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, bytes_per_element: float = 2) -> float:
    """Return 2 · N · H_kv · d · b: a key and a value per layer and KV head (MHA: all heads, GQA: groups, MQA: 1).

    Example: Llama-2-13B, 40 layers of 40 heads of 128 in 16 bits: 819,200 bytes = 800 KiB.
    """
    return 2 * num_layers * num_kv_heads * head_dim * bytes_per_element


def mla_bytes_per_token(num_layers: int, latent_dim: int, rope_dim: int, bytes_per_element: float = 2) -> float:
    """Return N · (d_c + d_r) · b: one latent and one rotary key per layer (DeepSeek-V2, arXiv 2405.04434, §2.1)."""
    return num_layers * (latent_dim + rope_dim) * bytes_per_element


def num_parameters(config: object) -> int:
    """Return the number of parameters of a Llama-family model: embeddings, layers, norms, and the head if untied."""
    layer = _matrix_parameters(config) + 2 * config.hidden_size
    if config.qkv_bias:
        layer += (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    if config.qk_norm:
        layer += 2 * config.head_dim
    embeddings = config.vocab_size * config.hidden_size * (1 if config.tie_embeddings else 2)
    return embeddings + config.num_layers * layer + config.hidden_size


def model_bytes(num_params: int, bytes_per_element: float) -> float:
    """Return what the weights take: 4 bytes each in fp32, 2 in fp16 or bf16, 1 in int8 (plus its scales)."""
    return num_params * bytes_per_element


def _matrix_parameters(config: object) -> int:
    """Weights of one layer's matrices: Q and O, K and V, gate, up and down."""
    attention = 2 * (config.num_heads + config.num_kv_heads) * config.head_dim
    return config.hidden_size * (attention + 3 * config.intermediate_size)


# ---- FLOPs and rooflines -------------------------------------------------------------------------------------------


def layer_flops_per_token(config: object, context: int) -> int:
    """Return the FLOPs of one layer for one token that sees `context` tokens, itself included.

    2 per weight, and 4 · H · d per token seen: 2 for its score and 2 for its share of the output.
    """
    return 2 * _matrix_parameters(config) + 4 * config.num_heads * config.head_dim * context


def flops_per_token(config: object, context: int) -> int:
    """Return the FLOPs of one decode step: all layers, and the head over the vocabulary."""
    head = 2 * config.hidden_size * config.vocab_size
    return config.num_layers * layer_flops_per_token(config, context) + head


def prefill_flops(config: object, num_tokens: int) -> int:
    """Return the FLOPs of a prompt: token i sees i tokens; the head runs for the last one only."""
    matrices = 2 * _matrix_parameters(config) * num_tokens
    attention = 4 * config.num_heads * config.head_dim * num_tokens * (num_tokens + 1) // 2
    head = 2 * config.hidden_size * config.vocab_size
    return config.num_layers * (matrices + attention) + head


def ridge(flops_per_second: float, bytes_per_second: float) -> float:
    """Return the intensity (FLOP per byte) above which the arithmetic, not the memory, is the limit."""
    if bytes_per_second <= 0:
        raise EngineError(
            "bad_number",
            f"bytes_per_second is {bytes_per_second!r}; it must be positive",
            name="bytes_per_second",
            value=bytes_per_second,
        )
    return flops_per_second / bytes_per_second


def matmul_intensity(num_rows: int, bytes_per_element: float = 2) -> float:
    """Return FLOP per byte of a linear layer when few rows share one reading of the weights: 2 · rows / b."""
    return 2 * num_rows / bytes_per_element


def attention_intensity(num_heads: int, num_kv_heads: int, num_rows: int = 1, bytes_per_element: float = 2) -> float:
    """Return FLOP per byte of decode attention: 4·H·d·rows over 2·H_kv·d·b, whatever the context and the batch.

    num_rows: tokens of one sequence that share the reading of its cache (K+1 in a verify pass).
    """
    return 2 * num_heads * num_rows / (num_kv_heads * bytes_per_element)


def mla_attention_intensity(
    num_heads: int, latent_dim: int, rope_dim: int, num_rows: int = 1, bytes_per_element: float = 2
) -> float:
    """Return FLOP per byte of absorbed MLA: scores over d_c + d_r, values over d_c, one latent for all heads."""
    flops = 2 * num_heads * num_rows * ((latent_dim + rope_dim) + latent_dim)
    return flops / ((latent_dim + rope_dim) * bytes_per_element)


def decode_floor_seconds(weight_bytes: float, cache_bytes: float, bytes_per_second: float) -> float:
    """Return the least time of a decode step: every weight and every cached key and value is read once."""
    return (weight_bytes + cache_bytes) / bytes_per_second


def sparse_tokens(context: int, num_sinks: int, window: int, block_size: int) -> int:
    """Return the tokens in view of a row that sees sinks and a window, itself the last of `context` tokens.

    Whole blocks are seen, so the view is up to a block wider at either end. Example: 8,000 tokens, 4 sinks, a window of
    256, blocks of 16: 1 block of sinks, and the last 16 blocks: 272.
    """
    hidden = (context - window) // block_size - blocks_needed(num_sinks, block_size)
    return context - max(0, hidden) * block_size


def break_even_context(plain: tuple[float, float], spent: tuple[float, float], tau: float) -> float:
    """Return the context beyond which rounds win: where τ plain steps start to last longer than one round.

    plain, spent: seconds at context 0, and seconds per token of context, of a plain step and of a whole round. Infinite
    where a round gains nothing from a longer context (after Chen et al. 2024, MagicDec, arXiv 2408.11049: what a round
    spends must grow more slowly than what it saves).
    """
    gained, lacking = tau * plain[1] - spent[1], spent[0] - tau * plain[0]
    if gained > 0:
        return max(0.0, lacking / gained)
    return 0.0 if gained == 0 and lacking < 0 else math.inf


# ---- paged memory --------------------------------------------------------------------------------------------------


def blocks_needed(num_tokens: int, block_size: int) -> int:
    """Return ⌈tokens / block size⌉. Raises EngineError("bad_number")."""
    if block_size < 1 or num_tokens < 0:
        sentence = f"{num_tokens} tokens in blocks of {block_size}; tokens must be ≥ 0 and block sizes ≥ 1"
        raise EngineError("bad_number", sentence, name="block_size", value=block_size)
    return -(-num_tokens // block_size)


def utilisation(used: float, taken: float) -> float:
    """Return the part of what is taken that is used; 1 where nothing is taken."""
    return used / taken if taken else 1.0


def paging_waste(lengths: Sequence[int], block_size: int) -> float:
    """Return the part of the taken slots that stays empty when each sequence (tokens) takes whole blocks."""
    return 1.0 - utilisation(sum(lengths), block_size * sum(blocks_needed(length, block_size) for length in lengths))


def reservation_waste(lengths: Sequence[int], reserved: int) -> float:
    """Return the part of the slots that stays empty when each sequence (tokens) reserves `reserved` in one piece."""
    return 1.0 - utilisation(sum(lengths), reserved * len(lengths))


def reusable_tokens(num_shared: int, num_tokens: int, block_size: int) -> int:
    """Return how many prompt tokens a prefix cache spares: whole blocks of the shared beginning, and never the last.

    At least one token is computed, because its logits are needed. Example: 32 shared of 32, blocks of 16 → 16.
    """
    return min(num_shared, num_tokens - 1) // block_size * block_size if num_tokens > 0 else 0


# ---- what a round yields -------------------------------------------------------------------------------------------


def expected_tokens(alpha: float, draft_length: int) -> float:
    """Return E[τ] = 1 + α + … + α^K, which is (1 − α^(K+1)) / (1 − α), and K + 1 at α = 1.

    Every draft position is taken to be accepted with the same α, independently (Leviathan et al., ICML 2023, Eq. 1).
    """
    return expected_tokens_by_position([_checked_alpha(alpha)] * _checked_length(draft_length))


def expected_tokens_by_position(alphas: Sequence[float]) -> float:
    """Return E[τ] for measured acceptances: `alphas[i]` is that of draft i, among the rounds that looked at it."""
    tokens = reached = 1.0
    for alpha in alphas:
        reached *= alpha
        tokens += reached
    return tokens


def expected_accepted(alpha: float, draft_length: int) -> float:
    """Return the expected number of accepted drafts, E[τ] − 1: without the correction or bonus token."""
    return expected_tokens(alpha, draft_length) - 1.0


def tokens_distribution(alpha: float, draft_length: int) -> tuple[float, ...]:
    """Return P(τ = 1), …, P(τ = K+1): α^j (1 − α) for j < K accepted drafts, α^K for all of them."""
    alpha, length = _checked_alpha(alpha), _checked_length(draft_length)
    return (*(alpha**accepted * (1.0 - alpha) for accepted in range(length)), alpha**length)


def speedup(alpha: float, draft_length: int, draft_cost: float) -> float:
    """Return E[τ] / (1 + K·c): a verify pass is taken to cost a plain step (Leviathan et al., Theorem 3.8)."""
    return speedup_with_verify(alpha, draft_length, draft_cost, 1.0)


def speedup_with_verify(alpha: float, draft_length: int, draft_cost: float, verify_cost: float) -> float:
    """Return E[τ] / (K·c + v). At α = 0 this is 1 / (K·c + v): tokens come no faster and rounds cost more."""
    return expected_tokens(alpha, draft_length) / (draft_length * draft_cost + verify_cost)


def optimal_draft_length(alpha: float, draft_cost: float, largest: int = 40) -> int:
    """Return the K of 0 … largest with the greatest `speedup`; 0 exactly when α ≤ c (Corollary 3.9)."""
    return max(range(_checked_length(largest) + 1), key=lambda length: speedup(alpha, length, draft_cost))


def operations_factor(alpha: float, draft_length: int, draft_cost: float = 0.0) -> float:
    """Return by how much speculation multiplies the arithmetic: (K·ĉ + K + 1) / E[τ] (Leviathan et al., Theorem 3.11).

    draft_cost: ĉ, arithmetic of a draft step in those of a plain one.
    """
    return (draft_length * draft_cost + draft_length + 1) / expected_tokens(alpha, draft_length)


def _checked_alpha(alpha: float) -> float:
    if not 0.0 <= alpha <= 1.0:
        raise EngineError("bad_number", f"alpha is {alpha!r}; a probability is from 0 to 1", name="alpha", value=alpha)
    return alpha


def _checked_length(length: int) -> int:
    if length < 0 or length != int(length):
        sentence = f"draft_length is {length!r}; it must be a whole number ≥ 0"
        raise EngineError("bad_number", sentence, name="draft_length", value=length)
    return int(length)


# ---- the bill ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoundCosts:
    """Measured seconds: plain = one plain step with all that belongs to it; draft, verify, other = one whole round."""

    plain: float
    draft: float
    verify: float
    other: float = 0.0


@dataclass(frozen=True, slots=True)
class SpeedupAccount:
    """`predicted` = τ / (draft_cost + verify_cost + other_cost), costs in plain steps per round.

    cured: the speed-up if one term alone were ideal, by its code: "acceptance" (τ = K+1), "draft" (free), "verify" (one
    plain step), "other" (free). worst: the term whose cure would gain the most; what to name when predicted < 1.
    """

    predicted: float
    draft_cost: float
    verify_cost: float
    other_cost: float
    cured: dict[str, float]
    worst: str


def explain_speedup(costs: RoundCosts, tau: float, draft_length: float) -> SpeedupAccount:
    """Return the speed-up that the measured seconds and tokens per round imply, and which term lost the most.

    draft_length: drafts per round, an average. Raises EngineError("bad_number") without a plain step or verify pass.
    """
    if not (costs.plain > 0.0 and costs.verify > 0.0 and math.isfinite(tau)):
        sentence = f"plain and verify must take time, τ be finite; they are {costs.plain}, {costs.verify}, {tau}"
        raise EngineError("bad_number", sentence, plain=costs.plain, verify=costs.verify, tau=tau)
    draft, verify, other = (seconds / costs.plain for seconds in (costs.draft, costs.verify, costs.other))
    total = draft + verify + other
    cured = {
        "acceptance": max(tau, draft_length + 1) / total,
        "draft": tau / (verify + other),
        "verify": tau / (draft + min(verify, 1.0) + other),
        "other": tau / (draft + verify),
    }
    return SpeedupAccount(tau / total, draft, verify, other, cured, max(cured, key=cured.get))
