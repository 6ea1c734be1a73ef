"""The one thread that owns the engine: messages in, events out.

Knows nothing of pages and sockets. Runs take the engine one at a time, in the order they came; between two steps of
one it answers messages: stop, and small questions (`ask`).
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from engine import Engine, EngineError
from lessons.runs import Run
from lessons.turns import Turns

log = logging.getLogger(__name__)

UNREAD_SECONDS = 20.0  # a run that nobody watches makes room for those who wait
MAX_WAITING = 100
Progress = Callable[[float, str], None]


class NotReady(EngineError):
    """There is no engine to run on: `code` is "no_model", "loading", "failed" or "busy"."""


@dataclass(frozen=True)
class Status:
    """What the worker is doing. state: "no_model", "loading", "ready" or "failed"; fraction and code tell how far."""

    state: str
    fraction: float = 0.0
    code: str = ""
    message: str = ""
    running: str = ""
    waiting: int = 0


class Worker:
    """Owns an engine that `make` builds on the worker's own thread; make=None means there never is one."""

    def __init__(self, make: Callable[[Progress], Engine] | None):
        self._make = make
        self._state = Status("loading" if make else "no_model")
        self._inbox: queue.SimpleQueue = queue.SimpleQueue()
        self._waiting: list[Run] = []
        self._current: Run | None = None
        self._lock = threading.Lock()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        if make:
            self._thread.start()

    # ---- called from any thread ----

    def status(self) -> Status:
        """What is going on, at once."""
        with self._lock:
            s, current = self._state, self._current
            running = current.id if current else ""
            return Status(s.state, s.fraction, s.code, s.message, running, len(self._waiting))

    def submit(self, run: Run) -> None:
        """Queue a run; NotReady where there is no engine, or too many wait."""
        self._check_ready()
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                raise NotReady("busy", f"{MAX_WAITING} runs are waiting; try again later", waiting=MAX_WAITING)
            self._waiting.append(run)
            self._number()
        self._inbox.put(None)

    def stop(self, run: Run) -> None:
        """End a run within one step, or take it out of the queue. Harmless on a run that is over."""
        run.is_stopping = True
        self._inbox.put(None)

    def ask(self, function: Callable[[Engine], object], seconds: float) -> object:
        """The result of function(engine), computed between two steps; TimeoutError after that many seconds."""
        self._check_ready()
        future: Future = Future()
        self._inbox.put((function, future))
        try:
            return future.result(timeout=seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread after the current step and stop runs in hand; a model still loading is not waited for."""
        self._is_closing = True
        self._inbox.put(None)
        if self._state.state == "ready":
            self._thread.join(timeout=5)

    def _check_ready(self) -> None:
        state = self._state
        if state.state != "ready" or self._is_closing:
            raise NotReady(state.state, f"the engine is not ready: {state.state} {state.message}".strip())

    def _number(self) -> None:
        for place, run in enumerate(self._waiting, start=1):
            run.place = place if self._current else place - 1

    # ---- on the worker's own thread ----

    def _work(self) -> None:
        try:
            engine = self._make(self._report_progress)
        except Exception as problem:  # whatever it was, the pages stay open on recorded runs and say so
            log.warning("no model: %s", problem)
            self._state = Status("failed", code=getattr(problem, "code", "other"), message=str(problem))
            return
        self._state = Status("ready", 1.0)
        while not self._is_closing:
            self._answer(engine, wait=not self._waiting)
            run = self._take()
            if run:
                self._do(engine, run)

    def _report_progress(self, fraction: float, code: str = "") -> None:
        self._state = Status("loading", fraction, code)

    def _answer(self, engine: Engine, wait: bool = False) -> None:
        """Answer the questions that have arrived; with `wait`, sleep until something arrives."""
        while wait or not self._inbox.empty():
            message = self._inbox.get()
            wait = False
            if message is None:
                continue
            function, future = message
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(engine))
                except Exception as problem:  # it belongs to whoever asked
                    future.set_exception(problem)

    def _take(self) -> Run | None:
        with self._lock:
            for run in [run for run in self._waiting if run.is_stopping]:
                self._waiting.remove(run)
                run.end("stopped")
            self._current = self._waiting.pop(0) if self._waiting else None
            self._number()
            return self._current

    def _do(self, engine: Engine, run: Run) -> None:
        turns = Turns(engine, run)
        try:
            ending = self._drive(engine, turns, run)
        except Exception as problem:  # this run ends; the thread, the pages and the next run go on
            if not isinstance(problem, EngineError):
                log.exception("a run failed")
            ending = problem.code if isinstance(problem, EngineError) else "engine_failed"
            self._clear(turns)
        with self._lock:
            self._current = None
            self._number()
        run.end(ending)

    def _drive(self, engine: Engine, turns: Turns, run: Run) -> str:
        turns.start()
        last_read = time.monotonic()
        while turns.step():
            self._answer(engine)
            last_read = time.monotonic() if run.readers else last_read
            if self._is_closing or (self._waiting and time.monotonic() - last_read > UNREAD_SECONDS):
                run.is_stopping = True
        return "stopped" if run.is_stopping else "finished"

    def _clear(self, turns: Turns) -> None:
        try:
            turns.abort()
        except Exception:  # the engine is as broken as it was before
            log.exception("a failed run could not be cleared away")
