"""A model's folder as Hugging Face lays one out: config.json and safetensors, read and checked against each other.

Knows nothing of where the folder came from. Weights are mapped, not copied; pickle files are never opened.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from engine.errors import EngineError
from engine.model_config import ModelConfig, token_ids

_STORED_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise EngineError("bad_model_config", f"{path} cannot be read: {error}", path=str(path)) from error
    if not isinstance(content, dict):
        raise EngineError("bad_model_config", f"{path} does not hold a JSON object", path=str(path))
    return content


def read_config(folder: Path) -> ModelConfig:
    """config.json, with the end tokens of generation_config.json, where chat models write theirs."""
    if not (folder / "config.json").is_file():
        sentence = f"{folder} has no config.json; name a folder that save_pretrained wrote, or a .gguf file"
        raise EngineError("model_not_found", sentence, model=str(folder))
    written = _read_json(folder / "config.json")
    try:
        config = ModelConfig.from_dict(written)
    except (TypeError, AttributeError) as error:  # an entry is of a kind that no config has
        raise EngineError(
            "bad_model_config", f"{folder / 'config.json'} is broken: {error}", path=str(folder)
        ) from error
    generation = folder / "generation_config.json"
    more = token_ids(_read_json(generation).get("eos_token_id")) if generation.is_file() else ()
    return dataclasses.replace(config, eos_token_ids=tuple(dict.fromkeys([*config.eos_token_ids, *more])))


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: one, or the shards that its index names."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(map(str, _read_json(index).get("weight_map", {}).values())))
    else:
        names = ["model.safetensors"]
    paths = [folder / name for name in names if Path(name).name == name]
    missing = [path.name for path in paths if not path.is_file()]
    if paths and len(paths) == len(names) and not missing:
        return paths
    pickles = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind))
    if pickles:
        sentence = (
            f"{folder} holds {pickles[0]}, a pickle, which can run any code when opened and is refused; convert it"
        )
        sentence += " with save_pretrained(…, safe_serialization=True)"
        raise EngineError("pickle_refused", sentence, file=pickles[0])
    sentence = f"{folder} lacks {', '.join(missing or names) or 'its shards'}; download the model again"
    raise EngineError("missing_weights", sentence, folder=str(folder), missing=tuple(missing))


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a folder's safetensors files, by name. Raises EngineError("bad_weights", "missing_weights", …)."""
    tensors: dict[str, torch.Tensor] = {}
    for path in weight_files(folder):
        try:
            tensors |= safetensors.torch.load_file(path)
        except (safetensors.SafetensorError, OSError) as error:
            sentence = f"{path} is damaged or was cut short ({error}); download it again"
            raise EngineError("bad_weights", sentence, path=str(path)) from error
    return tensors


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights that a model of this config has, as `transformers` names them."""
    hidden, inner, head = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.num_heads * head, config.num_kv_heads * head
    layer = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.qkv_bias:
        layer |= {
            f"self_attn.{part}_proj.bias": (size,) for part, size in zip("qkv", (queries, keys, keys), strict=True)
        }
    if config.qk_norm:
        layer |= {"self_attn.q_norm.weight": (head,), "self_attn.k_norm.weight": (head,)}
    shapes = {"model.embed_tokens.weight": (config.vocab_size, hidden), "model.norm.weight": (hidden,)}
    if not config.tie_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes | {f"model.layers.{i}.{name}": size for i in range(config.num_layers) for name, size in layer.items()}


def check_shapes(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Raises EngineError("bad_weights") for a weight missing or misshapen, ("unsupported_model") for one too many."""
    expected = expected_shapes(config)
    for name, shape in expected.items():
        found = shapes.get(name)
        if found != shape:
            sentence = f"{source}: {name} should be {shape} by the model's config and is {found or 'missing'}"
            raise EngineError("bad_weights", sentence, tensor=name, expected=shape, found=found)
    strangers = sorted(shapes.keys() - expected.keys())
    if strangers:
        sentence = f"{source}: this engine cannot use {strangers[0]}; it runs plain Llama-family weights"
        raise EngineError("unsupported_model", sentence, tensor=strangers[0])


def check_tensors(config: ModelConfig, tensors: dict[str, torch.Tensor], folder: Path) -> None:
    """Drops what old checkpoints store needlessly; everything else must be what the config says."""
    needless = [name for name in tensors if name.endswith("rotary_emb.inv_freq")]
    for name in [*needless, "lm_head.weight"] if config.tie_embeddings else needless:
        tensors.pop(name, None)
    check_shapes(config, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, str(folder))
    for name, tensor in tensors.items():
        if tensor.dtype not in _STORED_TYPES:
            sentence = f"{folder}: {name} is stored as {tensor.dtype}; this engine reads float32, float16 and bfloat16"
            raise EngineError("unsupported_model", sentence, tensor=name)
