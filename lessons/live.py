"""Live runs for lessons: start, stop, replay, open. Holds the one engine's worker, its settings and the shelf of runs.

Knows nothing of what a lesson shows. `python -m lessons.live record NAME` records a lesson's demo.
"""

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gradio.context import LocalContext

from engine import Engine, EngineConfig, EngineError, Event, Request, drafters, save_trace
from lessons import CHAPTERS, opened, turns, worker
from lessons.runs import RECORDED, TRACE_FOLDER, Run, Shelf
from lessons.worker import NotReady, Progress, Status, Worker

__all__ = ["MAX_NEW_TOKENS", "NotReady", "Status", "configure", "drafting", "events", "find", "open_file", "replay",
           "run", "settle", "start", "status", "stop"]  # fmt: skip

MAX_NEW_TOKENS = 512
MAX_REQUESTS = 20
NO_DRAFTER = "none"
CHARACTERS_PER_TOKEN = 16  # a text with more of them than the limit of tokens allows is refused unread

_worker = Worker(None)
_shelf = Shelf()
_drafting = EngineConfig()  # as the engine is started, known before there is an engine


# ---- the engine's life --------------------------------------------------------------------------------------------


def configure(settings: Mapping[str, object]) -> EngineConfig:
    """The engine's settings, watching what pages show.

    Raises EngineError("bad_config" or "unknown_drafter") naming what is wrong.
    """
    config = EngineConfig(**settings, watch=frozenset({"distributions"}))
    known = (NO_DRAFTER, *drafters.NAMES)
    if config.drafter and config.drafter.partition(":")[0] not in known:
        sentence = f"there is no drafter {config.drafter!r}; there are {', '.join(known)}"
        raise EngineError("unknown_drafter", sentence, name=config.drafter)
    return config


def settle(settings: Mapping[str, object]) -> None:
    """Check the settings and let the pages that are built from now on know them. Raises EngineError as `configure`."""
    global _drafting
    _drafting = configure(settings)


def drafting() -> EngineConfig:
    """What the app was started with, for pages that offer drafters: its drafter, draft model and published head."""
    return _drafting


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


def run(
    requests: Sequence[Request],
    mode: str = "together",
    forks: Sequence[tuple[str, int]] = (),
    after: Callable[[Engine, Sequence[Event]], Iterator[Event]] | None = None,
) -> str:
    """Start a run and return its id at once; mode is "together", "race" or "in_turn".

    forks: (request id, number of tokens): fork that request as soon as it has so many; a fork can be forked again.
    after: see `Run`. Raises NotReady or EngineError.
    """
    if not 1 <= len(requests) <= MAX_REQUESTS:
        sentence = f"{len(requests)} requests; a run has 1 to {MAX_REQUESTS}"
        raise EngineError("bad_parameter", sentence, name="requests", value=len(requests))
    turns.check(requests, mode, forks)
    new = Run(mode=mode, forks=forks, visitor=_visitor(), after=after)
    new.requests = tuple(_prepared(request, new, mode) for request in requests)
    _worker.submit(new)
    return _shelf.add(new)


def _prepared(request: Request, new: Run, mode: str) -> Request:
    """Capped in length, and with a salt of its own, so that no run lives off another's prefill."""
    prompt = request.prompt if isinstance(request.prompt, Sequence) else ()
    largest = worker.MAX_PROMPT_TOKENS * (CHARACTERS_PER_TOKEN if isinstance(prompt, str) else 1)
    if len(prompt) > largest:  # the tokens of shorter texts are counted when the engine has cut them
        raise turns.over_limit(worker.MAX_PROMPT_TOKENS)
    params = request.params
    if params.max_new_tokens > MAX_NEW_TOKENS:
        params = dataclasses.replace(params, max_new_tokens=MAX_NEW_TOKENS)
    salt = f"{new.id}/{request.id}" if mode == "race" else f"{new.id}/{request.cache_salt}"
    return dataclasses.replace(request, params=params, cache_salt=salt)


def _visitor() -> str:
    """The page that asks, as Gradio names it; "" where no page does."""
    return getattr(LocalContext.request.get(None), "session_hash", None) or ""


def replay(name: str) -> str:
    """The id of a recorded run, assets/traces/NAME.jsonl.gz; if there is none, its stages say so."""
    return RECORDED + name


def stop(run_id: str) -> None:
    """End a run within one step, one that waits at once; harmless when it is over or unknown."""
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


def open_file(path: str | Path, fits: Callable[[Sequence[Event]], bool] = bool) -> str:
    """Keep a downloaded run (JSON lines, gzip or not); returns its id.

    Raises EngineError as `opened.read` does, and "other_lesson" for a run that does not fit; that one is not kept.
    """
    found = opened.read(path)
    if not fits(found.events):
        raise EngineError("other_lesson", "the run in the file is of another lesson")
    return _shelf.add(found)


# ---- recording ----------------------------------------------------------------------------------------------------


def record(name: str, settings: Mapping[str, object]) -> Path:
    """Run a lesson's demo ("NAME" or "NAME.part" for demo_part) and save it where `replay` finds it.

    Raises EngineError("bad_parameter") where there is none of that name.
    """
    demos = _demos()
    if name not in demos:
        sentence = f"there is no demo {name!r}; there are {', '.join(demos)}"
        raise EngineError("bad_parameter", sentence, name="demo", value=name)
    path = TRACE_FOLDER / f"{name}.jsonl.gz"
    save_trace(demos[name](Engine(configure(settings))), path)
    return path


def _demos() -> dict[str, Callable[[Engine], Iterator[Event]]]:
    """What can be recorded, by name."""
    found = {}
    for lesson in (lesson for _, lessons in CHAPTERS for lesson in lessons):
        module = importlib.import_module(f"lessons.{lesson}")
        for function in (name for name in vars(module) if name == "demo" or name.startswith("demo_")):
            part = function.removeprefix("demo").replace("_", ".", 1)
            found[f"{lesson}{part}"] = getattr(module, function)
    return found


def main(arguments: Sequence[str]) -> int:
    """`python -m lessons.live record NAME [MODEL]`; returns 2, with a sentence, for what cannot be."""
    if len(arguments) not in (2, 3) or arguments[0] != "record":
        print("usage: python -m lessons.live record NAME [MODEL]", file=sys.stderr)
        return 2
    try:
        print(record(arguments[1], {"model": arguments[2]} if len(arguments) > 2 else {}))
    except EngineError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
