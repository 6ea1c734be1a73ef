"""Long texts: plain decoding against magicdec and triforce, what their passes read, and from where on they would pay.

Knows nothing of how drafts are made. The text is our own prose, repeated until it is long enough, so acceptance is that
of a text that repeats itself. Only steps are timed in which all sequences of a batch decode. The cost model at the end
(`engine.bench.pass_costs`) is theory, fitted to passes that were timed in the same run.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from engine import Engine, EngineConfig, Request, SamplingParams
from engine.accounting import blocks_needed, kv_bytes_per_token, sparse_tokens
from engine.bench.pass_costs import Costs, fitted, shapes, time_passes
from engine.bench.peers import versions
from engine.bench.suite import SUITE
from engine.commands import at_least
from engine.drafters.sparse import SINKS, WINDOW
from engine.events import Drafted, Event, Forwarded, RoundFinished, Sampled, Verified
from engine.report import cpu_name

PLAIN = "none"
DRAFTERS = ("magicdec", "triforce")
KEPT = (64, 128, 256, 512, 1024)  # windows for which acceptance is measured


# ---- texts ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """Sums over the steps of one run in which all its sequences decoded."""

    seconds: float = 0.0
    seconds_draft: float = 0.0
    num_tokens: int = 0
    num_rounds: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    texts: dict[int, list[int]] = field(default_factory=dict)  # whole texts, by sequence

    @property
    def tau(self) -> float:
        """Tokens per sequence and pass of the target."""
        return self.num_tokens / max(1, self.num_rounds)

    @property
    def acceptance(self) -> float | None:
        """Accepted drafts of all drafts."""
        return self.num_accepted / self.num_drafted if self.num_drafted else None


def prompts(engine: Engine, num_tokens: int, number: int) -> list[list[int]]:
    """`number` texts of `num_tokens` tokens: the suite's prompts one after the other, each text beginning elsewhere."""
    passages = [text for texts in SUITE.values() for text in texts]
    found = []
    for index in range(number):
        start = index * len(passages) // number
        ids = engine.tokenizer.encode("\n\n".join(passages[start:] + passages[:start]) + "\n\n")
        found.append((ids * -(-num_tokens // len(ids)))[:num_tokens])
    return found


def run(engine: Engine, drafter: str, texts: Sequence[Sequence[int]], params: SamplingParams) -> Tally:
    """All texts at once; their prompts are in the prefix cache already but for the last block."""
    requests = [Request(ids, params, drafter, id=f"{index}") for index, ids in enumerate(texts)]
    tally, before = Tally(texts={index: [] for index in range(len(texts))}), 0.0
    for _, events in itertools.groupby(engine.run(requests), lambda event: event.step):
        step = list(events)
        clock = step[-1].clock
        for event in step:
            if isinstance(event, Sampled):
                tally.texts[int(event.request_id)].append(event.token_id)
        passes = [event for event in step if isinstance(event, Forwarded)]
        if passes and passes[0].num_prompt_rows == 0 and len(passes[0].request_ids) == len(texts):
            tally.seconds += clock - before
            _count(step, tally)
        before = clock
    return tally


def _count(step: Sequence[Event], tally: Tally) -> None:
    for event in step:
        if isinstance(event, Sampled):
            tally.num_tokens += 1
        elif isinstance(event, RoundFinished):
            tally.num_rounds += 1
            tally.seconds_draft += event.seconds_draft
        elif isinstance(event, Drafted):
            tally.num_drafted += len(event.token_ids)
        elif isinstance(event, Verified):
            tally.num_accepted += event.num_accepted


def race(engine: Engine, texts: list[list[int]], params: SamplingParams, repeats: int) -> list[dict[str, object]]:
    """Plain decoding and the drafters in turn, one record each: medians, and ratios of the same repeat."""
    warm = SamplingParams(max_new_tokens=1, ignore_eos=True)
    for ids in texts:  # prefills, one text after the other
        engine.generate(ids, warm)
    names, tallies = [PLAIN, *DRAFTERS], {name: [] for name in (PLAIN, *DRAFTERS)}
    for repeat in range(repeats):
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            tallies[name].append(run(engine, name, texts, params))
    return [_record(engine, name, tallies[name], tallies[PLAIN], texts, params) for name in names]


def _record(
    engine: Engine, name: str, mine: list[Tally], plain: list[Tally], texts: list[list[int]], params: SamplingParams
) -> dict[str, object]:
    first, context, batch = mine[0], len(texts[0]), len(texts)
    rates = [  # of seconds per token
        (other.seconds / other.num_tokens) / (one.seconds / one.num_tokens)
        for one, other in zip(mine, plain, strict=True)
    ]
    return {
        "context": context, "batch": batch, "drafter": name,
        "draft_length": 0 if name == PLAIN else params.draft_length,
        "seconds_per_token": statistics.median(one.seconds / one.num_tokens for one in mine),
        "speed_up": statistics.median(rates), "lowest": min(rates), "highest": max(rates),
        "tau": first.tau, "acceptance": first.acceptance,
        "seconds_per_draft": statistics.median(one.seconds_draft / one.num_drafted for one in mine)
        if first.num_drafted else None,
        "is_identical": first.texts == plain[0].texts,
        **reads(engine, context, batch),
    }  # fmt: skip


def reads(engine: Engine, context: int, batch: int) -> dict[str, float]:
    """Bytes that a draft step (one sequence, sparse) and a pass of the target (all of them, whole) read, by formula."""
    tokens = sparse_tokens(context, SINKS, WINDOW, engine.config.block_size)
    one = bytes_per_token(engine)
    verify = one * context * batch
    return {"weight_bytes": engine.model.num_bytes, "draft_kv_bytes": one * tokens, "verify_kv_bytes": verify}


def bytes_per_token(engine: Engine) -> float:
    """Keys and values of one token in the engine's cache."""
    config, element = engine.model.config, engine.cache.keys[0].element_size()
    return kv_bytes_per_token(config.num_layers, config.num_kv_heads, config.head_dim, element)


def kept_tokens(engine: Engine, ids: list[int], params: SamplingParams, kept: Sequence[int]) -> list[dict[str, object]]:
    """Acceptance against the tokens that stay in view."""
    records = []
    for name, window in itertools.product(DRAFTERS, kept):
        tally = run(engine, f"{name}:{window}", [ids], params)
        records.append({"drafter": name, "window": window, "acceptance": tally.acceptance, "tau": tally.tau})
    return records


# ---- theory ---------------------------------------------------------------------------------------------------------


def theory(engine: Engine, races: list[dict], costs: Costs, options: argparse.Namespace) -> list[dict[str, object]]:
    """From which context on magicdec wins, with the τ of the longest one: drafts one by one (as here), or together."""
    longest, records = max(options.contexts), []
    tokens = sparse_tokens(longest, SINKS, WINDOW, engine.config.block_size)
    for batch, together in sorted({(one, number) for one in options.batches for number in (1, one)}):
        found = (one for one in races if (one["context"], one["batch"]) == (longest, batch))
        tau = next(one["tau"] for one in found if one["drafter"] == "magicdec")
        context = costs.pays_from(batch, options.draft_length, tau, tokens, together)
        context = None if math.isinf(context) else context
        is_here = context is not None and context <= engine.model.config.context_length
        records.append({"batch": batch, "drafts_together": together, "tau": tau, "pays_from": context,
                        "is_within_the_models_context": is_here})  # fmt: skip
    return records


# ---- the command ----------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """`python -m engine.bench long_context`: race, time passes, fit, print, and write one JSON."""
    options = _options(arguments)
    longest = max(options.contexts) + options.num_new + options.draft_length + 1
    num_blocks = max(options.batches) * blocks_needed(longest, 16) + 16
    engine = Engine(EngineConfig(options.model, options.dtype, num_blocks=num_blocks))
    params = SamplingParams(options.num_new, draft_length=options.draft_length, ignore_eos=True)
    races = []
    for context, batch in itertools.product(options.contexts, options.batches):
        races += race(engine, prompts(engine, context, batch), params, options.repeats)
        print(f"context {context}, batch {batch}: done", file=sys.stderr, flush=True)
    kept = kept_tokens(engine, prompts(engine, max(options.contexts), 1)[0], params, options.kept)
    wanted = list(shapes(options.contexts, options.batches, options.draft_length, engine.config.block_size))
    seconds = time_passes(engine, wanted, options.repeats)
    costs = fitted(wanted, seconds, engine.model.num_bytes, bytes_per_token(engine))
    passes = [asdict(shape) | {"seconds": taken, "by_the_fit": costs.seconds(shape)}
              for shape, taken in zip(wanted, seconds, strict=True)]  # fmt: skip
    found = {"races": races, "kept_tokens": kept, "passes": passes, "theory": {"badge": "theory", **asdict(costs),
             "pays_from": theory(engine, races, costs, options)}}  # fmt: skip
    show(found)
    about = {
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "versions": versions(), "model_sha256": engine.model.sha256,
        "dtype": options.dtype, "temperature": 0.0, "new_tokens": options.num_new, "repeats": options.repeats,
        "window": WINDOW, "sinks": SINKS, "block_size": engine.config.block_size, **found,
    }  # fmt: skip
    options.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.out}")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine.bench long_context", description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=at_least(1), nargs="+", default=[1000, 2000, 4000, 7500])
    parser.add_argument("--batches", type=at_least(1), nargs="+", default=[1, 4])
    parser.add_argument("--kept", type=at_least(1), nargs="*", default=list(KEPT), help="windows, for acceptance alone")
    parser.add_argument("--repeats", type=at_least(1), default=3)
    parser.add_argument("--num-new", type=at_least(2), default=48)
    parser.add_argument("--draft-length", type=at_least(1), default=4)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "long_context.json")
    return parser.parse_args(arguments)


def show(found: dict[str, list | dict]) -> None:
    """The tables, for reading."""
    print(
        "context batch drafter    ms/token  speed-up (from … to)    τ    accepted  ms/draft  MB draft  MB verify  same"
    )
    for one in found["races"]:
        rate = f"{one['speed_up']:5.2f} ({one['lowest']:.2f} … {one['highest']:.2f})"
        accepted = "-" if one["acceptance"] is None else f"{one['acceptance']:.2f}"
        draft = "-" if one["seconds_per_draft"] is None else f"{1e3 * one['seconds_per_draft']:.1f}"
        weights = one["weight_bytes"]
        megabytes = f"{(weights + one['draft_kv_bytes']) / 1e6:8.0f} {(weights + one['verify_kv_bytes']) / 1e6:10.0f}"
        print(f"{one['context']:7} {one['batch']:5} {one['drafter']:9} {1e3 * one['seconds_per_token']:9.1f}  {rate:20}"
              f"{one['tau']:6.2f} {accepted:>9} {draft:>9} {megabytes}  {one['is_identical']}")  # fmt: skip
    for one in found["kept_tokens"]:
        accepted = "nothing drafted" if one["acceptance"] is None else f"{one['acceptance']:.2f} accepted"
        print(f"{one['drafter']} with {one['window']} tokens kept: {accepted}, τ {one['tau']:.2f}")
    print("theory, fitted to passes of this run:")
    for one in found["theory"]["pays_from"]:
        text = "never pays" if one["pays_from"] is None else f"pays from {one['pays_from']:.0f} tokens on"
        where = "" if one["is_within_the_models_context"] else " (not within this model's context)"
        print(f"  batch {one['batch']}, drafts of {one['drafts_together']} together: magicdec {text}{where}")
