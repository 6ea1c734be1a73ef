"""What a token stands for: the bytes it adds to a text, and how to show it by itself.

Knows nothing of encoding. Two spellings of bytes exist in the Llama family: GPT-2's alphabet of 256 letters (byte-level
BPE), and SentencePiece's ▁ for a space with <0xF0> for a byte that no token spells.
"""

import json
import re

import tokenizers

from engine.errors import EngineError

_SPACE = "▁"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class TokenBytes:
    """The vocabulary of one tokenizer, read as bytes. `strips_first_space`: decoding drops a text's first space."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        """Raises EngineError("unsupported_tokenizer") for a spelling that is not one of the two."""
        self._backend = backend
        self._known: dict[int, bytes] = {}
        self.special = {
            index: token.content for index, token in backend.get_added_tokens_decoder().items() if token.special
        }
        self._is_byte_level, self.strips_first_space = _read_decoder(backend)

    def of(self, token_id: int) -> bytes:
        """The bytes that a token adds to a text: none for special tokens and for ids without a token."""
        known = self._known.get(token_id)
        if known is None:
            known = self._known[token_id] = self._read(token_id)
        return known

    def label(self, token_id: int) -> str:
        """One token for display: whole characters as they are, other bytes as ⟨F0⟩, never U+FFFD.

        A special token shows its name, an id without a token its number.
        """
        if token_id in self.special:
            return self.special[token_id]
        if self._text(token_id) is None:
            return f"⟨{token_id}⟩"
        escaped = self.of(token_id).decode("utf-8", "surrogateescape").replace("\ufffd", "\udcef\udcbf\udcbd")
        return re.sub("[\udc80-\udcff]", lambda found: f"⟨{ord(found[0]) - 0xDC00:02X}⟩", escaped)

    def _text(self, token_id: int) -> str | None:
        return self._backend.id_to_token(token_id) if 0 <= token_id < 2**32 else None

    def _read(self, token_id: int) -> bytes:
        text = self._text(token_id)
        if text is None or token_id in self.special:
            return b""
        if self._is_byte_level:
            codes = [_BYTE_OF.get(character) for character in text]
            return text.encode("utf-8") if None in codes else bytes(codes)
        byte = _BYTE_TOKEN.fullmatch(text)
        return bytes([int(byte[1], 16)]) if byte else text.replace(_SPACE, " ").encode("utf-8")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling: printable bytes are themselves, the others are the letters from U+0100 on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _read_decoder(backend: tokenizers.Tokenizer) -> tuple[bool, bool]:
    """(whether tokens are spelled in GPT-2's alphabet, whether decoding drops the first space)."""
    state = json.loads(backend.decoder.__getstate__()) if backend.decoder else {}
    steps = {step["type"]: step for step in state.get("decoders", [state] if state else [])}
    if "ByteLevel" in steps:
        return True, False
    if "Metaspace" in steps:
        return False, steps["Metaspace"].get("prepend_scheme", "always") != "never"
    if "ByteFallback" in steps:
        return False, steps.get("Strip", {}).get("start", 0) > 0
    sentence = f"the tokenizer decodes by {sorted(steps)}; this engine reads byte-level and SentencePiece BPE"
    raise EngineError("unsupported_tokenizer", sentence, decoders=tuple(sorted(steps)))
