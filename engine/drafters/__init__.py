"""The drafters by name. Knows nothing of when or by whom they are used."""

from collections.abc import Callable

from engine.cache import KVCache
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.drafter import Drafter, Proposal
from engine.drafters.layer_skip import LayerSkipDrafter, middle_pair, without
from engine.drafters.ngram import NgramDrafter
from engine.errors import EngineError
from engine.model import Model

__all__ = ["NAMES", "Drafter", "Proposal", "make"]

NAMES = ("ngram", "layer_skip", "early_exit", "draft_model")


def make(name: str, model: Model, cache: KVCache, draft: Callable[[], tuple[Model, KVCache]]) -> Drafter:
    """A drafter for one sequence. `draft` loads the draft model when it is asked for.

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
        return DraftModelDrafter(*draft(), vocab_size=model.config.vocab_size)
    raise EngineError("unknown_drafter", f"there is no drafter {name!r}; there are {', '.join(NAMES)}", name=name)


def _layers(name: str, text: str, limit: int) -> tuple[int, ...]:
    numbers = text.split(",")
    if all(number.isdecimal() and int(number) < limit for number in numbers) and len(set(numbers)) < limit:
        return tuple(map(int, numbers))
    sentence = f"{name!r} must name layers from 0 to {limit - 1}, separated by commas"
    raise EngineError("bad_layers", sentence, name=name, largest=limit - 1)
