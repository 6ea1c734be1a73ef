"""Compiles the C sources beside this file once, keeps the result in the user's cache folder, and loads it.

Knows nothing of what the functions compute. They run in PyTorch's own OpenMP threads: the sources link to no OpenMP
library; pointers into the one that PyTorch has loaded are handed to them (threads.c).
"""

import ctypes
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

HEADERS = ("vectors.h", "native.h")
SOURCES = ("threads.c", "linear.c", "attention_tile.c", "attention.c", "rows.c", "vocabulary.c", "layer.c")
SOURCES += ("draft_head.c",)
FLAGS = ("-shared", "-fPIC", "-std=gnu11", "-O1", "-ffp-contract=off", "-fvisibility=hidden", "-Wno-psabi")
# -O1: the loops that matter are written as vectors and unrolled; -O2 compiled for 5 s instead of 3 and gained nothing.
TUNINGS = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler takes
NO_COMPILER = (
    "No C compiler works here (gcc, cc, clang or the ziglang package): PyTorch computes everything, several times "
    "more slowly."
)
LEFTOVER_AFTER = 3600.0  # seconds after which an unfinished build belongs to nobody
C_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_float}


# ---- what to compile, with what, to where ---------------------------------------------------------------------------


def compilers() -> list[tuple[str, ...]]:
    """The commands that may compile C here, best first."""
    found = [(path,) for path in map(shutil.which, ("gcc", "cc", "clang")) if path]
    if importlib.util.find_spec("ziglang"):
        found.append((sys.executable, "-m", "ziglang", "cc"))
    return found


def cache_folder() -> Path:
    """Where compiled libraries are kept on this platform."""
    places = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    return Path.home() / places.get(sys.platform, ".cache") / "inference-in-the-open" / "kernels"


def library_name() -> str:
    """A file name that changes with the sources, the flags and the processor, so that a stale file is never loaded."""
    folder = Path(__file__).parent
    parts = [(folder / name).read_bytes() for name in (*HEADERS, *SOURCES)]
    parts += [repr((FLAGS, TUNINGS, sys.platform, platform.machine(), _processor())).encode()]
    return f"kernels-{hashlib.sha256(b''.join(parts)).hexdigest()[:20]}.so"


def _processor() -> str:
    """What the processor can do: code tuned for one machine must not run on another that shares the home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    first = (next((line for line in lines if line.startswith(key)), "") for key in ("model name", "flags", "Features"))
    return "".join(first)


# ---- compile --------------------------------------------------------------------------------------------------------


def compile_to(target: Path, commands: list[tuple[str, ...]], tunings: tuple[tuple[str, ...], ...] = TUNINGS) -> bool:
    """Compiles into a folder of its own beside `target` and renames: a kill at any moment leaves all or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob("building-*"):
        if leftover.stat().st_mtime < time.time() - LEFTOVER_AFTER:
            shutil.rmtree(leftover, ignore_errors=True)
    unit = "".join(f'#include "{name}"\n' for name in SOURCES)
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as folder:
        output = Path(folder) / target.name
        for command in commands:
            for tuning in tunings:
                line = [*command, *FLAGS, *tuning, f"-I{Path(__file__).parent}", "-xc", "-", "-o", output, "-lm"]
                if _succeeds(line, unit) and output.exists():
                    os.replace(output, target)
                    return True
    return False


def _succeeds(line: list[str], unit: str) -> bool:
    try:
        return subprocess.run(line, input=unit.encode(), capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


# ---- load -----------------------------------------------------------------------------------------------------------


@functools.cache
def library() -> ctypes.CDLL | None:
    """The loaded library, or None (after one printed sentence) where nothing can compile or load it."""
    try:
        target = cache_folder() / library_name()
        loaded = _load(target) if target.exists() else None
        if loaded is None and compile_to(target, compilers()):
            loaded = _load(target)
    except OSError:  # no home, or one that cannot be written
        loaded = _load_from_temporary_folder()
    if loaded is None:
        print(NO_COMPILER, file=sys.stderr, flush=True)
    return loaded


def _load_from_temporary_folder() -> ctypes.CDLL | None:
    with tempfile.TemporaryDirectory(prefix="kernels-", ignore_cleanup_errors=True) as folder:
        target = Path(folder) / "kernels.so"
        return _load(target) if compile_to(target, compilers()) else None


def _load(path: Path) -> ctypes.CDLL | None:
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError:
        return None
    loaded.use_runtime.argtypes = [ctypes.c_void_p] * 3
    loaded.use_runtime.restype = None
    pointers = openmp_pointers()
    if pointers:
        loaded.use_runtime(*pointers)
    return loaded


def openmp_pointers() -> tuple[int, ...]:
    """Entry points of the OpenMP runtime that PyTorch loaded; () if it has none: then one thread does the work.

    GNU's library and LLVM's (which macOS and Intel wheels carry) both export these names.
    """
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    folder = Path(torch.__file__).parent / "lib"
    for path in (None, *sorted(folder.glob("lib*omp*"))):
        try:
            runtime = ctypes.CDLL(path and str(path), mode=os.RTLD_NOLOAD if path else ctypes.DEFAULT_MODE)
            return tuple(ctypes.cast(getattr(runtime, name), ctypes.c_void_p).value for name in names)
        except (OSError, AttributeError, TypeError):
            continue
    return ()


# ---- use ------------------------------------------------------------------------------------------------------------


@functools.cache
def function(name: str, signature: str) -> Callable | None:
    """A native function, or None. `signature`: p pointer (an address or None), i 64-bit integer, f float."""
    loaded = library()
    if loaded is None:
        return None
    native = loaded[name]
    native.argtypes = [C_TYPES[letter] for letter in signature]
    native.restype = None
    return native


def is_native(*tensors: torch.Tensor | None) -> bool:
    """Whether the C functions can take these: fp32 on the CPU and contiguous, with no gradient asked for."""
    wants_gradient = torch.is_grad_enabled()
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.dtype is not torch.float32 or not tensor.is_cpu or not tensor.is_contiguous():
            return False
        if wants_gradient and tensor.requires_grad:
            return False
    return True
