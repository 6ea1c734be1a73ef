"""From a request to a sequence: everything that can be refused is refused here, before anything has changed.

Knows nothing of who else is running.
"""

import dataclasses
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Ids

from engine import drafters
from engine.accounting import blocks_needed
from engine.cache import KVCache
from engine.config import EngineConfig
from engine.drafters import Drafter
from engine.drafters.shelf import Shelf
from engine.errors import EngineError
from engine.model import Model
from engine.model_config import ModelConfig
from engine.request import Request, SamplingParams
from engine.sampling import uniform
from engine.sequence import Sequence, Writer
from engine.tokenizer import Tokenizer

MOST_SAMPLES = 16
FORMATS = ("plain", "chat")
MOST_CHARACTERS_PER_TOKEN = 64  # a text longer than this times the context window is refused unread


class Admission:
    """Makes sequences for one engine."""

    def __init__(
        self,
        config: EngineConfig,
        tokenizer: Tokenizer,
        model: Model,
        cache: KVCache,
        extra_drafters: Mapping[str, Callable[[], Drafter]],
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._model = model
        self._cache = cache
        self._extra_drafters = extra_drafters
        self._shelf = Shelf(config, tokenizer, model, cache)

    def admit(self, request: Request) -> Sequence:
        """The sequence of a request that may enter, its parallel samples as children. Raises EngineError."""
        _check_types(request)
        token_ids = prompt_ids(request, self._tokenizer, self._model.config)
        sequence = self.new_sequence(request.id, request, request.params, token_ids)
        _check_size(request, len(token_ids), sequence.max_new_tokens, self._config)
        for index in range(1, request.n):
            params = dataclasses.replace(request.params, seed=request.params.seed + index)
            sequence.children.append(self.new_sequence(f"{request.id}.{index}", request, params, token_ids))
        return sequence

    def new_sequence(self, name: str, request: Request, params: SamplingParams, token_ids: Ids[int]) -> Sequence:
        """A sequence named `name` whose prompt is `token_ids`; a parallel sample or a fork has its own `params`."""
        drafter_name = request.drafter or self._config.drafter or "none"
        drafter = self._new_drafter(drafter_name) if params.draft_length else None
        end_ids = () if params.ignore_eos else self._model.config.eos_token_ids
        keys = (self._model.sha256, self._config.resolved_cache_dtype, request.cache_salt)
        return Sequence(
            id=name,
            request=request,
            params=params,
            token_ids=list(token_ids),
            num_prompt=len(token_ids),
            max_new_tokens=min(params.max_new_tokens, self._model.config.context_length - len(token_ids)),
            end_ids=end_ids,
            extra_keys=(*keys, drafter_name) if drafter is not None and drafter.caches else keys,
            writer=Writer(self._tokenizer, params.stop, end_ids),
            drafter_name="none" if drafter is None else drafter_name,
            drafter=drafter,
        )

    def fork(self, parent: Sequence, at: int, number: int) -> Sequence:
        """The parent's `number`-th fork, which goes on from its first `at` tokens. Raises EngineError("bad_fork")."""
        if isinstance(at, bool) or not isinstance(at, int) or not 1 <= at <= len(parent):
            sentence = f"a fork keeps 1 to {len(parent)} tokens, not {at!r}"
            raise EngineError("bad_fork", sentence, at=at, smallest=1, largest=len(parent))
        params = dataclasses.replace(parent.params, seed=int(2**53 * uniform(parent.params.seed, number, "fork")))
        prompt = parent.token_ids[: min(at, parent.num_prompt)]
        child = self.new_sequence(f"{parent.id}/{number}", parent.request, params, prompt)
        child.token_ids = parent.token_ids[:at]
        child.writer.write(child.token_ids[child.num_prompt :])
        return child

    def _new_drafter(self, name: str) -> Drafter | None:
        if name == "none":
            return None
        if name in self._extra_drafters:
            return self._extra_drafters[name]()
        return drafters.make(name, self._model, self._cache, self._shelf)


def prompt_ids(request: Request, tokenizer: Tokenizer, model: ModelConfig) -> list[int]:
    """The prompt's token ids. Raises EngineError naming what is wrong with it."""
    if request.prompt_format not in FORMATS:
        sentence = f"prompt_format is {request.prompt_format!r}; it must be one of {FORMATS}"
        raise EngineError("bad_parameter", sentence, name="prompt_format", value=request.prompt_format)
    if isinstance(request.prompt, str):
        token_ids = _encode(request, tokenizer, model)
    else:
        token_ids = list(request.prompt)
        for token in token_ids:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < model.vocab_size:
                sentence = f"token id {token!r} is not one of 0 to {model.vocab_size - 1}"
                raise EngineError("bad_token", sentence, token=token, largest=model.vocab_size - 1)
    if not token_ids:
        raise EngineError("empty_prompt", "the prompt is empty; write at least one character")
    _check_length(len(token_ids), model.context_length)
    return token_ids


def _check_types(request: Request) -> None:
    if not isinstance(request, Request):
        raise EngineError("bad_request", f"{request!r:.80} is no Request", kind=type(request).__name__)
    kinds = {"id": str, "params": SamplingParams, "drafter": str | None, "prompt_format": str, "cache_salt": str}
    for name, kind in kinds.items():
        value = getattr(request, name)
        if not isinstance(value, kind):
            wanted = getattr(kind, "__name__", str(kind))
            sentence = f"{name} is {value!r:.80}; it must be of type {wanted}"
            raise EngineError("bad_parameter", sentence, name=name, value=value)
    if isinstance(request.prompt, bytes | bytearray) or not isinstance(request.prompt, Ids):
        kind = type(request.prompt).__name__
        raise EngineError("bad_prompt", f"the prompt must be a text or a list of token ids, not {kind}", kind=kind)


def _check_size(request: Request, num_prompt: int, max_new_tokens: int, config: EngineConfig) -> None:
    """Refuses what the pool can never hold. `max_new_tokens` is what the context window leaves of the wish."""
    is_number = isinstance(request.n, int) and not isinstance(request.n, bool)
    if not is_number or not 1 <= request.n <= MOST_SAMPLES:
        sentence = f"n is {request.n!r}; it must be a whole number from 1 to {MOST_SAMPLES}"
        raise EngineError("bad_parameter", sentence, name="n", value=request.n, smallest=1, largest=MOST_SAMPLES)
    num_tokens = num_prompt + max(0, max_new_tokens - 1)  # the last token's key and value are never needed
    if blocks_needed(num_tokens, config.block_size) > config.num_blocks:
        slots = config.num_blocks * config.block_size
        sentence = f"{num_tokens} tokens can never fit into the {slots} slots of the cache; ask for fewer"
        raise EngineError("never_fits", sentence, tokens=num_tokens, slots=slots)


def _encode(request: Request, tokenizer: Tokenizer, model: ModelConfig) -> list[int]:
    if not request.prompt:
        raise EngineError("empty_prompt", "the prompt is empty; write at least one character")
    most = MOST_CHARACTERS_PER_TOKEN * model.context_length
    if len(request.prompt) > most:
        sentence = f"the prompt has {len(request.prompt)} characters; at most {most} are read"
        raise EngineError("prompt_too_long", sentence, characters=len(request.prompt), largest=model.context_length)
    if request.prompt_format == "chat" and tokenizer.has_chat_template:
        return tokenizer.chat(request.prompt)
    return tokenizer.encode(request.prompt)


def _check_length(num_tokens: int, context_length: int) -> None:
    if num_tokens > context_length:
        sentence = f"the prompt has {num_tokens} tokens; the model's context window holds {context_length}"
        raise EngineError("prompt_too_long", sentence, tokens=num_tokens, largest=context_length)
