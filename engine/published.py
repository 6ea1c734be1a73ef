"""Heads that others published: finds a folder's files, tells which layout they have, and names their tensors alike.

Knows nothing of how a head computes, nor of the target. The layouts, as the code of their authors reads them:
"eagle" (EAGLE-1 and 2; SafeAILab/EAGLE, eagle/model/cnets1.py) is `fc` and `layers.0` without an input norm; "eagle3"
(the same, eagle/model/cnets.py; vLLM's llama_eagle3.py) is `fc` over three hidden states, `midlayer`, `norm`, `lm_head`
and the offsets `d2t`; "medusa" (FasterDecoding/Medusa, medusa/model/medusa_model.py) is `0.0.linear` and so on. The
`speculators` format (vllm-project/speculators, models/eagle3/core.py and models/eagle.py) has the weights of these
under names of its own, and the sizes in `transformer_layer_config`.
"""

import json
import os
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from engine.checkpoint import weight_files
from engine.errors import EngineError

FILES = ("model.safetensors", "medusa_lm_head.safetensors", "pytorch_model.bin", "medusa_lm_head.pt")
_RENAMED = (("medusa_head.", ""), ("midlayer.", "layers.0."), ("transformer.", "layers.0."), ("fusion_fc.", "fc."))
_NEEDLESS = re.compile(r"verifier_.*|.*rotary_emb\.inv_freq")  # copies of the target's; what RoPE can compute


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What a folder holds. layout: "eagle", "eagle3" or "medusa"; made_for: the target's name where the config tells.

    config: config.json, with what `speculators` nests lifted to the top. tensors: by the names of the layout's authors,
    the one layer's under `layers.0.`.
    """

    path: str
    layout: str
    made_for: str
    config: dict[str, Any]
    tensors: dict[str, Tensor]


def read_published(path: str) -> Published:
    """The head in a folder, or in one file with its config.json beside it.

    Raises EngineError("no_published_head") where nothing is, ("bad_head") for files that are damaged, ("unknown_head")
    for a layout that is none of the above.
    """
    folder, files = _find(path)
    written = _config(folder)
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= _tensors(file)
    tensors = {_renamed(name): value for name, value in tensors.items() if not _NEEDLESS.fullmatch(name)}
    verifier = _part(_part(written, "speculators_config"), "verifier")
    made_for = written.get("base_model_name_or_path") or verifier.get("name_or_path") or ""
    return Published(str(path), _layout(path, written, tensors), str(made_for), _lifted(written), tensors)


def bad(published: Published, sentence: str, **values: object) -> EngineError:
    """A head whose files contradict themselves."""
    return EngineError("bad_head", f"{published.path}: {sentence}", path=published.path, **values)


# ---- files ----------------------------------------------------------------------------------------------------------


def _find(path: str) -> tuple[Path, list[Path]]:
    place = Path(path)
    if os.path.isfile(place):  # unlike Path.is_file, it takes any text for a name
        return place.parent, [place]
    if os.path.isfile(place / "model.safetensors.index.json"):
        return place, weight_files(place)
    found = [place / name for name in FILES if os.path.isfile(place / name)]
    if not found:
        sentence = f"{path} holds no head that is read here; it must hold config.json and one of {', '.join(FILES)}"
        raise EngineError("no_published_head", sentence, path=str(path))
    return place, found[:1]


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        sentence = f"{folder} has no config.json; a head's sizes stand there"
        raise EngineError("no_published_head", sentence, path=str(folder)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise EngineError("bad_head", f"{file} cannot be read: {error}", path=str(file)) from error
    if not isinstance(written, dict):
        raise EngineError("bad_head", f"{file} does not hold a JSON object", path=str(file))
    return written


def _tensors(file: Path) -> dict[str, Tensor]:
    """Of a pickle only tensors are read, whatever else it asks for is refused (`weights_only`)."""
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        stored = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        sentence = f"{file} is no pickle of tensors alone; what else it holds could run any code and is not opened"
        raise EngineError("bad_head", sentence, path=str(file)) from error
    except Exception as error:  # a pickle that was cut short can end in any of them
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EngineError("bad_head", f"{file} is damaged or was cut short: {reason:.100}", path=str(file)) from error
    if not isinstance(stored, dict) or not all(isinstance(value, Tensor) for value in stored.values()):
        raise EngineError("bad_head", f"{file} holds no tensors by name", path=str(file))
    return stored


# ---- layouts --------------------------------------------------------------------------------------------------------


def _renamed(name: str) -> str:
    for theirs, ours in _RENAMED:
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _layout(path: str, written: dict[str, Any], names: dict[str, Tensor]) -> str:
    kind = written.get("speculators_model_type")
    if kind is not None and kind not in ("eagle", "eagle3"):
        sentence = f"{path} is of the speculators kind {kind!r}; eagle and eagle3 are read here"
        raise EngineError("unknown_head", sentence, path=str(path), found=str(kind))
    if "layers.0.hidden_norm.weight" in names:
        return "eagle3"
    if "fc.weight" in names and "layers.0.self_attn.q_proj.weight" in names:
        return "eagle"
    if "0.0.linear.weight" in names:
        return "medusa"
    found = ", ".join(sorted(names)[:3]) or "no tensor"
    sentence = f"{path} has the layout of no EAGLE, EAGLE-3 or Medusa head; it begins with {found:.120}"
    raise EngineError("unknown_head", sentence, path=str(path), found=found)


def _part(written: dict[str, Any], name: str) -> dict[str, Any]:
    part = written.get(name)
    return part if isinstance(part, dict) else {}


def _lifted(written: dict[str, Any]) -> dict[str, Any]:
    """The config with the layer's sizes, EAGLE-3's own part, and the bias of `fc` under EAGLE's name for it."""
    config = {**written, **_part(written, "transformer_layer_config"), **_part(written, "eagle_config")}
    return config | ({"bias": written["fusion_bias"]} if "fusion_bias" in written else {})
