"""`python -m engine.bench NAME …` runs main(arguments) of engine/bench/NAME.py.

Knows nothing of the measurements, only that each is a module in this folder.
"""

import importlib
import pkgutil
import sys

import engine.bench


def main(arguments: list[str]) -> int:
    """Run the named measurement; returns its exit status, or 2 with a sentence where there is none of that name."""
    names = sorted(module.name for module in pkgutil.iter_modules(engine.bench.__path__) if module.name != "__main__")
    if not arguments or arguments[0] not in names:
        asked = f"There is no measurement {arguments[0]!r}." if arguments else "Which measurement?"
        print(f"{asked} Known: {', '.join(names)}. Say: python -m engine.bench NAME", file=sys.stderr)
        return 2
    measurement = importlib.import_module(f"engine.bench.{arguments[0]}")
    return measurement.main(arguments[1:]) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
