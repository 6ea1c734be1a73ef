"""`python -m engine.bench NAME …` runs main(arguments) of engine/bench/NAME.py; without a name it lists them.

Knows nothing of the measurements, only that each is a module in this folder that has a main.
"""

import ast
import importlib
import sys
from pathlib import Path

from engine.commands import dispatch


def main(arguments: list[str]) -> int:
    """Run the named measurement, or list them; as `engine.commands.dispatch`."""

    def run(name: str, options: list[str]) -> int | None:
        return importlib.import_module(f"engine.bench.{name}").main(options)

    return dispatch("engine.bench", measurements(), arguments, run)


def measurements() -> dict[str, str]:
    """What each module that can be run says of itself in its first line, by name; none of them is imported."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        is_runnable = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if is_runnable and path.stem != "__main__":
            found[path.stem] = (ast.get_docstring(tree) or "").split("\n")[0]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
