"""Bad input: a clear sentence or right behaviour; a refusal changes nothing, and the next run is unharmed."""

import ast
import dataclasses
import errno
import time
from pathlib import Path

import pytest
import torch

from engine import EngineConfig, EngineError, Finished, Request, Sampled, SamplingParams, Submitted, fold, weights
from engine.drafters import Proposal
from engine.tokenizer import Tokenizer
from engine.trace import decode, encode, load, save
from lessons import live
from tests.test_engine import DRAFTERS, PROMPT, greedy
from tests.tiny_tokenizers import save_byte_level
from tests.toys import VOCAB_SIZE, RandomDrafter, toy_engine, toy_model

ELSEWHERE = [
    "test_engine::test_a_bad_prompt_is_refused_before_anything_changes",
    "test_engine::test_a_round_never_overshoots_the_budget",
    "test_engine::test_the_context_window_is_filled_to_its_last_token",
    "test_engine::test_abort_frees_all_blocks_in_every_state_and_twice_is_fine",
    "test_bug_reports::test_a_run_that_was_closed_leaves_nothing_for_the_next_one_to_report",
    "test_weights::test_weights_cut_short_are_refused_with_a_sentence",
    "test_weights::test_a_damaged_file_is_refused_by_name",
    "test_gguf::test_a_file_cut_anywhere_is_refused_with_a_sentence",
    "test_store::test_a_gguf_file_cut_short_is_refused_and_nothing_is_kept",
    "test_store::test_a_conversion_that_fails_at_any_tensor_leaves_nothing",
    "test_store::test_too_small_a_disk_is_noticed_before_anything_is_written",
    "test_tokenizer::test_a_lone_surrogate_becomes_a_replacement_character_and_a_pair_its_character",
    "test_tokenizer::test_special_tokens_typed_by_hand_are_plain_text",
    "test_chat_template::test_a_special_token_typed_into_a_message_cannot_end_the_turn",
    "test_live::test_runs_wait_for_each_other_and_know_their_place",
    "test_opened::test_a_file_cut_short_is_refused",
]


def test_what_is_tested_elsewhere_is_tested():
    for file, name in (entry.split("::") for entry in ELSEWHERE):
        tree = ast.parse((Path(__file__).parent / f"{file}.py").read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


@pytest.fixture(scope="module")
def engine():
    return toy_engine()


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """An engine that reads and writes real text: 320 byte-level tokens with a chat template, a window of 64."""
    tokenizer = Tokenizer.from_folder(save_byte_level(tmp_path_factory.mktemp("tokenizer")))
    return toy_engine(dataclasses.replace(toy_model(vocab_size=320), tokenizer=tokenizer))


def refusal(engine, request) -> EngineError:
    """What `add` says; it must have changed nothing."""
    before = engine.pool.snapshot(), engine.stats()
    with pytest.raises(EngineError) as caught:
        engine.add(request)
    assert (engine.pool.snapshot(), engine.stats(), engine.is_idle) == (*before, True)
    assert not engine.step()
    return caught.value


# ---- wrong types and values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        *(("prompt", value, "bad_prompt") for value in (None, 5, 2.5, b"ABC", {1: 2}, {1, 2}, iter([1]), object())),
        *(("prompt", [value], "bad_token") for value in (1.0, "A", None, True, [1], -1, 8, 2**70)),
        *(("prompt", value, "empty_prompt") for value in ("", [], (), range(0))),
        *(("params", value, "bad_parameter") for value in (None, {}, "greedy", SamplingParams)),
        *(("drafter", value, "bad_parameter") for value in (5, ["ngram"], b"ngram", object())),
        *(("drafter", value, "unknown_drafter") for value in ("magic", "NGRAM", "ngram:3", "\ud800", "draft_model:1")),
        *(("drafter", f"layer_skip:{text}", "bad_layers") for text in ("x", "4", "-1", "0,", "0,1,2,3,9", "²", "1.5")),
        *(("drafter", f"early_exit:{text}", "bad_layers") for text in ("5", "x", "1e0")),
        ("drafter", "draft_model", "no_draft_model"),
        *(("n", value, "bad_parameter") for value in (0, -1, 17, 1.0, "2", True, None, 10**30)),
        *(("prompt_format", value, "bad_parameter") for value in (None, "html", 5, ["chat"])),
        *(("cache_salt", value, "bad_parameter") for value in (None, 5, b"x", ("a",))),
        *(("id", value, "bad_parameter") for value in (None, 5, ["x"], b"x")),
    ],
)
def test_a_request_of_wrong_types_is_refused_with_a_sentence(engine, field, value, code):
    error = refusal(engine, Request(**{"prompt": PROMPT, field: value}))
    assert error.code == code
    assert str(error)[0].islower() or str(error)[0] in "'\""
    assert len(str(error)) < 300


NUMBERS = [item.name for item in dataclasses.fields(SamplingParams) if item.type in (int, float)]
NO_NUMBERS = ["1", [], {}, 1j, True, float("nan"), float("inf"), -float("inf"), 10**400, -(10**400)]


@pytest.mark.parametrize("field", [*NUMBERS, "draft_temperature"])
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_sampling_parameters_of_wrong_types_are_refused_by_name(field, value):
    with pytest.raises(EngineError, match=field) as caught:
        SamplingParams(**{field: value})
    assert caught.value.code == "bad_parameter"


@pytest.mark.parametrize(
    ("field", "value"),
    [*(("stop", value) for value in (None, 5, "", [""], [1], b"ab", [None], ["ok", ""])),
     *(("rule", value) for value in (None, "", "EXACT", [], 5)), ("max_new_tokens", 1.0), ("seed", 2**63),
     ("top_k", -1)],
)  # fmt: skip
def test_other_sampling_parameters_are_refused_by_name_too(field, value):
    with pytest.raises(EngineError, match=field):
        SamplingParams(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [*((name, value) for name in ("block_size", "num_blocks", "max_batch_tokens", "max_running")
       for value in (0, -1, 1.5, "4", None, True)),
     ("threads", -1), ("threads", "x"), ("dtype", "float64"), ("dtype", []), ("cache_dtype", "int8"), ("watch", 5),
     ("watch", None), ("watch", ["laws"]), ("model", None), ("drafter", 5), ("draft_model", 1.5), ("device", "junk"),
     ("device", "cuda:"), ("device", 0), ("prefix_caching", "no")],
)  # fmt: skip
def test_a_configuration_of_wrong_types_is_refused_by_name(field, value):
    with pytest.raises(EngineError, match=field) as caught:
        EngineConfig(**{field: value})
    assert caught.value.code == "bad_config"


def test_a_seed_whose_samples_have_no_seed_is_refused_before_anything_changes(engine):
    last = 2**63 - 1
    assert refusal(engine, Request(PROMPT, SamplingParams(seed=last), n=2)).code == "bad_parameter"
    for seed in (last, -(2**63)):
        assert len(engine.generate(PROMPT, SamplingParams(5, 1.0, seed=seed), "random").token_ids) == 5


def test_a_name_that_belongs_to_somebody_who_runs_or_is_to_run_is_refused():
    engine = toy_engine(max_running=1)
    engine.add(Request(PROMPT, SamplingParams(9), n=3, id="r"))
    for name, n in (("r", 1), ("r.1", 1), ("r.2", 4)):
        with pytest.raises(EngineError) as caught:
            engine.add(Request(PROMPT, n=n, id=name))
        assert caught.value.code == "duplicate_id"
    engine.add(Request(PROMPT, SamplingParams(9), id="r/1"))
    engine.add(Request(PROMPT, SamplingParams(9), id="r.3"))
    engine.step()
    assert engine.fork("r", len(PROMPT) + 1) == "r/2"  # "r/1" waits
    engine.abort("r.1")
    with pytest.raises(EngineError):
        engine.add(Request(PROMPT, n=3, id="r.2"))  # runs
    ends = {event.request_id for event in _until_idle(engine) if isinstance(event, Finished)}
    assert ends == {"r", "r.1", "r.2", "r/1", "r.3", "r/2"}
    engine.add(Request(PROMPT, n=2, id="r"))
    engine.abort("r")
    engine.add(Request(PROMPT, SamplingParams(2), id="r.1"))  # the promised name is free again
    _until_idle(engine)
    assert engine.stats()["blocks_used"] == 0


def _until_idle(engine):
    events = []
    while not engine.is_idle:
        events += engine.step()
    return events


@pytest.mark.parametrize("at", [None, "10", 10.0, True, -1, 0, 12, 10**9])
def test_a_fork_from_nowhere_is_refused_and_changes_nothing(at):
    engine = toy_engine()
    engine.add(request := Request(PROMPT, SamplingParams(9)))
    engine.step(), engine.step()  # 9 prompt tokens and 2 more
    before = engine.pool.snapshot(), engine.stats()
    with pytest.raises(EngineError) as caught:
        engine.fork(request.id, at)
    assert caught.value.code == "bad_fork"
    assert (engine.pool.snapshot(), engine.stats()) == before
    assert [engine.fork(request.id, at) for at in (10, 11)] == [f"{request.id}/1", f"{request.id}/2"]


# ---- too long, too short, too much ---------------------------------------------------------------------------------


def test_a_hundred_thousand_characters_are_refused_unread_or_counted(reader, monkeypatch):
    text = "the cat \U0001f44d " * 10_000
    assert refusal(reader, Request("x" * 64 * 64)).values["tokens"] > 64
    monkeypatch.setattr(Tokenizer, "encode", None)  # it is not even asked
    monkeypatch.setattr(Tokenizer, "chat", None)
    for prompt_format in ("plain", "chat"):
        error = refusal(reader, Request(text, prompt_format=prompt_format))
        assert error.code == "prompt_too_long"
        assert str(len(text)) in str(error)


@pytest.mark.parametrize("prompt_format", ["plain", "chat"])
def test_a_text_at_the_edge_of_the_context_window_runs_and_one_token_more_is_refused(reader, prompt_format):
    def tokens(text):
        return len(reader.tokenizer.chat(text) if prompt_format == "chat" else reader.tokenizer.encode(text))

    longest = next("Q" * number for number in range(64, 0, -1) if tokens("Q" * number) == 64)
    for text, num_new in ((longest[:-1], 1), (longest, 0)):
        (end,) = (e for e in reader.run([Request(text, prompt_format=prompt_format)]) if isinstance(e, Finished))
        assert (end.num_tokens, end.finish_reason) == (num_new, "length")
    assert refusal(reader, Request(longest + "Q", prompt_format=prompt_format)).values == {"tokens": 65, "largest": 64}


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_more_drafts_than_are_left_do_no_harm(engine, drafter):
    for num_prompt, num_new in ((9, 1), (9, 2), (9, 3), (61, 9), (62, 9), (63, 9)):
        prompt = [token * 3 % 8 for token in range(num_prompt)]
        plain = greedy(engine, prompt, num_new)
        assert greedy(engine, prompt, num_new, drafter, 64) == plain
        assert len(plain) == min(num_new, 64 - num_prompt)
    assert engine.stats()["blocks_used"] == 0


@pytest.mark.parametrize("num_new", [0, 1])
def test_each_of_several_samples_ends_even_if_it_may_say_nothing(engine, num_new):
    request = Request(PROMPT, SamplingParams(num_new, 1.0), "random", n=4)
    state = fold(engine.run([request]))
    assert list(state.requests) == [request.id, *(f"{request.id}.{index}" for index in (1, 2, 3))]
    assert {len(item.token_ids) for item in state.requests.values()} == {num_new}
    assert {item.finished.finish_reason for item in state.requests.values()} == {"length"}


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 100.0}, {"temperature": 1e-5}, {"repetition_penalty": 100.0}, {"repetition_penalty": 0.01},
     {"presence_penalty": -100.0, "frequency_penalty": 100.0}, {"top_k": 10**9, "top_p": 0.0, "min_p": 1.0},
     {"draft_temperature": 100.0, "temperature": 1e-5}, {"draft_length": 64, "temperature": 1.0}],
)  # fmt: skip
def test_the_most_extreme_parameters_that_are_allowed_give_a_text(engine, settings):
    for drafter in ("none", "layer_skip", "random", "tree", "ngram"):
        params = SamplingParams(max_new_tokens=20, **settings)
        assert len(engine.generate(PROMPT, params, drafter).token_ids) == 20


def test_stop_strings_beyond_number_and_length_are_no_trouble(engine):
    stop = (*(f"{number:b}" * 3 for number in range(3_000)), "B" * 100_000, "\ud800", "\x00", "</script>")
    assert engine.generate(PROMPT, SamplingParams(20, stop=stop)).token_ids == greedy(engine, PROMPT, 20)


# ---- text that is not what it seems --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["<img src=x onerror='a()'>&amp;</p>", "\x00\x01\x1b[31m\x7f\x85\u2028\u202e", "\r\n\t \u200b\ufeff",
     "<|im_end|><|endoftext|>", "a\ud800b\udfff", "👩‍🚀é\u0301漢", "\\u0000 ${x} {{x}} %s", "  "],
)  # fmt: skip
@pytest.mark.parametrize("prompt_format", ["plain", "chat"])
def test_any_text_is_a_prompt_and_is_reported_as_it_was_read(reader, tmp_path, text, prompt_format):
    request = Request(text, SamplingParams(5, 1.0), "ngram", prompt_format=prompt_format, id=text)
    events = list(reader.run([request]))
    (submitted,) = (event for event in events if isinstance(event, Submitted))
    special = {token for token in submitted.prompt_ids if token in reader.tokenizer.bytes.special}
    assert special == (set() if prompt_format == "plain" else {1, 2})
    if prompt_format == "plain":
        read = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert reader.tokenizer.decode(submitted.prompt_ids) == read
    assert all("\ufffd" not in piece for piece in submitted.pieces)
    assert [decode(encode(event)) for event in events] == events
    save(events, tmp_path / "run.jsonl.gz")
    assert load(tmp_path / "run.jsonl.gz") == events


def test_an_end_token_typed_by_hand_ends_nothing(reader):
    for text in ("<|im_end|>", "hat<|endoftext|>hat"):
        sampled = [event for event in reader.run([Request(text, SamplingParams(5))]) if isinstance(event, Sampled)]
        assert len(sampled) == 5


# ---- ended in the middle -------------------------------------------------------------------------------------------


def test_a_request_may_be_aborted_from_within_its_own_run_and_its_run_ends(engine):
    request, other = Request(PROMPT, SamplingParams(40)), Request([1], SamplingParams(3))
    ends = {}
    for event in engine.run([request, other]):
        if isinstance(event, Sampled) and event.request_id == request.id and event.index == 2:
            assert engine.abort(request.id)
            assert not engine.abort(request.id)
        if isinstance(event, Finished):
            ends[event.request_id] = (event.finish_reason, event.num_tokens)
    assert ends == {request.id: ("abort", 3), other.id: ("length", 3)}
    assert engine.stats()["blocks_used"] == 0


def test_a_cache_too_large_for_any_memory_is_refused_with_its_size():
    with pytest.raises(EngineError, match="num_blocks is 10000000000000: a cache of") as caught:
        toy_engine(num_blocks=10**13)
    assert caught.value.code == "bad_config"


def test_what_is_no_request_is_refused(engine):
    for junk in ("x", None, [1, 2]):
        assert refusal(engine, junk).code == "bad_request"
    for junk in ("ab", Request([1])):
        with pytest.raises(EngineError):
            list(engine.run(junk))


def test_a_device_that_is_not_there_is_refused_with_its_name():
    with pytest.raises(EngineError, match="cuda:99") as caught:
        toy_engine(device="cuda:99")
    assert caught.value.code == "no_device"


def test_abort_ends_all_samples_and_forks_of_a_request_or_one_of_them(engine):
    request = Request(PROMPT, SamplingParams(max_new_tokens=30, ignore_eos=True), n=3)
    engine.add(request)
    while engine.stats()["running"] != 3:
        engine.step()
    engine.step()
    fork = engine.fork(request.id, len(PROMPT) + 1)
    assert [engine.abort(f"{request.id}.1") for _ in range(2)] == [True, False]
    ends = {event.request_id: event.finish_reason for event in engine.step() if isinstance(event, Finished)}
    assert ends == {f"{request.id}.1": "abort"}
    assert [engine.abort(request.id) for _ in range(2)] == [True, False]
    ends = {event.request_id: event.finish_reason for event in engine.step() if isinstance(event, Finished)}
    assert ends == dict.fromkeys((request.id, f"{request.id}.2", fork), "abort")
    assert (engine.is_idle, engine.stats()["blocks_used"]) == (True, 0)
    assert not any(engine.abort(junk) for junk in ([1], None, 5, ""))


def test_a_tree_that_finds_no_blocks_takes_nobody_s_place():
    engine = toy_engine(num_blocks=5, max_batch_tokens=3, prefix_caching=False)
    first = engine.add(Request([1, 2, 3, 1], SamplingParams(13, ignore_eos=True), "tree"))
    for _ in range(3):
        engine.step()
    second = engine.add(Request([1] * 5, SamplingParams(1, ignore_eos=True)))
    ends = {}
    while not engine.is_idle:
        ends |= {event.request_id: event.finish_reason for event in engine.step() if isinstance(event, Finished)}
    assert ends == {first: "length", second: "length"}


def test_a_run_with_one_bad_request_runs_none_and_leaves_no_trace(engine):
    for bad in (Request([]), Request(PROMPT, drafter="magic"), Request(PROMPT, None)):
        with pytest.raises(EngineError):
            list(engine.run([Request(PROMPT), Request([1], n=3), bad]))
        assert (engine.is_idle, engine.step(), engine.stats()["blocks_used"]) == (True, [], 0)
        assert len(engine.generate(PROMPT, SamplingParams(3)).token_ids) == 3


class FaultyDrafter:
    """Fails as no drafter should: while it drafts, when it hears of the outcome, or with drafts that are none."""

    needs_slots = True
    caches = features = ()
    num_cached = 0

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def propose(self, sequence, num_tokens, table):
        if self._fault == "draft":
            raise RuntimeError("out of memory")
        if self._fault == "floats":
            return Proposal((1.5,) * num_tokens)
        if self._fault == "too few laws":
            return Proposal((1,) * num_tokens, torch.full((1, VOCAB_SIZE), 1 / VOCAB_SIZE))
        if self._fault == "no tree":
            return Proposal((1,) * num_tokens, None, (5,) * num_tokens)
        return Proposal((1,) * num_tokens)

    def update(self, sequence, num_drafted, num_accepted):
        if self._fault == "update":
            raise RuntimeError("out of memory")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("fault", ["draft", "update", "floats", "too few laws", "no tree"])
def test_a_drafter_that_fails_ends_its_own_request_and_no_other(fault: str, is_first: bool, temperature: float):
    engine = toy_engine()
    engine._admission._extra_drafters["faulty"] = lambda: FaultyDrafter(fault)
    good = Request(PROMPT, SamplingParams(9, temperature, seed=4), "layer_skip")
    bad = Request(PROMPT, SamplingParams(9, temperature, seed=5), "faulty")
    wanted = toy_engine().generate(PROMPT, good.params, "layer_skip")
    events = list(engine.run([bad, good] if is_first else [good, bad]))
    tokens = [event for event in events if isinstance(event, Sampled) and event.request_id == good.id]
    ends = {event.request_id: event for event in events if isinstance(event, Finished)}
    assert [event.index for event in tokens] == list(range(9))
    assert tuple(event.token_id for event in tokens) == wanted.token_ids
    assert ends[good.id].text == wanted.text
    assert (ends[bad.id].finish_reason, ends[bad.id].message) in (("error", "drafter_failed"), ("error", "bad_tree"))
    assert engine.stats()["blocks_used"] == 0


@pytest.mark.parametrize("wrong", [
    Proposal((10**6,) * 2), Proposal((VOCAB_SIZE,)), Proposal((1,) * 40), Proposal((1,) * 300, parents=(-1,) * 300),
    Proposal((1,), probe_ids=(2,)), Proposal((), parents=(), probe_ids=(2,), probe_parents=(3,)),
])  # fmt: skip
@pytest.mark.parametrize("needs_slots", [False, True])
def test_a_proposal_that_no_pass_can_carry_ends_its_own_request_only(wrong, needs_slots):
    class Wrong(RandomDrafter):
        def propose(self, sequence, num_tokens, table):
            return wrong

    Wrong.needs_slots = needs_slots
    engine = toy_engine()
    engine._admission._extra_drafters["wrong"] = Wrong
    good, bad = Request(PROMPT, SamplingParams(9), id="good"), Request(PROMPT, SamplingParams(9), "wrong", id="bad")
    events = list(engine.run([bad, good]))
    ends = {event.request_id: event for event in events if isinstance(event, Finished)}
    assert ends["good"].finish_reason == "length"
    assert (ends["bad"].finish_reason, ends["bad"].message) in (("error", "drafter_failed"), ("error", "bad_tree"))
    assert engine.stats()["blocks_used"] == 0


@pytest.mark.parametrize("threads", [1025, 3_000_000_000])
def test_more_threads_than_any_machine_has_are_refused(threads):
    with pytest.raises(EngineError, match="threads is .* 1024") as caught:
        EngineConfig(threads=threads)
    assert caught.value.code == "bad_config"


@pytest.mark.parametrize("name", ["~nobody-here/x", "a" * 5000, "a\0b"])
def test_a_name_that_cannot_be_a_path_is_no_model(name):
    with pytest.raises(EngineError) as caught:
        weights.load(name)
    assert caught.value.code == "model_not_found"


def test_a_fork_that_is_refused_ends_its_run_and_not_the_engine():
    own = toy_engine()
    live.start_with(lambda progress: own)
    try:
        while live.status().state == "loading":
            time.sleep(0.01)
        for at in (0, 1000, -3):
            run = live.find(live.run([Request(PROMPT, SamplingParams(9), n=2, id="a")], forks=[("a", at)]))
            assert run.ended.wait(20)
            assert run.ending == ("finished" if at == 1000 else "bad_fork")
            assert (own.is_idle, own.stats()["blocks_used"]) == (True, 0)
    finally:
        live.start_with(None)


def test_a_full_disk_leaves_the_old_recording_and_no_leftovers(engine, tmp_path, monkeypatch):
    events = list(engine.run([Request(PROMPT, SamplingParams(3))]))
    save(events, tmp_path / "run.jsonl")
    real = Path.write_bytes

    def half(path, data):
        real(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space left"):
        save(events[:2], tmp_path / "run.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]
    assert load(tmp_path / "run.jsonl") == events
