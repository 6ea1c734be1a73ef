"""Published heads: they draft what their authors' arithmetic says, in whatever layout they lie; the text stays."""

from functools import cache
from pathlib import Path

import pytest
import torch

from engine import Engine, Request, SamplingParams
from engine.events import BlockHit, Drafted, Finished, Sampled, TreeGrown
from tests.published_heads import KINDS, MedusaRecipe, Recipe, Target
from tests.toys import toy_engine, toy_model

PROMPT = [1, 2, 3, 1, 2, 7, 4]
MEDUSA = ("medusa", "medusa-legacy")


@cache
def target() -> Target:
    """Eight layers, so that early, middle and late are three different ones."""
    return Target(toy_model(num_layers=8, spread=0.25))


def recipe(kind: str) -> Recipe | MedusaRecipe:
    return MedusaRecipe(kind) if kind in MEDUSA else Recipe(kind)


def engine_with(kind: str, folder: Path, **config: object) -> Engine:
    return toy_engine(target().loaded, published_head=str(recipe(kind).save(folder)), **config)


def known_before(events: list, event: object) -> list[int]:
    """Prompt and output as they stood when `event` was reported."""
    return PROMPT + [one.token_id for one in events[: events.index(event)] if isinstance(one, Sampled)]


def run(engine: Engine, name: str, length: int = 3, **params: object) -> list:
    settings = SamplingParams(14, draft_length=length, ignore_eos=True, **params)
    return list(engine.run([Request(PROMPT, settings, name)]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_is_what_the_published_arithmetic_drafts(kind, tmp_path):
    events = run(engine_with(kind, tmp_path), "published:chain")
    checked = 0
    for drafted in (event for event in events if isinstance(event, Drafted)):
        known = known_before(events, drafted)
        for index, token in enumerate(drafted.token_ids):
            logits = recipe(kind).expected(target(), known, list(drafted.token_ids[:index]))
            assert token == int(logits.argmax())
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("kind", [*KINDS, *MEDUSA])
def test_a_trees_confidences_are_those_of_the_published_arithmetic(kind, tmp_path):
    events = run(engine_with(kind, tmp_path), "published")
    checked = 0
    for grown in [event for event in events if isinstance(event, TreeGrown)][:3]:
        known = known_before(events, grown)
        laws = {}
        for node, (token, parent, value) in enumerate(zip(grown.token_ids, grown.parents, grown.values, strict=True)):
            path = path_to(grown, parent)
            if parent not in laws:
                laws[parent] = torch.softmax(recipe(kind).expected(target(), known, path), 0)
            above = 1.0 if parent < 0 else grown.values[parent]
            assert value == pytest.approx(above * float(laws[parent][token]), rel=1e-3), (node, path)
            checked += 1
    assert checked >= 12


def path_to(grown: TreeGrown, node: int) -> list[int]:
    """The tokens from the root's child down to `node`."""
    path = []
    while node >= 0:
        path.append(grown.token_ids[node])
        node = grown.parents[node]
    return path[::-1]


@pytest.mark.parametrize("kind", [*KINDS, *MEDUSA])
def test_greedy_text_is_that_of_plain_decoding(kind, tmp_path):
    engine = engine_with(kind, tmp_path)
    plain = engine.generate(PROMPT, SamplingParams(14, ignore_eos=True), "none")
    names = ("published",) if kind in MEDUSA else ("published", "published:chain")
    for name in names:
        for length in (1, 4):
            events = run(engine, name, length)
            assert tuple(event.token_id for event in events if isinstance(event, Sampled)) == plain.token_ids


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "medusa"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_weights_may_be_stored_in_any_type(kind, dtype, tmp_path):
    engine = engine_with(kind, tmp_path, dtype=dtype)
    plain = engine.generate(PROMPT, SamplingParams(14, ignore_eos=True), "none")
    events = run(engine, "published")
    assert tuple(event.token_id for event in events if isinstance(event, Sampled)) == plain.token_ids
    assert any(isinstance(event, Drafted) for event in events)


def test_at_a_temperature_a_reduced_vocabulary_proposes_only_its_own_words(tmp_path):
    engine = engine_with("eagle3", tmp_path)
    for seed in range(3):
        events = run(engine, "published:chain", temperature=1.5, seed=seed)
        drafted = {token for event in events if isinstance(event, Drafted) for token in event.token_ids}
        assert len(drafted) > 1
        assert drafted <= {0, 1, 2, 4, 5, 7}
        assert [event.finish_reason for event in events if isinstance(event, Finished)] == ["length"]


def test_a_warm_prefix_and_a_prompt_of_one_token_draft_what_a_cold_one_does(tmp_path):
    """Blocks that are found carry the head's keys and values, and slot 0 stays unseen."""
    engine = engine_with("eagle3", tmp_path)
    for prompt in ([3], [3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 1, 7, 3]):
        runs = [list(engine.run([Request(prompt, SamplingParams(12), "published:chain")])) for _ in range(2)]
        cold, warm = [[event.token_ids for event in events if isinstance(event, Drafted)] for events in runs]
        assert cold == warm
        for drafts in (cold[0], warm[0]):
            first = next(event.token_id for event in runs[0] if isinstance(event, Sampled))
            assert drafts[0] == int(Recipe("eagle3").expected(target(), [*prompt, first], []).argmax())
    assert any(isinstance(event, BlockHit) for event in runs[1])


def test_the_toy_and_its_twin_in_transformers_are_one_model():
    """Else the expected features would be those of another target."""
    last = target().hidden(PROMPT)[-1][-1]
    token = toy_engine(target().loaded).generate(PROMPT, SamplingParams(1), "none").token_ids[0]
    assert int((target().loaded.tensors["lm_head.weight"] @ last).argmax()) == token
