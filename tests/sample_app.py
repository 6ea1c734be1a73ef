"""The app with sample lessons in place of the book's, and a made-up engine; for tests of the frame.

Knows nothing of what is tested.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import sample_lesson
import uvicorn
from fake_engine import FakeEngine
from starlette.types import ASGIApp

import app
from engine import Request, SamplingParams, save_trace
from lessons import page, runs
from lessons.runs import Run
from lessons.turns import Turns
from lessons.words import Words, load

CHAPTERS = (("speculation", ("sample", "second")), ("memory", ("third",)))


def record(folder: Path) -> None:
    """A race of 60 tokens as the recorded run "sample"."""
    params = SamplingParams(max_new_tokens=60)
    requests = [Request("The capital of France is", params, id="plain"),
                Request("The capital of France is", params, "made-up", id="drafted")]  # fmt: skip
    run = Run(requests, "race")
    turns = Turns(FakeEngine(), run)
    turns.start()
    while turns.step():
        pass
    save_trace(run.events, folder / "sample.jsonl.gz")


def words(name: str, language: str) -> Words:
    """The sample's words under the name of any sample lesson."""
    sample = sample_lesson.words(language)
    return Words(name, language, sample.pieces) if name in ("sample", "second", "third") else load(name, language)


@contextmanager
def sample_book(folder: Path) -> Iterator[ASGIApp]:
    """The application, built from sample lessons; recorded runs lie in the folder."""
    record(folder)
    modules = {f"lessons.{name}": sample_lesson for _, names in CHAPTERS for name in names}
    runs.recorded_run.cache_clear()
    with (
        mock.patch.dict(sys.modules, modules),
        mock.patch.object(page, "CHAPTERS", CHAPTERS),
        mock.patch.object(page, "load", words),
        mock.patch.object(runs, "TRACE_FOLDER", folder),
    ):
        yield app.build("fake")
    runs.recorded_run.cache_clear()


@contextmanager
def served(application: ASGIApp) -> Iterator[str]:
    """The application on a free port of this machine; gives its address."""
    listener = app.listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1))
    application.state.is_closing = lambda: server.should_exit
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)


def wait_for(condition: Callable[[], bool], seconds: float = 90) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
