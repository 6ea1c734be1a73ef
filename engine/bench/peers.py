"""Ours against `transformers` and llama.cpp: the same prompts, model, threads; interleaved; medians of ratios.

Knows nothing of the kernels. Figures are ratios within one run: a busy machine slows all of them alike. llama.cpp takes
part where llama-cpp-python is installed.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from engine import Engine, EngineConfig, RoundFinished, SamplingParams
from engine.bench.prompts import KINDS
from engine.request import Request
from engine.weights import load

Generate = Callable[[list[int], int], tuple[int, float]]  # prompt ids, new tokens → (tokens produced, seconds)


def ours(dtype: str, drafter: str, draft_length: int) -> Generate:
    """Our engine; the time is the engine's own clock, all rounds with their prefill."""
    engine = _engines.setdefault(dtype, Engine(EngineConfig(dtype=dtype, prefix_caching=False)))
    _label = drafter

    def generate(prompt: list[int], num_new: int) -> tuple[int, float]:
        params = SamplingParams(max_new_tokens=num_new, draft_length=draft_length, ignore_eos=True)
        events = list(engine.run([Request(prompt, params, _label)]))
        bills = [event for event in events if isinstance(event, RoundFinished)]
        return num_new, bills[-1].request_clock

    return generate


_engines: dict[str, Engine] = {}


def transformers_model(folder: Path) -> object:
    """The independent implementation on the same weights, fp32."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def transformers_generate(model: object, **settings: object) -> Generate:
    """`model.generate`, greedy; `settings` choose its prompt lookup or assistant."""

    def generate(prompt: list[int], num_new: int) -> tuple[int, float]:
        ids = torch.tensor([prompt])
        start = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=num_new,
                min_new_tokens=num_new, pad_token_id=0, **settings,
            )  # fmt: skip
        return out.shape[1] - len(prompt), time.perf_counter() - start

    return generate


def llama_cpp(path: str, draft_length: int) -> Generate | None:
    """llama.cpp on a GGUF file, with its prompt lookup if `draft_length`; None where it is not installed."""
    try:
        from llama_cpp import Llama
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
    except ImportError:
        return None
    draft = LlamaPromptLookupDecoding(num_pred_tokens=draft_length) if draft_length else None
    threads = torch.get_num_threads()
    model = Llama(path, n_ctx=2048, n_threads=threads, n_threads_batch=threads, draft_model=draft, verbose=False)

    def generate(prompt: list[int], num_new: int) -> tuple[int, float]:
        model.reset()
        start, count = time.perf_counter(), 0
        for _ in model.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0):
            count += 1
            if count == num_new:
                break
        return count, time.perf_counter() - start

    return generate


def contestants(folder: Path, options: argparse.Namespace) -> dict[str, Generate]:
    """Everybody who can take part, by name."""
    model = transformers_model(folder)
    all_of_them: dict[str, Generate | None] = {
        "transformers fp32": transformers_generate(model),
        "transformers fp32 prompt lookup 5": transformers_generate(model, prompt_lookup_num_tokens=5),
        "transformers fp32 early exit 15": transformers_generate(model, assistant_early_exit=15)
        if options.assisted
        else None,
    }
    for dtype in ("float32", "float16", "int8"):
        all_of_them[f"ours {dtype}"] = ours(dtype, "none", 0)
        all_of_them[f"ours {dtype} ngram {options.draft_length}"] = ours(dtype, "ngram", options.draft_length)
    all_of_them["ours float16 layer_skip 4"] = ours("float16", "layer_skip", 4)
    for path in options.gguf:
        name = f"llama.cpp {Path(path).stem}"
        all_of_them[name] = llama_cpp(path, 0)
        all_of_them[f"{name} lookup 5"] = llama_cpp(path, 5)
    return {name: generate for name, generate in all_of_them.items() if generate is not None}


def measure(generators: dict[str, Generate], repeats: int, num_new: int) -> dict[str, dict[str, list[float]]]:
    """Tokens per second of each, by kind and repeat (a kind's prompts together); the order turns with the repeats."""
    engine = next(iter(_engines.values()))
    prompts = {kind: [engine.tokenizer.chat(text) for text in texts] for kind, texts in KINDS.items()}
    rates: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in KINDS} for name in generators}
    names = list(generators)
    for repeat in range(repeats + 1):  # the first one warms up
        for kind, texts in prompts.items():
            for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
                results = [generators[name](prompt, num_new) for prompt in texts]
                rate = sum(count for count, _ in results) / sum(seconds for _, seconds in results)
                if repeat:
                    rates[name][kind].append(rate)
        print(f"repeat {repeat} of {repeats} done", file=sys.stderr)
    return rates


def compare(rates: dict[str, dict[str, list[float]]], one: str, other: str, kinds: list[str]) -> dict[str, float]:
    """Median, lowest and highest of the per-repeat ratios one/other over `kinds`."""
    ratios = [a / b for kind in kinds for a, b in zip(rates[one][kind], rates[other][kind], strict=True)]
    return {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}


def verify_cost(dtype: str = "float16", width: int = 5, context: int = 256, repeats: int = 60) -> dict[str, float]:
    """A pass over `width` rows against a plain step at the same context, interleaved: medians and their ratio."""
    from engine.batch import Batch, Part

    engine = _engines[dtype]
    table = range(-(-(context + width) // engine.config.block_size))
    rows = list(range(100, 100 + context))
    engine.model.forward(Batch.join([Part("prompt", rows, table, 0, num_logits=1)]), engine.cache)
    seconds: dict[int, list[float]] = {1: [], width: []}
    for _ in range(repeats):
        for count, taken in seconds.items():
            batch = Batch.join([Part("generated", rows[:count], table, context)])
            start = time.perf_counter()
            engine.model.forward(batch, engine.cache)
            taken.append(time.perf_counter() - start)
    plain, wide = (statistics.median(taken) for taken in seconds.values())
    return {"plain_ms": plain * 1e3, f"verify_{width}_ms": wide * 1e3, "ratio": wide / plain}


def bandwidth(repeats: int = 7) -> float:
    """Bytes per second that this machine reads from memory: summing 1 GiB of fp32, best of `repeats`."""
    block = torch.ones(2**28)
    best = min(_timed(lambda: block.sum()) for _ in range(repeats))
    return block.nbytes / best


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


TARGETS = [  # (name, one, other, kinds, least ratio)
    ("vanilla fp32 against transformers", "ours float32", "transformers fp32", list(KINDS), 2.0),
    ("vanilla fp16 against transformers", "ours float16", "transformers fp32", list(KINDS), 3.3),
    ("ngram on copy-heavy prompts against our vanilla", "ours float16 ngram {k}", "ours float16", ["copy"], 3.0),
    ("ngram on open chat against our vanilla", "ours float16 ngram {k}", "ours float16", ["chat"], 0.95),
]


def report(rates: dict[str, dict[str, list[float]]], options: argparse.Namespace) -> dict[str, object]:
    """All figures of a run with their provenance; prints them as tables."""
    reach = bandwidth()
    medians = {name: {kind: statistics.median(v) for kind, v in kinds.items()} for name, kinds in rates.items()}
    for name, kinds in medians.items():
        print(f"{name:40s}" + "".join(f"{kind:>6s} {rate:6.1f} tok/s" for kind, rate in kinds.items()))
    targets = []
    for label, one, other, kinds, least in TARGETS:
        ratio = compare(rates, one.format(k=options.draft_length), other, kinds)
        targets.append({"what": label, "target": least, **ratio})
    f16 = next((name for name in rates if name.startswith("llama.cpp") and "16" in name and "lookup" not in name), "")
    peers = [name for name in rates if name.startswith("llama.cpp")]
    if f16:
        ratio = compare(rates, "ours float16", f16, list(KINDS))
        targets.append({"what": f"vanilla fp16 against {f16}", "target": 0.9, **ratio})
    if peers:
        best = max(peers, key=lambda name: medians[name]["copy"])
        ratio = compare(rates, f"ours float16 ngram {options.draft_length}", best, ["copy"])
        targets.append({"what": f"ngram on copy-heavy prompts against {best}", "target": 1.2, **ratio})
    cost = verify_cost()
    targets.append({"what": "a 5-token verify pass against a plain step, fp16", "target": 1.3, "median": cost["ratio"]})
    for item in targets:
        span = f" ({item['lowest']:.2f} to {item['highest']:.2f})" if "lowest" in item else ""
        print(f"{item['what']:64s} {item['median']:.2f}{span}   wanted {item['target']}")
    floors = {}
    for dtype, engine in _engines.items():
        floors[dtype] = engine.model.num_bytes / reach * medians[f"ours {dtype}"]["chat"]
        print(f"ours {dtype}: {floors[dtype]:.0%} of the bandwidth floor on chat")
    return {
        "date": time.strftime("%Y-%m-%d"), "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__,
        "new_tokens": options.num_new, "repeats": options.repeats, "bandwidth_bytes_per_second": reach,
        "tokens_per_second": rates, "targets": targets, "verify": cost, "fraction_of_floor": floors,
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """`python -m engine.bench peers`: measure, print, and write one JSON."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench peers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--num-new", type=int, default=128)
    parser.add_argument("--draft-length", type=int, default=8)
    parser.add_argument("--gguf", action="append", default=[], help="a GGUF file for llama.cpp; may be given again")
    parser.add_argument("--assisted", action="store_true", help="also transformers' early-exit assistant (slow)")
    parser.add_argument("--out", default=str(Path(tempfile.gettempdir()) / "peers.json"))
    options = parser.parse_args(arguments)
    generators = contestants(load("smollm2-135m").folder, options)
    result = report(measure(generators, options.repeats, options.num_new), options)
    Path(options.out).write_text(json.dumps(result, indent=1))
    print(f"written to {options.out}")
    return 0
