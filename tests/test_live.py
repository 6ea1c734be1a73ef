"""Live runs on a made-up engine: fair races, the queue, stop, forks, limits, and a worker that survives all of it."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from engine import EngineError, Finished, Request, RoundFinished, Sampled, SamplingParams, Submitted, save_trace
from lessons import live, runs, worker
from lessons.runs import Run, Shelf, mode_of
from lessons.turns import Turns

PATIENCE = 20.0


def request(name: str, tokens: int = 8, drafter: str = "", prompt: str = "a b c d e") -> Request:
    return Request(prompt, SamplingParams(max_new_tokens=tokens), drafter or None, id=name)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def ended(run_id: str) -> Run:
    run = live.find(run_id)
    assert run.ended.wait(PATIENCE)
    return run


@pytest.fixture
def engines() -> Iterator[list[FakeEngine]]:
    """Starts a worker whose engine takes 2 ms a step; the engine that it made is in the list."""
    made: list[FakeEngine] = []
    live.start_with(lambda progress: made.append(FakeEngine(0.002)) or made[0])
    until(lambda: live.status().state == "ready")
    yield made
    live.start_with(None)


# ---- taking turns -------------------------------------------------------------------------------------------------


def driven(mode: str, *requests: Request, seconds: float = 0.0) -> tuple[Run, FakeEngine]:
    """A run driven to its end on this thread."""
    engine, run = FakeEngine(seconds), Run(requests, mode)
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    return run, engine


def test_in_a_race_the_one_with_less_of_its_own_clock_goes_next() -> None:
    run, engine = driven("race", request("one", 40), request("two", 40, "made-up"))
    clocks = {"one": 0.0, "two": 0.0}
    done: set[str] = set()
    for event in run.events:
        if isinstance(event, RoundFinished):
            rivals = [clock for name, clock in clocks.items() if name not in done and name != event.request_id]
            assert all(clocks[event.request_id] <= clock for clock in rivals)
            clocks[event.request_id] = event.request_clock
        if isinstance(event, Finished):
            done.add(event.request_id)
    assert None not in engine.steps


def test_in_turn_the_second_begins_when_the_first_has_ended() -> None:
    _, engine = driven("in_turn", request("one"), request("two"))
    steps = [name for name in engine.steps if name]
    assert steps == sorted(steps)


def test_together_nobody_steps_alone() -> None:
    run, engine = driven("together", request("one"), request("two"))
    assert set(engine.steps) == {None}
    assert {event.request_id for event in run.events if isinstance(event, Finished)} == {"one", "two"}


def test_every_run_begins_with_what_it_ran_on() -> None:
    run, _ = driven("together", request("one"))
    assert [type(event).__name__ for event in run.events[:2]] == ["EngineStarted", "Submitted"]


def test_a_refused_request_leaves_none_of_its_run_behind() -> None:
    engine, run = FakeEngine(), Run([request("one"), request("two", prompt="")])
    with pytest.raises(EngineError, match="empty"):
        Turns(engine, run).start()
    assert engine.is_idle
    assert engine.stats()["blocks_used"] == 0


def test_a_recorded_race_is_known_by_its_turns() -> None:
    assert mode_of(driven("race", request("one", 20), request("two", 20))[0].events) == "race"
    assert mode_of(driven("in_turn", request("one"), request("two"))[0].events) == "in_turn"
    assert mode_of(driven("together", request("one"), request("two"))[0].events) == "together"
    assert mode_of(driven("together", request("one"))[0].events) == "together"


def test_a_fork_starts_when_its_parent_has_that_many_tokens() -> None:
    engine, run = FakeEngine(), Run([request("one", 10)], forks=[("one", 9)])
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    child = [event for event in run.events if isinstance(event, Submitted) and event.parent == "one"]
    assert [event.fork_at for event in child] == [9]
    assert engine.is_idle


# ---- the worker ---------------------------------------------------------------------------------------------------


def test_a_run_gives_every_token_in_order(engines: list[FakeEngine]) -> None:
    run = ended(live.run([request("one", 12, "made-up")]))
    assert [event.index for event in run.events if isinstance(event, Sampled)] == list(range(12))
    assert run.ending == "finished"


def test_runs_wait_for_each_other_and_know_their_place(engines: list[FakeEngine]) -> None:
    ids = [live.run([request(f"r{n}", 60)]) for n in range(3)]
    until(lambda: live.status().running == ids[0])
    assert [live.find(run_id).place for run_id in ids] == [0, 1, 2]
    assert live.status().waiting == 2
    until(lambda: live.status().running == ids[1])
    assert live.find(ids[2]).place == 1
    assert [ended(run_id).ending for run_id in ids] == ["finished"] * 3


def test_stop_frees_the_blocks_within_one_step(engines: list[FakeEngine]) -> None:
    run_id = live.run([request("one", 500)])
    until(lambda: len(live.events(run_id)) > 20)
    num_steps = len(engines[0].steps)
    live.stop(run_id)
    live.stop(run_id)
    assert ended(run_id).ending == "stopped"
    assert len(engines[0].steps) <= num_steps + 3  # one under way, one begun before the flag was seen, the abort's own
    assert engines[0].stats()["blocks_used"] == 0
    live.stop(run_id)
    live.stop("no such run")


def test_a_waiting_run_can_be_stopped(engines: list[FakeEngine]) -> None:
    first, second = live.run([request("one", 300)]), live.run([request("two")])
    live.stop(second)
    live.stop(first)
    assert ended(second).ending == "stopped"
    assert not [event for event in live.events(second) if isinstance(event, Sampled)]


def test_a_run_that_fails_ends_with_its_code_and_the_next_one_runs(engines: list[FakeEngine]) -> None:
    assert ended(live.run([request("one", prompt="")])).ending == "empty_prompt"
    assert ended(live.run([request("two")])).ending == "finished"


def test_a_fault_of_the_engine_ends_one_run_only(engines: list[FakeEngine]) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("boom")

    whole, engines[0]._round = engines[0]._round, broken
    assert ended(live.run([request("one")])).ending == "engine_failed"
    assert engines[0].is_idle
    engines[0]._round = whole
    assert ended(live.run([request("two")])).ending == "finished"


def test_a_run_that_fills_the_pool_is_cleared_away(engines: list[FakeEngine]) -> None:
    many = [request(f"r{n}", 512) for n in range(4)]
    assert ended(live.run(many)).ending == "out_of_blocks"
    assert engines[0].stats() == {"blocks_free": 256, "blocks_used": 0, "running": 0}
    assert ended(live.run([request("two")])).ending == "finished"


def test_questions_are_answered_between_the_steps_of_a_run(engines: list[FakeEngine]) -> None:
    run_id = live.run([request("one", 400)])
    until(lambda: len(live.events(run_id)) > 5)
    assert live.ask(lambda engine: engine.stats()["running"]) == 1
    with pytest.raises(ZeroDivisionError):
        live.ask(lambda engine: 1 // 0)
    live.stop(run_id)


def test_a_question_that_takes_too_long_gives_up(engines: list[FakeEngine]) -> None:
    with pytest.raises(TimeoutError):
        live.ask(lambda engine: time.sleep(0.3), seconds=0.02)


def test_generate_gives_the_events_of_one_request(engines: list[FakeEngine]) -> None:
    assert [type(event) for event in live.generate(request("one", 3))].count(Sampled) == 3
    with pytest.raises(EngineError):
        live.generate(request("two", prompt=""))


def test_a_run_that_nobody_watches_makes_room_for_those_who_wait(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "UNREAD_SECONDS", 0.05)
    lonely = live.run([request("one", 512)])
    until(lambda: live.status().running == lonely)
    watched = live.run([request("two", 5)])
    assert ended(lonely).ending == "stopped"
    assert ended(watched).ending == "finished"


def test_too_many_waiting_runs_are_refused(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WAITING", 2)
    first = live.run([request("one", 500)])
    until(lambda: live.status().running == first)
    ids = [first, live.run([request("two")]), live.run([request("three")])]
    with pytest.raises(live.NotReady) as refusal:
        live.run([request("four")])
    assert refusal.value.code == "busy"
    for run_id in ids:
        live.stop(run_id)


def test_lengths_are_capped_and_runs_share_no_prefix(engines: list[FakeEngine]) -> None:
    run_id = live.run([request("one", 100_000), request("two")], mode="race")
    run = live.find(run_id)
    assert run.requests[0].params.max_new_tokens == live.MAX_NEW_TOKENS
    assert len({item.cache_salt for item in run.requests}) == 2
    together = live.find(live.run([request("three"), request("four")]))
    assert len({item.cache_salt for item in together.requests}) == 1
    assert not {item.cache_salt for item in run.requests} & {item.cache_salt for item in together.requests}
    live.stop(run_id)


@pytest.mark.parametrize("number", [0, 17])
def test_a_run_has_one_to_sixteen_requests(engines: list[FakeEngine], number: int) -> None:
    with pytest.raises(EngineError):
        live.run([request(f"r{n}") for n in range(number)])


def test_parallel_samples_cannot_race(engines: list[FakeEngine]) -> None:
    twins = Request("a b", SamplingParams(max_new_tokens=2), n=2, id="twins")
    with pytest.raises(EngineError, match="n is 2"):
        live.run([twins, request("one")], mode="race")


def test_a_fork_runs_the_same_requests_again(engines: list[FakeEngine]) -> None:
    first = ended(live.run([request("one", 10)]))
    forked = ended(live.fork(first.id, "one", 8))
    assert [event.fork_at for event in forked.events if isinstance(event, Submitted)] == [0, 8]
    with pytest.raises(EngineError):
        live.fork(first.id, "nobody", 8)


# ---- without an engine --------------------------------------------------------------------------------------------


def test_without_a_model_runs_are_refused_and_recorded_ones_stay() -> None:
    live.start_with(None)
    assert live.status().state == "no_model"
    with pytest.raises(live.NotReady) as refusal:
        live.run([request("one")])
    assert refusal.value.code == "no_model"
    assert live.replay("paging") == "recorded-paging"


def test_while_the_model_loads_its_progress_is_known_and_runs_are_refused() -> None:
    go = threading.Event()

    def make(progress: worker.Progress) -> FakeEngine:
        progress(0.5, "converting")
        assert go.wait(PATIENCE)
        return FakeEngine()

    live.start_with(make)
    until(lambda: live.status().fraction == 0.5)
    assert (live.status().state, live.status().code) == ("loading", "converting")
    with pytest.raises(live.NotReady) as refusal:
        live.run([request("one")])
    assert refusal.value.code == "loading"
    go.set()
    until(lambda: live.status().state == "ready")
    live.start_with(None)


def test_a_model_that_cannot_be_had_leaves_the_code_of_what_went_wrong() -> None:
    def make(progress: worker.Progress) -> FakeEngine:
        raise EngineError("wrong_hash", "the file is another one")

    live.start_with(make)
    until(lambda: live.status().state == "failed")
    assert live.status().code == "wrong_hash"
    live.start_with(None)


def test_closing_ends_the_run_and_the_thread(engines: list[FakeEngine]) -> None:
    run_id = live.run([request("one", 512)])
    until(lambda: len(live.events(run_id)) > 5)
    live.close()
    assert live.find(run_id).ending == "stopped"
    assert engines[0].is_idle


# ---- the shelf and files ------------------------------------------------------------------------------------------


def test_the_shelf_drops_the_oldest_ended_run_and_never_one_that_goes_on() -> None:
    shelf = Shelf(max_runs=2)
    going, over, new = Run(), Run(), Run()
    over.end("finished")
    for run in (going, over, new):
        shelf.add(run)
    assert [shelf.get(run.id) for run in (going, over, new)] == [going, None, new]


def test_the_shelf_keeps_so_many_events_and_no_more() -> None:
    shelf = Shelf(max_events=100)
    old = driven("together", request("one", 40))[0]
    old.end("finished")
    shelf.add(old)
    new = driven("together", request("one", 40))[0]
    shelf.add(new)
    assert shelf.get(old.id) is None
    assert shelf.get(new.id) is new


def test_ids_of_runs_cannot_be_guessed() -> None:
    ids = {Run().id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 20


@pytest.mark.parametrize("name", ["../engine", "..", "", "a/b", "no_such_run", "x" * 500])
def test_only_recorded_runs_can_be_replayed(name: str) -> None:
    assert live.find(live.replay(name)) is None


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A run of a few tokens in a file."""
    path = tmp_path / "run.jsonl.gz"
    save_trace(driven("race", request("one"), request("two"))[0].events, path)
    return path


def test_a_saved_run_can_be_opened_zipped_or_not(saved: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress(saved.read_bytes()))
    opened = [live.find(live.open_file(path)) for path in (saved, plain)]
    assert opened[0].events == opened[1].events
    assert opened[0].is_recorded
    assert opened[0].mode == "race"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"{", b"\x1f\x8bjunk", b"\xff\xfe", b'{"type": "Nothing"}', b"[]" * 9])
def test_what_is_no_run_is_refused_with_a_code(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(EngineError) as refusal:
        live.open_file(path)
    assert refusal.value.code == "bad_trace"


def test_a_file_cut_short_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-40])
    with pytest.raises(EngineError):
        live.open_file(saved)


def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_OPENED_BYTES", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    with pytest.raises(EngineError) as refusal:
        live.open_file(path)
    assert refusal.value.code == "too_large"


def test_a_recorded_run_is_found_by_its_name(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "TRACE_FOLDER", saved.parent)
    runs.recorded_run.cache_clear()
    assert live.find(live.replay("run")).is_recorded
    runs.recorded_run.cache_clear()
