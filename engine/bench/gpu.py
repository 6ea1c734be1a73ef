"""The engine on a GPU: does it agree with the CPU, and how fast is it? One run, one JSON file.

Knows nothing of kernels: it compares whole passes and whole texts, and times them from outside. `--device cpu` is a dry
run of the same script where there is no GPU.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from engine import weights
from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.commands import at_least
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import EngineError
from engine.events import Sampled, Submitted, Verified
from engine.report import describe
from engine.request import Request, SamplingParams

BUSHY = (-1, 0, 0, 1, 1, 2, 3, 3)  # the tree that is checked
PASS_ROWS = (1, 2, 4, 5, 8, 16)
WARM_UPS = 3
LARGEST_ERROR = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1, "int8": 1e-1}  # ‖logits − CPU‖ / ‖CPU‖
DRAFTERS = ("none", "ngram", "layer_skip", "draft_lm", "specinfer", "medusa", "eagle", "eagle3")
PROMPTS = {
    "chat": "Explain to a curious child why the sky is blue and why sunsets are red.",
    "copy": "Say this three times, word for word: apple, river, candle, mirror, blanket, tiger, window, paper, lemon.",
    "code": "Write a Python function that returns the n-th Fibonacci number, then one for the factorial.",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """num_tokens: new tokens of every text; context: cached tokens below the timed passes."""

    device: str
    dtypes: tuple[str, ...]
    num_tokens: int
    draft_length: int
    context: int
    repeats: int


# ---- agreement ------------------------------------------------------------------------------------------------------


def passes(engine: Engine, token_ids: list[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """One text through the model in every shape that the engine uses: (name, logits (rows, vocab) on the CPU)."""
    size, half = engine.config.block_size, len(token_ids) // 2
    num_blocks = -(-(len(token_ids) + len(BUSHY)) // size)
    table, other = range(num_blocks)[::-1], range(num_blocks, 2 * num_blocks)
    cache = _cache(engine, 2 * num_blocks)

    def logits(*parts: Part) -> torch.Tensor:
        return engine.model.forward(Batch.join(parts), cache).cpu()

    yield "prompt", logits(Part("prompt", token_ids, table, 0))
    places = range(half, len(token_ids))
    yield "steps", torch.cat([logits(Part("generated", [token_ids[place]], table, place)) for place in places])
    yield "verify", logits(Part("generated", token_ids[half:], table, half))
    yield "tree", logits(Part("generated", token_ids[: len(BUSHY)], table, len(token_ids), BUSHY))
    yield "ragged", logits(Part("prompt", token_ids, other, 0), Part("generated", token_ids[half:], table, half))


def compare_passes(reference: Engine, engine: Engine, token_ids: list[int]) -> list[dict]:
    """One record per shape: the distance from the CPU in fp32, and how often the most probable tokens agree."""
    dtype, records = engine.config.dtype, []
    for (shape, expected), (_, logits) in zip(passes(reference, token_ids), passes(engine, token_ids), strict=True):
        error = ((logits - expected).norm() / expected.norm()).item()
        agreement = (logits.argmax(-1) == expected.argmax(-1)).float().mean().item()
        is_ok = error <= LARGEST_ERROR[dtype]  # NaN is not
        records.append({"dtype": dtype, "shape": shape, "error": error, "argmax_agreement": agreement, "ok": is_ok})
    return records


def compare_rows(engine: Engine, token_ids: list[int]) -> dict:
    """Whether a verify pass gives the bits of plain steps: promised on a CPU, measured elsewhere."""
    by_shape = dict(passes(engine, token_ids))
    difference = (by_shape["verify"] - by_shape["steps"]).abs().max().item()
    return {"dtype": engine.config.dtype, "is_bit_identical": difference == 0, "largest_difference": difference}


def compare_texts(name: str, expected: list[int], token_ids: list[int]) -> dict:
    """Two greedy texts, up to their first difference."""
    pairs = enumerate(zip(expected, token_ids, strict=False))
    first = next((index for index, (one, other) in pairs if one != other), min(len(expected), len(token_ids)))
    return {"name": name, "num_tokens": len(expected), "num_equal": first, "ok": expected == token_ids}


def can_draft(engine: Engine, drafter: str) -> bool:
    """Whether the drafter belongs to this model: a trained one works only with the weights it was trained on."""
    try:
        engine.generate([0], SamplingParams(max_new_tokens=0), drafter)
    except EngineError as error:
        if error.code == "other_weights":
            return False
        raise
    return True


# ---- speed ----------------------------------------------------------------------------------------------------------


def time_passes(engine: Engine, settings: Settings) -> list[dict]:
    """Milliseconds of a pass of L generated rows after `context` cached tokens, and its ratio to a plain step."""
    num_blocks = -(-(settings.context + max(PASS_ROWS)) // engine.config.block_size)
    cache, records = _cache(engine, num_blocks), []
    for num_rows in PASS_ROWS:
        batch = Batch.join([Part("generated", [1] * num_rows, range(num_blocks), settings.context)])
        seconds = []
        for _ in range(WARM_UPS + settings.repeats):
            start = time.perf_counter()
            engine.model.forward(batch, cache).cpu()  # the copy waits for the device
            seconds.append(time.perf_counter() - start)
        milliseconds = 1000 * statistics.median(seconds[WARM_UPS:])
        ratio = milliseconds / records[0]["milliseconds"] if records else 1.0
        dtype = engine.config.dtype
        records.append({"dtype": dtype, "rows": num_rows, "milliseconds": milliseconds, "ratio": ratio})
    return records


def time_text(engine: Engine, prompt: str, drafter: str, settings: Settings) -> dict:
    """Medians over the repeats, on the engine's own clock. Decoding speed leaves out the first token."""
    length = 0 if drafter == "none" else settings.draft_length
    params = SamplingParams(max_new_tokens=settings.num_tokens, draft_length=length, ignore_eos=True)
    rates, firsts = [], []
    for _ in range(1 + settings.repeats):  # the first warms up
        events = list(engine.run([Request(PROMPTS[prompt], params, drafter)]))
        sampled = [event for event in events if isinstance(event, Sampled)]
        verified = [event for event in events if isinstance(event, Verified)]
        submitted = next(event for event in events if isinstance(event, Submitted))
        firsts.append(sampled[0].clock - submitted.clock)
        rates.append((len(sampled) - 1) / max(sampled[-1].clock - sampled[0].clock, 1e-9))
    return {
        "dtype": engine.config.dtype,
        "prompt": prompt,
        "drafter": drafter,
        "tokens_per_second": statistics.median(rates[1:]),
        "range": [min(rates[1:]), max(rates[1:])],
        "seconds_to_first_token": statistics.median(firsts[1:]),
        "tokens_per_pass": len(sampled) / len({event.round for event in sampled}),
        "num_drafted": sum(len(event.token_ids) for event in verified),
        "num_accepted": sum(event.num_accepted for event in verified),
        "token_ids": [event.token_id for event in sampled],
    }


# ---- the run --------------------------------------------------------------------------------------------------------


def measure(loaded: weights.LoadedModel, settings: Settings) -> dict:
    """Everything, as one record that JSON can hold. "ok": all passes are near enough, and in fp32 all texts equal."""
    reference = _engine(loaded, "float32", "cpu")
    token_ids = reference.tokenizer.encode(" ".join(PROMPTS.values()))[:64]
    once = replace(settings, repeats=1)
    texts = {prompt: time_text(reference, prompt, "none", once)["token_ids"] for prompt in PROMPTS}
    record: dict = {"settings": asdict(settings), "engines": [], "checks": [], "rows": [], "passes": [], "texts": []}
    drafters = [drafter for drafter in DRAFTERS if can_draft(reference, drafter)]
    record |= {"speed": [], "left_out": [drafter for drafter in DRAFTERS if drafter not in drafters]}
    for dtype in settings.dtypes:
        engine = _engine(loaded, dtype, settings.device)
        record["engines"].append({**asdict(describe(engine)), **_device(settings.device)})
        record["checks"] += compare_passes(reference, engine, token_ids)
        record["rows"].append(compare_rows(engine, token_ids))
        record["passes"] += time_passes(engine, settings)
        for prompt, expected in texts.items():
            timed = {drafter: time_text(engine, prompt, drafter, settings) for drafter in drafters}
            plain = timed["none"]["token_ids"]
            record["texts"].append(compare_texts(f"{dtype}, {prompt}, plain against the CPU", expected, plain))
            for drafter in drafters[1:]:
                name = f"{dtype}, {prompt}, {drafter} against plain"
                record["texts"].append(compare_texts(name, plain, timed[drafter]["token_ids"]))
            record["speed"] += timed.values()
    is_right = [text["ok"] for text in record["texts"] if text["name"].startswith("float32")]
    record["ok"] = all(is_right) and all(check["ok"] for check in record["checks"])
    return record


def _engine(loaded: weights.LoadedModel, dtype: str, device: str) -> Engine:
    """Without prefix caching: each repeat pays for its prompt."""
    return Engine(EngineConfig(dtype=dtype, device=device, prefix_caching=False), loaded)


def _cache(engine: Engine, num_blocks: int) -> KVCache:
    config = engine.config
    return KVCache(engine.model.config, num_blocks, config.block_size, config.resolved_cache_dtype, config.device)


def _device(device: str) -> dict:
    if torch.device(device).type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(device)
    return {
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "peak_memory_bytes": torch.cuda.max_memory_allocated(device),
        "cuda": torch.version.cuda,
    }


def show(record: dict) -> None:
    """Prints the record as short tables."""
    first = record["engines"][0]
    print(f"{first['model']} on {first['device_name']}, {first['recorded']}, {dict(first['versions'])}")
    if record["left_out"]:
        print(f"Left out, because they were trained for other weights: {', '.join(record['left_out'])}")
    for check in record["checks"]:
        print("{dtype:>9} {shape:>7}  error {error:.1e}  argmax {argmax_agreement:.3f}  ok {ok}".format(**check))
    for row in record["rows"]:
        print(
            "{dtype:>9} verify = steps: {is_bit_identical} (largest difference {largest_difference:.1e})".format(**row)
        )
    for timed in record["passes"]:
        print("{dtype:>9} {rows:>3} rows  {milliseconds:8.3f} ms  {ratio:.2f}".format(**timed))
    for text in record["texts"]:
        print("{num_equal:>4} of {num_tokens} tokens equal: {name}".format(**text))
    for speed in record["speed"]:
        line = "{dtype:>9} {prompt:>5} {drafter:>10}  {tokens_per_second:8.1f} tokens/s  {tokens_per_pass:.2f} a pass"
        print((line + "  first after {seconds_to_first_token:.3f} s").format(**speed))


def main(arguments: list[str]) -> int:
    """Returns 1 when the device disagrees with the CPU, else 0; also where there is no GPU, with a sentence."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench gpu", description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16", type=lambda names: tuple(names.split(",")))
    parser.add_argument("--tokens", default=128, type=at_least(1))
    parser.add_argument("--draft-length", default=4, type=at_least(0))
    parser.add_argument("--context", default=256, type=at_least(0))
    parser.add_argument("--repeats", default=7, type=at_least(1))
    parser.add_argument("--out", default="gpu.json", type=Path)
    options = parser.parse_args(arguments)
    for dtype in options.dtypes:
        EngineConfig(dtype=dtype, device=options.device)  # refuses what cannot be before anything is loaded
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        print("PyTorch sees no CUDA GPU here, so nothing was measured; --device cpu makes a dry run.")
        return 0
    settings = Settings(
        options.device, options.dtypes, options.tokens, options.draft_length, options.context, options.repeats
    )
    record = measure(weights.load(options.model), settings)
    options.out.write_text(json.dumps(record, indent=1))
    show(record)
    print(f"Written to {options.out}; the device {'agrees' if record['ok'] else 'DISAGREES'} with the CPU.")
    return 0 if record["ok"] else 1
