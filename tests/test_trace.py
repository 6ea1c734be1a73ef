"""Traces: equal after the round trip, broken files refused by line, and the fold equal to the engine's own state."""

import gzip
import json
import random
import types
import typing

import pytest
from block_world import World, random_act
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events, trace
from engine.blocks import BlockPool
from engine.errors import EngineError
from engine.events import EVENT_TYPES, BlockFreed, BlockTaken, Sampled
from engine.request import Request, SamplingParams
from tests.toys import toy_engine


def values_of(kind):
    """A strategy for the values that an annotation of an event's field allows."""
    if typing.get_origin(kind) is tuple:
        kinds = typing.get_args(kind)
        if kinds[-1] is Ellipsis:
            return st.lists(values_of(kinds[0]), max_size=3).map(tuple)
        return st.tuples(*map(values_of, kinds))
    if typing.get_origin(kind) is types.UnionType:
        return st.one_of(*map(values_of, typing.get_args(kind)))
    any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too
    floats = st.floats(allow_nan=False, allow_infinity=False)
    return {int: st.integers(), float: floats, str: any_text, bool: st.booleans(), type(None): st.none()}[kind]


def events_of(event_type):
    kinds = typing.get_type_hints(event_type)
    return st.builds(event_type, **{name: values_of(kind) for name, kind in kinds.items()})


def sampled(**changes):
    fields = {"step": 3, "clock": 0.25, "request_id": "a", "round": 1, "index": 0, "token_id": 7, "piece": "é"}
    return Sampled(**fields | {"label": "é", "fate": "bonus", "p": 1 / 3, "p_model": 5e-324} | changes)


def written(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def refused(path):
    with pytest.raises(EngineError) as caught:
        trace.load(path)
    assert caught.value.code == "bad_trace"
    assert str(caught.value.values["line"]) in str(caught.value)
    return caught.value.values["line"]


def test_every_kind_of_event_can_be_written_and_read():
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    assert set(EVENT_TYPES) == set(kinds) - {events.Event}


# ---- files ------------------------------------------------------------------------------------------------------


def test_every_type_of_event_is_equal_after_the_round_trip(tmp_path):
    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(st.tuples(*map(events_of, EVENT_TYPES)))
    def comes_back(events):
        for name in ("run.jsonl", "run.jsonl.gz"):
            trace.save(events, tmp_path / name)
            loaded = trace.load(tmp_path / name)
            assert loaded == list(events)
            assert [hash(event) for event in loaded] == [hash(event) for event in events]  # tuples, not lists

    comes_back()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.jsonl", "run.jsonl.gz"]


def test_the_file_is_json_lines_with_the_type_first(tmp_path):
    trace.save([sampled()], tmp_path / "run.jsonl")
    line = (tmp_path / "run.jsonl").read_text().splitlines()[0]
    assert line.startswith('{"type":"Sampled","step":3,"clock":0.25,"request_id":"a"')
    assert json.loads(line)["p"] == 1 / 3


def test_gzip_is_used_when_the_name_says_so_and_equal_runs_give_equal_bytes(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        trace.save([sampled(), sampled(index=1)], tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert len(gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).splitlines()) == 2


def test_an_event_that_json_cannot_carry_is_refused_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "run.jsonl"
    trace.save([sampled()], path)
    for bad in (sampled(p=float("nan")), sampled(p=float("inf")), sampled(token_id=object())):
        with pytest.raises(EngineError, match="cannot be saved"):
            trace.save([sampled(), bad], path)
    assert trace.load(path) == [sampled()]
    assert [found.name for found in tmp_path.iterdir()] == ["run.jsonl"]


def broken_lines():
    good = trace.encode(sampled())
    return {
        "not json": "{",
        "no object": "[1, 2]",
        "no type": json.dumps({"step": 1}),
        "a null": "null",
        "an unknown type": json.dumps(good | {"type": "Guessed"}),
        "a type that is no name": json.dumps(good | {"type": ["Sampled"]}),
        "a base class": json.dumps({"type": "Event", "step": 1, "clock": 0.0}),
        "a missing field": json.dumps({name: value for name, value in good.items() if name != "fate"}),
        "a surplus field": json.dumps(good | {"colour": "red"}),
        "text for a number": json.dumps(good | {"token_id": "7"}),
        "a float for a count": json.dumps(good | {"index": 0.5}),
        "a truth value for a number": json.dumps(good | {"p": True}),
        "not a number": json.dumps(good | {"p": float("nan")}),
        "too large a number": json.dumps(good).replace("0.25", "1e999"),
        "deep nesting": "[" * 100_000,
    }


@pytest.mark.parametrize("what", broken_lines())
def test_a_broken_line_is_refused_with_its_number(what, tmp_path):
    good = json.dumps(trace.encode(sampled()))
    assert refused(written(tmp_path / "run.jsonl", good, "", broken_lines()[what], good)) == 3


@pytest.mark.parametrize("versions", ["torch", [["torch"]], [["torch", 2]], [["torch", "2", "13"]], None])
def test_a_nested_list_of_the_wrong_things_is_refused(versions):
    started = trace.encode(World(4, 4).events[0])
    assert trace.decode(started | {"versions": [["torch", "2.13.0"]]}).versions == (("torch", "2.13.0"),)
    with pytest.raises(EngineError, match="EngineStarted.versions"):
        trace.decode(started | {"versions": versions})


def test_files_that_are_cut_off_or_no_gzip_or_no_text_are_refused(tmp_path):
    path = tmp_path / "run.jsonl.gz"
    dice = random.Random(0)
    trace.save([sampled(p=dice.random(), p_model=dice.random()) for _ in range(2_000)], path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert refused(path) > 100
    path.write_bytes(b"no gzip at all")
    assert refused(path) == 1
    path.write_bytes(data[:40] + b"\xff" * 40 + data[80:])
    assert refused(path) >= 1
    plain = tmp_path / "run.jsonl"
    plain.write_bytes(b"\xff\xfe\x00")
    assert refused(plain) == 1


# ---- fold -------------------------------------------------------------------------------------------------------


def test_a_whole_number_may_stand_for_a_float():
    assert trace.decode(trace.encode(sampled()) | {"p": 1}) == sampled(p=1.0)


def test_events_that_contradict_each_other_are_refused():
    freed = BlockFreed(step=1, clock=0.0, request_id="a", index=0, block=3, ref_count=0)
    with pytest.raises(EngineError) as caught:
        trace.fold([sampled(), freed])
    assert (caught.value.code, caught.value.values["line"]) == ("bad_trace", 2)


def test_folding_a_saved_run_of_the_pool_gives_its_tables_counts_and_hashes(tmp_path):
    world, dice = World(24, 4), random.Random(11)
    for _ in range(600):
        random_act(world, dice)
    trace.save(world.events, tmp_path / "run.jsonl.gz")
    state = trace.fold(trace.load(tmp_path / "run.jsonl.gz"))
    seen = world.pool.snapshot()
    assert state.tables == {name: table for name, table in seen["tables"].items() if table}
    assert (state.ref_counts, state.hashes) == (seen["ref_counts"], seen["hashes"])


def test_a_block_is_filled_until_it_is_taken_anew():
    events = []
    pool = BlockPool(2, 2, report=lambda kind, **fields: events.append(kind(step=0, clock=0.0, **fields)))
    pool.allocate("a", 3)
    pool.commit("a", [1, 2, 3], 3)
    assert trace.fold(events).filled == {0: True}
    pool.free("a")
    pool.allocate("b", 2, [1, 2, 3])
    assert trace.fold(events).filled == {0: True}
    assert trace.fold(events).tables == {"b": [0]}
    pool.free("b")
    pool.allocate("c", 4)
    assert trace.fold(events).filled == {}


REQUESTS = [
    Request([1, 2, 3, 1, 2, 4, 1, 2, 3], SamplingParams(20, temperature=0.8, seed=3), "ngram", n=2, id="7"),
    Request([1, 2, 3, 1, 2, 4, 1, 2, 5], SamplingParams(20, temperature=0.8, seed=3), "tree", id="__proto__"),
    Request([5, 6], SamplingParams(20), id="plain"),
]


def test_folding_what_an_engine_reports_gives_its_tables_counts_and_hashes_after_every_step():
    engine, state, num_steps = toy_engine(num_blocks=48), trace.State(), 0
    for request in REQUESTS:
        engine.add(request)
    while not engine.is_idle:
        for event in engine.step():
            trace.apply(state, event)
        seen, num_steps = engine.pool.snapshot(), num_steps + 1
        assert state.tables == {name: table for name, table in seen["tables"].items() if table}
        assert (state.ref_counts, state.hashes) == (seen["ref_counts"], seen["hashes"])
        if num_steps == 4:
            engine.fork("plain", 4)
        if num_steps == 6:
            engine.abort("__proto__")
    assert num_steps >= 20
    assert (state.tables, state.ref_counts) == ({}, {})


def test_folding_what_an_engine_reports_gives_the_texts_the_rounds_and_the_cache_lengths():
    state, num_passes = trace.State(), 0
    for event in toy_engine(watch={"distributions"}).run(REQUESTS):
        trace.apply(state, event)
        num_passes += type(event).__name__ == "Forwarded" and "7" in event.request_ids
    assert state.order == ["7", "__proto__", "plain", "7.1"]
    assert state.requests["7"].num_passes == num_passes
    for request in state.requests.values():
        assert request.status == "finished"
        assert request.text == request.finished.text == "".join(token.piece for token in request.tokens)
        assert request.finished.num_tokens == len(request.token_ids) == 20
        assert request.token_ids == [token.token_id for token in request.tokens]
        assert [token.index for token in request.tokens] == list(range(20))
        assert [index for item in request.rounds for index in item.sampled] == list(range(20))
        bills = [item.bill for item in request.rounds if item.bill]
        assert request.clock == bills[-1].request_clock > 0
        assert bills[-1].num_cached == request.prompt_length + 19
        assert request.cache_length == 0  # its blocks are gone
    drafted = [item for item in state.requests["__proto__"].rounds if item.drafted]
    assert drafted
    assert all(item.verified and item.inspected for item in drafted)


def test_the_state_is_plain_json_and_a_copy():
    taken = BlockTaken(step=1, clock=0.5, request_id="a", index=0, block=3)
    state = trace.fold([taken, sampled()])
    plain = state.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["ref_counts"] == {"3": 1}
    trace.apply(state, sampled(index=1))
    assert len(plain["requests"]["a"]["tokens"]) == 1
