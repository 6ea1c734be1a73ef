"""Building and loading the C library: once, whole or not at all, in PyTorch's own threads, and without a compiler."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from kernels import build, memory

ROOT = Path(__file__).parent.parent
needs_compiler = pytest.mark.skipif(build.library() is None, reason="no C compiler")


def python(code: str, home: Path) -> subprocess.CompletedProcess:
    """Runs code in a fresh interpreter whose home folder is `home`."""
    environment = {**os.environ, "HOME": str(home), "USERPROFILE": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)


@needs_compiler
def test_a_second_process_loads_what_the_first_one_compiled(tmp_path):
    code = (
        "import torch, os; from kernels import build; name = build.library()._name;"
        "print(name, os.stat(name).st_mtime_ns)"
    )
    first, second = python(code, tmp_path), python(code, tmp_path)
    assert first.stdout == second.stdout  # the same file, written once
    assert str(tmp_path) in first.stdout
    assert first.stderr == second.stderr == ""


def test_without_a_compiler_one_sentence_is_printed_and_pytorch_computes_the_same(tmp_path):
    code = """
import torch
from kernels import build
build.compilers = lambda: []
from kernels import argmax, gemm, linear, paged_attention, prompt_attention, rms_norm, rope, softmax, swiglu
assert build.library() is None and build.library() is None
for module in (linear, gemm, rms_norm, swiglu, paged_attention, prompt_attention, argmax, softmax):
    arguments = module.example()
    torch.testing.assert_close(module.run(*arguments), module.reference(*arguments), rtol=1e-5, atol=1e-5)
rope.run(*rope.example())
x, packed = linear.example()
assert packed.data.dtype is torch.float32 and torch.equal(packed.data, packed.data.half().float())
alone = torch.cat([linear.run(row[None], packed) for row in x])
assert all(torch.equal(linear.run(x[:rows], packed), alone[:rows]) for rows in range(1, 6))
"""
    finished = python(code, tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr.strip() == build.NO_COMPILER


def test_a_compiler_that_fails_is_passed_over(tmp_path):
    assert not build.compile_to(tmp_path / "x.so", [("false",), ("/nowhere/gcc",)])
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_a_kill_while_compiling_leaves_no_library_and_the_next_start_builds_it(tmp_path):
    code = "import torch; from kernels import build; print(build.library()._name)"
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    building = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("building-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    building.send_signal(signal.SIGKILL)
    building.wait()
    assert not [path for path in tmp_path.rglob("*.so") if "building-" not in str(path)]
    library = Path(python(code, tmp_path).stdout.strip())
    assert library.exists()
    assert [path.name for path in library.parent.iterdir() if path.is_file()] == [library.name]


@needs_compiler
def test_leftovers_of_an_old_build_are_swept_away(tmp_path):
    old, fresh = tmp_path / "building-old", tmp_path / "building-fresh"
    old.mkdir(), fresh.mkdir()
    os.utime(old, (0, 0))
    build.compile_to(tmp_path / "x.so", [])
    assert not old.exists()
    assert fresh.exists()


@needs_compiler
def test_a_home_that_cannot_be_written_costs_a_build_and_no_more(tmp_path):
    (tmp_path / "home").write_text("a file where a folder should be")
    finished = python("import torch; from kernels import build; assert build.library()", tmp_path / "home")
    assert finished.returncode == 0, finished.stderr


@needs_compiler
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of loaded libraries")
def test_only_one_openmp_runtime_lives_in_the_process(tmp_path):
    code = """
import torch
from kernels import linear
linear.run(*linear.example())
torch.randn(500, 500) @ torch.randn(500, 500)
lines = open("/proc/self/maps").read().split()
print(len({name for name in lines if "/" in name and "omp" in name.rsplit("/", 1)[1]}))
"""
    assert python(code, tmp_path).stdout.strip() == "1"


@needs_compiler
def test_the_threads_are_pytorchs_own():
    assert len(build.openmp_pointers()) == 3


@pytest.mark.slow
def test_what_ziglang_compiles_gives_what_the_references_give(tmp_path, monkeypatch):
    """The last of the compilers, and the only one of a user who has none: requirements.txt brings it."""
    pytest.importorskip("ziglang")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "zig"))  # nothing compiled before counts
    command = (sys.executable, "-m", "ziglang", "cc")
    assert build.compilers()[-1] == command
    target = tmp_path / "zig.so"
    assert build.compile_to(target, [command])
    code = f"""
import torch
from kernels import build
from pathlib import Path
compiled = build._load(Path({str(target)!r}))
assert compiled
build.library = lambda: compiled
from kernels import argmax, gemm, linear, paged_attention, prompt_attention, rms_norm, swiglu
for module in (linear, gemm, rms_norm, swiglu, paged_attention, prompt_attention, argmax):
    arguments = module.example()
    torch.testing.assert_close(module.native(*arguments), module.reference(*arguments), rtol=1e-5, atol=1e-5)
"""
    finished = python(code, tmp_path)
    assert finished.returncode == 0, finished.stderr


@needs_compiler
def test_portable_code_gives_what_tuned_code_gives(tmp_path):
    """The library without AVX2 passes the same comparisons (other bits, since it may not fuse its additions)."""
    target = tmp_path / "portable.so"
    assert build.compile_to(target, build.compilers(), ((),))
    code = f"""
import torch
from kernels import build
from pathlib import Path
portable = build._load(Path({str(target)!r}))
build.library = lambda: portable
from kernels import argmax, gemm, linear, paged_attention, prompt_attention, rms_norm, rope, softmax, swiglu
for module in (linear, gemm, rms_norm, swiglu, paged_attention, prompt_attention, argmax):
    arguments = module.example()
    torch.testing.assert_close(module.native(*arguments), module.reference(*arguments), rtol=1e-5, atol=1e-5)
for dtype in linear.KINDS:
    packed = linear.pack(torch.randn(37, 29), dtype)
    x = torch.randn(40, 29)
    torch.testing.assert_close(linear.native(x, packed), linear.reference(x, packed), rtol=1e-5, atol=1e-5)
halves = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
x = torch.eye(16)
finite = halves[halves.isfinite()].view(-1, 16)
packed = linear.pack(finite.float(), "float16")
assert torch.equal(linear.native(x, packed).T, finite.float())
v = finite.float()[None, None].flatten(2)[:, :, :63488].view(-1, 1, 8)
rounded = v * (1 + 2**-12)
cache = tuple(torch.zeros(len(v), 1, 8, dtype=torch.float16) for _ in range(2))
slots = torch.arange(len(v), dtype=torch.int32)
rope.native(rounded, rounded, rounded, None, cache, slots)
assert torch.equal(cache[1], rounded.half())
"""
    finished = python(code, tmp_path)
    assert finished.returncode == 0, finished.stderr


# ---- memory ----


def test_slabs_hand_out_separate_aligned_tensors():
    slab = memory.Slab()
    tensors = [slab.empty((3, 5), torch.float16), slab.empty((7,), torch.float32), slab.empty((2**25,), torch.float32)]
    for index, tensor in enumerate(tensors):
        tensor.fill_(index)
    assert [int(tensor.float().mean()) for tensor in tensors] == [0, 1, 2]
    assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)


def test_zeros_are_zero_small_and_large():
    for shape in ((3, 4), (2, 1024, 1024)):
        zeros = memory.zeros(shape, torch.float16)
        assert zeros.shape == shape
        assert not zeros.any()
