"""The composition table against the engine: every cell that runs is run, and nothing is left out."""

import dataclasses
from functools import cache
from pathlib import Path

import pytest
import torch

from engine import Cell, Engine, EngineConfig, EngineError, Request, SamplingParams, composition, drafters
from engine.composition_table import PARTNERS
from engine.events import BlockCopied, BlockHit, Drafted, Event, Finished, Forwarded, Prefilled, Sampled
from tests.elsewhere import elsewhere
from tests.published_heads import Recipe
from tests.toys import toy_engine

ON_TOYS = {"draft_model": "small", "draft_lm": "lm", "eagle_unshifted": "unshifted", "magicdec": "magicdec:8",
           "triforce": "triforce:8", "lookahead": "lookahead:3,2,3"}  # fmt: skip
PROMPTS = ([1, 2, 3, 1, 2, 7, 4] * 3, [5, 5, 6] * 6, [2, 4, 6, 1] * 5)
PARAMS = SamplingParams(10, ignore_eos=True)


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Path:
    """A published head for the toy."""
    return Recipe("eagle").save(tmp_path_factory.mktemp("head"))


def run(engine: Engine, requests: list[Request]) -> list[Event]:
    events = list(engine.run(requests))
    assert {event.finish_reason for event in events if isinstance(event, Finished)} == {"length"}
    assert engine.stats()["blocks_used"] == 0
    return events


def tokens(events: list[Event], request_id: str) -> list[int]:
    return [event.token_id for event in events if isinstance(event, Sampled) and event.request_id == request_id]


@cache
def plain(index: int, params: SamplingParams = PARAMS, **config: object) -> list[int]:
    """What plain decoding says after that prompt, on an engine of its own."""
    return list(toy_engine(prefix_caching=False, **config).generate(PROMPTS[index], params, "none").token_ids)


def check_alone(engine: Engine, name: str, params: SamplingParams = PARAMS, **config: object) -> list[Event]:
    """The first prompt gives what it gives without drafts, and there were drafts."""
    request = Request(PROMPTS[0], params, name)
    events = run(engine, [request])
    assert tokens(events, request.id) == plain(0, params, **config)
    assert any(isinstance(event, Drafted) for event in events)
    return events


# ---- one function for each partner that runs ------------------------------------------------------------------------


def batching(name: str, head: str) -> None:
    requests = [Request(prompt, PARAMS, name) for prompt in PROMPTS]
    events = run(toy_engine(published_head=head), requests)
    for index, request in enumerate(requests):
        assert tokens(events, request.id) == plain(index)
    assert max(len(event.request_ids) for event in events if isinstance(event, Forwarded)) == len(PROMPTS)


def prefix_cache(name: str, head: str) -> None:
    engine = toy_engine(published_head=head)
    check_alone(engine, name)
    assert any(isinstance(event, BlockHit) for event in check_alone(engine, name))


def chunked_prefill(name: str, head: str) -> None:
    events = check_alone(toy_engine(published_head=head, max_batch_tokens=6), name)
    assert sum(isinstance(event, Prefilled) for event in events) > 1


def parallel_samples(name: str, head: str) -> None:
    request = Request(PROMPTS[0], PARAMS, name, n=3)
    events = run(toy_engine(published_head=head), [request])
    for sample in (request.id, f"{request.id}.1", f"{request.id}.2"):
        assert tokens(events, sample) == plain(0)
    assert any(isinstance(event, BlockCopied) for event in events)


def temperature(name: str, head: str) -> None:
    """A seed gives one text; that its law is the target's is tested elsewhere, by χ²."""
    params = dataclasses.replace(PARAMS, temperature=1.0, seed=4)
    texts = []
    for _ in range(2):
        request = Request(PROMPTS[0], params, name)
        events = run(toy_engine(published_head=head), [request])
        assert any(isinstance(event, Drafted) for event in events)
        texts.append(tokens(events, request.id))
    assert texts[0] == texts[1]
    assert len(texts[0]) == PARAMS.max_new_tokens


def penalties(name: str, head: str) -> None:
    check_alone(toy_engine(published_head=head), name, dataclasses.replace(PARAMS, repetition_penalty=1.3))


def float16_cache(name: str, head: str) -> None:
    engine = toy_engine(published_head=head, cache_dtype="float16")
    assert engine.cache.keys[0].dtype is torch.float16
    check_alone(engine, name, cache_dtype="float16")


def int8_weights(name: str, head: str) -> None:
    check_alone(toy_engine(published_head=head, dtype="int8"), name, dtype="int8")


CHECKS = {check.__name__: check for check in (batching, prefix_cache, chunked_prefill, parallel_samples, temperature,
                                              penalties, float16_cache, int8_weights)}  # fmt: skip


@pytest.mark.parametrize("drafter", drafters.NAMES)
def test_every_cell_that_runs_is_run(drafter, head):
    cells = [cell for cell in composition(drafter) if cell.status == "runs"]
    assert {cell.partner for cell in cells} == CHECKS.keys()
    for cell in cells:
        CHECKS[cell.partner](ON_TOYS.get(drafter, drafter), str(head))
        assert cell.reason == ""


@pytest.mark.parametrize("drafter", drafters.NAMES)
def test_no_drafter_mixes_devices_though_none_has_run_on_another(drafter, head):
    with elsewhere() as device:
        check_alone(toy_engine(published_head=str(head), device=device), ON_TOYS.get(drafter, drafter))
    assert Cell("other_device", "not_yet", "never_run_there") in composition(drafter)


def test_what_is_not_there_yet_cannot_be_asked_for():
    """When one of them is built, this fails, and the table must learn of it."""
    with pytest.raises(EngineError, match="cache_dtype"):
        EngineConfig(cache_dtype="int8")
    assert not [item.name for item in dataclasses.fields(EngineConfig) if "polic" in item.name]
    for drafter in drafters.NAMES:
        missing = {cell.partner: cell.reason for cell in composition(drafter) if cell.status == "not_yet"}
        assert missing["quantised_cache"] == "no_quantised_cache"
        assert missing["cache_policy"] == "no_cache_policy"


def test_every_row_has_the_same_partners_and_other_names_are_refused():
    assert {tuple(cell.partner for cell in composition(name)) for name in drafters.NAMES} == {PARTNERS}
    assert composition("magicdec:512") == composition("magicdec")
    for name in ("", "none", "magic", ":eagle"):
        with pytest.raises(EngineError) as caught:
            composition(name)
        assert caught.value.code == "unknown_drafter"
