"""What drafting from a sparse cache would gain on a large machine: the roofline's lower bounds, badge "theory".

Knows nothing of runs and pages. A pass costs two parts that follow one another: the matrices, whose weights all rows
share, and attention, where each sequence reads a cache of its own. Each part takes as long as the slower of memory and
arithmetic. Nothing is added for launches, communication or sampling, so real systems gain less.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from engine import break_even_context, expected_tokens, flops_per_token, kv_bytes_per_token, num_parameters

BYTES = 2  # of a weight, of a cached number: 16 bits
SINKS = 4  # tokens
CONTEXTS = tuple(round(256 * 2 ** (step / 4)) for step in range(37))  # 256 … 131,072


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model that accounting asks for, from its published config.json."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    tie_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def weight_bytes(self) -> float:
        """Weights that a pass reads: all, but of an embedding table of its own only the rows of its tokens."""
        unread = 0 if self.tie_embeddings else self.vocab_size * self.hidden_size
        return BYTES * (num_parameters(self) - unread)

    @property
    def token_bytes(self) -> float:
        """Keys and values of one token."""
        return kv_bytes_per_token(self.num_layers, self.num_kv_heads, self.head_dim, BYTES)


MODELS = {
    "Llama-3.1-8B": Shape(32, 4096, 14336, 32, 8, 128, 128256),
    "Llama-2-7B": Shape(32, 4096, 11008, 32, 32, 128, 32000),
    "Qwen2.5-7B": Shape(28, 3584, 18944, 28, 4, 128, 152064, qkv_bias=True),
    "SmolLM2-135M": Shape(30, 576, 1536, 9, 3, 64, 49152, tie_embeddings=True),
}
HERE = {"smollm2-135m": "SmolLM2-135M"}  # the engine's name for a model of the list


@dataclass(frozen=True, slots=True)
class Machine:
    """Peak rates and memory, from the vendor's data sheet."""

    bytes_per_second: float
    flops_per_second: float
    memory_bytes: float


H100 = Machine(3.35e12, 989e12, 80e9)  # SXM, dense bf16
BATCHES = (1, 4, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Plan:
    """A model that drafts for itself on one H100. kept: tokens that a draft step sees beside the sinks."""

    model: str = "Llama-3.1-8B"
    batch: int = 32
    kept: int = 512
    alpha: float = 0.8
    draft_length: int = 4

    @property
    def shape(self) -> Shape:
        """The model's sizes."""
        return MODELS[self.model]

    @property
    def seen(self) -> int:
        """Tokens in view of a draft step."""
        return SINKS + self.kept

    @cached_property
    def tau(self) -> float:
        """Tokens of a round."""
        return expected_tokens(self.alpha, self.draft_length)

    def line(self, num_rows: int) -> tuple[float, float]:
        """Seconds of a pass with so many rows per sequence: at context 0, and more per token of context."""
        shape, rows = self.shape, self.batch * num_rows
        matrices = flops_per_token(shape, 0) * rows / H100.flops_per_second
        attention = (flops_per_token(shape, 1) - flops_per_token(shape, 0)) * rows / H100.flops_per_second
        weights = shape.weight_bytes / H100.bytes_per_second
        cache = self.batch * shape.token_bytes / H100.bytes_per_second
        return max(weights, matrices), max(cache, attention)

    def seconds(self, num_rows: int, context: float) -> float:
        """Seconds of a pass that sees so many tokens."""
        fixed, per_token = self.line(num_rows)
        return fixed + per_token * context

    def speedup(self, context: float) -> float:
        """Plain seconds per token over drafted ones; 1 where the view would hide nothing and nothing is drafted."""
        if context <= self.seen:
            return 1.0
        drafting = self.draft_length * self.seconds(1, self.seen)
        return self.tau * self.seconds(1, context) / (drafting + self.seconds(1 + self.draft_length, context))

    @cached_property
    def pays_from(self) -> float:
        """The context from which rounds win; infinite where they never do."""
        verify = self.line(1 + self.draft_length)
        spent = verify[0] + self.draft_length * self.seconds(1, self.seen), verify[1]
        return max(float(self.seen), break_even_context(self.line(1), spent, self.tau))

    @property
    def fits_up_to(self) -> float:
        """The context at which weights and caches fill the machine's memory; below 0 where the weights do not fit."""
        room = H100.memory_bytes - BYTES * num_parameters(self.shape)
        return room / (self.batch * self.shape.token_bytes)

    def step_bytes(self, context: float) -> dict[str, float]:
        """What one pass reads: weights, a sparse draft's cache, the whole cache of a plain or verifying one."""
        caches = self.batch * self.shape.token_bytes
        return {"weights": self.shape.weight_bytes, "draft": caches * min(self.seen, context), "full": caches * context}


ASKED = Plan()  # what the reader is asked about


def whole(number: float) -> str:
    """A context for reading: 3,200; "∞" where there is none."""
    return "∞" if math.isinf(number) else f"{float(f'{number:.2g}'):,.0f}"


def run_bytes(model: str, tokens: Sequence[float]) -> list[float] | None:
    """Bytes that a pass of one sequence reads when it sees so many tokens; None for a model that is not in the list."""
    if model not in HERE:
        return None
    shape = MODELS[HERE[model]]
    return [shape.weight_bytes + shape.token_bytes * number for number in tokens]
