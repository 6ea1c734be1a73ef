"""The CPU kernels one by one and together: against PyTorch, the memory's bandwidth and the processor's arithmetic.

Knows nothing of real weights: random ones of SmolLM2-135M's sizes take as long. `--json FILE` keeps the numbers.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from engine.commands import at_least
from engine.report import cpu_name
from kernels import argmax, gemm, layer, linear, memory, paged_attention, prompt_attention, rms_norm, softmax, swiglu
from kernels.layer import LayerWeights, Rows
from kernels.linear import Packed

NUM_LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 30, 576, 1536, 9, 3, 64, 49152
BLOCK_SIZE, PASS_ROWS, PROMPT_ROWS = 16, (1, 2, 4, 5, 8, 16), 60
SINGLE = (linear, gemm, rms_norm, paged_attention, prompt_attention, swiglu, argmax, softmax)
DTYPES = ("float32", "float16", "int8")


@dataclass(frozen=True, slots=True)
class Model:
    """The layers and the head of a model with random weights, and a cache full of random keys and values."""

    layers: list[LayerWeights]
    norm: Tensor
    head: Packed
    keys: list[Tensor]
    values: list[Tensor]

    @property
    def matrices(self) -> list[Packed]:
        """Every matrix that a pass multiplies with, in order."""
        return [m for w in self.layers for m in (w.qkv, w.output, w.gate_up, w.down)] + [self.head]


def seconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def typical(run: Callable[[], object], repeats: int) -> float:
    """The median over `repeats` calls, after one that does not count."""
    run()
    return median(seconds(run) for _ in range(repeats))


# ---- what the machine gives -----------------------------------------------------------------------------------------


def measure_machine(repeats: int) -> dict[str, float]:
    """Bytes a second that PyTorch can add up, and operations a second of its matrix product."""
    memory_full, square = memory.zeros((2**27,), torch.float32), torch.randn(1024, 1024)
    return {
        "bandwidth": memory_full.nbytes / typical(memory_full.sum, repeats),
        "gemm": 2 * 1024**3 / typical(lambda: square @ square, repeats),
    }


# ---- each kernel ----------------------------------------------------------------------------------------------------


def measure_single(repeats: int) -> dict[str, dict[str, float]]:
    """Each kernel on its example: seconds of PyTorch and ours, and the largest difference over the largest value."""
    results = {}
    for module in SINGLE:
        arguments = module.example()
        expected, found = module.reference(*arguments).float(), module.run(*arguments).float()
        results[module.__name__.removeprefix("kernels.")] = {
            "reference": typical(lambda: module.reference(*arguments), repeats),  # noqa: B023 (called at once)
            "run": typical(lambda: module.run(*arguments), repeats),  # noqa: B023
            "error": float((found - expected).abs().max() / expected.abs().max()),
        }
    return results


# ---- a whole pass ---------------------------------------------------------------------------------------------------


def make_model(dtype: str, num_slots: int) -> Model:
    """Random weights, stored as `dtype`; the cache is fp32 with fp32 weights and fp16 otherwise."""
    slab = memory.Slab()

    def matrix(num_out: int, num_in: int) -> Packed:
        return linear.pack(torch.randn(num_out, num_in) * num_in**-0.5, dtype, slab)

    def one_layer() -> LayerWeights:
        qkv, ones = matrix((HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN), torch.ones(HIDDEN)
        output, gate_up, down = matrix(HIDDEN, HEADS * HEAD_DIM), matrix(2 * INNER, HIDDEN), matrix(HIDDEN, INNER)
        optional = (None, None, None)
        return LayerWeights(
            HEADS, KV_HEADS, HEAD_DIM, 1e-5, ones, qkv, *optional, output, ones, gate_up, down
        )  # fmt: skip

    cache_dtype = torch.float32 if dtype == "float32" else torch.float16
    shape = (2 * NUM_LAYERS, num_slots, KV_HEADS, HEAD_DIM)
    cache = memory.zeros(shape, cache_dtype).normal_().unbind()
    layers = [one_layer() for _ in range(NUM_LAYERS)]
    head = matrix(VOCAB, HIDDEN)
    return Model(layers, torch.ones(HIDDEN), head, list(cache[:NUM_LAYERS]), list(cache[NUM_LAYERS:]))


def make_rows(num_rows: int, context: int) -> Rows:
    """A chain of rows after `context` cached tokens, in shuffled blocks."""
    table = torch.randperm((context + num_rows) // BLOCK_SIZE + 1).int()
    places = torch.arange(context, context + num_rows)
    slots = (table.long()[places // BLOCK_SIZE] * BLOCK_SIZE + places % BLOCK_SIZE).int()
    turns = places[:, None] * 1e5 ** (-torch.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    where = (torch.zeros(num_rows).int(), (places + 1).int(), torch.empty(num_rows, 0).int())
    return Rows((turns.cos(), turns.sin()), slots, table[None], BLOCK_SIZE, *where)


def one_pass(model: Model, x: Tensor, rows: Rows) -> Tensor:
    """x (rows, hidden) → logits (rows, vocab), as the engine computes them."""
    x = layer.run_all(x, model.layers, [rows] * NUM_LAYERS, model.keys, model.values)
    return linear.run(rms_norm.run(x, model.norm, 1e-5), model.head)


def all_products(matrices: Sequence[Packed], num_rows: int) -> None:
    """The pass's products and nothing else, each in a call of its own."""
    inputs = {width: torch.randn(num_rows, width) for width in (HIDDEN, INNER)}
    for matrix in matrices:
        linear.run(inputs[matrix.shape[1]], matrix)


def measure_pass(dtype: str, context: int, repeats: int) -> dict[str, object]:
    """Passes of 1 … 16 rows and a prompt's, interleaved so that a slow moment of the machine meets all of them."""
    model = make_model(dtype, -(-(context + PROMPT_ROWS) // BLOCK_SIZE) * BLOCK_SIZE)
    tiny = [linear.pack(torch.ones(16, HIDDEN), dtype)] * len(model.matrices)
    jobs: dict[str, Callable[[], object]] = {"calls": lambda: all_products(tiny, 1)}
    for count in PASS_ROWS:
        rows, x = make_rows(count, context), torch.randn(count, HIDDEN)
        jobs[f"pass {count}"] = lambda rows=rows, x=x: one_pass(model, x, rows)
        jobs[f"products {count}"] = lambda count=count: all_products(model.matrices, count)
    prompt, x = make_rows(PROMPT_ROWS, 0), torch.randn(PROMPT_ROWS, HIDDEN)
    places = [prompt] * NUM_LAYERS
    jobs["prompt"] = lambda: layer.run_all(x, model.layers, places, model.keys, model.values)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats + 1):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    weights = sum(matrix.data.nbytes for matrix in model.matrices)
    operations = 2 * PROMPT_ROWS * sum(m.shape[0] * m.shape[1] for m in model.matrices[:-1])
    typical_times = {name: median(values[1:]) for name, values in times.items()}
    return {"bytes": weights, "prompt operations": operations, "seconds": typical_times}


# ---- in words -------------------------------------------------------------------------------------------------------


def describe_pass(dtype: str, found: dict, machine: dict[str, float]) -> str:
    """One table: a line per number of rows, then the prompt."""
    took, floor = found["seconds"], found["bytes"] / machine["bandwidth"]
    title = f"{dtype}: {found['bytes'] / 1e6:.0f} MB of weights, at the machine's bandwidth {1e3 * floor:.1f} ms a pass"
    lines = [title, " rows   pass ms   / 1 row   of the floor   products ms   GB/s   beyond products"]
    for count in PASS_ROWS:
        whole = took[f"pass {count}"]
        products = took[f"products {count}"] - took["calls"]
        lines.append(
            f"{count:5}{1e3 * whole:10.2f}{whole / took['pass 1']:10.2f}{floor / whole:15.0%}{1e3 * products:14.2f}"
            f"{found['bytes'] / products / 1e9:7.1f}{(whole - products) / whole:18.0%}"
        )
    ideal = found["prompt operations"] / machine["gemm"]
    ratio = f"{took['prompt'] / ideal:.2f} × its operations at the machine's matrix-product rate"
    return "\n".join([*lines, f"{PROMPT_ROWS} prompt rows: {1e3 * took['prompt']:.1f} ms, {ratio}"])


def main(arguments: list[str]) -> int:
    """Prints the tables; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench kernels", description=__doc__)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--context", type=at_least(0), default=256, help="cached tokens below the timed passes")
    parser.add_argument("--repeats", type=at_least(1), default=15)
    parser.add_argument("--threads", type=at_least(0), default=0, help="0: as PyTorch chooses")
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args(arguments)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    with torch.inference_mode():
        machine = measure_machine(settings.repeats)
        print(f"{platform.machine()}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
        print(f"bandwidth {machine['bandwidth'] / 1e9:.1f} GB/s, matrix product {machine['gemm'] / 1e9:.0f} GFLOP/s\n")
        single = measure_single(settings.repeats)
        for name, row in single.items():
            times = f"PyTorch {1e6 * row['reference']:9.1f} µs   ours {1e6 * row['run']:8.1f} µs"
            print(f"{name:17} {times}   {row['reference'] / row['run']:5.1f} ×   largest difference {row['error']:.0e}")
        passes = {dtype: measure_pass(dtype, settings.context, settings.repeats) for dtype in settings.dtypes}
    for dtype, found in passes.items():
        print(f"\n{describe_pass(dtype, found, machine)}")
    if settings.json:
        about = {"date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "cores": os.cpu_count(),
                 "threads": torch.get_num_threads(), "torch": torch.__version__}  # fmt: skip
        written = about | {"machine": machine, "kernels": single, "passes": passes}
        settings.json.write_text(json.dumps(written, indent=1))
    return 0
