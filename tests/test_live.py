"""Live runs on a made-up engine: fair races, the queue, stop, forks, limits, and a worker that survives all of it."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from engine import (
    EngineError,
    EngineStarted,
    Finished,
    Request,
    RoundFinished,
    Sampled,
    SamplingParams,
    Submitted,
    encode,
    load_trace,
    save_trace,
)
from engine.weights import LoadedModel
from lessons import live, runs, worker
from lessons.runs import Run, Shelf, mode_of
from lessons.turns import Turns
from tests.toys import toy_engine

PATIENCE = 20.0
FEW = SamplingParams(max_new_tokens=12, ignore_eos=True)


def request(name: str, tokens: int = 8, drafter: str = "", prompt: str | list[int] = "a b c d e") -> Request:
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


def driven(mode: str, *requests: Request, forks: tuple = (), engine: object = None) -> tuple[Run, FakeEngine]:
    """A run driven to its end on this thread."""
    engine, run = engine or FakeEngine(), Run(requests, mode, forks)
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    return run, engine


def forks_of(run: Run) -> list[tuple[str, int]]:
    """Parent and length of every fork of a run, parallel samples left out."""
    born = [event for event in run.events if isinstance(event, Submitted)]
    return [(event.parent, event.fork_at) for event in born if "/" in event.request_id]


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
    run, engine = driven("together", request("one", 10), forks=(("one", 9),))
    assert forks_of(run) == [("one", 9)]
    assert engine.is_idle


def test_a_fork_can_be_forked_before_it_is_born() -> None:
    run, engine = driven("together", request("A", 10), forks=(("A/1", 9), ("A", 6)))
    assert forks_of(run) == [("A", 6), ("A/1", 9)]
    assert engine.is_idle


def test_forks_of_forks_and_of_samples_on_the_engine_itself() -> None:
    prompt = [1, 2, 3, 4]
    sampled = Request(prompt, FEW, n=2, id="A")
    run, engine = driven("together", sampled, forks=(("A.1", 6), ("A.1/1", 6), ("A", 7)), engine=toy_engine())
    assert sorted(forks_of(run)) == [("A", 7), ("A.1", 6), ("A.1/1", 6)]
    ends = [event for event in run.events if isinstance(event, Finished)]
    assert [(event.finish_reason, event.num_tokens) for event in ends] == [("length", 12)] * 5
    assert engine.is_idle


def test_a_fork_in_a_prompt_that_is_still_being_computed_waits_for_it() -> None:
    asked = Request([1] * 11, FEW, id="A")
    run, engine = driven("together", asked, forks=(("A", 3),), engine=toy_engine(max_batch_tokens=4))
    assert forks_of(run) == [("A", 3)]
    assert engine.is_idle


def test_a_fork_of_no_token_ends_the_run_with_a_refusal() -> None:
    with pytest.raises(EngineError) as refusal:
        driven("together", Request([1] * 11, FEW, id="A"), forks=(("A", 0),), engine=toy_engine())
    assert refusal.value.code == "bad_fork"


def test_a_fork_of_what_ended_too_soon_is_dropped() -> None:
    run, engine = driven("together", request("A", 3), request("B", 20), forks=(("A", 9), ("nobody", 6)))
    assert forks_of(run) == []
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


def test_a_waiting_run_is_stopped_at_once_and_the_others_move_up(engines: list[FakeEngine]) -> None:
    first = live.run([request("one", 500)])
    until(lambda: live.status().running == first)
    second, third = live.run([request("two")]), live.run([request("three")])
    live.stop(second)
    assert live.find(second).ending == "stopped"
    assert live.find(first).ending == ""
    assert (live.find(third).place, live.status().waiting) == (1, 1)
    assert not live.events(second)
    live.stop(first)
    assert ended(third).ending == "finished"


def test_a_run_that_fails_keeps_its_problem_and_the_next_one_runs(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Request) -> str:
        raise EngineError("never_fits", "too much", tokens=9, slots=4)

    assert ended(live.run([request("one", prompt="")])).ending == "empty_prompt"
    with monkeypatch.context() as patch:
        patch.setattr(engines[0], "add", refuse)
        failed = ended(live.run([request("two")]))
    assert (failed.ending, failed.problem.code, failed.problem.values) == (
        "never_fits",
        "never_fits",
        {"tokens": 9, "slots": 4},
    )
    whole = ended(live.run([request("three")]))
    assert (whole.ending, whole.problem) == ("finished", None)


def test_a_fault_of_the_engine_ends_one_run_only(engines: list[FakeEngine]) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("boom")

    whole, engines[0]._round = engines[0]._round, broken
    failed = ended(live.run([request("one")]))
    assert failed.ending == failed.problem.code == "engine_failed"
    assert engines[0].is_idle
    engines[0]._round = whole
    assert ended(live.run([request("two")])).ending == "finished"


def test_a_run_that_fills_the_pool_is_cleared_away(engines: list[FakeEngine]) -> None:
    many = [request(f"r{n}", 512) for n in range(4)]
    assert ended(live.run(many)).ending == "out_of_blocks"
    assert engines[0].stats() == {"blocks_free": 256, "blocks_used": 0, "running": 0}
    assert ended(live.run([request("two")])).ending == "finished"


def test_a_run_that_nobody_watches_makes_room_for_those_who_wait(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "UNREAD_SECONDS", 0.05)
    lonely = live.run([request("one", 512)])
    until(lambda: live.status().running == lonely)
    waiting = live.run([request("two", 5)])
    assert (ended(lonely).ending, live.find(lonely).problem.code) == ("unwatched", "unwatched")
    assert ended(waiting).ending == "finished"


def test_a_run_whose_reader_left_while_it_waited_is_not_begun_before_those_who_are_there(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = live.run([request("one", 500)])
    until(lambda: live.status().running == first)
    live.find(first).readers.add(watching := object())
    gone, there = live.run([request("two", 500)]), live.run([request("three", 5)])
    for run_id in (gone, there):
        live.find(run_id).readers.add(watching)
    live.find(gone).leave(watching)
    monkeypatch.setattr(worker, "UNREAD_SECONDS", 0.0)
    live.stop(first)
    assert (ended(gone).ending, live.find(gone).events) == ("unwatched", [])
    assert ended(there).ending == "finished"


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


def test_one_visitor_has_three_waiting_runs_and_others_have_theirs(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_as(visitor: str) -> str:
        monkeypatch.setattr(live, "_visitor", lambda: visitor)
        return live.run([request("one", 500)])

    first = run_as("me")
    until(lambda: live.status().running == first)
    ids = [run_as("me") for _ in range(3)]
    with pytest.raises(live.NotReady) as refusal:
        run_as("me")
    assert (refusal.value.code, refusal.value.values) == ("too_many_yours", {"waiting": 3})
    others = run_as("somebody else")
    live.stop(ids[0])
    for run_id in [first, *ids, others, run_as("me")]:
        live.stop(run_id)


@pytest.mark.parametrize("prompt", ["x" * 81, "x " * 60, [1] * 6])
def test_a_prompt_over_the_limit_is_refused_unread(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch, prompt: str | list[int]
) -> None:
    monkeypatch.setattr(worker, "MAX_PROMPT_TOKENS", 5)
    with pytest.raises(EngineError) as refusal:
        live.run([request("one"), request("two", prompt=prompt)])
    assert (refusal.value.code, refusal.value.values) == ("prompt_over_limit", {"largest": 5})


def test_a_prompt_of_too_many_tokens_ends_its_run(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_PROMPT_TOKENS", 5)
    failed = ended(live.run([request("one"), request("two", prompt="a b c d e f")]))
    assert (failed.ending, failed.problem.values) == ("prompt_over_limit", {"largest": 5})
    assert engines[0].is_idle
    assert ended(live.run([request("three", prompt="a b c d e")])).ending == "finished"


@pytest.mark.parametrize(
    ("forks", "code"),
    [([("one", 6)] * 17, "too_many_forks"), ([("one", "x")], "bad_parameter"), ([(1, 6)], "bad_parameter")],
)
def test_forks_that_cannot_be_are_refused_before_anything_runs(
    engines: list[FakeEngine], forks: list[tuple], code: str
) -> None:
    with pytest.raises(EngineError) as refusal:
        live.run([request("one")], forks=forks)
    assert refusal.value.code == code


def test_lengths_are_capped_and_runs_share_no_prefix(engines: list[FakeEngine]) -> None:
    run_id = live.run([request("one", 100_000), request("two")], mode="race")
    run = live.find(run_id)
    assert run.requests[0].params.max_new_tokens == live.MAX_NEW_TOKENS
    assert len({item.cache_salt for item in run.requests}) == 2
    together = live.find(live.run([request("three"), request("four")]))
    assert len({item.cache_salt for item in together.requests}) == 1
    assert not {item.cache_salt for item in run.requests} & {item.cache_salt for item in together.requests}
    live.stop(run_id)


@pytest.mark.parametrize("number", [0, live.MAX_REQUESTS + 1])
def test_a_run_has_one_request_at_least_and_no_more_than_are_allowed(engines: list[FakeEngine], number: int) -> None:
    with pytest.raises(EngineError):
        live.run([request(f"r{n}") for n in range(number)])


def test_parallel_samples_cannot_race(engines: list[FakeEngine]) -> None:
    twins = Request("a b", SamplingParams(max_new_tokens=2), n=2, id="twins")
    with pytest.raises(EngineError, match="n is 2"):
        live.run([twins, request("one")], mode="race")


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
    waiting = live.run([request("two")])
    live.close()
    assert [live.find(name).ending for name in (run_id, waiting)] == ["stopped", "stopped"]
    assert engines[0].is_idle


# ---- runs and the shelf -------------------------------------------------------------------------------------------


def test_readers_on_many_threads_get_every_line_once_and_in_order() -> None:
    events = driven("together", request("one", 150, "made-up"))[0].events
    run, lines = Run(), [[] for _ in range(4)]

    def write() -> None:
        for event in events:
            run.append([event])
        run.end("finished")

    def read(mine: list[str]) -> None:
        while not run.ending or len(mine) < len(run.events):
            mine += run.lines(len(mine), len(run.events))

    threads = [threading.Thread(target=write), *(threading.Thread(target=read, args=[mine]) for mine in lines)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        sys.setswitchinterval(interval)
    assert lines == [[json.dumps(encode(event), separators=(",", ":")) for event in events]] * 4


def test_any_text_can_be_sent() -> None:
    run = Run()
    run.append(
        [
            Finished(
                step=1, clock=0.0, request_id="a", text="\ud800 é 中 😀", finish_reason="stop", message="", num_tokens=1
            )
        ]
    )
    assert json.loads(run.lines(0, 1)[0].encode())["text"] == "\ud800 é 中 😀"


def test_the_shelf_drops_the_oldest_ended_run_and_never_one_that_goes_on() -> None:
    shelf = Shelf(max_runs=2)
    going, over, new = Run(), Run(), Run()
    over.end("finished")
    for run in (going, over, new):
        shelf.add(run)
    assert [shelf.get(run.id) for run in (going, over, new)] == [going, None, new]


def test_the_shelf_keeps_so_many_bytes_and_no_more() -> None:
    old, new = (driven("together", request("one", 40))[0] for _ in range(2))
    assert old.num_bytes == sum(map(len, old.lines(0, len(old.events))))
    old.end("finished")
    for max_bytes, is_kept in ((old.num_bytes + new.num_bytes, True), (old.num_bytes + new.num_bytes - 1, False)):
        shelf = Shelf(max_bytes=max_bytes)
        shelf.add(old)
        shelf.add(new)
        assert shelf.get(old.id) is (old if is_kept else None)
        assert shelf.get(new.id) is new


def test_ids_of_runs_cannot_be_guessed() -> None:
    ids = {Run().id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 20


@pytest.mark.parametrize("name", ["../engine", "..", "", "a/b", "no_such_run", "x" * 500])
def test_only_recorded_runs_can_be_replayed(name: str) -> None:
    assert live.find(live.replay(name)) is None


def test_a_recorded_run_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_trace(driven("race", request("one"), request("two"))[0].events, tmp_path / "run.jsonl.gz")
    monkeypatch.setattr(runs, "TRACE_FOLDER", tmp_path)
    runs.recorded_run.cache_clear()
    assert live.find(live.replay("run")).is_recorded
    runs.recorded_run.cache_clear()


# ---- shipped recordings -------------------------------------------------------------------------------------------


def shipped() -> list[EngineStarted]:
    """What each recorded run of the repository ran on."""
    return [load_trace(path)[0] for path in sorted(runs.TRACE_FOLDER.glob("*.jsonl.gz"))]


def test_all_shipped_recordings_were_made_with_the_same_weights() -> None:
    assert {started.model for started in shipped()} == {"smollm2-135m"}
    assert len({started.weights_sha256 for started in shipped()}) == 1


@pytest.mark.model
def test_shipped_recordings_were_made_with_the_weights_that_the_app_loads(smollm2: LoadedModel) -> None:
    assert {started.weights_sha256 for started in shipped()} == {smollm2.sha256}
