"""Writes small GGUF files, as llama.cpp's converter would make them from a model's folder.

Independent of the reader under test: the layout follows the specification, the shuffling of rows llama.cpp's formula.
"""

import json
import struct
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

KINDS = {bool: 7, int: 4, float: 6, str: 8, list: 9}
PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
TOP |= {"lm_head.weight": "output.weight"}


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(content: object, with_kind: bool = True) -> bytes:
    """A metadata value, its kind first."""
    kind = KINDS[type(content)]
    head = struct.pack("<I", kind) if with_kind else b""
    if kind == 8:
        return head + string(content)
    if kind == 9:
        items = b"".join(value(item, with_kind=False) for item in content)
        return head + struct.pack("<IQ", KINDS[type(content[0])], len(content)) + items
    return head + struct.pack({7: "<?", 4: "<I", 6: "<f"}[kind], content)


def gguf_bytes(metadata: dict, tensors: dict[str, tuple[int, tuple[int, ...], bytes]]) -> bytes:
    """A whole file. tensors: name → (kind of block, shape with the outer dimension first, raw bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(string(name) + value(content) for name, content in metadata.items())
    at, body = 0, b""
    for name, (kind, shape, raw) in tensors.items():
        sizes = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += string(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, at)
        padded = raw + b"\0" * (-len(raw) % 32)
        at, body = at + len(padded), body + padded
    return head + b"\0" * (-len(head) % 32) + body


def shuffled(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """llama.cpp: rows i and i + half of a head become neighbours."""
    return weight.reshape(num_heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def gguf_of(folder: Path, architecture: str, **more: object) -> bytes:
    """The model and byte-level tokenizer of a folder as a float32 GGUF file; `more` adds to its metadata."""
    config = json.loads((folder / "config.json").read_text())
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        array = tensor.to(torch.float32).numpy()
        if architecture in ("llama", "smollm3") and (".q_proj." in name or ".k_proj." in name):
            heads = "num_attention_heads" if ".q_proj." in name else "num_key_value_heads"
            array = shuffled(array, config[heads])
        tensors[gguf_name(name)] = (0, array.shape, np.ascontiguousarray(array).tobytes())
    return gguf_bytes({**model_metadata(config, architecture), **tokenizer_metadata(folder), **more}, tensors)


def gguf_name(name: str) -> str:
    if name in TOP:
        return TOP[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{PARTS[part]}.{kind}"


def model_metadata(config: dict, architecture: str) -> dict:
    sizes = {
        "block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"], "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"], "context_length": config["max_position_embeddings"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": float(config["rope_parameters"]["rope_theta"]),
    }  # fmt: skip
    if config.get("head_dim"):
        sizes["attention.key_length"] = config["head_dim"]
    return {"general.architecture": architecture} | {f"{architecture}.{name}": size for name, size in sizes.items()}


def tokenizer_metadata(folder: Path) -> dict:
    """The byte-level tokenizer of tiny_tokenizers.py; the model's padding becomes unused tokens."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    names = {index: text for text, index in model["vocab"].items()}
    tokens = [names.get(index, f"[PAD{index}]") for index in range(size)]
    kinds = [3 if index < 3 else 1 if index in names else 5 for index in range(size)]
    merges = [" ".join(merge) for merge in model["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.chat_template": "{{ messages[0]['content'] }}",
    }  # fmt: skip
