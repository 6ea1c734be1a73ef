"""The runs of the Jacobi lesson: one text written three times, by Jacobi iteration, by Lookahead, and greedily.

Knows nothing of how guesses are made or checked: it names drafters and hands requests to the engine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine import Engine, Event, Inspected, Request, SamplingParams, Submitted
from lessons import asking, live
from lessons.runs import Run
from lessons.turns import Turns
from lessons.words import Words

JACOBI, LOOKAHEAD, GREEDY = "jacobi", "lookahead", "greedy"  # the requests' names
LENGTH = 48  # tokens that Lookahead and plain decoding write
MOST_PLACES = 32  # of the grid


@dataclass(frozen=True, slots=True)
class Settings:
    """What a reader sets, in the order of the controls. places: tokens that Jacobi iteration writes; W, N, G."""

    prompt: str
    temperature: float
    places: int
    width: int
    levels: int
    guesses: int


_COUNT = "1, 2, 3, 4, 5, 6, 7, 8,"
_DAYS = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday, Tuesday,"
_TALE = "The old lighthouse keeper opened the door and saw"
PRESETS = {
    "count": Settings(_COUNT, 0.0, 24, 5, 4, 3),
    "days": Settings(_DAYS, 0.0, 24, 5, 4, 3),
    "tale": Settings(_TALE, 0.0, 24, 5, 4, 3),
    "warm": Settings(_COUNT, 1.0, 24, 5, 4, 3),
    "wide": Settings(_COUNT, 0.0, 24, 15, 5, 5),
}
FIRST = "count"


def recording(name: str) -> str:
    """The id of a preset's recorded run."""
    return live.replay("jacobi" if name == FIRST else f"jacobi.{name}")


def settings_of(values: tuple) -> Settings:
    """What the controls say, numbers as Python's own; one that was emptied is as at first."""
    prompt, *numbers = values
    first = PRESETS[FIRST]
    usual = (first.temperature, first.places, first.width, first.levels, first.guesses)
    heat, *sizes = (usual[at] if number is None else number for at, number in enumerate(numbers))
    return Settings(prompt, float(heat), *map(int, sizes))


def requests_of(settings: Settings) -> list[Request]:
    """The three requests, in the order in which they run. Raises EngineError for a value that cannot be."""
    window = f"lookahead:{settings.width},{settings.levels},{settings.guesses}"
    wanted = (
        (JACOBI, "jacobi", settings.places, settings.places - 1),
        (LOOKAHEAD, window, LENGTH, settings.levels - 1),
        (GREEDY, None, LENGTH, 0),
    )
    return [
        Request(
            settings.prompt,
            SamplingParams(length, settings.temperature, draft_length=drafts),
            drafter,
            id=name,
            cache_salt=name,
        )
        for name, drafter, length, drafts in wanted
    ]


def is_ours(events: Sequence[Event]) -> bool:
    """Whether a run is one of this lesson: its requests, or those that were asked for before it was stopped."""
    asked = {event.request_id: event.drafter.partition(":")[0] for event in events if isinstance(event, Submitted)}
    wanted = {JACOBI: "jacobi", LOOKAHEAD: "lookahead"}
    return JACOBI in asked and all(name == GREEDY or wanted.get(name) == drafter for name, drafter in asked.items())


# ---- recorded ones ------------------------------------------------------------------------------------------------


def recorded(engine: Engine, settings: Settings) -> Iterator[Event]:
    """The events of a run on an engine that nobody else uses, the large lists of probabilities left out."""
    run = Run(requests_of(settings), mode="in_turn")
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    yield from (event for event in run.events if not isinstance(event, Inspected))


# ---- live ones ----------------------------------------------------------------------------------------------------


def started(t: Words, values: tuple) -> list[object]:
    """Start a run: the transport's new value, and what there is to say. A prompt that is none is refused beforehand."""
    refusal = asking.refusal(t, values[0])
    return asking.started(t, refusal, lambda: live.run(requests_of(settings_of(values)), "in_turn"))
