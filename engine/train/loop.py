"""The training loop that all drafters share: batches, learning rate, checkpoints, held-out acceptance.

Knows nothing of what is trained: a `Pupil` has a loss and can be examined.
"""

import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.train.features import TOP, Lesson
from engine.train.words import Words

SECONDS_BETWEEN_SAVES = 120.0


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """Sequences of similar length side by side, padded behind. `is_answer` marks rows whose next token is learned."""

    token_ids: Tensor  # (sequences, tokens) int64
    features: Tensor  # (sequences, tokens, layers · hidden) fp32
    top_ids: Tensor  # (sequences, tokens, TOP) int64
    top_probs: Tensor  # (sequences, tokens, TOP) fp32
    is_answer: Tensor  # (sequences, tokens) bool

    @classmethod
    def of(cls, lessons: Sequence[Lesson], longest: int, device: torch.device | None = None) -> "Class":
        """Each sequence's first `longest` tokens, on a device (None: the CPU)."""
        lengths = [min(longest, len(lesson.token_ids)) for lesson in lessons]
        shape = (len(lessons), max(lengths))
        width = lessons[0].features.shape[1]
        made = cls(
            torch.zeros(shape, dtype=torch.int64),
            torch.zeros(*shape, width),
            torch.zeros(*shape, TOP, dtype=torch.int64),
            torch.zeros(*shape, TOP),
            torch.zeros(shape, dtype=torch.bool),
        )
        for row, (lesson, length) in enumerate(zip(lessons, lengths, strict=True)):
            made.token_ids[row, :length] = lesson.token_ids[:length]
            made.features[row, :length] = lesson.features[:length].float()
            made.top_ids[row, :length] = lesson.top_ids[:length].long()
            made.top_probs[row, :length] = lesson.top_probs[:length].float()
            made.is_answer[row, lesson.num_prompt - 1 : length] = True
        made.is_answer[:, -1:] &= made.top_probs[:, -1:, 0] > 0
        return cls(*(getattr(made, field.name).to(device) for field in fields(cls)))


class Pupil(Protocol):
    """A drafter in training. `shape` has the sizes that its file says, `words` its vocabulary."""

    shape: Any
    words: Words

    def loss(self, batch: Class) -> Tensor:
        """What shall become small: a number."""

    def unroll(self, batch: Class, steps: int) -> list[Tensor]:
        """Step s at row i: the token id that a chain begun at row i − s + 1 wants next; steps × (sequences, tokens)."""

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """What is learned."""


@dataclass(frozen=True, slots=True)
class Plan:
    """passes: over all sequences. size: sequences of a step. longest: tokens of a sequence that are looked at."""

    passes: float = 3.0
    size: int = 8
    longest: int = 320
    rate: float = 1e-3
    warmup: int = 100
    seed: int = 0


def train(pupil: Pupil, lessons: Sequence[Lesson], plan: Plan, checkpoint: Path) -> dict[str, float]:
    """Trains until the plan is done, from the checkpoint if there is one; returns steps, tokens, seconds and loss."""
    num_steps = math.ceil(plan.passes * len(lessons) / plan.size)
    checkpoint = checkpoint.with_name(f"{checkpoint.stem}-{_digest(plan, num_steps)}{checkpoint.suffix}")
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.01)
    done = {"step": 0, "tokens": 0, "seconds": 0.0, "loss": math.nan}
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True, map_location=pupil.words.head.device)
        pupil.load_state_dict(saved["pupil"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["done"]
    device = pupil.words.head.device
    start, last_save = time.perf_counter() - done["seconds"], time.perf_counter()
    for step, chosen in enumerate(_batches(lessons, plan, num_steps)):
        if step < done["step"]:
            continue
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * _share_of_rate(step, num_steps, plan.warmup)
        batch = Class.of(chosen, plan.longest, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=is_bf16_fast(device)):
            loss = pupil.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if math.isnan(done["loss"]) else 0.98 * done["loss"] + 0.02 * loss.item()
        tokens = done["tokens"] + int(batch.is_answer.sum())
        done = {"step": step + 1, "tokens": tokens, "seconds": time.perf_counter() - start, "loss": mean}
        is_last = step + 1 == num_steps
        if step % 20 == 0 or is_last:
            rate = tokens / done["seconds"]
            line = f"\r{(step + 1) / num_steps:4.0%}  loss {mean:.3f}  {tokens} tokens  {rate:.0f} tokens/s "
            print(line, end="", file=sys.stderr, flush=True)
        if time.perf_counter() - last_save > SECONDS_BETWEEN_SAVES or is_last:
            _save(checkpoint, {"done": done}, pupil, optimizer)
            last_save = time.perf_counter()
    print(file=sys.stderr)
    return done


def is_bf16_fast(device: torch.device) -> bool:
    """Whether it multiplies bf16 matrices faster than fp32 (AMX, or a GPU). Weights and losses stay fp32 anyway."""
    return device.type == "cuda" or bool(torch.cpu.get_capabilities().get("amx_tile", False))


@torch.no_grad()
def examine(pupil: Pupil, lessons: Sequence[Lesson], steps: int, size: int = 8) -> list[float]:
    """Of drafts whose predecessors were all right, the share that is what the target prefers: one per position."""
    right, asked = torch.zeros(steps), torch.zeros(steps)
    for first in range(0, len(lessons), size):
        batch = Class.of(lessons[first : first + size], 10**6, pupil.words.head.device)
        wanted, alive = batch.top_ids[..., 0], batch.is_answer.clone()
        for step, predicted in enumerate(pupil.unroll(batch, steps)):
            alive = alive & batch.is_answer
            asked[step] += alive.sum().item()
            alive = alive & (predicted == wanted)
            right[step] += alive.sum().item()
            alive = torch.nn.functional.pad(alive[:, :-1], (1, 0))  # the chain goes on at the next row
            follows = torch.nn.functional.pad(wanted[:, :-1] == batch.token_ids[:, 1:], (1, 0))
            alive = alive & follows  # a sampled answer may leave the target's favourite: that chain is not seen further
    return (right / asked.clamp(min=1)).tolist()


def mean_accepted_length(acceptance: Sequence[float]) -> float:
    """τ of a greedy chain of so many drafts, the bonus or resampled token included."""
    return 1 + sum(math.prod(acceptance[: k + 1]) for k in range(len(acceptance)))


def _share_of_rate(step: int, num_steps: int, warmup: int) -> float:
    """Linear warm-up, then half a cosine down to 2 %."""
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(1, num_steps - warmup)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share))


def _batches(lessons: Sequence[Lesson], plan: Plan, num_steps: int) -> Iterator[list[Lesson]]:
    """Shuffled by the seed, sequences of like length together, so that little is padded."""
    chance, made = random.Random(plan.seed), 0
    while True:
        order = list(range(len(lessons)))
        chance.shuffle(order)
        width = plan.size * 16
        batches = []
        for first in range(0, len(order), width):
            near = sorted(order[first : first + width], key=lambda index: len(lessons[index].token_ids))
            batches += [near[at : at + plan.size] for at in range(0, len(near), plan.size)]
        chance.shuffle(batches)
        for chosen in batches:
            if made == num_steps:
                return
            made += 1
            yield [lessons[index] for index in chosen]


def _digest(plan: Plan, num_steps: int) -> str:
    """Names a checkpoint, so that another plan, or more data, begins anew and destroys nothing."""
    return hashlib.sha256(json.dumps([asdict(plan), num_steps]).encode()).hexdigest()[:8]


def _save(path: Path, state: dict, pupil: Pupil, optimizer: torch.optim.Optimizer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_suffix(".building")
    torch.save({**state, "pupil": pupil.state_dict(), "optimizer": optimizer.state_dict()}, building)
    building.replace(path)
