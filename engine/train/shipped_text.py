"""Text that Python ships: its reference documentation, as `help()` shows it (Python Software Foundation License 2).

Knows nothing of prompts. Which paragraphs there are depends a little on the version of Python.
"""

import re
from functools import cache
from pydoc_data.topics import topics

SHORTEST, LONGEST = 40, 130  # words of a paragraph


@cache
def paragraphs() -> tuple[str, ...]:
    """Whole paragraphs of prose, without code and tables, in the order of the topics' names."""
    every = (" ".join(part.split()) for name in sorted(topics) for part in re.split(r"\n\s*\n", topics[name]))
    return tuple(dict.fromkeys(text for text in every if _is_prose(text)))


def _is_prose(text: str) -> bool:
    is_whole = text[:1].isupper() and text.endswith(".")
    return is_whole and SHORTEST <= len(text.split()) <= LONGEST and "::" not in text and "| " not in text
