"""Which layers can be left out of a draft: searched greedily, then measured (Draft & Verify: Zhang et al., ACL 2024).

Knows nothing of how a draft is made. The search scores a set of layers by how often it says what all layers say, on
answers to the tuning prompts read in one pass each, and by what it saves; the winners are then raced on those prompts
against plain decoding, because only a measured speed counts.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine import Engine, EngineConfig, SamplingParams
from engine.batch import Batch, Part
from engine.bench.drafters import VANILLA, Race, mean_speed_up
from engine.bench.peers import versions
from engine.bench.suite import TUNING
from engine.cache import KVCache
from engine.commands import at_least
from engine.drafters.worth import time_of_pass
from engine.report import cpu_name

LENGTHS = (1, 2, 4)
BLOCK = 16


@dataclass(frozen=True, slots=True)
class Found:
    """One step of the search: what is left out, how often the rest agrees with all layers, and what it promises."""

    skipped: tuple[int, ...]
    agreement: float
    promised: float  # speed-up over plain decoding by the formula, at the best draft length


class Reader:
    """Reads texts with some layers; row i is right where its favourite is that of all layers."""

    def __init__(self, engine: Engine, texts: Sequence[Sequence[int]], num_prompts: Sequence[int]) -> None:
        """texts: prompt and answer each; of these only the answers' tokens are judged."""
        self._model, self._texts, self._num_prompts = engine.model, texts, num_prompts
        longest = max(map(len, texts))
        self._table = range(-(-longest // BLOCK))
        self._cache = KVCache(engine.model.config, len(self._table), BLOCK, "float32", engine.model.device)
        self._wanted = self._favourites(None)

    def agreement(self, layers: Sequence[int]) -> float:
        """Share of the answers' tokens where `layers` alone say the same."""
        return float((self._favourites(layers) == self._wanted).float().mean())

    def _favourites(self, layers: Sequence[int] | None) -> torch.Tensor:
        found = []
        for text, num_prompt in zip(self._texts, self._num_prompts, strict=True):
            part = Part("prompt", text, self._table, 0, num_logits=len(text) - num_prompt)
            found.append(self._model.forward(Batch.join([part]), self._cache, layers).argmax(-1))
        return torch.cat(found)


def promise(agreement: float, cost: float) -> float:
    """The best speed-up over draft lengths: (1 − α^(K+1)) / (1 − α) tokens for K drafts and a pass over K + 1 rows.

    cost: of a draft step, in plain steps. Leviathan et al., ICML 2023, theorem 3.8, with the measured t(n).
    """
    alpha = min(agreement, 0.999)
    return max((1 - alpha ** (k + 1)) / (1 - alpha) / (k * cost + time_of_pass(k + 1)) for k in range(1, 9))


def search(reader: Reader, num_layers: int, most: int, fixed_cost: float) -> Iterator[Found]:
    """Leaves out one layer more in each step, the one whose loss promises most; yields every step's best.

    fixed_cost: what of a step no layer is saved from (embedding, output head), as a share.
    """
    skipped: tuple[int, ...] = ()
    for _ in range(most):
        tried = []
        for layer in set(range(num_layers)) - set(skipped):
            layers = [index for index in range(num_layers) if index != layer and index not in skipped]
            agreement = reader.agreement(layers)
            cost = fixed_cost + (1 - fixed_cost) * len(layers) / num_layers
            tried.append(Found(tuple(sorted((*skipped, layer))), agreement, promise(agreement, cost)))
        best = max(tried, key=lambda found: (found.promised, found.skipped))
        skipped = best.skipped
        yield best


def head_share(engine: Engine) -> float:
    """The output head's share of the bytes that a step reads."""
    head = engine.model.head.data.nbytes
    tied = 0 if engine.model.head is not engine.model.embedding else head
    return head / (engine.model.num_bytes - (engine.model.embedding.data.nbytes - tied))


def answers(engine: Engine, num_new: int) -> tuple[list[list[int]], list[int]]:
    """Greedy answers to the tuning prompts: (prompt and answer, length of the prompt)."""
    prompts = [engine.tokenizer.chat(text) for texts in TUNING.values() for text in texts]
    params = SamplingParams(max_new_tokens=num_new, draft_length=0)
    return [prompt + list(engine.generate(prompt, params).token_ids) for prompt in prompts], list(map(len, prompts))


def main(arguments: list[str]) -> int:
    """`python -m engine.bench layers`: search, race the best sets, print, and write one JSON."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench layers", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--most", type=at_least(1), default=12, help="layers to leave out at most")
    parser.add_argument("--raced", type=at_least(1), default=3, help="sets that are raced")
    parser.add_argument("--num-new", type=at_least(2), default=48)
    parser.add_argument("--repeats", type=at_least(1), default=3)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "layers.json")
    options = parser.parse_args(arguments)
    engine = Engine(EngineConfig(model=options.model, dtype=options.dtype, prefix_caching=False))
    num_layers = engine.model.config.num_layers
    reader, steps = Reader(engine, *answers(engine, options.num_new)), []
    for found in search(reader, num_layers, min(options.most, num_layers - 1), head_share(engine)):
        steps.append(found)
        without = ",".join(map(str, found.skipped))
        print(f"without {without}: agrees {found.agreement:.1%}, promises {found.promised:.3f} ×", file=sys.stderr)
    best = sorted(steps, key=lambda found: -found.promised)[: options.raced]
    names = ["layer_skip:" + ",".join(map(str, found.skipped)) for found in best]
    settings = [(name, length) for name in names for length in LENGTHS]
    race = Race(engine, SamplingParams(max_new_tokens=options.num_new))
    tallies = race.run(settings, TUNING, options.repeats)
    raced = {f"{name} K={length}": mean_speed_up(tallies, (name, length)) for name, length in settings}
    for name, speed_up in sorted(raced.items(), key=lambda pair: -pair[1]):
        print(f"{speed_up:.3f} × plain decoding  {name}")
    are_same = all(kinds[s].texts == kinds[VANILLA].texts for kinds in tallies.values() for s in settings)
    about = {
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "versions": versions(), "model_sha256": engine.model.sha256,
        "dtype": options.dtype, "new_tokens": options.num_new, "repeats": options.repeats, "is_identical": are_same,
        "search": [{"skipped": f.skipped, "agreement": f.agreement, "promised": f.promised} for f in steps],
        "speed_up": raced,
    }  # fmt: skip
    options.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.out}")
    return 0
