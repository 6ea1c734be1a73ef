"""What the target says about every token of the answers: hidden states and its likeliest next tokens, in shards.

Knows nothing of drafters. Shards lie outside the repository, and one that is there is not computed again: a killed run
goes on where it was. Sequence i is position i of its shard's list.
"""

import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.features import FeatureCache
from engine.model import Model
from engine.store import default_store
from engine.train.answers import Answers

SHARD = 64  # sequences
TOP = 32  # teacher probabilities kept per token; the rest of the mass is a few percent
BLOCK = 16


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """One sequence with what the target said. Row i of the others belongs to token i.

    token_ids (n,) int64. features (n, layers · hidden) fp16: hidden states after the layers of `tapped`. top_ids,
    top_probs (n, TOP): the target's law of token i + 1, cut to its likeliest; zeros before the answer.
    """

    token_ids: Tensor
    num_prompt: int
    features: Tensor
    top_ids: Tensor
    top_probs: Tensor


def tapped(num_layers: int) -> tuple[int, ...]:
    """After how many layers hidden states are kept: low, middle, high (EAGLE-3), and the last."""
    return num_layers // 4 + 1, num_layers // 2 + 1, num_layers * 4 // 5, num_layers


class Teacher:
    """Runs the target over whole sequences."""

    def __init__(self, model: Model, longest: int) -> None:
        self.model = model
        num_blocks = -(-longest // BLOCK)
        config = model.config
        self._table = list(range(num_blocks))
        self._cache = KVCache(config, num_blocks, BLOCK, "float32", model.device)
        place = (num_blocks * BLOCK, BLOCK, "float32", model.device)
        self._features = FeatureCache(tapped(config.num_layers), config.hidden_size, *place)

    def teach(self, token_ids: list[int], num_prompt: int) -> Lesson:
        """One pass over one sequence."""
        num_logits = len(token_ids) - num_prompt + 1
        part = Part("prompt", token_ids, self._table, 0, num_logits=num_logits)
        logits = self.model.forward(Batch.join([part]), self._cache, features=[self._features])
        probs, ids = torch.softmax(logits, -1).topk(min(TOP, logits.shape[-1]), dim=-1)
        before = (num_prompt - 1, 0)  # rows of the prompt, to which no law belongs
        return Lesson(
            token_ids=torch.tensor(token_ids),
            num_prompt=num_prompt,
            features=self._features.read(range(len(token_ids))).half().cpu(),
            top_ids=F.pad(ids.int(), (0, TOP - ids.shape[1], *before)).cpu(),
            top_probs=F.pad(probs.half(), (0, TOP - ids.shape[1], *before)).cpu(),
        )


def folder(answers: Answers) -> Path:
    """Where the shards of these answers lie. Named by weights alone: shard n is the same however many follow."""
    return default_store() / "training" / answers.sha256[:16]


def make_shards(answers: Answers, model: Model) -> Iterator[float]:
    """Computes what is missing, shard by shard; yields the share that is done."""
    num_shards = -(-len(answers) // SHARD)
    teacher = Teacher(model, int(answers.num_tokens.max()))
    folder(answers).mkdir(parents=True, exist_ok=True)
    for number in range(num_shards):
        path = _path(answers, number)
        if not path.exists():
            lessons = [
                teacher.teach(answers.sequence(index).tolist(), int(answers.num_prompt[index]))
                for index in _members(answers, number)
            ]
            building = path.with_suffix(".building")
            save_file(_packed(lessons), building)
            building.replace(path)
        yield (number + 1) / num_shards


def read_shard(answers: Answers, number: int) -> list[Lesson]:
    """The sequences of one shard. Its tensors stay on disk until they are used."""
    stored = load_file(_path(answers, number))
    members = _members(answers, number)
    lengths = [int(answers.num_tokens[index]) for index in members]
    parts = {name: tensor.split(lengths) for name, tensor in stored.items()}
    return [
        Lesson(
            torch.from_numpy(answers.sequence(index).astype("int64")),
            int(answers.num_prompt[index]),
            *(parts[name][row] for name in ("features", "top_ids", "top_probs")),
        )
        for row, index in enumerate(members)
    ]


def read_all(answers: Answers, model: Model) -> list[Lesson]:
    """All sequences in order, after computing what is missing, with a line of progress."""
    start = time.perf_counter()
    for share in make_shards(answers, model):
        print(f"\rfeatures {share:4.0%}  {time.perf_counter() - start:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [lesson for number in range(-(-len(answers) // SHARD)) for lesson in read_shard(answers, number)]


def _members(answers: Answers, number: int) -> range:
    return range(number * SHARD, min(len(answers), (number + 1) * SHARD))


def _path(answers: Answers, number: int) -> Path:
    """The name tells the content, so that shards of other answers are never taken for these."""
    digest = hashlib.sha256()
    for index in _members(answers, number):
        digest.update(answers.sequence(index).tobytes())
        digest.update(int(answers.num_prompt[index]).to_bytes(2, "little"))
    return folder(answers) / f"{number:04}-{digest.hexdigest()[:16]}.safetensors"


def _packed(lessons: list[Lesson]) -> dict[str, Tensor]:
    names = ("features", "top_ids", "top_probs")
    return {name: torch.cat([getattr(lesson, name) for lesson in lessons]).contiguous() for name in names}
