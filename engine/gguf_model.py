"""What a GGUF file says of its model, in the words of Hugging Face: config.json, tensor names, tensor layout.

Knows nothing of how the file is read (`engine.gguf`), of its tokenizer, or of where the result goes.
"""

import re
from typing import Any

import numpy as np

from engine.errors import EngineError
from engine.gguf import GGUFFile

# ---- config.json --------------------------------------------------------------------------------------------------

_CONFIG_NAMES = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "sliding_window": "attention.sliding_window",
}
_CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}


def config_json(gguf: GGUFFile) -> dict[str, Any]:
    """The config.json that this file's model would have. Raises EngineError("unsupported_model")."""
    metadata = gguf.metadata
    architecture = metadata.get("general.architecture")
    if architecture not in _CLASSES:
        sentence = f"the .gguf file holds a {architecture!r} model; this engine runs {', '.join(_CLASSES)}"
        raise EngineError("unsupported_model", sentence, model_type=architecture)
    config: dict[str, Any] = {"model_type": architecture, "architectures": [_CLASSES[architecture]]}
    for name, key in _CONFIG_NAMES.items():
        value = metadata.get(f"{architecture}.{key}")
        if value is not None:
            config[name] = _shortest(value)
    if "token_embd.weight" in gguf.tensors:
        config["vocab_size"] = gguf.tensors["token_embd.weight"].shape[0]
    config["tie_word_embeddings"] = "output.weight" not in gguf.tensors
    config["dtype"] = "float32"
    for name in ("bos_token_id", "eos_token_id"):
        config[name] = metadata.get(f"tokenizer.ggml.{name}")
    scaling = _rope_scaling(gguf, architecture)
    if scaling:
        config["rope_scaling"] = scaling
    return config


def _shortest(value: Any) -> Any:
    """A float32 from the file as the shortest decimal that means it: 9.99999974e-06 → 1e-05."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _rope_scaling(gguf: GGUFFile, architecture: str) -> dict[str, Any] | None:
    """Linear scaling is written as numbers; Llama 3's only as the factors themselves, one per pair of dimensions."""
    kind = gguf.metadata.get(f"{architecture}.rope.scaling.type", "none")
    if "rope_freqs.weight" in gguf.tensors:
        return _llama3_scaling(gguf, architecture)
    if kind == "none":
        return None
    return {"rope_type": kind, "factor": _shortest(gguf.metadata.get(f"{architecture}.rope.scaling.factor"))}


def _llama3_scaling(gguf: GGUFFile, architecture: str) -> dict[str, Any]:
    """Llama 3.1's published constants, if they give exactly the factors in the file."""
    factors = gguf.tensor("rope_freqs.weight")
    factor = float(factors.max())
    theta = gguf.metadata.get(f"{architecture}.rope.freq_base", 10000.0)
    wavelengths = 2 * np.pi * theta ** (np.arange(len(factors)) / len(factors))
    smooth = np.clip((8192 / wavelengths - 1) / (4 - 1), 0, 1)
    expected = 1 / ((1 - smooth) / factor + smooth)
    if not np.allclose(factors, expected, rtol=1e-4):
        raise EngineError("unsupported_model", "the .gguf file scales RoPE in a way that is not Llama 3's")
    constants = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    return {"rope_type": "llama3", "factor": factor, **constants}


# ---- tensors ------------------------------------------------------------------------------------------------------

_TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_INTERLEAVED = ("llama", "smollm3")  # architectures whose q and k rows llama.cpp reorders
_NOT_WEIGHTS = ("rope_freqs.weight",)


def hub_names(gguf: GGUFFile) -> dict[str, str]:
    """{name in `transformers`: name in the file} for every weight; EngineError("unsupported_model") for a stranger."""
    names = {}
    for name in gguf.tensors:
        if name in _NOT_WEIGHTS:
            continue
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
        if match is None or match[2] not in _TENSOR_NAMES:
            raise EngineError("unsupported_model", f"the .gguf file holds a tensor {name!r} unknown here", tensor=name)
        layer, part, kind = match.groups()
        prefix = f"model.layers.{layer}." if layer else ""
        names[f"{prefix}{_TENSOR_NAMES[part]}.{kind}"] = name
    return names


def hub_tensor(gguf: GGUFFile, name: str, config: dict[str, Any]) -> np.ndarray:
    """One weight as `transformers` has it, float32.

    llama.cpp turns neighbouring pairs (0,1), (2,3) … by RoPE, `transformers` the pairs (i, i + half); its converter
    therefore shuffles the rows of q and k in each head, which is undone here.
    """
    weight = gguf.tensor(name)
    is_query, is_key = ".attn_q." in name, ".attn_k." in name
    if config["model_type"] not in _INTERLEAVED or not (is_query or is_key):
        return weight
    num_heads = config["num_attention_heads"] if is_query else config["num_key_value_heads"]
    pairs = weight.reshape(num_heads, -1, 2, *weight.shape[1:])  # (heads, head_dim / 2, 2, …)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)
