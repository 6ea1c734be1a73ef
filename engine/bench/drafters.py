"""Every drafter on eight categories of prompts, against plain decoding: speed-up, τ, acceptance, cost, identity.

Knows nothing of how drafts are made. Draft lengths are chosen on prompts of their own (TUNING); in a measurement all
take turns, prompt by prompt. Times are those of the request's own clock: schedule, draft, pass, acceptance, blocks.
Definitions are the field's: τ = tokens per pass of the target after the prompt's, the resampled or bonus one included.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from engine import Engine, EngineConfig, Request, SamplingParams
from engine.bench.peers import versions
from engine.bench.suite import SUITE, TUNING
from engine.commands import at_least
from engine.events import Drafted, RoundFinished, Sampled, Verified
from engine.report import cpu_name

LENGTHS = {  # to choose from; of a tree it is the depth, its size is its own affair
    "ngram": (3, 5, 8), "suffix": (3, 5, 7), "ngram_table": (3, 5, 7), "layer_skip": (2, 4), "draft_lm": (1, 2, 3),
    "medusa": (2, 4), "eagle": (1, 2, 3, 4), "eagle2": (2, 4, 6), "eagle3": (2, 4, 6), "eagle_unshifted": (1, 2),
    "lookahead": (3,), "jacobi": (2, 4), "magicdec": (4,), "triforce": (8,),
}  # fmt: skip
VANILLA = ("none", 0)
POSITIONS = 8
Setting = tuple[str, int]  # drafter, draft length
Prompts = Mapping[str, Sequence[str]]  # by category


@dataclass(slots=True)
class Tally:
    """What one setting did on one category: seconds by repeat, and of one repeat what became of the drafts."""

    seconds: list[float] = field(default_factory=list)
    num_tokens: int = 0
    num_rounds: int = 0  # passes of the target after the prompts'
    num_round_tokens: int = 0
    seconds_draft: float = 0.0
    num_drafted: int = 0
    num_accepted: int = 0
    asked: list[int] = field(default_factory=lambda: [0] * POSITIONS)  # drafts looked at, by position
    right: list[int] = field(default_factory=lambda: [0] * POSITIONS)
    texts: list[tuple[int, ...]] = field(default_factory=list)

    def figures(self, plain: "Tally", is_greedy: bool) -> dict[str, object]:
        """Against plain decoding of the same prompts in the same repeats."""
        pairs = zip(self.seconds, plain.seconds, strict=True)
        rates = [self.num_tokens / one / (plain.num_tokens / other) for one, other in pairs]
        step = statistics.median(plain.seconds) / max(1, plain.num_tokens)
        return {
            "speed_up": statistics.median(rates), "lowest": min(rates), "highest": max(rates),
            "tokens_per_second": self.num_tokens / statistics.median(self.seconds),
            "tau": self.num_round_tokens / max(1, self.num_rounds),
            "draft_acceptance_rate": self.num_accepted / self.num_drafted if self.num_drafted else None,
            "acceptance_by_position": [r / a for r, a in zip(self.right, self.asked, strict=True) if a],
            "draft_cost": self.seconds_draft / self.num_drafted / step if self.num_drafted else 0.0,
            "is_identical": self.texts == plain.texts if is_greedy else None,
        }  # fmt: skip


def run(engine: Engine, request: Request, tally: Tally | None) -> float:
    """One prompt once; returns the seconds of its own clock. A tally, if given, hears of its tokens and drafts."""
    clock, tokens = 0.0, []
    for event in engine.run([request]):
        if isinstance(event, RoundFinished):
            clock = event.request_clock
        if isinstance(event, Sampled):
            tokens.append(event.token_id)
        if tally is not None:
            count(event, tally)
    if tally is not None:
        tally.num_tokens += len(tokens)
        tally.texts.append(tuple(tokens))
    return clock


def count(event: object, tally: Tally) -> None:
    """Adds one event to what became of the drafts."""
    if isinstance(event, RoundFinished) and event.round > 0:
        tally.num_rounds += 1
        tally.seconds_draft += event.seconds_draft
    elif isinstance(event, Sampled) and event.round > 0:
        tally.num_round_tokens += 1
    elif isinstance(event, Drafted):
        tally.num_drafted += len(event.token_ids)
    elif isinstance(event, Verified):
        tally.num_accepted += event.num_accepted
        for position, verdict in enumerate(event.verdicts[:POSITIONS]):
            tally.asked[position] += verdict != "unreached"
            tally.right[position] += verdict == "accepted"


def measure(
    engine: Engine, settings: Sequence[Setting], prompts: Prompts, params: SamplingParams, repeats: int
) -> dict[str, dict[Setting, Tally]]:
    """Tallies by category and setting, plain decoding among them; whoever is first turns from prompt to prompt."""
    everybody = [VANILLA, *settings]
    tallies = {category: {setting: Tally() for setting in everybody} for category in prompts}
    for repeat in range(repeats):
        for category, texts in prompts.items():
            seconds = dict.fromkeys(everybody, 0.0)
            for number, text in enumerate(texts):
                ids, turn = engine.tokenizer.chat(text), (number + repeat) % len(everybody)
                for name, length in everybody[turn:] + everybody[:turn]:
                    request = Request(ids, replace(params, draft_length=length), name)
                    tally = tallies[category][name, length] if repeat == 0 else None
                    seconds[name, length] += run(engine, request, tally)
            for setting, total in seconds.items():
                tallies[category][setting].seconds.append(total)
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return tallies


def chosen_lengths(engine: Engine, names: Sequence[str], params: SamplingParams) -> list[Setting]:
    """For each drafter the draft length with the largest geometric mean of speed-ups over the tuning prompts."""
    settings = [(name, length) for name in names for length in LENGTHS[name]]
    tallies = measure(engine, settings, TUNING, params, 1)
    overall = {setting: mean_speed_up(tallies, setting) for setting in settings}
    for setting, value in overall.items():
        print(f"tuning {setting[0]:12} K={setting[1]}  {value:.3f}", file=sys.stderr, flush=True)
    return [max((s for s in settings if s[0] == name), key=overall.get) for name in names]


def mean_speed_up(tallies: Mapping[str, Mapping[Setting, Tally]], setting: Setting) -> float:
    """Geometric mean of the categories' speed-ups."""
    ratios = [kinds[setting].figures(kinds[VANILLA], False)["speed_up"] for kinds in tallies.values()]
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main(arguments: list[str]) -> int:
    """`python -m engine.bench drafters`: choose draft lengths, measure, print, and write one JSON."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench drafters", description=__doc__.splitlines()[0])
    parser.add_argument("--drafters", nargs="+", default=["ngram", "eagle"], choices=list(LENGTHS))
    parser.add_argument("--repeats", type=at_least(1), default=5)
    parser.add_argument("--num-new", type=at_least(1), default=96)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "drafters.json")
    options = parser.parse_args(arguments)
    engine = Engine(EngineConfig(dtype=options.dtype, prefix_caching=False))
    params = SamplingParams(max_new_tokens=options.num_new, temperature=options.temperature, seed=1)
    settings = chosen_lengths(engine, options.drafters, params)
    tallies = measure(engine, settings, SUITE, params, options.repeats)
    found = {
        f"{name} K={length}": {
            "overall": mean_speed_up(tallies, (name, length)),
            **{
                category: kinds[name, length].figures(kinds[VANILLA], options.temperature == 0)
                for category, kinds in tallies.items()
            },
        }
        for name, length in settings
    }
    for name, kinds in found.items():
        print(f"\n{name}: {kinds['overall']:.3f} × plain decoding, geometric mean of categories")
        for category in SUITE:
            one = kinds[category]
            print(f"  {category:12} {one['speed_up']:.3f} ×   τ {one['tau']:.2f}   identical: {one['is_identical']}")
    about = {
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "versions": versions(), "model_sha256": engine.model.sha256,
        "dtype": options.dtype, "temperature": options.temperature, "new_tokens": options.num_new,
        "repeats": options.repeats, "drafters": found,
    }  # fmt: skip
    options.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.out}")
    return 0
