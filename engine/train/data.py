"""Prompts answered by the target through our own engine: half greedy, half at T = 0.7; resumes where it was stopped.

Knows nothing of drafters. Of five prompts one is a pattern of our own, one a user's turn that the model itself makes up
behind the chat header, one asks about a passage (to sum up, to correct, to answer from), in turn of an earlier answer
and of Python's own documentation, and two are of the kinds where drafts fared worst (engine/train/thin_prompts.py). The
first 2,880 answers in assets/training have none of these two, but two patterns and two of the model's turns.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.commands import at_least
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Sampled
from engine.request import Request, SamplingParams
from engine.train import answers as store
from engine.train.answers import SOURCES, Answers
from engine.train.prompts import about_text, own_prompts
from engine.train.shipped_text import paragraphs
from engine.train.thin_prompts import thin_prompt

ANSWERS = Path(__file__).parent.parent.parent / "assets" / "training" / "smollm2-135m.npz"
BATCH = 480  # prompts between two saves
RUNNING = 32  # answers in one pass
MOST_NEW = 256  # tokens of an answer
MOST_ASKED = 80  # tokens of a user's turn that the model makes up
SHORTEST = 4  # characters of such a turn; one of our own takes the place of less, and of one with a word of UNFIT
UNFIT = ("sex", "porn", "rape", "prostitut", "nude", "naked", "suicid", "murder", "kill", "terror", "nazi", "genocid")
PASSAGE_WORDS = 110
STRIDE = 5  # between the patterns of our own that are asked one after the other: prime to their number
TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt to answer. `text` is empty for a user's turn that is still to be made up."""

    index: int
    source: str
    text: str

    @property
    def temperature(self) -> float:
        """Half of each source is answered greedily."""
        return 0.0 if self.index // 5 % 2 else TEMPERATURE


def questions(done: Answers, engine: Engine, first: int, num: int) -> list[Question]:
    """Questions first … first + num − 1; those of the model's own making without their text yet."""
    own = own_prompts()
    made = []
    for index in range(first, first + num):
        turn = index % 5
        if turn == 0:
            made.append(Question(index, "own", own[index // 5 * STRIDE % len(own)]))
        elif turn == 1 or not len(done):
            made.append(Question(index, "model", ""))
        elif turn < 4:
            passages = [_earlier(done, engine, index + far) for far in range(3)]
            made.append(Question(index, "thin", thin_prompt(passages, index // 5 * 2 + turn)))
        else:
            is_shipped = index // 5 % 2 == 0
            shipped = paragraphs()
            passage = shipped[index // 10 % len(shipped)] if is_shipped else _earlier(done, engine, index)
            text = about_text(" ".join(passage.split()[:PASSAGE_WORDS]), index // 10)
            made.append(Question(index, "python" if is_shipped else "passage", text))
    return made


def ask_the_model(engine: Engine, asked: list[Question]) -> list[Question]:
    """Fills in the user's turns that the model makes up when it is given the chat header alone, at T = 1."""
    header = chat_header(engine)
    empty = [question for question in asked if not question.text]
    params = [_params(question.index, 1.0, MOST_ASKED, 0.95) for question in empty]
    texts = [engine.tokenizer.decode(ids).strip() for ids in _generate(engine, [header] * len(empty), params)]
    own = own_prompts()
    filled = {}
    for question, text in zip(empty, texts, strict=True):
        is_unfit = len(text) < SHORTEST or any(word in text.lower() for word in UNFIT)
        source, text = ("own", own[question.index % len(own)]) if is_unfit else ("model", text)
        filled[question.index] = Question(question.index, source, text)
    return [filled.get(question.index, question) for question in asked]


def chat_header(engine: Engine) -> list[int]:
    """What comes before a user's words: the common beginning of two conversations."""
    one, other = engine.tokenizer.chat("Apple"), engine.tokenizer.chat("River")
    same = [a == b for a, b in zip(one, other, strict=False)]
    return one[: same.index(False)]


def answer(engine: Engine, asked: list[Question]) -> Answers:
    """Answers of all questions, in order."""
    prompts = [engine.tokenizer.chat(question.text) for question in asked]
    params = [_params(question.index, question.temperature, MOST_NEW, 1.0) for question in asked]
    outputs = _generate(engine, prompts, params)
    whole = [prompt + output for prompt, output in zip(prompts, outputs, strict=True)]
    return Answers(
        sha256=engine.model.sha256,
        token_ids=np.array([token for sequence in whole for token in sequence], np.uint16),
        num_tokens=np.array([len(sequence) for sequence in whole], np.uint16),
        num_prompt=np.array([len(prompt) for prompt in prompts], np.uint16),
        source=np.array([SOURCES.index(question.source) for question in asked], np.uint8),
        temperature=np.array([question.temperature for question in asked], np.float32),
    )


def collect(engine: Engine, done: Answers, num_tokens: int, batch: int = BATCH) -> Iterator[Answers]:
    """More and more answers, until they have `num_tokens` tokens; yields all of them after each batch."""
    while done.num_answer_tokens < num_tokens:
        asked = ask_the_model(engine, questions(done, engine, len(done), batch))
        done = done.with_more(answer(engine, asked))
        yield done


def main(arguments: list[str]) -> int:
    """`python -m engine.train data`: go on until there are so many answer tokens."""
    parser = argparse.ArgumentParser(prog="python -m engine.train data", description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=at_least(1), default=700_000, help="answer tokens to have in the end")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--out", type=Path, default=ANSWERS)
    options = parser.parse_args(arguments)
    engine = Engine(EngineConfig(model=options.model, num_blocks=1024, max_batch_tokens=256, max_running=RUNNING))
    done = store.load(options.out) if options.out.exists() else Answers.empty(engine.model.sha256)
    start, had = time.perf_counter(), done.num_answer_tokens
    for answers in collect(engine, done, options.tokens):
        store.save(answers, options.out)
        num_tokens, seconds = answers.num_answer_tokens, time.perf_counter() - start
        share, speed = min(1.0, num_tokens / options.tokens), (num_tokens - had) / seconds
        print(f"{share:4.0%}  {len(answers)} answers, {num_tokens} tokens, {speed:.0f} tokens/s")
        sys.stdout.flush()
    return 0


def _earlier(done: Answers, engine: Engine, index: int) -> str:
    """The text of one of the answers so far; another one for each index."""
    return engine.tokenizer.decode(done.answer(index * 7919 % len(done)).tolist())


def _generate(engine: Engine, prompts: list[list[int]], params: list[SamplingParams]) -> list[list[int]]:
    requests = [Request(prompt, one) for prompt, one in zip(prompts, params, strict=True)]
    outputs: dict[str, list[int]] = {request.id: [] for request in requests}
    for event in engine.run(requests):
        if isinstance(event, Sampled):
            outputs[event.request_id].append(event.token_id)
    return [outputs[request.id] for request in requests]


def _params(seed: int, temperature: float, most: int, top_p: float) -> SamplingParams:
    return SamplingParams(max_new_tokens=most, temperature=temperature, top_p=top_p, seed=seed, draft_length=0)
