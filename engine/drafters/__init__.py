"""The drafters by name. Knows nothing of when or by whom they are used."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.cache import KVCache
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.drafter import Drafter, Proposal
from engine.drafters.eagle import EagleDrafter
from engine.drafters.layer_skip import LayerSkipDrafter, middle_pair, without
from engine.drafters.ngram import NgramDrafter
from engine.errors import EngineError
from engine.head import Head
from engine.model import Model

__all__ = ["NAMES", "Drafter", "Loaders", "Proposal", "make"]

NAMES = ("ngram", "layer_skip", "early_exit", "draft_model", "eagle")


@dataclass(frozen=True, slots=True)
class Loaders:
    """What is loaded when the first request asks for it: the draft model with its cache, and a trained head by name."""

    draft_model: Callable[[], tuple[Model, KVCache]]
    head: Callable[[str], Head]


def make(name: str, model: Model, cache: KVCache, loaders: Loaders) -> Drafter:
    """A drafter for one sequence.

    "layer_skip:3,7" skips those layers and "early_exit:20" keeps the first 20; without a colon the defaults apply.
    Raises EngineError("unknown_drafter" or "bad_layers") with what would be right.
    """
    kind, _, rest = name.partition(":")
    num_layers = model.config.num_layers
    if kind == "ngram" and not rest:
        return NgramDrafter()
    if kind == "layer_skip":
        skipped = _layers(name, rest, num_layers) if rest else middle_pair(num_layers)
        return LayerSkipDrafter(model, cache, without(num_layers, skipped))
    if kind == "early_exit":
        first = _layers(name, rest, num_layers + 1)[0] if rest else max(1, num_layers * 5 // 6)
        return LayerSkipDrafter(model, cache, range(first))
    if kind == "draft_model" and not rest:
        return DraftModelDrafter(*loaders.draft_model(), vocab_size=model.config.vocab_size)
    if kind == "eagle" and not rest:
        return EagleDrafter(loaders.head(kind))
    raise EngineError("unknown_drafter", f"there is no drafter {name!r}; there are {', '.join(NAMES)}", name=name)


def _layers(name: str, text: str, limit: int) -> tuple[int, ...]:
    numbers = text.split(",")
    are_layers = text.isascii() and all(number.isdecimal() and int(number) < limit for number in numbers)
    if are_layers and len(set(numbers)) < limit:
        return tuple(map(int, numbers))
    sentence = f"{name!r} must name layers from 0 to {limit - 1}, separated by commas"
    raise EngineError("bad_layers", sentence, name=name, largest=limit - 1)
