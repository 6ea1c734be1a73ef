"""The drafters by name. Knows nothing of when or by whom they are used."""

from functools import partial

from engine.cache import KVCache
from engine.drafters.draft_model import DraftModelDrafter, StreamingDraftDrafter
from engine.drafters.drafter import Drafter, Proposal
from engine.drafters.eagle import EagleDrafter
from engine.drafters.eagle_tree import EagleTreeDrafter
from engine.drafters.layer_skip import LayerSkipDrafter, middle_pair, without
from engine.drafters.lookahead import JacobiDrafter, LookaheadDrafter
from engine.drafters.lookup_first import GoOn, LookupFirstDrafter
from engine.drafters.medusa import MedusaDrafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.ngram_table import NgramTableDrafter
from engine.drafters.shelf import Shelf
from engine.drafters.sparse import STREAM, WINDOW, MagicDecDrafter, SparseTarget, TriForceDrafter
from engine.drafters.specinfer import SpecInferDrafter
from engine.drafters.suffix import SuffixDrafter
from engine.errors import EngineError
from engine.model import Model
from engine.published_head import PublishedHead
from engine.published_medusa import PublishedMedusa

__all__ = ["NAMES", "Drafter", "Proposal", "make", "trained_files"]

NAMES = (
    "ngram", "suffix", "ngram_table", "layer_skip", "early_exit", "draft_model", "jacobi", "lookahead",
    "draft_lm", "specinfer", "medusa", "eagle", "eagle2", "eagle3", "eagle_unshifted", "magicdec", "triforce",
    "published",
)  # fmt: skip
HEADS = {  # whose head, and how it drafts
    "eagle": ("eagle", EagleDrafter), "eagle_unshifted": ("eagle_unshifted", EagleDrafter),
    "eagle2": ("eagle", EagleTreeDrafter), "eagle3": ("eagle3", EagleTreeDrafter),
}  # fmt: skip
TRAINED = {  # what others read of assets/drafters
    "ngram_table": "ngram_table", "draft_lm": "draft_lm", "specinfer": "draft_lm", "triforce": "draft_lm",
    "medusa": "medusa",
}  # fmt: skip
FROM_THE_TEXT = {"ngram": NgramDrafter, "suffix": SuffixDrafter, "jacobi": JacobiDrafter}
MOST_IN_WINDOW = 16
HEAD_AT_MOST = 1  # drafts of a head behind lookup; on the tuning prompts 2 were slower
HEAD_IS_RIGHT = 0.5  # how often they are, roughly


def make(name: str, model: Model, cache: KVCache, shelf: Shelf) -> Drafter:
    """A drafter for one sequence.

    "layer_skip:3,7" skips those layers, "early_exit:20" keeps the first 20, "lookahead:5,4,3" has W, N and G,
    "eagle2:chain" and "published:chain" grow no tree, "eagle3:lookup" looks up first and else drafts a short chain that
    the table of n-grams goes on with,
    "magicdec:512" and "triforce:512" see 512 tokens beside the sinks, "magicdec:512,0" sees no sinks; without a colon
    the defaults apply. Below "triforce" drafts the tiny language model, or lookup where the target has none.
    Raises EngineError("unknown_drafter" or "bad_layers") with what would be right.
    """
    kind, _, rest = name.partition(":")
    if kind in FROM_THE_TEXT and not rest:
        return FROM_THE_TEXT[kind]()
    if kind == "lookahead":
        return LookaheadDrafter(*_window(name, rest)) if rest else LookaheadDrafter()
    if kind in HEADS and rest in ("", "chain", "lookup"):
        head, drafter = HEADS[kind]
        made = (EagleDrafter if rest else drafter)(shelf.head(head))
        return LookupFirstDrafter(made, HEAD_AT_MOST, _behind_a_head(shelf)) if rest == "lookup" else made
    if kind == "published" and rest in ("", "chain"):
        return _published(name, shelf.published())
    drafter = _of_the_target(name, model, cache, shelf) or _of_the_shelf(name, model, cache, shelf)
    if drafter is None:
        raise EngineError("unknown_drafter", f"there is no drafter {name!r}; there are {', '.join(NAMES)}", name=name)
    return drafter


def trained_files(name: str) -> tuple[str, ...]:
    """The files of assets/drafters, without their ending, that a drafter of this name reads."""
    kind, _, rest = name.partition(":")
    if kind in HEADS:
        return HEADS[kind][0], *(("ngram_table",) if rest == "lookup" else ())
    return (TRAINED[kind],) if kind in TRAINED else ()


def _of_the_target(name: str, model: Model, cache: KVCache, shelf: Shelf) -> Drafter | None:
    """Drafters that run the target itself, with fewer layers or less of its cache."""
    kind, _, rest = name.partition(":")
    num_layers = model.config.num_layers
    if kind == "layer_skip":
        skipped = _layers(name, rest, num_layers) if rest else middle_pair(num_layers)
        return LayerSkipDrafter(model, cache, without(num_layers, skipped))
    if kind == "early_exit":
        first = _layers(name, rest, num_layers + 1)[0] if rest else max(1, num_layers * 5 // 6)
        return LayerSkipDrafter(model, cache, range(first))
    if kind == "magicdec":
        return MagicDecDrafter(model, cache, *_window_and_sinks(name, rest))
    if kind == "triforce":
        return TriForceDrafter(model, cache, _below_triforce(model, shelf), _tokens(name, rest) if rest else WINDOW)
    return None


def _behind_a_head(shelf: Shelf) -> GoOn | None:
    """What the table of n-grams is sure enough of; nothing where none was counted for this target."""
    try:
        return partial(shelf.ngram_table().chain, all_right=HEAD_IS_RIGHT)
    except EngineError:
        return None


def _below_triforce(model: Model, shelf: Shelf) -> Drafter:
    """The tiny language model with a streaming cache; lookup where none was trained for this target."""
    try:
        draft, cache = shelf.draft_lm()
    except EngineError:
        return NgramDrafter()
    return StreamingDraftDrafter(draft, cache, model.config.vocab_size, SparseTarget(draft, cache, STREAM).seen)


def _of_the_shelf(name: str, model: Model, cache: KVCache, shelf: Shelf) -> Drafter | None:
    """Drafters that need what was counted, trained or named in the config."""
    vocab = model.config.vocab_size
    if name == "ngram_table":
        return NgramTableDrafter(shelf.ngram_table())
    if name == "draft_model":
        return DraftModelDrafter(*shelf.draft_model(), vocab)
    if name == "draft_lm":
        return DraftModelDrafter(*shelf.draft_lm(), vocab)
    if name == "specinfer":
        return SpecInferDrafter(*shelf.draft_lm(), vocab, cache.num_blocks, (SuffixDrafter(),))
    if name == "medusa":
        return MedusaDrafter(shelf.medusa())
    return None


def _published(name: str, head: PublishedHead | PublishedMedusa) -> Drafter:
    """A tree from either kind; only EAGLE's heads draft a chain."""
    if isinstance(head, PublishedMedusa) and name == "published":
        return MedusaDrafter(head)
    if isinstance(head, PublishedMedusa):
        sentence = "Medusa's heads draft trees only; name the drafter published"
        raise EngineError("unknown_drafter", sentence, name=name)
    return (EagleTreeDrafter if name == "published" else EagleDrafter)(head)


def _window(name: str, text: str) -> tuple[int, int, int]:
    """W, N, G of "lookahead:5,4,3"."""
    parts = text.split(",")
    numbers = [int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 3]
    if len(numbers) == len(parts) == 3 and min(numbers) >= 1 and numbers[1] >= 2 and max(numbers) <= MOST_IN_WINDOW:
        return tuple(numbers)
    sentence = (
        f"{name!r} must name width, levels (2 or more) and guesses, each at most {MOST_IN_WINDOW}: lookahead:5,4,3"
    )
    raise EngineError("bad_parameter", sentence, name="drafter", value=name)


def _window_and_sinks(name: str, text: str) -> tuple[int, ...]:
    """Those of "magicdec:512,0" that are given, the defaults for the others."""
    window, comma, sinks = text.partition(",")
    return (_tokens(name, window), *([_tokens(name, sinks, 0)] if comma else ())) if text else ()


def _tokens(name: str, text: str, smallest: int = 1) -> int:
    """The window of "triforce:512"."""
    if text.isascii() and text.isdecimal() and len(text) < 7 and int(text) >= smallest:
        return int(text)
    sentence = f"{name!r} must name a number of tokens after the colon, 1 or more"
    raise EngineError("bad_parameter", sentence, name="drafter", value=name)


def _layers(name: str, text: str, limit: int) -> tuple[int, ...]:
    numbers = text.split(",")
    are_layers = text.isascii() and all(number.isdecimal() and int(number) < limit for number in numbers)
    if are_layers and len(set(numbers)) < limit:
        return tuple(map(int, numbers))
    sentence = f"{name!r} must name layers from 0 to {limit - 1}, separated by commas"
    raise EngineError("bad_layers", sentence, name=name, largest=limit - 1)
