"""Live runs for lessons: start, stop, replay, ask. Holds the one engine's worker and the shelf of runs.

Knows nothing of what a lesson shows. `python -m lessons.live record NAME` records a lesson's demo.
"""

import dataclasses
import importlib
import logging
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine import Engine, EngineConfig, EngineError, Event, Request, fold, parse_trace, save_trace
from lessons import turns
from lessons.runs import RECORDED, TRACE_FOLDER, Run, Shelf, recorded
from lessons.worker import NotReady, Progress, Status, Worker

__all__ = ["MAX_NEW_TOKENS", "NotReady", "Status", "ask", "configure", "events", "find", "fork", "generate", "is_done",
           "open_file", "replay", "run", "start", "status", "stop"]  # fmt: skip

log = logging.getLogger(__name__)

MAX_NEW_TOKENS = 512
MAX_REQUESTS = 16
MAX_OPENED_BYTES = 64 * 2**20  # of JSON lines, after decompression

_worker = Worker(None)
_shelf = Shelf()


# ---- the engine's life --------------------------------------------------------------------------------------------


def configure(settings: Mapping[str, object]) -> EngineConfig:
    """The engine's settings, watching what pages show. Raises EngineError("bad_config") naming what is wrong."""
    return EngineConfig(**settings, watch=frozenset({"distributions"}))


def start(settings: Mapping[str, object]) -> None:
    """Begin to build the engine in the background; without a model's name the pages stay on recorded runs."""
    config = configure(settings)
    start_with((lambda progress: Engine(config, progress=progress)) if settings.get("model") else None)


def start_with(make: Callable[[Progress], Engine] | None) -> None:
    """As `start`, with an engine of any make (tests bring their own); None means no engine."""
    global _worker
    _worker.close()
    _worker = Worker(make)


def close() -> None:
    """Stop what runs and end the worker."""
    _worker.close()


def status() -> Status:
    """What the engine is doing: "no_model", "loading", "ready" or "failed", and who runs and waits."""
    return _worker.status()


# ---- runs ---------------------------------------------------------------------------------------------------------


def run(requests: Sequence[Request], mode: str = "together", forks: Sequence[tuple[str, int]] = ()) -> str:
    """Start a run and return its id at once; mode is "together", "race" or "in_turn".

    forks: (request id, number of tokens): fork that request as soon as it has so many. Raises NotReady or EngineError.
    """
    if not 1 <= len(requests) <= MAX_REQUESTS:
        sentence = f"{len(requests)} requests; a run has 1 to {MAX_REQUESTS}"
        raise EngineError("bad_parameter", sentence, name="requests", value=len(requests))
    new = Run(mode=mode, forks=forks)
    new.requests = tuple(_prepared(request, new, mode) for request in requests)
    turns.check(new.requests, mode)
    _worker.submit(new)
    return _shelf.add(new)


def _prepared(request: Request, new: Run, mode: str) -> Request:
    """Capped in length, and with a salt of its own, so that no run lives off another's prefill."""
    params = request.params
    if params.max_new_tokens > MAX_NEW_TOKENS:
        params = dataclasses.replace(params, max_new_tokens=MAX_NEW_TOKENS)
    salt = f"{new.id}/{request.id}" if mode == "race" else f"{new.id}/{request.cache_salt}"
    return dataclasses.replace(request, params=params, cache_salt=salt)


def replay(name: str) -> str:
    """The id of a recorded run, assets/traces/NAME.jsonl.gz; if there is none, its stages say so."""
    return RECORDED + name


def fork(run_id: str, request_id: str, at: int) -> str:
    """Run the same requests again and fork one of them when it has `at` tokens, prompt included; a new run's id."""
    old = find(run_id)
    if old is None or request_id not in {request.id for request in old.requests}:
        raise EngineError("not_running", f"request {request_id!r} cannot be run again", id=request_id)
    return run(old.requests, old.mode, [*old.forks, (request_id, at)])


def stop(run_id: str) -> None:
    """End a run within one step; harmless when it is over or unknown."""
    found = find(run_id)
    if found and not found.ending:
        _worker.stop(found)


def find(run_id: str) -> Run | None:
    """The run itself, for the stream; None where it is unknown or no longer kept."""
    return _shelf.get(run_id)


def events(run_id: str) -> list[Event]:
    """What has happened in a run so far; empty for an unknown one."""
    found = find(run_id)
    return list(found.events) if found else []


def is_done(run_id: str) -> bool:
    """Whether nothing more will happen in that run."""
    found = find(run_id)
    return found is None or bool(found.ending)


def ask(function: Callable[[Engine], object], seconds: float = 20) -> object:
    """function(engine) on the engine's own thread, between two steps; it must not step the engine itself.

    Raises NotReady, TimeoutError, or whatever the function raised.
    """
    return _worker.ask(function, seconds)


def generate(request: Request, seconds: float = 60) -> list[Event]:
    """Run one request to its end and return its events. Raises NotReady, TimeoutError or EngineError."""
    run_id = run([request])
    found = find(run_id)
    found.readers.add(request)
    if not found.ended.wait(timeout=seconds):
        stop(run_id)
        raise TimeoutError(f"the request was not done after {seconds} seconds")
    if found.ending not in ("finished", "stopped"):
        raise EngineError(found.ending, f"the run ended with {found.ending}")
    return list(found.events)


def open_file(path: str | Path) -> str:
    """Keep a downloaded run (JSON lines, gzip or not); returns its id. Raises EngineError("bad_trace", "too_large")."""
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = _unzip(data)
    if len(data) > MAX_OPENED_BYTES:
        raise EngineError("too_large", "the file is too large to open", megabytes=MAX_OPENED_BYTES // 2**20)
    opened = recorded(parse_trace(data.splitlines()))
    if not opened.events:
        raise EngineError("bad_trace", "the file holds no events", line=1)
    fold(opened.events)  # events that contradict each other would break the stages
    return _shelf.add(opened)


def _unzip(data: bytes) -> bytes:
    """At most one byte more than is allowed, whatever the file claims to hold."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, MAX_OPENED_BYTES + 1)
    except zlib.error as problem:
        raise EngineError("bad_trace", f"the file is no gzip: {problem}", line=1) from problem
    if not unpacker.eof and len(text) <= MAX_OPENED_BYTES:
        raise EngineError("bad_trace", "the file was cut short", line=1)
    return text


# ---- recording ----------------------------------------------------------------------------------------------------


def record(name: str, settings: Mapping[str, object]) -> Path:
    """Run a lesson's demo ("NAME" or "NAME.part" for demo_part) and save it where `replay` finds it."""
    lesson, _, part = name.partition(".")
    module = importlib.import_module(f"lessons.{lesson}")
    demo = getattr(module, f"demo_{part}" if part else "demo")
    path = TRACE_FOLDER / f"{name}.jsonl.gz"
    save_trace(demo(Engine(configure(settings))), path)
    return path


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] != "record":
        sys.exit("usage: python -m lessons.live record NAME [MODEL]")
    print(record(sys.argv[2], {"model": sys.argv[3]} if len(sys.argv) > 3 else {}))
