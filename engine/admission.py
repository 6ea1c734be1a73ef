"""From a request to a sequence: everything that can be refused is refused here, before anything has changed.

Knows nothing of who else is running.
"""

from engine.accounting import blocks_needed
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.model_config import ModelConfig
from engine.request import Request
from engine.tokenizer import Tokenizer

MOST_SAMPLES = 16
FORMATS = ("plain", "chat")
MOST_CHARACTERS_PER_TOKEN = 64  # a text longer than this times the context window is refused unread


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


def check_request(request: Request, num_prompt: int, max_new_tokens: int, config: EngineConfig) -> None:
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
