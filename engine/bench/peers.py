"""Ours against `transformers` and llama.cpp: the same prompts, model, threads; interleaved; medians of ratios.

Knows nothing of the kernels. Figures are ratios within one run: a busy machine slows all of them alike. A text ends
where its model ends it. Each prompt is also run for one token alone: what is left of the time and the tokens gives the
rate after the first token, where speculation happens. llama.cpp takes part where llama-cpp-python is installed.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from engine import Engine, EngineConfig, SamplingParams
from engine.batch import Batch, Part
from engine.bench.kernels import measure_machine
from engine.bench.prompts import KINDS
from engine.commands import at_least, existing_file, pattern
from engine.errors import EngineError
from engine.report import cpu_name
from engine.tokenizer import Tokenizer
from engine.weights import load

Generate = Callable[[list[int], int], tuple[int, float]]  # prompt ids, new tokens → (tokens produced, seconds)


def ours(engine: Engine, drafter: str, draft_length: int) -> Generate:
    """Our engine, from the call to its return: prefill, events and text included."""

    def generate(prompt: list[int], num_new: int) -> tuple[int, float]:
        params = SamplingParams(max_new_tokens=num_new, draft_length=draft_length)
        start = time.perf_counter()
        completion = engine.generate(prompt, params, drafter)
        return len(completion.token_ids), time.perf_counter() - start

    return generate


def transformers_model(folder: Path, dtype: torch.dtype = torch.float32) -> object:
    """The independent implementation on the same weights."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def transformers_generate(model: object, temperature: float = 0.0, **settings: object) -> Generate:
    """`model.generate`; `settings` choose its prompt lookup or assistant."""
    if temperature:
        settings |= {"do_sample": True, "temperature": temperature, "top_k": 0}
    else:
        settings |= {"do_sample": False}

    def generate(prompt: list[int], num_new: int) -> tuple[int, float]:
        ids = torch.tensor([prompt])
        start = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=num_new, pad_token_id=0, **settings
            )
        return out.shape[1] - len(prompt), time.perf_counter() - start

    return generate


def llama_cpp(path: str, draft_length: int, temperature: float = 0.0) -> Generate | None:
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
        top = {"top_k": 0, "top_p": 1.0, "min_p": 0.0} if temperature else {"top_k": 1}
        for token_id in model.generate(prompt, temp=temperature, repeat_penalty=1.0, **top):
            count += 1
            if count == num_new or token_id == model.token_eos():
                break
        return count, time.perf_counter() - start

    return generate


def others(folder: Path, ggufs: list[str], temperature: float = 0.0) -> dict[str, Generate | None]:
    """`transformers` and llama.cpp, each plain and with its own speculation; None for what is not installed."""
    everybody: dict[str, Generate | None] = {}
    for short, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        model, name = transformers_model(folder, dtype), f"transformers {short}"
        everybody[name] = transformers_generate(model, temperature)
        everybody[f"{name} prompt lookup 5"] = transformers_generate(model, temperature, prompt_lookup_num_tokens=5)
        everybody[f"{name} early exit 15"] = transformers_generate(model, temperature, assistant_early_exit=15)
    for path in ggufs:
        name = f"llama.cpp {Path(path).stem}"
        everybody[name] = llama_cpp(path, 0, temperature)
        everybody[f"{name} lookup 5"] = llama_cpp(path, 5, temperature)
    return everybody


def contestants(folder: Path, engines: Mapping[str, Engine], options: argparse.Namespace) -> dict[str, Generate]:
    """Everybody who can take part and is wanted, by name. Raises EngineError("nobody") where nobody is."""
    everybody = others(folder, options.gguf)
    for dtype, engine in engines.items():
        everybody[f"ours {dtype}"] = ours(engine, "none", 0)
        everybody[f"ours {dtype} ngram {options.draft_length}"] = ours(engine, "ngram", options.draft_length)
        everybody[f"ours {dtype} layer_skip 4"] = ours(engine, "layer_skip", 4)
        everybody[f"ours {dtype} early_exit 4"] = ours(engine, "early_exit", 4)
    wanted = {name: one for name, one in everybody.items() if one is not None and options.only.search(name)}
    if not wanted:
        sentence = f"nobody is called {options.only.pattern!r}; there are {', '.join(everybody)}"
        raise EngineError("nobody", sentence, name=options.only.pattern)
    return wanted


Rates = dict[str, dict[str, list[float]]]  # tokens per second by contestant, kind and repeat
PHASES = ("whole call", "after the first token")
MEASUREMENTS = 15  # of the bandwidth, whose median is the floor


def measure(generators: dict[str, Generate], tokenizer: Tokenizer, repeats: int, num_new: int) -> dict[str, Rates]:
    """By phase, the rates of each over a kind's prompts together; who is first turns with the repeats."""
    prompts = {kind: [tokenizer.chat(text) for text in texts] for kind, texts in KINDS.items()}
    rates: dict[str, Rates] = {phase: {name: {kind: [] for kind in KINDS} for name in generators} for phase in PHASES}
    names = list(generators)
    for repeat in range(repeats + 1):  # the first one warms up
        for kind, texts in prompts.items():
            for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
                count, seconds = _total(generators[name], texts, num_new)
                first_count, first_seconds = _total(generators[name], texts, 1)
                found = count / seconds, (count - first_count) / (seconds - first_seconds)
                for phase, rate in zip(PHASES, found, strict=True):
                    if repeat:
                        rates[phase][name][kind].append(rate)
        print(f"repeat {repeat} of {repeats} done", file=sys.stderr)
    return rates


def _total(generate: Generate, prompts: list[list[int]], num_new: int) -> tuple[int, float]:
    """Tokens and seconds over several prompts."""
    results = [generate(prompt, num_new) for prompt in prompts]
    return sum(count for count, _ in results), sum(seconds for _, seconds in results)


def compare(rates: Rates, one: str, other: str, kinds: list[str]) -> dict[str, float]:
    """Median, lowest and highest of the per-repeat ratios one/other over `kinds`."""
    ratios = [a / b for kind in kinds for a, b in zip(rates[one][kind], rates[other][kind], strict=True)]
    return {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}


def verify_cost(engine: Engine, width: int = 5, context: int = 256, repeats: int = 60) -> dict[str, float]:
    """A pass over `width` rows against a plain step at the same context, interleaved: medians and their ratio."""
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


OURS = "ours float16"
NGRAM = "ours float16 ngram {k}"


def targets(phases: dict[str, Rates], k: int) -> list[dict[str, object]]:
    """What this project wants of itself, as far as those concerned took part."""
    everywhere, (whole, after) = list(KINDS), PHASES
    rates = phases[whole]
    llamas = [name for name in rates if name.startswith("llama.cpp")]
    f16 = next((name for name in llamas if "16" in name and "lookup" not in name), "llama.cpp F16")
    best = max(llamas, key=lambda name: statistics.median(rates[name]["copy"]), default="llama.cpp")
    wanted = [  # one, other, kinds, phase, least ratio
        ("ours float32", "transformers fp32", everywhere, whole, 2.0),
        (OURS, "transformers fp32", everywhere, whole, 3.3),
        (OURS, f16, everywhere, whole, 0.9),
        (NGRAM, OURS, ["copy"], whole, 3.0),
        (NGRAM, OURS, ["copy"], after, 3.0),
        (NGRAM, OURS, ["chat"], whole, 0.95),
        (NGRAM, best, ["copy"], whole, 1.2),
    ]
    found = []
    for one, other, kinds, phase, least in ((one.format(k=k), *rest) for one, *rest in wanted):
        if one in rates and other in rates:
            what = f"{one} / {other}, {', '.join(kinds)}, {phase}"
            found.append({"what": what, "target": least, **compare(phases[phase], one, other, kinds)})
    return found


WIDTHS = {"float32": ("float32", "fp32"), "float16": ("float16", "f16"), "int8": ("int8", "q8")}  # parts of names


def width_of(name: str) -> str:
    """Our dtype that is as wide as the weights of a contestant, "" where its name tells of none."""
    return next((dtype for dtype, parts in WIDTHS.items() if any(part in name.lower() for part in parts)), "")


def report(phases: dict[str, Rates], engines: Mapping[str, Engine], options: argparse.Namespace) -> dict[str, object]:
    """All figures of a run with their provenance; prints them as tables."""
    reach = measure_machine(MEASUREMENTS)["bandwidth"]
    floors = {dtype: reach / engine.model.num_bytes for dtype, engine in engines.items()}  # plain tokens/s at most
    for phase, rates in phases.items():
        print(f"tokens per second, {phase}")
        for name, kinds in rates.items():
            medians = {kind: statistics.median(values) for kind, values in kinds.items()}
            floor = floors.get(width_of(name))
            share = f"   {medians['chat'] / floor:.0%} of the bandwidth floor on chat" if floor else ""
            print(f"{name:36s}" + "".join(f"{kind:>6s} {rate:6.1f}" for kind, rate in medians.items()) + share)
    found = targets(phases, options.draft_length)
    cost = verify_cost(engines["float16"])
    found.append({"what": "a pass of 5 rows / a plain step, fp16 (at most)", "target": 1.3, "median": cost["ratio"]})
    for item in found:
        span = f" ({item['lowest']:.2f} to {item['highest']:.2f})" if "lowest" in item else ""
        print(f"{item['what']:84s} {item['median']:.2f}{span}   wanted {item['target']}")
    return {
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "versions": versions(), "new_tokens": options.num_new,
        "repeats": options.repeats, "bandwidth_bytes_per_second": reach, "tokens_per_second_at_the_floor": floors,
        "tokens_per_second": phases, "targets": found, "verify": cost,
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Of everybody who took part or could have."""
    names = ("torch", "transformers", "llama-cpp-python")
    installed = {item.metadata["Name"] for item in importlib.metadata.distributions()}
    found = {name: importlib.metadata.version(name) for name in names if installed & {name, name.replace("-", "_")}}
    return {"python": platform.python_version(), **found}


def main(arguments: list[str]) -> int:
    """`python -m engine.bench peers`: measure, print, and write one JSON."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench peers", description=__doc__)
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--num-new", type=at_least(2), default=128)
    parser.add_argument("--draft-length", type=at_least(1), default=5)
    parser.add_argument("--gguf", action="append", default=[], type=existing_file,
                        help="a GGUF file for llama.cpp; may be given again")  # fmt: skip
    parser.add_argument("--only", default="", type=pattern,
                        help="a regular expression that the names of those who run must hold")  # fmt: skip
    parser.add_argument("--out", default=str(Path(tempfile.gettempdir()) / "peers.json"))
    options = parser.parse_args(arguments)
    configs = {dtype: EngineConfig(dtype=dtype, prefix_caching=False) for dtype in ("float32", "float16", "int8")}
    engines = {dtype: Engine(config) for dtype, config in configs.items()}
    generators = contestants(load("smollm2-135m").folder, engines, options)
    rates = measure(generators, engines["float16"].tokenizer, options.repeats, options.num_new)
    Path(options.out).write_text(json.dumps(report(rates, engines, options), indent=1))
    print(f"written to {options.out}")
    return 0
