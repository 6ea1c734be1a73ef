"""The runs of the long-context lesson: plain decoding against two sparse drafters, and a sweep over what they keep.

Knows nothing of the page's layout, nor of how a drafter chooses what it sees.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine import Engine, Event, Inspected, Request, SamplingParams, Submitted
from lessons import asking, live
from lessons.long_context_text import document
from lessons.runs import Run
from lessons.turns import Turns
from lessons.words import Words

PLAIN = "plain"
WINDOWS = (16, 64, 128, 256, 512)  # tokens that a draft step may see beside the sinks
LENGTH, SWEEP_LENGTH = 48, 32  # new tokens
_NAME = re.compile(r"(?:magicdec|triforce):\d{1,6}(?:,\d{1,3})?")
KINDS = {"sinks": "magicdec:{}", "bare": "magicdec:{},0", "retrieved": "triforce:{}"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a reader sets: the document, the tokens that a draft sees, drafts per round, temperature."""

    prompt: str
    window: int
    draft_length: int
    temperature: float

    def params(self, length: int, draft_length: int) -> SamplingParams:
        """So many new tokens, and no earlier end."""
        return SamplingParams(length, self.temperature, draft_length=draft_length, ignore_eos=True)


PRESETS = {
    "long": Settings(document(30) + "\n\n", 128, 4, 0.0),
    "short": Settings(document(9) + "\n\n", 128, 4, 0.0),
}
FIRST = "long"


def recording(name: str) -> str:
    """The id of a preset's recorded run."""
    return live.replay("long_context" if name == FIRST else f"long_context.{name}")


# ---- what is asked ------------------------------------------------------------------------------------------------


def race_of(settings: Settings) -> list[Request]:
    """The same continuation three times: plain, drafted with sinks and a window, drafted with retrieved blocks."""
    names = {PLAIN: None, "magicdec": f"magicdec:{settings.window}", "triforce": f"triforce:{settings.window}"}
    return [
        Request(settings.prompt, settings.params(LENGTH, settings.draft_length if name else 0), name or "none", id=key)
        for key, name in names.items()
    ]


def sweep_of(settings: Settings) -> list[Request]:
    """One request for each way of keeping and each number of kept tokens; the prompt is computed once for all."""
    params = settings.params(SWEEP_LENGTH, max(1, settings.draft_length))
    names = [form.format(window) for form in KINDS.values() for window in WINDOWS]
    return [Request(settings.prompt, params, name, id=name) for name in names]


def is_ours(events: Sequence[Event]) -> bool:
    """Whether a run is one of this lesson: a race, or a sweep, whose requests are named by their drafters."""
    asked = {event.request_id: event.drafter for event in events if isinstance(event, Submitted)}
    sparse = {name: drafter for name, drafter in asked.items() if name != PLAIN}
    is_race = PLAIN in asked and all(name == drafter.partition(":")[0] for name, drafter in sparse.items())
    is_sweep = all(name == drafter for name, drafter in asked.items())
    return bool(sparse) and (is_race or is_sweep) and all(map(_NAME.fullmatch, sparse.values()))


def kind_of(drafter: str) -> str:
    """What a drafter keeps beside its window: "sinks", "bare" (nothing), "retrieved"; "" for any other drafter."""
    name, _, rest = drafter.partition(":")
    if name == "triforce":
        return "retrieved"
    return ("bare" if rest.endswith(",0") else "sinks") if name == "magicdec" else ""


# ---- recorded runs ------------------------------------------------------------------------------------------------


def recorded(engine: Engine, requests: Sequence[Request], mode: str) -> Iterator[Event]:
    """The events of a run, large facts left out."""
    run = Run(requests, mode)
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    yield from (event for event in run.events if not isinstance(event, Inspected))


def without_blocks(events: Iterator[Event]) -> Iterator[Event]:
    """Events about tokens alone: a sweep is read for its acceptance, and the same blocks change hands each time."""
    yield from (event for event in events if not type(event).__name__.startswith("Block"))


# ---- live runs ----------------------------------------------------------------------------------------------------


def settings_of(values: Sequence[object]) -> Settings:
    """What the controls say, numbers as Python's own; one that was emptied is as at first."""
    prompt, *numbers = values
    first = PRESETS[FIRST]
    usual = (first.window, first.draft_length, first.temperature)
    window, length, temperature = (usual[at] if one is None else one for at, one in enumerate(numbers))
    return Settings(prompt, int(window), int(length), float(temperature))


ASKED = {"race": race_of, "in_turn": sweep_of}  # by the mode that the requests run in


def started(t: Words, values: Sequence[object], mode: str) -> list[object]:
    """Start a run: the transport's new value, and what there is to say. A prompt that is none is refused beforehand."""
    refusal = asking.refusal(t, values[0])
    return asking.started(t, refusal, lambda: live.run(ASKED[mode](settings_of(values)), mode))
