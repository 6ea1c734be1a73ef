"""Every drafter on eight categories of prompts, against plain decoding: speed-up, τ, acceptance, cost, identity.

Knows nothing of how drafts are made. Draft lengths are chosen on prompts of their own (TUNING); in a measurement all
take turns, prompt by prompt. With --others, `transformers` and llama.cpp take part, timed from call to return as we are
then.
"""

import argparse
import hashlib
import json
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from engine import Engine, EngineConfig, Request, SamplingParams, weights
from engine.bench.peers import Generate, others, versions
from engine.bench.suite import SUITE, TUNING
from engine.bench.tally import Tally, run
from engine.commands import at_least, existing_file, pattern
from engine.drafters import make, trained_files
from engine.drafters.shelf import Shelf
from engine.head import SHIPPED
from engine.report import cpu_name

LENGTHS = {  # to choose from; of a tree it is the depth, its size is its own affair
    "ngram": (5, 8), "suffix": (5, 7), "ngram_table": (5, 7), "layer_skip": (2, 4), "early_exit": (2, 4),
    "draft_lm": (1, 2, 3), "specinfer": (2, 4), "medusa": (2, 4), "eagle": (1, 2, 3), "eagle2": (2, 4),
    "eagle3": (2, 4), "eagle3:chain": (1, 2, 3), "eagle3:lookup": (5, 7),
    "eagle_unshifted": (1, 2), "lookahead": (3,), "jacobi": (2, 4),
    "magicdec": (4,), "triforce": (8,),
}  # fmt: skip
VANILLA = ("none", 0)
Setting = tuple[str, int]  # drafter, draft length
Prompts = Mapping[str, Sequence[str]]  # by category
Tallies = dict[str, dict[Setting, Tally]]  # by category and contestant


class Race:
    """Everybody on one prompt after the other; others' programs by name, in the place of a drafter with length 0."""

    def __init__(self, engine: Engine, params: SamplingParams, peers: Mapping[str, Generate] | None = None) -> None:
        self._engine, self._params, self._peers = engine, params, peers or {}

    def run(self, settings: Sequence[Setting], prompts: Prompts, repeats: int) -> Tallies:
        """Plain decoding among them; whoever is first turns from prompt to prompt and from repeat to repeat."""
        everybody = [VANILLA, *settings, *((name, 0) for name in self._peers)]
        tallies = {category: {setting: Tally() for setting in everybody} for category in prompts}
        for repeat in range(repeats):
            for category, texts in prompts.items():
                seconds = {setting: [0.0, 0.0] for setting in everybody}
                for number, text in enumerate(texts):
                    turn = (number + repeat) % len(everybody)
                    for setting in everybody[turn:] + everybody[:turn]:
                        tally = tallies[category][setting] if repeat == 0 else None
                        taken = self._once(setting, self._engine.tokenizer.chat(text), tally)
                        seconds[setting] = [a + b for a, b in zip(seconds[setting], taken, strict=True)]
                for setting, (own, whole) in seconds.items():
                    tallies[category][setting].seconds.append(own)
                    tallies[category][setting].whole_seconds.append(whole)
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
        return tallies

    def _once(self, setting: Setting, ids: list[int], tally: Tally | None) -> tuple[float, float]:
        name, length = setting
        if name not in self._peers:
            return run(self._engine, Request(ids, replace(self._params, draft_length=length), name), tally)
        num_tokens, seconds = self._peers[name](ids, self._params.max_new_tokens)
        if tally is not None:
            tally.num_tokens += num_tokens
        return seconds, seconds


def mean_speed_up(tallies: Tallies, setting: Setting) -> float:
    """Geometric mean of the categories' speed-ups."""
    return geometric_mean([kinds[setting].figures(kinds[VANILLA], False)["speed_up"] for kinds in tallies.values()])


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def chosen(tallies: Tallies, names: Sequence[str]) -> list[Setting]:
    """For each drafter the draft length with the largest geometric mean of speed-ups."""
    overall = {setting: mean_speed_up(tallies, setting) for setting in next(iter(tallies.values())) if setting[1]}
    return [max((s for s in overall if s[0] == name), key=overall.get) for name in names]


def best_by_category(tallies: Tallies, settings: Sequence[Setting]) -> dict[str, Setting]:
    """The fastest of the settings, plain decoding among them, in each category."""
    return {
        category: min([VANILLA, *settings], key=lambda setting: statistics.median(kinds[setting].seconds))
        for category, kinds in tallies.items()
    }


def against_others(tallies: Tallies, modes: Mapping[str, Setting], peers: Sequence[str]) -> dict[str, dict]:
    """In each category our mode's tokens per second, from call to return, against the fastest of `peers` there."""
    found = {}
    for category, kinds in tallies.items():
        fastest = max(peers, key=lambda name: kinds[name, 0].whole_rate)
        own = kinds[modes[category]].whole_rate
        found[category] = {"fastest": fastest, "ratio": own / kinds[fastest, 0].whole_rate}
    return found


def digests_of(name: str) -> dict[str, str]:
    """SHA-256 of each file that a drafter reads: whoever sees the record can tell whether it is still this one."""
    return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in _files(name)}


def memory(engine: Engine, name: str) -> dict[str, int]:
    """Bytes that a drafter has beyond the target's: of its file, and of its own caches, as long as the target's."""
    shelf = Shelf(engine.config, engine.tokenizer, engine.model, engine.cache)
    made = make(name, engine.model, engine.cache, shelf)
    return {
        "file": sum(path.stat().st_size for path in _files(name)),
        "caches": sum(cache.num_bytes for cache in made.caches),
    }


def _files(name: str) -> list[Path]:
    return [SHIPPED / f"{file}.safetensors" for file in trained_files(name)]


def main(arguments: list[str]) -> int:
    """`python -m engine.bench drafters`: choose draft lengths, measure, print, and write one JSON."""
    options = _options(arguments)
    engine = Engine(EngineConfig(dtype=options.dtype, prefix_caching=False))
    params = SamplingParams(max_new_tokens=options.num_new, temperature=options.temperature, seed=1)
    every = [(name, length) for name in options.drafters for length in LENGTHS[name]]
    tuned = Race(engine, params).run(every, TUNING, 1)
    for name, length in every:
        speed_up = mean_speed_up(tuned, (name, length))
        print(f"tuning {name:16} K={length}  {speed_up:.3f}", file=sys.stderr, flush=True)
    settings, peers = chosen(tuned, options.drafters), _peers(options)
    tallies = Race(engine, params, peers).run(settings, SUITE, options.repeats)
    found = {f"{name} K={length}": _figures(tallies, (name, length), params.is_greedy) for name, length in settings}
    modes = _modes(tallies, best_by_category(tuned, settings), list(peers))
    _print(found, modes)
    about = {
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "versions": versions(), "model_sha256": engine.model.sha256,
        "dtype": options.dtype, "temperature": options.temperature, "new_tokens": options.num_new,
        "repeats": options.repeats, "drafters": found, "best_modes": modes,
        "memory_bytes": {name: memory(engine, name) for name in options.drafters},
        "weights_sha256": {name: digests for name in options.drafters if (digests := digests_of(name))},
        "others": {
            name: {c: kinds[name, 0].whole_figures(kinds[VANILLA]) for c, kinds in tallies.items()} for name in peers
        },
    }  # fmt: skip
    options.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.out}")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine.bench drafters", description=__doc__.splitlines()[0])
    parser.add_argument("--drafters", nargs="+", default=["ngram", "eagle"], choices=list(LENGTHS))
    parser.add_argument("--repeats", type=at_least(1), default=5)
    parser.add_argument("--num-new", type=at_least(1), default=96)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--others", type=pattern, default=None,
                        help="of transformers and llama.cpp, those whose names hold this take part")  # fmt: skip
    parser.add_argument("--gguf", action="append", default=[], type=existing_file,
                        help="a GGUF file for llama.cpp; may be given again")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "drafters.json")
    return parser.parse_args(arguments)


def _peers(options: argparse.Namespace) -> dict[str, Generate]:
    wanted: re.Pattern[str] | None = options.others
    if wanted is None:
        return {}
    found = others(weights.load("smollm2-135m").folder, options.gguf, options.temperature)
    return {name: one for name, one in found.items() if one is not None and wanted.search(name)}


def _figures(tallies: Tallies, setting: Setting, is_greedy: bool) -> dict[str, object]:
    """The geometric mean, and the figures of each category."""
    by_category = {category: kinds[setting].figures(kinds[VANILLA], is_greedy) for category, kinds in tallies.items()}
    return {"overall": mean_speed_up(tallies, setting), **by_category}


def _modes(tallies: Tallies, modes: Mapping[str, Setting], peers: Sequence[str]) -> dict[str, object]:
    """What the mode chosen for each category on the tuning prompts reaches, against plain decoding and others."""
    ratios = [kinds[modes[c]].figures(kinds[VANILLA], False)["speed_up"] for c, kinds in tallies.items()]
    by_category = {category: f"{name} K={length}" for category, (name, length) in modes.items()}
    found: dict[str, object] = {"overall": geometric_mean(ratios), "by_category": by_category}
    for program in ("transformers", "llama.cpp"):
        names = [name for name in peers if name.startswith(program)]
        if names:
            found[f"against {program}"] = against_others(tallies, modes, names)
    return found


def _print(found: Mapping[str, Mapping[str, object]], modes: Mapping[str, object]) -> None:
    for name, kinds in found.items():
        print(f"\n{name}: {kinds['overall']:.3f} × plain decoding, geometric mean of categories")
        for category, one in kinds.items():
            if category != "overall":
                cost = one["draft_round_cost"]
                drafts = "nothing drafted" if cost is None else f"drafting {cost:.3f} steps a round"
                said = f"{one['speed_up']:.3f} ×   τ {one['tau']:.2f}   {drafts}   identical: {one['is_identical']}"
                print(f"  {category:12} {said}")
    print(f"\nbest mode of each category: {modes['overall']:.3f} × plain decoding")
    for what, kinds in modes.items():
        if what != "overall":
            print(f"  {what}: " + "  ".join(f"{category} {value}" for category, value in kinds.items()))
