"""A trace: a run as a list of events, saved and loaded as JSON lines, and folded back into state.

Knows nothing of engines: a recorded run, a live one and a reader's file are the same thing here.
"""

import dataclasses
import functools
import gzip
import json
import math
import os
import types
import typing
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import EngineError
from engine.events import EVENT_TYPES, Event
from engine.state import RequestState, State, apply

__all__ = ["RequestState", "State", "apply", "decode", "encode", "fold", "load", "parse", "save"]

_TYPES = types.MappingProxyType({event_type.__name__: event_type for event_type in EVENT_TYPES})
LARGEST = 2**53  # beyond it a whole number is no longer exact as a float


# ---- events and JSON --------------------------------------------------------------------------------------------


def encode(event: Event) -> dict[str, object]:
    """The event as a dict that JSON can carry: its class name under "type", then its fields."""
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    return {"type": type(event).__name__, **fields}


def decode(record: object) -> Event:
    """The event that `encode` made the dict from; lists become tuples again.

    Raises EngineError("bad_trace") for an unknown type, a missing or surplus field, or a value of the wrong type.
    """
    named = record.get("type") if isinstance(record, dict) else record
    event_type = _TYPES.get(named) if isinstance(named, str) else None
    if event_type is None or named is record:
        raise EngineError("bad_trace", f"{named!r:.80} is no type of event that this version knows")
    kinds = _kinds(event_type)
    if record.keys() - {"type"} != kinds.keys():
        wrong = sorted((record.keys() - {"type"}) ^ kinds.keys())
        raise EngineError("bad_trace", f"{event_type.__name__} has missing or surplus fields: {wrong!r:.200}")
    fields = {name: _frozen(record[name]) for name in kinds}
    for name, kind in kinds.items():
        if not _is_a(fields[name], kind):
            raise EngineError("bad_trace", f"{event_type.__name__}.{name} is {fields[name]!r:.80}, not {kind!s}")
    return event_type(**fields)


@functools.cache
def _kinds(event_type: type[Event]) -> dict[str, object]:
    return typing.get_type_hints(event_type)


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _is_a(value: object, kind: object) -> bool:
    """Whether a value read from JSON fits an annotation; a whole number may stand for a float, a bool may not."""
    if typing.get_origin(kind) is types.UnionType:
        return any(_is_a(value, option) for option in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        kinds = typing.get_args(kind)
        if not isinstance(value, tuple):
            return False
        if kinds[-1] is Ellipsis:
            return all(_is_a(item, kinds[0]) for item in value)
        return len(value) == len(kinds) and all(map(_is_a, value, kinds))
    if kind is float:
        return math.isfinite(value) if type(value) is float else type(value) is int and abs(value) <= LARGEST
    return type(value) is kind


# ---- files ------------------------------------------------------------------------------------------------------


def save(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write one JSON object a line, through gzip when the name ends in .gz; equal events give equal bytes.

    The file appears whole or not at all. Raises EngineError("bad_trace") for a value that JSON cannot carry.
    """
    path = Path(path)
    data = "".join(_line(event) for event in events).encode("ascii")
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> list[Event]:
    """Read what `save` wrote. Raises EngineError("bad_trace", line=n) with the number of the line that is broken."""
    path = Path(path)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        return list(parse(lines))


def parse(lines: Iterable[bytes | str]) -> Iterator[Event]:
    """The events of JSON lines, one at a time; empty lines are skipped. Raises EngineError("bad_trace", line=n)."""
    number = 0
    try:
        for line in lines:
            number += 1
            if line.strip():
                yield decode(json.loads(line, parse_constant=_refuse_constant))
    except EngineError as error:
        raise EngineError("bad_trace", f"line {number}: {error}", line=number) from error
    except (ValueError, RecursionError) as error:  # what json raises, and undecodable bytes
        raise EngineError("bad_trace", f"line {number} is no JSON: {error}", line=number) from error
    except (OSError, EOFError, zlib.error) as error:
        sentence = f"line {number + 1} cannot be read: {error}"
        raise EngineError("bad_trace", sentence, line=number + 1) from error


def _line(event: Event) -> str:
    try:
        return json.dumps(encode(event), allow_nan=False, separators=(",", ":")) + "\n"
    except (TypeError, ValueError) as error:
        raise EngineError("bad_trace", f"{event!r:.200} cannot be saved: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


# ---- state ------------------------------------------------------------------------------------------------------


def fold(events: Iterable[Event]) -> State:
    """The state after all of the events: tables, reference counts, hashes, texts, rounds.

    Raises EngineError("bad_trace") for events that contradict each other, as a damaged file may hold.
    """
    state = State()
    for number, event in enumerate(events, start=1):
        try:
            apply(state, event)
        except (KeyError, IndexError) as error:
            sentence = f"line {number}: {type(event).__name__} does not fit what came before it"
            raise EngineError("bad_trace", sentence, line=number) from error
    return state
