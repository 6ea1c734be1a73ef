"""Exactness through the whole engine: 5,000 runs per drafter and sampler against laws computed one by one.

The counted event is the pair of tokens after the first: drafted and verified in one round. χ² with cells pooled to an
expected count of five or more; a correct engine fails a test of this file once in ten thousand.
"""

import itertools

import numpy as np
import pytest
import torch

from engine import Request, SamplingParams, chi_square, probabilities
from engine.events import Sampled
from tests.toys import VOCAB_SIZE, exact_law, toy_engine

NUM_RUNS = 5_000
PROMPT = [1, 2, 3, 1, 2]
DRAFTERS = [
    "none", "ngram", "suffix", "ngram_table", "layer_skip", "early_exit:3", "small", "eagle", "random", "tree", "iid",
    "distinct", "lookahead:3,3,2", "eagle2", "medusa", "lm", "specinfer", "triforce_lm",
    "lookup_eagle",
]  # fmt: skip
SPARSE = ["magicdec:4", "triforce:8"]
DRAFTERS += SPARSE
SAMPLERS = {
    "plain": {"temperature": 1.0},
    "cold and narrow": {"temperature": 0.7, "top_p": 0.8, "top_k": 6},
    "min_p and penalty": {"temperature": 1.3, "min_p": 0.1, "repetition_penalty": 1.3, "presence_penalty": 0.2},
    "greedy draft": {"temperature": 1.0, "draft_temperature": 0.0},
    "hot draft": {"temperature": 0.8, "draft_temperature": 2.0},
}
LETTERS = range(VOCAB_SIZE)


@pytest.fixture(scope="module")
def engine():
    """On one thread: the passes of a toy are too short to share."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield toy_engine()
    torch.set_num_threads(num_threads)


def prompt_for(drafter: str) -> list[int]:
    """A sparse view hides nothing of a short text."""
    return PROMPT * 3 + PROMPT[:1] if drafter in (*SPARSE, "triforce_lm") else PROMPT


def law_of_pairs(engine, params: SamplingParams, prompt: list[int] = PROMPT) -> np.ndarray:
    """The exact law of output tokens 2 and 3, summed over token 1: (64,)."""

    def law(token_ids: list[int]) -> np.ndarray:
        return probabilities(exact_law(engine, token_ids)[None].double(), params, token_ids)[0].numpy()

    first = law(prompt)
    pairs = np.zeros((VOCAB_SIZE, VOCAB_SIZE))
    for a in np.flatnonzero(first):
        second = law([*prompt, int(a)])
        for b in np.flatnonzero(second):
            pairs[b] += first[a] * second[b] * law([*prompt, int(a), int(b)])
    return pairs.ravel()


def count_pairs(drafter: str, settings: dict) -> np.ndarray:
    """How often each pair came in NUM_RUNS runs: (64,)."""
    engine = toy_engine(num_blocks=2000, max_running=500, max_batch_tokens=4000)
    tokens: dict[str, list[int]] = {}
    prompt, settings = prompt_for(drafter), {"max_new_tokens": 4, "draft_length": 2, **settings}
    requests = [Request(prompt, SamplingParams(seed=1000 * run, **settings), drafter) for run in range(NUM_RUNS)]
    for event in engine.run(requests):
        if isinstance(event, Sampled):
            tokens.setdefault(event.request_id, []).append(event.token_id)
    counts = np.zeros((VOCAB_SIZE, VOCAB_SIZE), int)
    for _, second, third, _ in tokens.values():
        counts[second, third] += 1
    assert counts.sum() == NUM_RUNS
    return counts.ravel()


DRAWING = ("layer_skip", "early_exit:3", "small", "lm", "specinfer", *SPARSE)  # the others draw from no softmax
# Runs cost minutes: what a rule verifies that stands here in full already meets the samplers that differ most.
FEWER = {
    "suffix": ("plain",), "lookup_eagle": ("cold and narrow",),
    "ngram_table": ("plain",), "lookahead:3,3,2": ("plain",), "medusa": ("cold and narrow",),
    "eagle2": ("plain", "min_p and penalty"), "lm": ("plain", "hot draft"), "triforce_lm": ("plain",),
    "specinfer": ("plain", "min_p and penalty", "greedy draft", "hot draft"), **dict.fromkeys(SPARSE, ("hot draft",)),
}  # fmt: skip
CASES = [
    (drafter, sampler)
    for drafter, sampler in itertools.product(DRAFTERS, SAMPLERS)
    if sampler in FEWER.get(drafter, SAMPLERS) and ("draft" not in sampler or drafter in DRAWING)
]


@pytest.mark.parametrize(("drafter", "sampler"), CASES)
def test_the_engine_samples_from_the_models_own_law(engine, drafter, sampler):
    law = law_of_pairs(engine, SamplingParams(**SAMPLERS[sampler]), prompt_for(drafter))
    result = chi_square(count_pairs(drafter, SAMPLERS[sampler]), law)
    assert result.p_value > 1e-4, result


@pytest.mark.parametrize("drafter", ["layer_skip", "random", "tree", "iid", "distinct"])
def test_sampler_match_is_exact_too(engine, drafter):
    law = law_of_pairs(engine, SamplingParams(temperature=1.0))
    counts = count_pairs(drafter, {"temperature": 1.0, "rule": "sampler_match"})
    assert chi_square(counts, law).p_value > 1e-4


@pytest.mark.parametrize("drafter", ["layer_skip", "random"])
def test_typical_acceptance_is_caught(engine, drafter):
    law = law_of_pairs(engine, SamplingParams(temperature=1.0))
    counts = count_pairs(drafter, {"temperature": 1.0, "rule": "typical"})
    assert chi_square(counts, law).p_value < 1e-6


@pytest.mark.parametrize("drafter", ["iid as distinct", "distinct as iid"])
def test_a_tree_that_was_drawn_in_another_way_than_it_says_is_caught(engine, drafter):
    law = law_of_pairs(engine, SamplingParams(temperature=1.0))
    assert chi_square(count_pairs(drafter, {"temperature": 1.0}), law).p_value < 1e-6


def test_the_law_by_hand_adds_up(engine):
    law = law_of_pairs(engine, SamplingParams(temperature=1.0))
    assert law.sum() == pytest.approx(1)
    assert torch.tensor(law).min() > 0
