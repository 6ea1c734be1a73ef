"""`python -m engine.train eagle` and its kin: trains a head on the answers, examines it, and writes file and card.

Knows nothing of what happens inside a head or the loop.
"""

import argparse
import hashlib
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine import weights
from engine.head import SHIPPED, HeadShape
from engine.model import Model
from engine.train import answers as store
from engine.train.answers import Answers, is_held_out
from engine.train.data import ANSWERS
from engine.train.eagle import Aims, EagleHead
from engine.train.features import Lesson, folder, read_all, tapped
from engine.train.loop import Plan, examine, mean_accepted_length, train
from kernels import linear

NUM_DRAFT_IDS = 8192
POSITIONS = 5  # of a chain, in the examination


@dataclass(frozen=True, slots=True)
class Recipe:
    """What makes one kind of head. `low_to_high`: it reads three layers and not the last alone."""

    aims: Aims
    plan: Plan
    low_to_high: bool = False
    inner: int = 1536


RECIPES = {
    "eagle": Recipe(Aims(), Plan(passes=6.0)),
    "eagle_unshifted": Recipe(Aims(is_shifted=False), Plan(passes=6.0)),
    "eagle3": Recipe(Aims(steps=3, feature_weight=0.0, law_weight=1.0), Plan(passes=4.0), low_to_high=True, inner=1280),
}


def main(kind: str, arguments: list[str]) -> int:
    """Train one kind of head; an interrupted training goes on where it was."""
    parser = argparse.ArgumentParser(prog=f"python -m engine.train {kind}", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--answers", type=Path, default=ANSWERS)
    parser.add_argument("--passes", type=float, default=RECIPES[kind].plan.passes, help="over all answers")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args(arguments)
    recipe = RECIPES[kind]
    plan = Plan(**{**asdict(recipe.plan), "passes": options.passes})
    answers = store.load(options.answers)
    model = Model(weights.load(options.model), "float16")
    if model.sha256 != answers.sha256:
        print(f"These answers are of other weights ({answers.sha256[:12]}) than {options.model}.")
        return 2
    lessons = read_all(answers, model)
    learned = [lesson for index, lesson in enumerate(lessons) if not is_held_out(index)]
    kept = [lesson for index, lesson in enumerate(lessons) if is_held_out(index)]
    torch.manual_seed(plan.seed)
    pupil = new_head(recipe, model, learned)
    done = train(pupil, learned, plan, folder(answers) / f"{kind}.pt")
    by_temperature = _examined(pupil, kept, answers)
    save(kind, pupil, model.sha256, options.out)
    card = {
        "kind": kind, "target": options.model, "target_sha256": model.sha256,
        "answers": len(answers), "answer_tokens": answers.num_answer_tokens, "held_out_answers": len(kept),
        "plan": asdict(plan), "aims": asdict(recipe.aims), **done,
        "held_out": by_temperature, "draft_vocabulary": NUM_DRAFT_IDS,
        "file_sha256": hashlib.sha256((options.out / f"{kind}.safetensors").read_bytes()).hexdigest(),
        "machine": _machine(), "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    (options.out / f"{kind}.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(by_temperature))
    return 0


def new_head(recipe: Recipe, model: Model, learned: Sequence[Lesson]) -> EagleHead:
    """A head that knows nothing yet, beside its target."""
    config = model.config
    layers = tapped(config.num_layers)
    shape = HeadShape(
        config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim, recipe.inner,
        config.rms_norm_eps, config.rope_theta, layers[:3] if recipe.low_to_high else layers[3:],
    )  # fmt: skip
    ids = draft_vocabulary(learned, config.vocab_size, NUM_DRAFT_IDS)
    embedding, head = linear.unpack(model.embedding), linear.unpack(model.head)[ids]
    return EagleHead(shape, recipe.aims, embedding, head, ids, model.norm.float())


def draft_vocabulary(learned: Sequence[Lesson], vocab: int, size: int) -> torch.Tensor:
    """The ids that answers need most: how often they came and how probable they were, (size,) int64, sorted."""
    mass = torch.zeros(vocab)
    for lesson in learned:
        mass.index_add_(0, lesson.top_ids.flatten().long(), lesson.top_probs.flatten().float())
        mass += torch.bincount(lesson.token_ids[lesson.num_prompt :], minlength=vocab)
    return mass.topk(min(size, vocab)).indices.sort().values


def save(kind: str, pupil: EagleHead, target: str, into: Path) -> None:
    """Writes the head as `engine.head` reads it, in fp16."""
    into.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().half().contiguous() for name, value in pupil.named_parameters()}
    tensors["draft_ids"] = pupil.draft_ids.int()
    about = {"kind": kind, "target": target, "shape": asdict(pupil.shape)}
    building = into / f".{kind}.building"
    save_file(tensors, building, {"head": json.dumps(about)})
    building.replace(into / f"{kind}.safetensors")


def _examined(pupil: EagleHead, kept: Sequence[Lesson], answers: Answers) -> dict[str, dict]:
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


def _machine() -> str:
    return f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
