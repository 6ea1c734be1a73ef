"""Opened files: whatever an engine reports comes back, and what none reports is refused with the line it stands in."""

import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from engine import (
    BlockTaken,
    Drafted,
    EngineError,
    EngineStarted,
    Event,
    Finished,
    LaidOut,
    Preempted,
    Probed,
    Request,
    RoundFinished,
    Sampled,
    SamplingParams,
    Submitted,
    TreeGrown,
    Verified,
    Viewed,
    encode,
    save_trace,
)
from engine.drafters.eagle_tree import DEEPEST
from engine.drafters.grown import BRANCHES, MOST_NODES
from lessons import live, opened
from lessons.runs import TRACE_FOLDER, Run
from lessons.turns import Turns
from tests.toys import toy_engine

LENGTH = SamplingParams(max_new_tokens=8)


def driven(engine: object, *requests: Request, mode: str = "together", forks: tuple = ()) -> list[Event]:
    """The events of a run driven to its end on this thread."""
    run = Run(requests, mode, forks)
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    return run.events


@pytest.fixture
def race() -> list[Event]:
    """A race of a few tokens, one with drafts."""
    plain, drafted = Request("a b c", LENGTH, id="plain"), Request("a b c", LENGTH, "made-up", id="drafted")
    return driven(FakeEngine(), plain, drafted, mode="race")


@pytest.fixture
def saved(tmp_path: Path, race: list[Event]) -> Path:
    """That race in a file."""
    path = tmp_path / "run.jsonl.gz"
    save_trace(race, path)
    return path


def refusal(path: Path) -> EngineError:
    with pytest.raises(EngineError) as caught:
        live.open_file(path)
    return caught.value


# ---- what can be opened -------------------------------------------------------------------------------------------


def test_a_saved_run_can_be_opened_zipped_or_not(saved: Path, tmp_path: Path, race: list[Event]) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress(saved.read_bytes()))
    for path in (saved, plain):
        run = live.find(live.open_file(path))
        assert (run.events, run.is_recorded, run.mode) == (race, True, "race")


def test_a_run_that_does_not_fit_the_page_is_refused_and_not_kept(saved: Path, race: list[Event]) -> None:
    seen = []
    with pytest.raises(EngineError) as caught:
        live.open_file(saved, lambda events: bool(seen.append(events)))
    assert caught.value.code == "other_lesson"
    assert seen == [race]
    assert live.events(live.open_file(saved, lambda events: events == race)) == race


def test_all_members_of_a_gzip_file_are_read(saved: Path, race: list[Event]) -> None:
    lines = gzip.decompress(saved.read_bytes()).splitlines(keepends=True)
    parts = [b"".join(lines[:9]), b"".join(lines[9:])]
    saved.write_bytes(b"".join(map(gzip.compress, parts)))
    assert live.events(live.open_file(saved)) == race


@pytest.mark.parametrize("path", sorted(TRACE_FOLDER.glob("*.gz")), ids=lambda path: path.name)
def test_every_recorded_run_can_be_opened(path: Path) -> None:
    assert opened.read(path).events


@pytest.mark.parametrize("drafter", ["ngram", "layer_skip", "tree", "eagle2", "lookahead:3,3,2"])
def test_what_the_engine_reports_of_samples_forks_and_tight_pools_can_be_opened(drafter: str) -> None:
    prompt, params = [1, 2, 3, 1, 2, 4, 1, 2], SamplingParams(20, temperature=0.8, seed=3)
    engine = toy_engine(num_blocks=24, watch={"distributions"})
    several = Request(prompt, params, drafter, n=2, id="A")
    forks = (("A", 12), ("A.1", 14), ("A/1", 15))
    events = driven(engine, several, Request(prompt, params, id="B"), forks=forks)
    assert sum(isinstance(event, Submitted) for event in events) == 6
    opened.check(events)


def test_a_run_with_a_preempted_request_can_be_saved_and_opened(tmp_path: Path) -> None:
    requests = [Request([1, 2, 3, 4, 5], SamplingParams(20, seed=seed)) for seed in range(4)]
    events = driven(toy_engine(num_blocks=8), *requests)
    assert any(isinstance(event, Preempted) for event in events)
    save_trace(events, tmp_path / "run.jsonl")
    assert opened.read(tmp_path / "run.jsonl").events == events


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\n\n", b"{", b"\x1f\x8bjunk", b"\xff\xfe", b'{"type": "Nothing"}', b"[]" * 9])
def test_what_is_no_run_is_refused_with_a_code(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert refusal(path).code == "bad_trace"


def test_a_run_in_which_nothing_was_asked_is_no_run(tmp_path: Path, race: list[Event]) -> None:
    save_trace(race[:1], tmp_path / "run.jsonl")
    assert refusal(tmp_path / "run.jsonl").code == "bad_trace"


CHANGES = [
    (EngineStarted, {"block_size": 0}), (EngineStarted, {"block_size": 4097}), (EngineStarted, {"num_blocks": 0}),
    (EngineStarted, {"num_blocks": 2**20 + 1}), (EngineStarted, {"threads": -1}), (EngineStarted, {"clock": -1.0}),
    (EngineStarted, {"versions": (("\udcff", "1"),)}), (EngineStarted, {"clock": 1e9}),
    (RoundFinished, {"request_clock": 1e300}), (Finished, {"clock": 2e7}),
    (Submitted, {"draft_length": opened.MAX_DRAFT_LENGTH + 1}),
    (Submitted, {"pieces": ()}), (Submitted, {"prompt_ids": (1, 2, 2**60)}),
    (Submitted, {"pieces": ("a", "\ud800", "c")}), (Sampled, {"index": 1}),
    (Sampled, {"index": -1}), (Sampled, {"round": 99}), (BlockTaken, {"block": 256}),
    (Drafted, {"q": (0.5,)}), (Drafted, {"parents": (-1, 0)}), (Drafted, {"parents": (0, 0, 1)}),
    (Drafted, {"parents": (-1, -2, 1)}), (Drafted, {"seconds": -1e-9}), (Drafted, {"token_ids": (7, 8, 9)}),
    (Verified, {"u": ()}), (Verified, {"verdicts": ("accepted",)}), (Verified, {"p_model": (0.5,)}),
    (Verified, {"num_accepted": 4}), (Verified, {"round": 2}), (RoundFinished, {"request_clock": -0.5}),
    (RoundFinished, {"seconds_other": -0.5}), (Finished, {"text": "half \ud83d"}), (Finished, {"clock": 0.0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "changes"), CHANGES, ids=lambda value: getattr(value, "__name__", None) or ascii(value)
)
def test_what_no_engine_reports_is_refused(saved: Path, race: list[Event], kind: type, changes: dict) -> None:
    at = next(index for index, event in enumerate(race) if isinstance(event, kind))
    lines = [json.dumps(encode(event)) for event in race]
    lines[at] = json.dumps(encode(dataclasses.replace(race[at], **changes)))
    saved.write_text("\n".join(lines))
    problem = refusal(saved)
    assert problem.code == "bad_trace"
    assert at < problem.values["line"] <= len(race)


OF_TREES = [
    ("eagle2", TreeGrown, {"values": ()}), ("eagle2", TreeGrown, {"ranked": (0, 0)}),
    ("eagle2", TreeGrown, {"expanded": (10**6,)}), ("eagle2", TreeGrown, {"expanded": (-1,)}),
    ("lookahead:3,3,2", Probed, {"favourite_ids": ()}), ("lookahead:3,3,2", Probed, {"parents": (99, 0, 1)}),
]  # fmt: skip


@pytest.mark.parametrize(("drafter", "kind", "changes"), OF_TREES)
def test_what_no_drafter_reports_is_refused(drafter: str, kind: type, changes: dict) -> None:
    events = list(toy_engine().run([Request([1, 2, 3, 1, 2], SamplingParams(20), drafter)]))
    opened.check(events)
    at = next(index for index, event in enumerate(events) if isinstance(event, kind))
    events[at] = dataclasses.replace(events[at], **changes)
    with pytest.raises(EngineError):
        opened.check(events)


LISTS = (
    "token_ids", "pieces", "positions", "errors", "favourite_ids", "favourite_pieces", "plain_ids", "plain_pieces",
)  # fmt: skip


def grown(num_nodes: int, num_ranked: int) -> dict[str, tuple]:
    """The lists of a tree that is as flat as can be."""
    nodes = {"token_ids": (1,) * num_nodes, "pieces": ("a",) * num_nodes, "parents": (-1,) * num_nodes}
    return nodes | {"values": (0.1,) * num_nodes, "expanded": (), "ranked": tuple(range(num_ranked))}


def test_the_largest_tree_that_eagle_2_grows_can_be_shown() -> None:
    assert BRANCHES + BRANCHES**2 * (DEEPEST - 1) <= opened.MAX_NODES
    assert MOST_NODES < opened.MAX_ROWS


@pytest.mark.parametrize(("num_nodes", "num_ranked", "is_shown"), [
    (opened.MAX_NODES, opened.MAX_ROWS - 1, True), (opened.MAX_NODES + 1, 4, False),
    (opened.MAX_NODES, opened.MAX_ROWS, False),
])  # fmt: skip
def test_a_tree_too_large_to_draw_is_refused(num_nodes: int, num_ranked: int, is_shown: bool) -> None:
    events = list(toy_engine().run([Request([1, 2, 3, 1, 2], SamplingParams(20), "eagle2")]))
    at = next(index for index, event in enumerate(events) if isinstance(event, TreeGrown))
    fault = opened.fault_of_lists(dataclasses.replace(events[at], **grown(num_nodes, num_ranked)))
    assert (fault == "") == is_shown


def test_a_view_of_more_blocks_than_a_sequence_has_is_refused() -> None:
    event = next(event for event in live.events(live.replay("long_context")) if isinstance(event, Viewed))
    assert opened.fault_of_lists(dataclasses.replace(event, num_blocks=opened.MAX_VIEWED)) == ""
    assert opened.fault_of_lists(dataclasses.replace(event, num_blocks=opened.MAX_VIEWED + 1))


def test_a_mask_too_large_to_draw_is_refused() -> None:
    event = next(event for event in live.events(live.replay("trees")) if isinstance(event, LaidOut))

    def of(num_rows: int) -> str:
        lists = {name: getattr(event, name)[:1] * num_rows for name in LISTS}
        parents = (-1,) + (0,) * (num_rows - 1)
        return opened.fault_of_lists(dataclasses.replace(event, **lists | {"parents": parents}))

    assert of(opened.MAX_ROWS) == ""
    assert of(opened.MAX_ROWS + 1)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "1e400", "NaN", "9" * 5000])
def test_a_time_beyond_all_numbers_is_refused(saved: Path, race: list[Event], number: str) -> None:
    line = json.dumps(encode(race[0])).replace('"clock": 0.0', f'"clock": {number}')
    assert number in line
    saved.write_text(line)
    assert refusal(saved).code == "bad_trace"


def test_a_run_that_does_not_say_what_it_ran_on_is_refused(saved: Path, race: list[Event]) -> None:
    save_trace(race[1:], saved)
    assert refusal(saved).values["line"] == 1


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_file_cut_short_is_refused(saved: Path, cut: int) -> None:
    saved.write_bytes(saved.read_bytes()[:-cut])
    assert refusal(saved).code == "bad_trace"


# ---- limits -------------------------------------------------------------------------------------------------------


def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "MAX_BYTES", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    assert refusal(path).code == "too_large"


def test_so_many_events_are_opened_and_no_more(saved: Path, race: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "MAX_EVENTS", len(race))
    assert live.events(live.open_file(saved)) == race
    monkeypatch.setattr(opened, "MAX_EVENTS", len(race) - 1)
    problem = refusal(saved)
    assert (problem.code, problem.values) == ("too_many_events", {"largest": len(race) - 1})


def test_a_line_without_end_is_refused_unread(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "MAX_LINE_BYTES", 100)
    assert (refusal(saved).code, refusal(saved).values["line"]) == ("bad_trace", 1)
