"""The one thread that owns the engine: runs in, events out.

Knows nothing of pages and sockets. Runs take the engine one at a time, in the order they came; between two steps of
one it sees whether it was stopped, and whether anybody still watches.
"""

import dataclasses
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from engine import Engine, EngineError
from lessons.runs import Run
from lessons.turns import Turns

log = logging.getLogger(__name__)

UNREAD_SECONDS = 20.0  # a run that nobody watches makes room for those who wait
MAX_WAITING = 100
MAX_WAITING_EACH = 3  # of one visitor
MAX_PROMPT_TOKENS = 2048
Progress = Callable[[float, str], None]


class NotReady(EngineError):
    """The run cannot be had now: `code` is "no_model", "loading", "failed", "busy" or "too_many_yours"."""


@dataclass(frozen=True)
class Status:
    """What the worker is doing. state: "no_model", "loading", "ready" or "failed"; fraction and code tell how far.

    code, message and values are those of the error where it failed. model and weights_sha256: what the engine runs,
    "" until it is ready.
    """

    state: str
    fraction: float = 0.0
    code: str = ""
    message: str = ""
    values: dict[str, object] = field(default_factory=dict)
    model: str = ""
    weights_sha256: str = ""
    running: str = ""
    waiting: int = 0


class Worker:
    """Owns an engine that `make` builds on the worker's own thread; make=None means there never is one."""

    def __init__(self, make: Callable[[Progress], Engine] | None):
        self._make = make
        self._state = Status("loading" if make else "no_model")
        self._queue = threading.Condition()  # held whenever one of the next three is read or changed
        self._waiting: list[Run] = []
        self._current: Run | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        if make:
            self._thread.start()

    # ---- called from any thread ----

    def status(self) -> Status:
        """What is going on, at once."""
        with self._queue:
            running = self._current.id if self._current else ""
            return dataclasses.replace(self._state, running=running, waiting=len(self._waiting))

    def submit(self, run: Run) -> None:
        """Queue a run; NotReady where there is no engine, or too many wait."""
        with self._queue:
            self._check_room(run)
            self._waiting.append(run)
            self._number()
            self._queue.notify()

    def stop(self, run: Run) -> None:
        """End a run within one step, one that waits at once. Harmless on a run that is over."""
        with self._queue:
            run.is_stopping = True
            if run in self._waiting:
                self._waiting.remove(run)
                self._number()
                run.end("stopped")

    def close(self) -> None:
        """End the thread after the current step, and all runs; loading ends when it next tells how far it is."""
        with self._queue:
            self._is_closing = True
            for run in self._waiting:
                run.end("stopped")
            self._waiting.clear()
            self._queue.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)  # a process that ends under a thread in native code is aborted by the system

    def _check_room(self, run: Run) -> None:
        state = self._state
        if state.state != "ready" or self._is_closing:
            raise NotReady(state.state, f"the engine is not ready: {state.state} {state.message}".strip())
        if len(self._waiting) >= MAX_WAITING:
            raise NotReady("busy", f"{MAX_WAITING} runs are waiting; try again later", waiting=MAX_WAITING)
        num_own = sum(other.visitor == run.visitor for other in self._waiting) if run.visitor else 0
        if num_own >= MAX_WAITING_EACH:
            raise NotReady("too_many_yours", f"{num_own} runs of this visitor are waiting", waiting=num_own)

    def _number(self) -> None:
        for place, run in enumerate(self._waiting, start=1):
            run.place = place if self._current else place - 1

    # ---- on the worker's own thread ----

    def _work(self) -> None:
        try:
            engine = self._make(self._report_progress)
            runs = engine.started()
        except Exception as problem:  # whatever it was, the pages stay open on recorded runs and say so
            log.warning("no model: %s", problem)
            code, values = getattr(problem, "code", "other"), getattr(problem, "values", {})
            self._state = Status("failed", code=code, message=str(problem), values=values)
            return
        self._state = Status("ready", 1.0, model=runs.model, weights_sha256=runs.weights_sha256)
        while run := self._take():
            self._do(engine, run)

    def _report_progress(self, fraction: float, code: str = "") -> None:
        if self._is_closing:
            raise InterruptedError("closing")
        self._state = Status("loading", fraction, code)

    def _take(self) -> Run | None:
        """The next run, as soon as there is one; None when the worker closes."""
        with self._queue:
            while True:
                self._queue.wait_for(lambda: self._waiting or self._is_closing)
                self._current = None if self._is_closing else self._waiting.pop(0)
                self._number()
                if self._current is None or not self._waiting or self._current.seconds_unread() <= UNREAD_SECONDS:
                    return self._current
                self._current.end("unwatched", _unwatched())  # its reader left while it waited, and others are there

    def _do(self, engine: Engine, run: Run) -> None:
        turns = Turns(engine, run, MAX_PROMPT_TOKENS)
        problem = None
        try:
            ending = self._drive(turns, run)
        except Exception as caught:  # this run ends; the thread, the pages and the next run go on
            problem = _told(caught)
            ending = problem.code
            self._clear(turns)
        with self._queue:
            self._current = None
            self._number()
        run.end(ending, problem)

    def _drive(self, turns: Turns, run: Run) -> str:
        turns.start()
        while turns.step():
            is_unread = run.seconds_unread() > UNREAD_SECONDS
            if self._is_closing:
                run.is_stopping = True
            elif self._waiting and is_unread:
                raise _unwatched()
        return "stopped" if run.is_stopping else "finished"

    def _clear(self, turns: Turns) -> None:
        try:
            turns.abort()
        except Exception:  # the engine is as broken as it was before
            log.exception("a failed run could not be cleared away")


def _unwatched() -> EngineError:
    return EngineError("unwatched", "nobody watched this run any more, and others were waiting")


def _told(caught: Exception) -> EngineError:
    """The error that a reader is told of; a fault of ours is for the log."""
    if isinstance(caught, EngineError):
        return caught
    log.error("a run failed", exc_info=caught)
    return EngineError("engine_failed", f"{type(caught).__name__}: {caught}")
