"""The words of one lesson in one language: a Markdown file cut into pieces by `<!-- key -->` lines.

Knows nothing of pages: a piece is a string, and a placeholder is `{{name}}` or `{{name:format}}`, so that the single
braces of LaTeX stay as they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
FRAME = "frame"  # the lesson-less file with the words that all pages share
TEXT_FOLDER = Path(__file__).parent / "text"

_KEY_LINE = re.compile(r"^<!--\s*([a-z0-9_.]+)\s*-->\s*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{([a-z_][a-z0-9_]*)(?::([^{}]*))?\}\}")


def cut(text: str) -> dict[str, str]:
    """Cut a file at its key lines; ValueError names a key that stands twice or text before the first key."""
    head, *pieces = _KEY_LINE.split(text)
    if head.strip():
        raise ValueError(f"text before the first key: {head.strip()[:60]!r}")
    words: dict[str, str] = {}
    for key, piece in zip(pieces[::2], pieces[1::2], strict=True):
        if key in words:
            raise ValueError(f"the key {key!r} stands twice")
        words[key] = piece.strip()
    return words


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values into the placeholders; KeyError names one that is missing or was given for nothing."""
    wanted = {match[1] for match in _PLACEHOLDER.finditer(text)}
    if wanted != values.keys():
        odd = ", ".join(sorted(wanted ^ values.keys()))
        raise KeyError(f"placeholders and values differ in {odd}: {text[:60]!r}")
    return _PLACEHOLDER.sub(lambda match: format(values[match[1]], match[2] or ""), text)


def placeholders(text: str) -> list[str]:
    """The placeholders of a piece as they stand, sorted: what two languages must have in common."""
    return sorted(match[0] for match in _PLACEHOLDER.finditer(text))


def safe(text: str) -> str:
    """Text of a reader or a model, for HTML and Markdown alike: every punctuation mark becomes its character code."""
    visible = "".join(c for c in text if c in "\n\t" or c.isprintable())
    return "".join(c if c.isalnum() or c in " \n" or not c.isascii() else f"&#{ord(c)};" for c in visible)


@dataclass(frozen=True)
class Words:
    """Calling it with a key gives the piece, filled with the values."""

    lesson: str
    language: str
    pieces: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        if key not in self.pieces:
            raise KeyError(f"no words for {key!r} in {self.lesson}.md ({self.language})")
        return fill(self.pieces[key], values)

    def __contains__(self, key: str) -> bool:
        return key in self.pieces

    def group(self, prefix: str) -> dict[str, str]:
        """All pieces whose key starts with the prefix, which is cut off; placeholders stay (the browser fills them)."""
        return {key.removeprefix(prefix): text for key, text in self.pieces.items() if key.startswith(prefix)}

    def frame(self, key: str, **values: object) -> str:
        """A piece of the words that all pages share."""
        return load(FRAME, self.language)(key, **values)

    def frame_group(self, prefix: str) -> dict[str, str]:
        """As `group`, of the words that all pages share."""
        return load(FRAME, self.language).group(prefix)


def language_of(tag: str | None) -> str:
    """The language of a tag such as "zh-CN"; the first one where we do not have it."""
    return next((language for language in LANGUAGES if (tag or "").startswith(language)), LANGUAGES[0])


@cache
def load(lesson: str, language: str) -> Words:
    """The words of a lesson; FileNotFoundError if it has none in this language."""
    return Words(lesson, language, cut((TEXT_FOLDER / language / f"{lesson}.md").read_text(encoding="utf-8")))
