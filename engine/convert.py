"""A GGUF file → a folder as Hugging Face lays one out: float32 safetensors, config and tokenizer.

Knows nothing of where the file came from. Weights are kept in float32: a block's scale × quant + offset has more digits
than float16 holds, and this way the model is exactly what the file says. One tensor is in memory at a time.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.checkpoint import check_shapes
from engine.gguf import GGUFFile
from engine.gguf_model import config_json, hub_names, hub_tensor
from engine.gguf_tokenizer import build_tokenizer, tokenizer_config_json
from engine.model_config import ModelConfig
from engine.store import new_folder

FORMAT = 1  # part of the folder's name: a converter that writes something else counts it up
Progress = Callable[[float, str], None]
Shapes = Mapping[str, tuple[int, ...]]


def convert(data: Any, target: Path, progress: Progress) -> None:
    """Writes the model in `data` (bytes or a memory map of a GGUF file) as the folder `target`, whole or not at all."""
    progress(0.0, "convert")
    gguf = GGUFFile(data)
    config = config_json(gguf)
    tokenizer = build_tokenizer(gguf.metadata)
    names = hub_names(gguf)
    shapes = {name: gguf.tensors[stored].shape for name, stored in names.items()}
    check_shapes(ModelConfig.from_dict(config), shapes, "the .gguf file")  # before anything is written
    num_bytes = sum(4 * math.prod(shape) for shape in shapes.values())
    with new_folder(target, num_bytes + 16_000_000) as folder:
        _write_json(folder / "config.json", config)
        _write_json(folder / "tokenizer_config.json", tokenizer_config_json(gguf.metadata))
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        path = folder / "model.safetensors"
        write_safetensors(path, shapes, lambda name: hub_tensor(gguf, names[name], config), progress)


def write_safetensors(path: Path, shapes: Shapes, read: Callable[[str], np.ndarray], progress: Progress) -> None:
    """A safetensors file of float32 tensors, written in order of name, one at a time.

    Format: 8 bytes of header length, a JSON header with each tensor's place, the numbers (little-endian).
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(shapes):
        start, end = end, end + 4 * math.prod(shapes[name])
        header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(shapes):
            file.write(np.ascontiguousarray(read(name), dtype="<f4").data)
            progress(header[name]["data_offsets"][1] / end, "convert")


def is_whole(folder: Path) -> bool:
    """Whether a converted folder is all there: every file, and the weights as long as their header says."""
    path = folder / "model.safetensors"
    if not all((folder / name).is_file() for name in ("config.json", "tokenizer.json", "model.safetensors")):
        return False
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            return False
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return False
    header.pop("__metadata__", None)
    end = max(entry["data_offsets"][1] for entry in header.values())
    return path.stat().st_size == 8 + length + end


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
