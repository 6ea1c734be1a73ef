"""Text ↔ token ids: encoding, decoding, streaming a decoded text piece by piece, and stop strings.

Knows nothing of the model. Every token stands for some bytes; text is those bytes read as UTF-8, so that a character
spread over several tokens is one character once its last byte is there.
"""

import codecs
import hashlib
import json
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from engine.chat_template import ChatTemplate, Message, read_chat_template, read_tokenizer_config, token_text
from engine.errors import EngineError
from engine.token_bytes import TokenBytes

_NONCHARACTER = "\ufdd0"  # by Unicode's own rule, for use inside programs and never in texts


class Tokenizer:
    """One model's tokenizer: byte-level BPE (GPT-2's kind), or SentencePiece BPE with byte fallback (Llama 2's)."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        config: dict[str, Any],
        template: ChatTemplate | None,
        eos_ids: Sequence[int],
    ) -> None:
        """`config`: the tokenizer_config.json; `eos_ids`: the ids that end a text.

        Raises EngineError("unsupported_tokenizer") for a kind that is not one of the two.
        """
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._template = template
        self._lock = threading.Lock()
        self._first = _first_ids(backend, config)
        self._fingerprint = ""
        self.bytes = TokenBytes(backend)
        self.eos_ids = tuple(dict.fromkeys([*eos_ids, *_role_id(backend, config, "eos_token")]))

    @classmethod
    def from_folder(cls, folder: Path, eos_ids: Sequence[int] = ()) -> "Tokenizer":
        """Reads tokenizer.json and its companions. Raises EngineError("missing_tokenizer", "bad_tokenizer")."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            sentence = f"{folder} has no tokenizer.json; save one with AutoTokenizer(…).save_pretrained(folder)"
            raise EngineError("missing_tokenizer", sentence, folder=str(folder))
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise EngineError("bad_tokenizer", f"{path} cannot be read: {error}", path=str(path)) from error
        return cls(backend, read_tokenizer_config(folder), read_chat_template(folder), eos_ids)

    # ---- text → ids ----

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """The ids of `text`, with the begin token first where the model expects one.

        Special tokens typed by hand ("<|im_end|>") are plain text unless `allow_special`. A lone surrogate, which no
        encoding can hold, becomes U+FFFD.
        """
        return [*self._first, *self._encode(text, allow_special)]

    def chat(self, messages: Sequence[Message] | str) -> list[int]:
        """The ids of a conversation up to where the assistant speaks, by the model's chat template.

        A string is one message by the user. Without a template the contents are plain text, one per line. Special
        tokens inside a message's content stay plain text: only the template may write real ones.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        messages = [{"role": message["role"], "content": _well_formed(message["content"])} for message in messages]
        typed = "".join(message["content"] for message in messages)
        if self._template is None:
            return self.encode("\n".join(message["content"] for message in messages))
        if not any(text in typed for text in self.bytes.special.values()):
            return self._encode(self._template.render(messages), allow_special=True)
        return self._chat_with_typed_specials(messages, typed)

    @property
    def has_chat_template(self) -> bool:
        """Whether the model came with one."""
        return self._template is not None

    def _encode(self, text: str, allow_special: bool) -> list[int]:
        with self._lock:
            self._backend.encode_special_tokens = not allow_special
            return self._backend.encode(_well_formed(text), add_special_tokens=False).ids

    def _chat_with_typed_specials(self, messages: Sequence[Message], typed: str) -> list[int]:
        """Typed specials are broken by a mark before rendering, so that only the template's own are found after it."""
        mark = _NONCHARACTER
        while mark in typed:
            mark += _NONCHARACTER
        longest_first = sorted(self.bytes.special.items(), key=lambda entry: -len(entry[1]))
        ids = {text: index for index, text in longest_first}
        pattern = re.compile("(" + "|".join(re.escape(text) for text in ids) + ")")
        broken = [
            {**message, "content": pattern.sub(lambda found: found[0][0] + mark + found[0][1:], message["content"])}
            for message in messages
        ]
        parts = pattern.split(self._template.render(broken))  # text, special, text, special, …, text
        encoded = [
            [ids[part]] if position % 2 else self._encode(part.replace(mark, ""), allow_special=False)
            for position, part in enumerate(parts)
            if part
        ]
        return [index for part in encoded for index in part]

    # ---- ids → text ----

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens add nothing, bytes that are no UTF-8 become U+FFFD."""
        text = b"".join(map(self.bytes.of, ids)).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.bytes.strips_first_space else text

    def label(self, token_id: int) -> str:
        """One token by itself, for display: broken bytes as ⟨F0⟩, never U+FFFD."""
        return self.bytes.label(token_id)

    # ---- the vocabulary ----

    @property
    def vocab_size(self) -> int:
        """How many ids have a token; a model's logits may be padded beyond that."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def fingerprint(self) -> str:
        """A digest of all tokens in order of id: equal exactly where equal ids mean equal text."""
        if not self._fingerprint:
            vocabulary = sorted((index, text) for text, index in self._backend.get_vocab().items())
            self._fingerprint = hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest()
        return self._fingerprint


class Detokenizer:
    """Turns ids into text as they come. The pieces and the last `flush()`, joined, equal `decode` of all the ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._may_strip = tokenizer.bytes.strips_first_space

    def push(self, token_id: int) -> str:
        """The text that became readable; "" while a character lacks bytes."""
        return self._strip(self._decoder.decode(self._tokenizer.bytes.of(token_id)))

    def flush(self) -> str:
        """What is left at the end: U+FFFD for a character that never became whole, else ""."""
        return self._strip(self._decoder.decode(b"", final=True))

    def _strip(self, text: str) -> str:
        if not text or not self._may_strip:
            return text
        self._may_strip = False
        return text.removeprefix(" ")


class StopScanner:
    """Watches a stream of text for stop strings, wherever the pieces are cut.

    The text ends before the stop string that is complete first; of those complete at once, the one that begins first.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self._is_stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """(text that is safe to show, whether a stop string is complete). A possible beginning of one is held back."""
        if self._is_stopped:
            return "", True
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self._held, self._is_stopped = "", True
            return text[: min(found)[1]], True
        keep = self._length_of_beginning(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """What was held back, when the text ends without a stop string."""
        held, self._held = self._held, ""
        return held

    def _length_of_beginning(self, text: str) -> int:
        """Length of the longest end of `text` with which some stop string begins."""
        longest = max(map(len, self._stop), default=0) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stop):
                return length
        return 0


# ---- reading files and strings ------------------------------------------------------------------------------------


def _well_formed(text: str) -> str:
    """Two surrogates that spell a character become it; a lone one becomes U+FFFD."""
    if not isinstance(text, str):
        raise EngineError("bad_prompt", f"a text is needed, not {type(text).__name__}", kind=type(text).__name__)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _role_id(backend: tokenizers.Tokenizer, config: dict[str, Any], role: str) -> list[int]:
    """The id of the token that tokenizer_config.json names for a role, if it does."""
    written = config.get(role)
    token_id = backend.token_to_id(token_text(written)) if written else None
    return [] if token_id is None else [token_id]


def _first_ids(backend: tokenizers.Tokenizer, config: dict[str, Any]) -> list[int]:
    """What every text begins with (Llama's <s>), or nothing, as the tokenizer's own files say."""
    is_added = config.get("add_bos_token")
    if is_added is not None:
        return _role_id(backend, config, "bos_token") if is_added else []
    plain = backend.encode("a", add_special_tokens=False).ids
    full = backend.encode("a", add_special_tokens=True).ids
    return next((full[:at] for at in range(len(full)) if full[at : at + len(plain)] == plain), [])
