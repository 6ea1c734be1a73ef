"""What drafters share and what is read the first time that a request wants it: models with caches, heads, the table.

Knows nothing of sequences. Each is read once for all requests of an engine.
"""

from pathlib import Path

from engine import weights
from engine.accounting import blocks_needed
from engine.cache import KVCache
from engine.config import EngineConfig
from engine.draft_lm import DraftLm, LmShape
from engine.drafters.ngram_table import NgramTable, read_table
from engine.errors import EngineError
from engine.head import SCRATCH, SHIPPED, Head, read
from engine.medusa import Medusa, MedusaShape
from engine.model import Model
from engine.published import read_published
from engine.published_head import PublishedHead
from engine.published_medusa import PublishedMedusa
from engine.tokenizer import Tokenizer


class Shelf:
    """Of one engine. What does not come with the program is refused as EngineError("no_head")."""

    def __init__(self, config: EngineConfig, tokenizer: Tokenizer, model: Model, cache: KVCache) -> None:
        """tokenizer, model and cache are the target's."""
        self._config, self._tokenizer, self._model, self._cache = config, tokenizer, model, cache
        self._draft: tuple[Model, KVCache] | EngineError | None = None
        self._published: PublishedHead | PublishedMedusa | EngineError | None = None
        self._heads: dict[str, Head] = {}
        self._medusa: Medusa | None = None
        self._lm: tuple[DraftLm, KVCache] | None = None
        self._table: NgramTable | None = None

    def draft_model(self) -> tuple[Model, KVCache]:
        """The model that the config names, with a cache of its own. Raises EngineError, each time the same."""
        if self._draft is None:
            try:
                self._draft = self._new_draft()
            except EngineError as error:  # others must not wait for it to be read and refused again
                self._draft = error
        if isinstance(self._draft, EngineError):
            raise self._draft
        return self._draft

    def _new_draft(self) -> tuple[Model, KVCache]:
        if self._config.draft_model is None:
            raise EngineError("no_draft_model", "no draft model is set; name one as EngineConfig(draft_model=…)")
        loaded = weights.load(self._config.draft_model, store=self._config.model_folder)
        if loaded.tokenizer.fingerprint() != self._tokenizer.fingerprint():
            sentence = f"{loaded.name} has another tokenizer than {self._model.name}; a draft must share it"
            raise EngineError("other_tokenizer", sentence, draft=loaded.name, target=self._model.name)
        model = Model(loaded, self._config.dtype, self._config.device)
        return model, new_cache(model, self._config)

    def published(self) -> PublishedHead | PublishedMedusa:
        """The head of others that the config names. Raises EngineError, each time the same."""
        if self._published is None:
            try:
                self._published = self._new_published()
            except EngineError as error:
                self._published = error
        if isinstance(self._published, EngineError):
            raise self._published
        return self._published

    def _new_published(self) -> PublishedHead | PublishedMedusa:
        if self._config.published_head is None:
            sentence = "no published head is set; name its folder as EngineConfig(published_head=…)"
            raise EngineError("no_published_head", sentence, path="")
        found = read_published(self._config.published_head)
        kind = PublishedMedusa if found.layout == "medusa" else PublishedHead
        return kind(found, self._model, self._cache)

    def head(self, name: str) -> Head:
        """The EAGLE head of that name."""
        if name not in self._heads:
            self._heads[name] = Head(read(_shipped(name)), self._model, self._cache)
        return self._heads[name]

    def medusa(self) -> Medusa:
        """The Medusa heads."""
        if self._medusa is None:
            self._medusa = Medusa(read(_shipped("medusa"), MedusaShape), self._model, self._cache)
        return self._medusa

    def draft_lm(self) -> tuple[DraftLm, KVCache]:
        """The tiny language model, its cache with scratch blocks beyond the pool's."""
        if self._lm is None:
            model = DraftLm(read(_shipped("draft_lm"), LmShape), self._model)
            self._lm = model, new_cache(model, self._config, num_scratch=SCRATCH)
        return self._lm

    def ngram_table(self) -> NgramTable:
        """The counted table."""
        if self._table is None:
            self._table = read_table(_shipped("ngram_table"), self._model)
        return self._table


def new_cache(model: Model, config: EngineConfig, num_scratch: int = 0) -> KVCache:
    """An empty cache for `model` with the pool's block numbers, and blocks with so many slots beyond them."""
    num_blocks = config.num_blocks + blocks_needed(num_scratch, config.block_size)
    return KVCache(model.config, num_blocks, config.block_size, config.resolved_cache_dtype, config.device)


def _shipped(name: str) -> Path:
    path = SHIPPED / f"{name}.safetensors"
    if not path.is_file():
        raise EngineError("no_head", f"no trained drafter {name!r} comes with this program", name=name)
    return path
