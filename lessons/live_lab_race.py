"""What the lab races: the reader's settings, the two requests that they make, and what to say about them beforehand.

Knows nothing of pages.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine import Engine, Event, Request, SamplingParams, Submitted
from lessons import live
from lessons.live_lab_prompts import FIRST, PRESETS, Preset, preset
from lessons.runs import MODES, Run
from lessons.turns import Turns
from lessons.words import Words

# Drafters whose tokens are chosen, not drawn: the draft has no law that a temperature could change.
CERTAIN = ("ngram", "suffix", "ngram_table", "jacobi", "lookahead", "medusa", "eagle2", "eagle3", "published")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the reader set, in the order of the controls on the page."""

    prompt: str = FIRST.prompt
    drafter: str = FIRST.drafter
    draft_length: int = FIRST.draft_length
    temperature: float = FIRST.temperature
    draft_temperature: str = "same"
    top_p: float = 1.0
    seed: int = 0
    length: int = FIRST.length
    is_chat: bool = True
    mode: str = "race"
    rule: str = "exact"

    def __post_init__(self) -> None:
        """What no page of ours sends counts as not set."""
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", "")
        if self.mode not in MODES:
            object.__setattr__(self, "mode", "race")
        if not isinstance(self.draft_temperature, str):
            object.__setattr__(self, "draft_temperature", "same")


def settings_of(chosen: Preset) -> Settings:
    """A preset's settings, all others at their first values."""
    names = ("prompt", "drafter", "draft_length", "temperature", "length")
    return Settings(**{name: getattr(chosen, name) for name in names})


def preset_of(settings: Settings) -> Preset | None:
    """The preset that has exactly these settings; None where there is none."""
    return next((item for item in PRESETS if settings_of(item) == settings), None)


def race(settings: Settings) -> list[Request]:
    """The two requests. Raises EngineError for a value that cannot be."""
    drafts_at = None if settings.draft_temperature == "same" else float(settings.draft_temperature)
    params = SamplingParams(
        max_new_tokens=int(settings.length),
        temperature=float(settings.temperature),
        top_p=float(settings.top_p),
        seed=int(settings.seed or 0),
        draft_length=int(settings.draft_length),
        draft_temperature=drafts_at,
        rule=settings.rule,
    )
    plain = dataclasses.replace(params, draft_length=0, draft_temperature=None, rule="exact")
    given = {"prompt_format": "chat" if settings.is_chat else "plain"}
    return [
        Request(settings.prompt, plain, cache_salt="vanilla", id="vanilla", **given),
        Request(settings.prompt, params, settings.drafter, cache_salt="speculative", id="speculative", **given),
    ]


def is_ours(events: Sequence[Event]) -> bool:
    """Whether a run is one of this lesson: the two of a race and nobody else."""
    return {event.request_id for event in events if isinstance(event, Submitted)} == {"vanilla", "speculative"}


def remarks(t: Words, settings: Settings) -> list[str]:
    """What the reader should know before pressing Run: sentences, none where all is well."""
    drafts, most = int(settings.draft_length), int(settings.length) - 1
    is_greedy, has_own = float(settings.temperature) < 1e-5, settings.draft_temperature != "same"
    found = {
        "empty": not settings.prompt.strip(),
        "no_drafts": drafts == 0,
        "short": 0 < most < drafts,
        "one": most < 1,
        "lookup": settings.drafter in CERTAIN and has_own,
        "greedy": is_greedy and settings.rule != "exact",
        "lossy": not is_greedy and settings.rule == "typical",
        "top_p": float(settings.top_p) == 0 and not is_greedy,
    }
    values = {"short": {"k": drafts, "most": most}}
    return [t(f"remark.{key}", **values.get(key, {})) for key, is_so in found.items() if is_so]


def raced(engine: Engine, settings: Settings) -> Iterator[Event]:
    """The events of a fair race on an engine that nobody else uses."""
    run = Run(race(settings), mode="race")
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    yield from run.events


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with."""
    yield from raced(engine, settings_of(FIRST))


def demo_layers(engine: Engine) -> Iterator[Event]:
    """The same, drafted by the model's own layers: mostly right, and slower."""
    yield from raced(engine, settings_of(preset("layers")))


def demo_copy(engine: Engine) -> Iterator[Event]:
    """Facts copied out of the prompt: where looking up shines."""
    yield from raced(engine, settings_of(preset("copy")))


def demo_repeat(engine: Engine) -> Iterator[Event]:
    """A paragraph to repeat: the most that looking up can give."""
    yield from raced(engine, settings_of(preset("repeat")))


def demo_code(engine: Engine) -> Iterator[Event]:
    """A function to write again with a change."""
    yield from raced(engine, settings_of(preset("code")))


def demo_lookup(engine: Engine) -> Iterator[Event]:
    """Open chat: little to look up, and little lost by trying."""
    yield from raced(engine, settings_of(preset("lookup")))


def demo_chinese(engine: Engine) -> Iterator[Event]:
    """Chinese: characters made of several tokens."""
    yield from raced(engine, settings_of(preset("chinese")))


def recording(name: str) -> str:
    """The id of a preset's recorded run."""
    return live.replay("live_lab" if name == FIRST.name else f"live_lab.{name}")
