"""`python -m PACKAGE NAME …`: one of several named commands, or the list of them. Knows nothing of what they do."""

import sys
from collections.abc import Callable, Mapping


def dispatch(
    package: str, known: Mapping[str, str], arguments: list[str], run: Callable[[str, list[str]], int | None]
) -> int:
    """Calls run(name, its arguments) and returns its exit status; 2 with a sentence where there is none of that name.

    known: what each command does, by name; without arguments they are listed.
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
    return run(name, options) or 0
