"""`python -m engine.train eagle` and its kin: trains a drafter on the answers, examines it, writes file and card.

Knows nothing of what happens inside a drafter or the loop.
"""

import argparse
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine import weights
from engine.draft_lm import LmShape
from engine.head import SHIPPED, HeadShape
from engine.medusa import MedusaShape
from engine.model import Model
from engine.train import answers as store
from engine.train.answers import Answers, is_held_out
from engine.train.data import ANSWERS
from engine.train.draft_lm import TinyLm
from engine.train.eagle import Aims, EagleHead
from engine.train.features import Lesson, folder, read_all, tapped
from engine.train.loop import Plan, Pupil, examine, is_bf16_fast, mean_accepted_length, train
from engine.train.medusa import MedusaHeads
from engine.train.words import Words
from kernels import linear

NUM_DRAFT_IDS = 8192
POSITIONS = 5  # of a chain, in the examination


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kind is trained. new: makes a pupil that knows nothing yet, beside its target and its words."""

    plan: Plan
    new: Callable[[Model, Words], Pupil]
    about: dict[str, object]  # for the card


def eagle(plan: Plan, aims: Aims, low_to_high: bool = False, inner: int = 1536) -> Recipe:
    """An EAGLE head. low_to_high: it reads three layers and not the last alone."""

    def new(model: Model, words: Words) -> EagleHead:
        config, layers = model.config, tapped(model.config.num_layers)
        shape = HeadShape(
            config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim, inner,
            config.rms_norm_eps, config.rope_theta, layers[:3] if low_to_high else layers[3:], aims.is_shifted,
        )  # fmt: skip
        return EagleHead(shape, aims, linear.unpack(model.embedding), words, model.norm.float())

    return Recipe(plan, new, {"aims": asdict(aims)})


def medusa(plan: Plan, ahead: int = 4) -> Recipe:
    """Medusa heads."""

    def new(model: Model, words: Words) -> MedusaHeads:
        config = model.config
        shape = MedusaShape(config.hidden_size, ahead, config.rms_norm_eps, tapped(config.num_layers)[3:])
        return MedusaHeads(shape, words, model.norm.float())

    return Recipe(plan, new, {"ahead": ahead})


def draft_lm(plan: Plan, layers: int = 4, heads: int = 5, inner: int = 768) -> Recipe:
    """A tiny language model."""

    def new(model: Model, words: Words) -> TinyLm:
        config = model.config
        sizes = (heads * config.head_dim, config.hidden_size, layers, heads, heads, config.head_dim, inner)
        shape = LmShape(*sizes, config.rms_norm_eps, config.rope_theta)
        return TinyLm(shape, linear.unpack(model.embedding), words, model.norm.float())

    return Recipe(plan, new, {})


RECIPES = {
    "eagle": eagle(Plan(), Aims()),
    "eagle_unshifted": eagle(Plan(), Aims(is_shifted=False)),
    "eagle3": eagle(Plan(), Aims(steps=2, feature_weight=0.0, law_weight=1.0), True, 1280),
    "medusa": medusa(Plan(passes=2.0)),
    "draft_lm": draft_lm(Plan()),
}


def main(kind: str, arguments: list[str]) -> int:
    """Train one kind of drafter; an interrupted training goes on where it was."""
    parser = argparse.ArgumentParser(prog=f"python -m engine.train {kind}", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--answers", type=Path, default=ANSWERS)
    parser.add_argument("--passes", type=passes, default=RECIPES[kind].plan.passes, help="over all answers")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    os.putenv("THP_MEM_ALLOC_ENABLE", "1")  # huge pages: clearing small ones took half of the time
    recipe = RECIPES[kind]
    plan = Plan(**{**asdict(recipe.plan), "passes": options.passes})
    answers = store.load(options.answers)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model(weights.load(options.model), "float16", device)
    if model.sha256 != answers.sha256:
        print(f"These answers are of other weights ({answers.sha256[:12]}) than {options.model}.")
        return 2
    lessons = read_all(answers, model)
    learned = [lesson for index, lesson in enumerate(lessons) if not is_held_out(index)]
    kept = [lesson for index, lesson in enumerate(lessons) if is_held_out(index)]
    torch.manual_seed(plan.seed)
    ids = draft_vocabulary(learned, model.config.vocab_size, NUM_DRAFT_IDS)
    words = Words(model.config.vocab_size, ids, linear.unpack(model.head)[ids.to(device)].float())
    pupil = recipe.new(model, words).to(device)
    about = hashlib.sha256(json.dumps([recipe.about, asdict(pupil.shape)]).encode()).hexdigest()[:8]
    done = train(pupil, learned, plan, folder(answers) / f"{kind}-{about}.pt")
    by_temperature = _examined(pupil, kept, answers)
    save(kind, pupil, model.sha256, options.out)
    card = {
        "kind": kind, "target": options.model, "target_sha256": model.sha256,
        "answers": len(answers), "answer_tokens": answers.num_answer_tokens, "held_out_answers": len(kept),
        "plan": asdict(plan), **recipe.about, **done,
        "held_out": by_temperature, "draft_vocabulary": NUM_DRAFT_IDS,
        "file_sha256": hashlib.sha256((options.out / f"{kind}.safetensors").read_bytes()).hexdigest(),
        "machine": _machine(model.device), "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    (options.out / f"{kind}.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(by_temperature))
    return 0


def passes(text: str) -> float:
    """How often to go over all answers: above 0, at most 1000."""
    value = float(text)
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} passes: it must be above 0 and at most 1000")
    return value


def draft_vocabulary(learned: Sequence[Lesson], vocab: int, size: int) -> torch.Tensor:
    """The ids that answers need most: how often they came and how probable they were, (size,) int64, sorted."""
    mass = torch.zeros(vocab)
    for lesson in learned:
        mass.index_add_(0, lesson.top_ids.flatten().long(), lesson.top_probs.flatten().float())
        mass += torch.bincount(lesson.token_ids[lesson.num_prompt :], minlength=vocab)
    return mass.topk(min(size, vocab)).indices.sort().values


def save(kind: str, pupil: Pupil, target: str, into: Path) -> None:
    """Writes what was learned as `engine.head.read` reads it, in fp16."""
    into.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().half().cpu().contiguous() for name, value in pupil.named_parameters()}
    tensors["draft_ids"] = pupil.words.draft_ids.int().cpu()
    about = {"kind": kind, "target": target, "shape": asdict(pupil.shape)}
    building = into / f".{kind}.building"
    save_file(tensors, building, {"head": json.dumps(about)})
    building.replace(into / f"{kind}.safetensors")


def _examined(pupil: Pupil, kept: Sequence[Lesson], answers: Answers) -> dict[str, dict]:
    """Acceptance by position and τ of greedy chains on held-out answers, the greedy and the sampled ones apart."""
    temperatures = [float(answers.temperature[index]) for index in range(len(answers)) if is_held_out(index)]
    found = {}
    for temperature in sorted(set(temperatures)):
        chosen = [lesson for lesson, used in zip(kept, temperatures, strict=True) if used == temperature]
        acceptance = examine(pupil, chosen, POSITIONS)
        found[f"{temperature:.1f}"] = {
            "acceptance": [round(share, 4) for share in acceptance],
            "tau": {str(k): round(mean_accepted_length(acceptance[:k]), 3) for k in range(1, POSITIONS + 1)},
        }
    return found


def _machine(device: torch.device) -> str:
    products = "bf16" if is_bf16_fast(device) else "fp32"
    place = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    return f"{platform.machine()}, {place}, {products} products, torch {torch.__version__}"
