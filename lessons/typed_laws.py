"""Two laws as a reader types them: weights in, probabilities out, and a reason when that cannot be done.

Knows nothing of pages: a refusal carries a code and values, the lesson has the sentence. Numbers are read by one
pattern (decimals, fractions, percent); nothing that was typed is ever evaluated.
"""

import math
import re
from collections.abc import Sequence

SMALLEST_SIZE, LARGEST_SIZE = 2, 8
LONGEST_TEXT = 300

_SEPARATORS = re.compile(r"[\s,;，、；]+")
_NUMBER = re.compile(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(?:e(-?\d{1,2}))?(?:/(\d{1,12}(?:\.\d{0,12})?))?(%)?", re.I)


class BadLaw(ValueError):
    """What was typed is no law: `code` says what is wrong, `values` name the culprit."""

    def __init__(self, code: str, **values: object):
        super().__init__(f"{code}: {values}")
        self.code = code
        self.values = values


def parse_law(text: str) -> tuple[float, ...]:
    """The law that a list of weights stands for, each over their sum; raises BadLaw.

    Weights are separated by commas or spaces: "0.5, 0.3, 0.2", "5 3 2", "1/2 1/4 1/4" and "50% 30% 20%" are one kind.
    """
    if len(text) > LONGEST_TEXT:
        raise BadLaw("long", longest=LONGEST_TEXT, length=len(text))
    words = [word for word in _SEPARATORS.split(text.strip().strip("[]()")) if word]
    weights = [_weight(word) for word in words]
    if not SMALLEST_SIZE <= len(weights) <= LARGEST_SIZE:
        raise BadLaw("size", count=len(weights), smallest=SMALLEST_SIZE, largest=LARGEST_SIZE)
    total = sum(weights)
    if not total > 0:
        raise BadLaw("zero")
    return tuple(weight / total for weight in weights)


def _weight(word: str) -> float:
    found = _NUMBER.fullmatch(word)
    if found is None:
        raise BadLaw("negative" if word.startswith(("-", "−")) else "number", word=word[:20])
    digits, exponent, divisor, percent = found.groups()
    below = float(divisor) if divisor else 1.0
    if below == 0:
        raise BadLaw("number", word=word[:20])
    return float(digits) * 10.0 ** int(exponent or 0) / below / (100.0 if percent else 1.0)


def parse_pair(p: str, q: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Both laws, over the same tokens; raises BadLaw, whose values say which law is meant."""
    laws = []
    for name, text in (("p", p), ("q", q)):
        try:
            laws.append(parse_law(text))
        except BadLaw as problem:
            raise BadLaw(problem.code, law=name, **problem.values) from problem
    if len(laws[0]) != len(laws[1]):
        raise BadLaw("lengths", p=len(laws[0]), q=len(laws[1]))
    return laws[0], laws[1]


def is_same(law: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two laws agree but for rounding: to be compared are laws, for one law can be typed in many ways."""
    return len(law) == len(other) and all(map(math.isclose, law, other))


def write_law(law: Sequence[float]) -> str:
    """A law as it would be typed, to four significant digits."""
    return ", ".join(f"{entry:.4g}" for entry in law)
