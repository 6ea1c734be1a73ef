"""The engine's settings: one frozen record, checked at birth, passed by hand.

Knows nothing of models or machines; reads no environment.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import EngineError

DTYPES = ("float32", "float16", "int8", "bfloat16")
CACHE_DTYPES = ("auto", "float32", "float16", "bfloat16")
MOST_THREADS = 1024
WATCHES = frozenset({"distributions"})


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one engine.

    model: a name, hub id, folder or .gguf file (see `engine.weights`). dtype: how weights are stored. block_size:
    tokens per block; num_blocks: blocks in the pool. max_batch_tokens: rows of one pass; max_running: requests in one
    pass. drafter: the default for requests that name none; draft_model: the model that drafter "draft_model" runs;
    published_head: the folder of the head that drafter "published" runs (see `engine.published`). model_folder: where
    fetched and converted models are kept, None for the user's cache folder.
    watch: heavy facts to report ("distributions"). Raises EngineError("bad_config") naming the value.
    """

    model: str = "smollm2-135m"
    dtype: str = "float16"
    cache_dtype: str = "auto"
    device: str = "cpu"
    threads: int = 0
    block_size: int = 16
    num_blocks: int = 512
    max_batch_tokens: int = 256
    max_running: int = 8
    prefix_caching: bool = True
    drafter: str | None = None
    draft_model: str | None = None
    published_head: str | None = None
    model_folder: str | None = None
    watch: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        is_set = isinstance(self.watch, Iterable) and not isinstance(self.watch, str)
        object.__setattr__(self, "watch", frozenset(self.watch if is_set else [self.watch]))
        for name in ("block_size", "num_blocks", "max_batch_tokens", "max_running", "threads"):
            value, smallest = getattr(self, name), 0 if name == "threads" else 1
            largest = MOST_THREADS if name == "threads" else math.inf
            if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
                end = f" and ≤ {largest}" if name == "threads" else ""
                sentence = f"{name} is {value!r}; it must be a whole number ≥ {smallest}{end}"
                raise EngineError("bad_config", sentence, name=name)
        kinds = {"model": str, "device": str, "prefix_caching": bool}
        kinds |= dict.fromkeys(("drafter", "draft_model", "published_head", "model_folder"), str | None)
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                wanted = getattr(kind, "__name__", str(kind))
                raise EngineError(
                    "bad_config", f"{name} is {getattr(self, name)!r}; it must be of type {wanted}", name=name
                )
        if not re.fullmatch(r"cpu|(cuda|mps|xpu)(:\d+)?", self.device):
            sentence = (
                f"device is {self.device!r}; it must be cpu, or cuda, mps or xpu with or without a number (cuda:0)"
            )
            raise EngineError("bad_config", sentence, name="device")
        if self.dtype not in DTYPES:
            raise EngineError("bad_config", f"dtype is {self.dtype!r}; it must be one of {DTYPES}", name="dtype")
        if self.cache_dtype not in CACHE_DTYPES:
            sentence = f"cache_dtype is {self.cache_dtype!r}; it must be one of {CACHE_DTYPES}"
            raise EngineError("bad_config", sentence, name="cache_dtype")
        if not self.watch <= WATCHES:
            sentence = f"watch is {sorted(map(str, self.watch))}; known: {sorted(WATCHES)}"
            raise EngineError("bad_config", sentence, name="watch")

    @property
    def resolved_cache_dtype(self) -> str:
        """The cache's dtype: "auto" follows the weights, and int8 weights keep a float16 cache."""
        if self.cache_dtype != "auto":
            return self.cache_dtype
        return "float16" if self.dtype == "int8" else self.dtype
