"""The app as a process of its own, as a reader starts it; for tests of how it starts, shows its first page and ends.

Knows nothing of what is tested.
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import app

ROOT = Path(app.__file__).parent
COMMAND = (sys.executable, "-u", "app.py", "--port", "0", "--model", "none")
UP_WITHIN = 30.0  # seconds; a start takes less than ten on a machine that does nothing else
PAGE_WITHIN = 10.0  # seconds; a cold first page takes less than three there


def start() -> subprocess.Popen:
    """The app without a model on any free port; what it says comes by pipes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(COMMAND, cwd=ROOT, text=True, **pipes)


def line_of(process: subprocess.Popen, seconds: float = UP_WITHIN) -> str:
    """The next line that it prints; a process that stays silent for so long is killed, and the test fails."""
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
    finally:
        watchdog.cancel()
    assert line, f"no line within {seconds:.0f} s: {process.communicate(timeout=20)[1]}"
    return line


def up(process: subprocess.Popen, began: float) -> str:
    """Its address, once it is up; fails if that took more than UP_WITHIN since `began` (time.monotonic())."""
    assert line_of(process).startswith("Starting")
    said = line_of(process)
    took = time.monotonic() - began
    address = re.search(r"http://[\d.]+:\d+", said)
    assert address, said
    assert took < UP_WITHIN, f"up after {took:.1f} s"
    return address[0]
