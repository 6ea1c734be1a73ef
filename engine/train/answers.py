"""Answers of one model as token ids: what drafters are trained on, small enough to be kept with the code.

Knows nothing of how they were made. Sequence i is prompt and answer; only the answer's tokens are to be predicted.
"""

import dataclasses
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import EngineError

# Written by us; a user's turn that the model made up; about an earlier answer; of a kind where drafts fared worst;
# about a paragraph of Python's documentation.
SOURCES = ("own", "model", "passage", "thin", "python")
HELD_OUT = 21  # one sequence in so many is never trained on; prime to the ten kinds of prompt and temperature


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """token_ids: all sequences one after the other, (tokens,) uint16. The others have one entry per sequence."""

    sha256: str  # of the weights that answered
    token_ids: np.ndarray
    num_tokens: np.ndarray  # prompt and answer
    num_prompt: np.ndarray
    source: np.ndarray  # index of SOURCES
    temperature: np.ndarray

    @classmethod
    def empty(cls, sha256: str) -> "Answers":
        """None yet."""
        integers = (np.zeros(0, kind) for kind in (np.uint16, np.uint16, np.uint16, np.uint8))
        return cls(sha256, *integers, np.zeros(0, np.float32))

    def __len__(self) -> int:
        return len(self.num_tokens)

    @property
    def num_answer_tokens(self) -> int:
        """Tokens that can be learned from."""
        return int(self.num_tokens.sum(dtype=np.int64) - self.num_prompt.sum(dtype=np.int64))

    def sequence(self, index: int) -> np.ndarray:
        """Prompt and answer of one sequence, (tokens,) uint16."""
        end = int(self.num_tokens[: index + 1].sum(dtype=np.int64))
        return self.token_ids[end - int(self.num_tokens[index]) : end]

    def answer(self, index: int) -> np.ndarray:
        """The answer alone."""
        return self.sequence(index)[self.num_prompt[index] :]

    def with_more(self, other: "Answers") -> "Answers":
        """These and then the others. Raises EngineError("other_weights") if another model gave them."""
        if other.sha256 != self.sha256:
            sentence = f"answers of weights {self.sha256[:12]} cannot be mixed with those of {other.sha256[:12]}"
            raise EngineError("other_weights", sentence)
        names = [field.name for field in dataclasses.fields(self)][1:]
        joined = {name: np.concatenate((getattr(self, name), getattr(other, name))) for name in names}
        return Answers(self.sha256, **joined)


def is_held_out(index: int) -> bool:
    """Whether a sequence is kept for testing: the same ones however many there are."""
    return index % HELD_OUT == HELD_OUT - 1


def save(answers: Answers, path: Path) -> None:
    """Writes a compressed .npz under another name and renames it: a kill leaves the old file or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_name(f".{path.name}.{os.getpid()}.npz")
    fields = {field.name: getattr(answers, field.name) for field in dataclasses.fields(answers)}
    try:
        np.savez_compressed(building, **fields)
        building.replace(path)
    finally:
        building.unlink(missing_ok=True)


def load(path: Path) -> Answers:
    """Reads what `save` wrote. Raises EngineError("bad_answers") for anything else."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            fields = {field.name: stored[field.name] for field in dataclasses.fields(Answers)}
        answers = Answers(**{**fields, "sha256": str(fields["sha256"])})
        whole = int(answers.num_tokens.sum(dtype=np.int64)) == len(answers.token_ids)
        if not whole or len({len(fields[name]) for name in ("num_tokens", "num_prompt", "source", "temperature")}) > 1:
            raise ValueError("the lengths do not agree")
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise EngineError("bad_answers", f"{path} holds no answers to train on: {error}", path=str(path)) from error
    return answers
