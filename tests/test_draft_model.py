"""A draft model named by its folder: it drafts, it must share the target's tokenizer, and it is loaded once."""

import json
from collections import Counter
from pathlib import Path

import pytest
from tiny_tokenizers import sentencepiece

from engine import Engine, EngineConfig, EngineError, Request, SamplingParams, weights
from engine.events import BlockCopied, Drafted, Finished, Sampled, Verified

PROMPT = "the cat and the"


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """Digests of these tests' weights go nowhere else."""
    monkeypatch.setattr(weights, "default_store", lambda: tmp_path / "store")


@pytest.fixture
def target(tiny_model) -> Path:
    return tiny_model("smollm2-tied")


@pytest.fixture
def draft(tiny_model) -> Path:
    """Another architecture, half as deep, with a vocabulary that is padded further."""
    return tiny_model("qwen2-bias", vocab_size=384, num_hidden_layers=2)


@pytest.fixture
def stranger(tiny_model) -> Path:
    """A model whose ids mean other texts."""
    folder = tiny_model("llama2-mha")
    sentencepiece().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    return folder


def engine_with(target: Path, draft: Path) -> Engine:
    config = EngineConfig(model=str(target), draft_model=str(draft), dtype="float32", block_size=4, num_blocks=128)
    return Engine(config)


def kept(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_a_draft_model_from_a_folder_drafts_and_greedy_text_stays_what_it_was(target, draft):
    engine = engine_with(target, draft)
    plain = engine.generate(PROMPT, SamplingParams(30, ignore_eos=True), "none")
    assert len(plain.token_ids) == 30
    for length in (0, 1, 2, 4, 8, 16):
        request = Request(PROMPT, SamplingParams(30, draft_length=length, ignore_eos=True), "draft_model")
        events = list(engine.run([request]))
        assert tuple(event.token_id for event in kept(events, Sampled)) == plain.token_ids
        assert kept(events, Finished)[0].text == plain.text
        assert max((len(event.token_ids) for event in kept(events, Drafted)), default=0) == length


def test_a_draft_model_with_the_targets_own_weights_is_accepted_whole_and_saves_passes(target):
    engine = engine_with(target, target)
    for temperature in (0.0, 1.0):
        params = SamplingParams(26, temperature, draft_length=4, ignore_eos=True)
        verified = kept(engine.run([Request(PROMPT, params, "draft_model")]), Verified)
        assert {verdict for event in verified for verdict in event.verdicts} == {"accepted"}
        assert len(verified) == 5  # one token of the prompt's pass, then five rounds of five


@pytest.mark.parametrize("back", range(3))
def test_a_fork_inside_a_block_copies_the_drafts_keys_too_so_that_all_is_still_accepted(target, back):
    engine = engine_with(target, target)
    request = Request(PROMPT, SamplingParams(40, draft_length=4, ignore_eos=True), "draft_model")
    engine.add(request)
    events = [event for _ in range(4) for event in engine.step()]
    fork = engine.fork(request.id, len(engine.tokenizer.encode(PROMPT)) + len(kept(events, Sampled)) - back)
    while not engine.is_idle:
        events += engine.step()
    assert {verdict for event in kept(events, Verified) for verdict in event.verdicts} == {"accepted"}
    assert {event.request_id for event in kept(events, Verified)} == {request.id, fork}
    assert len({end.text for end in kept(events, Finished)}) == 1
    assert kept(events, BlockCopied)


def test_a_draft_model_with_another_tokenizer_is_refused_and_whoever_runs_goes_on(target, stranger):
    engine = engine_with(target, stranger)
    running = Request(PROMPT, SamplingParams(20, ignore_eos=True), "ngram")
    alone = engine.generate(PROMPT, running.params, "none")
    engine.add(running)
    events = [event for _ in range(3) for event in engine.step()]
    before = engine.stats()
    for _ in range(2):  # nothing of the first attempt is kept
        with pytest.raises(EngineError, match="another tokenizer") as caught:
            engine.add(Request("the hat", SamplingParams(5), "draft_model"))
        assert caught.value.code == "other_tokenizer"
        assert caught.value.values == {"draft": str(stranger), "target": str(target)}
        assert engine.stats() == before
    while not engine.is_idle:
        events += engine.step()
    assert tuple(event.token_id for event in kept(events, Sampled)) == alone.token_ids
    assert [(end.text, end.finish_reason) for end in kept(events, Finished)] == [(alone.text, "length")]
    assert engine.stats()["blocks_used"] == 0


def test_a_draft_model_is_loaded_when_the_first_request_wants_it_and_never_again(target, draft, monkeypatch):
    load, loads = weights.load, Counter()

    def counted(name, *arguments, **options):
        loads[Path(name)] += 1
        return load(name, *arguments, **options)

    monkeypatch.setattr(weights, "load", counted)
    engine = engine_with(target, draft)
    engine.generate(PROMPT, SamplingParams(3), "none")
    assert loads == {target: 1}
    params = SamplingParams(9, temperature=1.0, ignore_eos=True)
    ends = kept(engine.run([Request(PROMPT, params, "draft_model", n=2) for _ in range(3)]), Finished)
    assert [end.finish_reason for end in ends] == ["length"] * 6
    engine.generate(PROMPT, params, "draft_model")
    assert loads == {target: 1, draft: 1}


def test_a_draft_model_that_is_not_there_is_refused_by_name_and_plain_requests_are_served(target, tmp_path):
    engine = engine_with(target, tmp_path / "nowhere")
    with pytest.raises(EngineError, match="nowhere") as caught:
        engine.generate(PROMPT, SamplingParams(3), "draft_model")
    assert caught.value.code == "model_not_found"
    assert engine.is_idle
    assert len(engine.generate(PROMPT, SamplingParams(3, ignore_eos=True), "none").token_ids) == 3
