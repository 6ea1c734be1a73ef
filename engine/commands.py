"""`python -m PACKAGE NAME …`: one of several named commands, or the list of them. Knows nothing of what they do."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.errors import EngineError


def dispatch(
    package: str, known: Mapping[str, str], arguments: list[str], run: Callable[[str, list[str]], int | None]
) -> int:
    """Calls run(name, its arguments) and returns its exit status; 2 with a sentence where there is none of that name.

    known: what each command does, by name; without arguments they are listed. What a command refuses with an
    EngineError is a sentence and 2 as well.
    """
    if not arguments:
        print(f"Each is run by `python -m {package} NAME`; `NAME --help` tells its options:")
        for name, purpose in known.items():
            print(f"  {name:16} {purpose}")
        return 0
    name, *options = arguments
    if name not in known:
        print(f"There is no {name!r} in {package}. Known: {', '.join(known)}.", file=sys.stderr)
        return 2
    try:
        return run(name, options) or 0
    except EngineError as refusal:
        print(f"{package} {name}: {refusal}", file=sys.stderr)
        return 2


# ---- types of options, for argparse -------------------------------------------------------------------------------


def at_least(smallest: int) -> Callable[[str], int]:
    """Whole numbers from `smallest` on."""

    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {smallest} or more")
        return number

    return whole


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text)
    except re.error as problem:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {problem}") from problem


def existing_file(text: str) -> str:
    """The path of a file that is there."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return text
