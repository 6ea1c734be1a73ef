"""Runs: append-only lists of events with an id, and the bounded shelf that keeps them.

Knows nothing of the engine's thread (lessons/worker.py) nor of the wire (lessons/stream.py). A run is written by one
thread and read by many; readers hold a cursor of their own and never make the writer wait.
"""

import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from engine import Engine, EngineError, EngineStarted, Event, Request, RoundFinished, encode, load_trace

TRACE_FOLDER = Path(__file__).parent.parent / "assets" / "traces"
RECORDED = "recorded-"
MAX_RUNS = 200
MAX_KEPT_BYTES = 256 * 2**20  # of JSON lines; the events themselves take about as much again
MODES = ("together", "race", "in_turn")


class Run:
    """One run. `place` is its place in the queue (0: it is running or over); `ending` says how it ended.

    ending: "" while it goes on, then "finished", "stopped", or the code of the error that ended it, which is `problem`.
    visitor: whose run it is, "" where that is not known. after: what the engine shall find out once the requests are
    done, from the engine and the events so far; its events end the run.
    """

    def __init__(
        self,
        requests: Sequence[Request] = (),
        mode: str = "together",
        forks: Sequence[tuple[str, int]] = (),
        visitor: str = "",
        after: Callable[[Engine, Sequence[Event]], Iterator[Event]] | None = None,
    ):
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}; it must be one of {MODES}")
        self.id = secrets.token_urlsafe(16)
        self.requests = tuple(requests)
        self.mode = mode
        self.forks = tuple(forks)
        self.visitor = visitor
        self.after = after
        self.is_recorded = False
        self.events: list[Event] = []
        self.num_bytes = 0  # of its JSON lines
        self.place = 0
        self.ending = ""
        self.problem: EngineError | None = None
        self.readers: set[object] = set()  # whoever follows it; add and discard are atomic
        self._last_read = time.monotonic()  # when its last reader left, or it was asked for
        self.is_stopping = False
        self.ended = threading.Event()
        self._lines: list[str] = []

    def leave(self, reader: object) -> None:
        """One reader less."""
        self._last_read = time.monotonic()
        self.readers.discard(reader)

    def seconds_unread(self) -> float:
        """How long nobody has followed it."""
        return 0.0 if self.readers else time.monotonic() - self._last_read

    def append(self, events: Iterable[Event]) -> None:
        """Add events; only the thread that owns the run calls this. They become JSON here, once for all readers."""
        news = list(events)
        lines = [json.dumps(encode(event), separators=(",", ":")) for event in news]  # ASCII: any text can be sent
        self.num_bytes += sum(map(len, lines))
        self._lines += lines  # before the events: whoever sees an event finds its line
        self.events += news

    def end(self, ending: str, problem: EngineError | None = None) -> None:
        """Close the run; nothing is appended afterwards."""
        self.place = 0
        self.problem = problem
        self.ending = ending  # last: whoever sees it sees the problem too
        self.ended.set()

    def lines(self, start: int, stop: int) -> list[str]:
        """Events start…stop as JSON."""
        return self._lines[start:stop]


def recorded(events: Iterable[Event], run_id: str = "") -> Run:
    """A run that was over before this process began."""
    run = Run()
    run.id = run_id or run.id
    run.is_recorded = True
    run.append(events)
    run.mode = mode_of(run.events)
    run.end("finished")
    return run


def mode_of(events: Sequence[Event]) -> str:
    """How the requests of a run shared the engine: "race" where they took turns and changed places again and again."""
    turns = [(event.step, event.request_id) for event in events if isinstance(event, RoundFinished)]
    owners = [name for _, name in turns]
    if len({step for step, _ in turns}) < len(turns) or len(set(owners)) < 2:
        return "together"
    num_changes = sum(one != other for one, other in zip(owners, owners[1:], strict=False))
    return "race" if num_changes >= 2 * len(set(owners)) - 1 else "in_turn"


@lru_cache(maxsize=32)
def recorded_run(name: str) -> Run | None:
    """The run recorded in assets/traces/NAME.jsonl.gz, None where there is none."""
    paths = {path.name.removesuffix(".jsonl.gz"): path for path in TRACE_FOLDER.glob("*.jsonl.gz")}
    return recorded(load_trace(paths[name]), RECORDED + name) if name in paths else None


def origin(events: Iterable[Event]) -> str:
    """The machine and the day of a run, for a badge; "" for one that does not say."""
    started = next((event for event in events if isinstance(event, EngineStarted)), None)
    return f"{started.device_name}, {started.recorded[:10]}" if started else ""


class Shelf:
    """The runs that can still be read: the newest ones, within two limits. Runs that go on are never dropped."""

    def __init__(self, max_runs: int = MAX_RUNS, max_bytes: int = MAX_KEPT_BYTES):
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, run: Run) -> str:
        """Keep a run and drop the oldest ended ones that no longer fit; returns its id."""
        with self._lock:
            self._runs[run.id] = run
            num_bytes = sum(kept.num_bytes for kept in self._runs.values())
            for old in [kept for kept in self._runs.values() if kept.ending and kept is not run]:
                if len(self._runs) <= self._max_runs and num_bytes <= self._max_bytes:
                    break
                num_bytes -= old.num_bytes
                del self._runs[old.id]
        return run.id

    def get(self, run_id: str) -> Run | None:
        """The run of that id, recorded or live; None where it is unknown or no longer kept."""
        if run_id.startswith(RECORDED):
            return recorded_run(run_id.removeprefix(RECORDED))
        with self._lock:
            if run_id in self._runs:
                self._runs.move_to_end(run_id)
            return self._runs.get(run_id)
