"""The shape of a model: what its config.json says, in one frozen record and in the field's words.

Knows nothing of weights or of how the layers are computed. What `engine.model` cannot compute exactly is refused here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import EngineError

MOST_LAYERS, MOST = 1024, 2**30  # what a config.json may claim
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
ROPE_TYPES = ("llama3", "linear")
_DEFAULTS = {  # what a config.json that does not say it means, where `transformers` does not take the plain default
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128},
    "smollm3": {"num_key_value_heads": 4, "rope_theta": 2_000_000.0, "tie_word_embeddings": True},
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of one Llama-family model.

    rope_scaling: None, or {"rope_type": "linear", "factor"} or {"rope_type": "llama3", "factor", "low_freq_factor",
    "high_freq_factor", "original_max_position_embeddings"}. qkv_bias: the q, k and v products have a bias (Qwen2).
    qk_norm: q and k get an RMSNorm per head before RoPE (Qwen3). no_rope_layers: indices of the layers without RoPE
    (SmolLM3). sliding_window: a token sees itself and the window − 1 tokens before it (Mistral), None = all of them.
    """

    model_type: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: dict[str, Any] | None = field(default=None, hash=False)
    qkv_bias: bool = False
    qk_norm: bool = False
    tie_embeddings: bool = False
    no_rope_layers: tuple[int, ...] = ()
    sliding_window: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_layers", "hidden_size", "intermediate_size", "num_heads", "num_kv_heads", "head_dim"):
            _check_size(name, getattr(self, name))
        _check_size("vocab_size", self.vocab_size)
        _check_size("context_length", self.context_length)
        if self.num_heads % self.num_kv_heads:
            sentence = f"{self.num_heads} query heads cannot share {self.num_kv_heads} key-value heads evenly"
            raise EngineError("bad_model_config", sentence, num_heads=self.num_heads, num_kv_heads=self.num_kv_heads)
        if self.head_dim % 2:
            sentence = f"head_dim is {self.head_dim}; RoPE turns pairs, so it must be even"
            raise EngineError("bad_model_config", sentence, head_dim=self.head_dim)

    @classmethod
    def from_dict(cls, config_json: Mapping[str, Any]) -> "ModelConfig":
        """Reads a parsed config.json of `transformers` (4.x, or 5.x with its `rope_parameters`).

        Raises EngineError("unsupported_model") for what this engine does not compute, ("bad_model_config") for a
        config that is broken.
        """
        model_type = config_json.get("model_type")
        _check_supported(model_type, config_json)
        config_json = {**_DEFAULTS.get(model_type, {}), **config_json}
        num_heads = _size(config_json, "num_attention_heads")
        hidden_size = _size(config_json, "hidden_size")
        num_layers = _size(config_json, "num_hidden_layers")
        theta, scaling = _rope(config_json)
        return cls(
            model_type=model_type,
            num_layers=num_layers,
            hidden_size=hidden_size,
            intermediate_size=_size(config_json, "intermediate_size"),
            num_heads=num_heads,
            num_kv_heads=config_json.get("num_key_value_heads") or num_heads,
            head_dim=config_json.get("head_dim") or hidden_size // num_heads,
            vocab_size=_size(config_json, "vocab_size"),
            context_length=_size(config_json, "max_position_embeddings"),
            rms_norm_eps=_positive("rms_norm_eps", config_json.get("rms_norm_eps", 1e-6)),
            rope_theta=_positive("rope_theta", theta),
            rope_scaling=scaling,
            qkv_bias=model_type == "qwen2",
            qk_norm=model_type == "qwen3",
            tie_embeddings=_switch(config_json, "tie_word_embeddings"),
            no_rope_layers=_no_rope_layers(model_type, config_json, num_layers),
            sliding_window=_sliding_window(model_type, config_json, num_layers),
            eos_token_ids=token_ids(config_json.get("eos_token_id")),
            bos_token_id=config_json.get("bos_token_id"),
        )


def token_ids(value: int | list[int] | None) -> tuple[int, ...]:
    """An end-of-text entry as configs write it (nothing, one id, a list) → a tuple of ids. Raises EngineError."""
    if value is None:
        return ()
    ids = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(index, int) and not isinstance(index, bool) and index >= 0 for index in ids):
        sentence = f"eos_token_id is {value!r}; it must be a token id or a list of them"
        raise EngineError("bad_model_config", sentence, name="eos_token_id", value=value)
    return tuple(ids)


# ---- refusals -----------------------------------------------------------------------------------------------------


def _unsupported(sentence: str, **values: object) -> EngineError:
    return EngineError("unsupported_model", sentence, **values)


def _check_supported(model_type: object, config_json: Mapping[str, Any]) -> None:
    if model_type not in MODEL_TYPES:
        sentence = f"model_type is {model_type!r}; this engine runs {', '.join(MODEL_TYPES)}"
        raise _unsupported(sentence, model_type=model_type)
    for name, wanted in (("hidden_act", "silu"), ("mlp_bias", False), ("attention_bias", False)):
        value = config_json.get(name, wanted)
        if value != wanted:
            raise _unsupported(f"{name} is {value!r}; this engine runs {wanted!r} only", name=name, value=value)
    if config_json.get("quantization_config"):
        raise _unsupported("the weights are stored quantised; take the model's float version, or a .gguf file")


def _check_size(name: str, value: object) -> None:
    most = MOST_LAYERS if name == "num_layers" else MOST
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        sentence = f"{name} is {value!r:.40}; it must be a whole number from 1 to {most}"
        raise EngineError("bad_model_config", sentence, name=name)


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise EngineError("bad_model_config", f"{name} is {value!r:.40}; it must be a positive number", name=name)
    return float(value)


def _switch(config_json: Mapping[str, Any], name: str) -> bool:
    value = config_json.get(name, False)
    if not isinstance(value, bool):
        raise EngineError("bad_model_config", f"{name} is {value!r:.40}; it must be true or false", name=name)
    return value


def _size(config_json: Mapping[str, Any], name: str) -> int:
    value = config_json.get(name)
    _check_size(name, value)
    return value


# ---- what needs a second look -------------------------------------------------------------------------------------


def _rope(config_json: Mapping[str, Any]) -> tuple[object, dict[str, Any] | None]:
    """The base and the scaling of RoPE, from `rope_parameters` (5.x) or `rope_theta` and `rope_scaling` (4.x)."""
    written = {**(config_json.get("rope_scaling") or {}), **(config_json.get("rope_parameters") or {})}
    theta = next(
        (value for value in (written.pop("rope_theta", None), config_json.get("rope_theta")) if value is not None),
        10000.0,
    )
    kind = written.pop("rope_type", None) or written.pop("type", None) or "default"
    part = written.get("partial_rotary_factor", config_json.get("partial_rotary_factor", 1.0))
    if part not in (None, 1.0):
        raise _unsupported(f"partial_rotary_factor is {part}; this engine turns the whole head", value=part)
    if kind == "default":
        return theta, None
    if kind not in ROPE_TYPES:
        sentence = f"RoPE scaling {kind!r} is not computed here; this engine does {' and '.join(ROPE_TYPES)}"
        raise _unsupported(sentence, rope_type=kind)
    names = ["factor"]
    if kind == "llama3":
        names += ["low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]
    missing = [name for name in names if not isinstance(written.get(name), int | float)]
    if missing:
        sentence = f"RoPE scaling {kind!r} lacks {', '.join(missing)}"
        raise EngineError("bad_model_config", sentence, rope_type=kind, missing=tuple(missing))
    for name in names:
        _positive(name, written[name])
    return theta, {"rope_type": kind, **{name: written[name] for name in names}}


def _no_rope_layers(model_type: str, config_json: Mapping[str, Any], num_layers: int) -> tuple[int, ...]:
    """SmolLM3 writes a list with 1 = RoPE and 0 = none, or only an interval: each n-th layer goes without."""
    if model_type != "smollm3":
        return ()
    uses_rope = config_json.get("no_rope_layers")
    if uses_rope is None:
        interval = config_json.get("no_rope_layer_interval", 4)
        uses_rope = [(layer + 1) % interval for layer in range(num_layers)]
    if len(uses_rope) < num_layers:
        sentence = f"no_rope_layers has {len(uses_rope)} entries for {num_layers} layers"
        raise EngineError("bad_model_config", sentence, entries=len(uses_rope), num_layers=num_layers)
    return tuple(layer for layer in range(num_layers) if not uses_rope[layer])


def _sliding_window(model_type: str, config_json: Mapping[str, Any], num_layers: int) -> int | None:
    """The one window of all layers; a model that mixes windowed and full layers is refused."""
    window = config_json.get("sliding_window")
    if model_type == "llama" or (model_type != "mistral" and not config_json.get("use_sliding_window")):
        return None
    if window is not None:
        _check_size("sliding_window", window)
    if window is None or model_type == "mistral":
        return window
    kinds = config_json.get("layer_types")
    if kinds is None and model_type == "smollm3":
        full = set(range(num_layers)) - set(_no_rope_layers(model_type, config_json, num_layers))
        kinds = ["full_attention" if layer in full else "sliding_attention" for layer in range(num_layers)]
    elif kinds is None:
        first = config_json.get("max_window_layers", 28)
        kinds = ["sliding_attention" if layer >= first else "full_attention" for layer in range(num_layers)]
    if "sliding_attention" not in kinds:
        return None
    if "full_attention" in kinds:
        raise _unsupported("some layers slide a window and some do not; this engine runs one kind", window=window)
    return window
