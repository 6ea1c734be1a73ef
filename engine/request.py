"""What a user asks for and what comes back: SamplingParams, Request, Completion.

Knows nothing of the model: lengths against the context window are checked by the engine.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from engine.errors import EngineError

RULES = ("exact", "sampler_match", "typical")
_ids = itertools.count(1)

_RANGES = {  # field: (smallest, largest, whole number)
    "max_new_tokens": (0, 10**6, True),
    "temperature": (0.0, 100.0, False),
    "top_p": (0.0, 1.0, False),
    "top_k": (0, 10**9, True),
    "min_p": (0.0, 1.0, False),
    "repetition_penalty": (0.01, 100.0, False),
    "presence_penalty": (-100.0, 100.0, False),
    "frequency_penalty": (-100.0, 100.0, False),
    "seed": (-(2**63), 2**63 - 1, True),
    "draft_length": (0, 64, True),
    "draft_temperature": (0.0, 100.0, False),
}


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample. `temperature` below 1e-5 is greedy; `top_k=0` is off; `draft_length=0` is plain decoding.

    `draft_temperature=None` means "as the target"; `rule` is the acceptance rule (see `engine.accept`).
    Raises EngineError("bad_parameter") naming the value and the range.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    draft_length: int = 4
    draft_temperature: float | None = None
    rule: str = "exact"
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name in _RANGES:
                _check_range(item.name, getattr(self, item.name))
        if not isinstance(self.ignore_eos, bool):
            sentence = f"ignore_eos is {self.ignore_eos!r:.80}; it must be True or False"
            raise EngineError("bad_parameter", sentence, name="ignore_eos", value=self.ignore_eos)
        is_several = isinstance(self.stop, Iterable) and not isinstance(self.stop, str | Mapping)
        stop = tuple(self.stop) if is_several else (self.stop,)
        if not all(isinstance(text, str) and text for text in stop):
            raise EngineError("bad_parameter", f"stop is {self.stop!r}; it must be non-empty strings", name="stop")
        object.__setattr__(self, "stop", stop)
        if self.rule not in RULES:
            raise EngineError("bad_parameter", f"rule is {self.rule!r}; it must be one of {RULES}", name="rule")

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is always taken."""
        return self.temperature < GREEDY_BELOW

    @property
    def is_draft_greedy(self) -> bool:
        """Whether the draft takes its most probable token, so that its law is one-hot."""
        temperature = self.temperature if self.draft_temperature is None else self.draft_temperature
        return temperature < GREEDY_BELOW

    @property
    def is_penalised(self) -> bool:
        """Whether tokens seen before are less likely, so that laws depend on the whole history."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)


GREEDY_BELOW = 1e-5


def _check_range(name: str, value: object) -> None:
    smallest, largest, is_whole = _RANGES[name]
    if value is None and name == "draft_temperature":
        return
    is_number = isinstance(value, int) if is_whole else isinstance(value, int | float)
    if isinstance(value, bool) or not is_number or not smallest <= value <= largest:  # NaN is in no range
        kind = "a whole number" if is_whole else "a number"
        sentence = f"{name} is {value!r}; it must be {kind} from {smallest} to {largest}"
        raise EngineError("bad_parameter", sentence, name=name, value=value, smallest=smallest, largest=largest)


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, as text or as token ids, and how to continue it.

    `prompt_format`: "plain" takes a text as it is, "chat" puts it into the model's chat template if it has one.
    `drafter=None` takes the engine's default. `n` samples share one prefill; sample i is seeded with seed + i and is
    named "{id}.{i}" (i ≥ 1). Requests with different `cache_salt` never share blocks through the prefix cache.
    """

    prompt: str | Sequence[int]
    params: SamplingParams = SamplingParams()
    drafter: str | None = None
    n: int = 1
    prompt_format: str = "plain"
    cache_salt: str = ""
    id: str = field(default_factory=lambda: f"request-{next(_ids)}")


@dataclass(frozen=True, slots=True)
class Completion:
    """What a request produced. `finish_reason`: "stop", "length", "abort" or "error" (then `message` says why)."""

    request_id: str
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    message: str = ""
