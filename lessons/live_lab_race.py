"""What the lab races: the reader's settings, the two requests that they make, and what to say about them beforehand.

Knows nothing of pages.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from engine import Engine, Event, Request, SamplingParams
from lessons.live_lab_prompts import FIRST, Preset
from lessons.runs import Run
from lessons.turns import Turns
from lessons.words import Words


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


def settings_of(chosen: Preset) -> Settings:
    """A preset's settings, all others at their first values."""
    names = ("prompt", "drafter", "draft_length", "temperature", "length")
    return Settings(**{name: getattr(chosen, name) for name in names})


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


def remarks(t: Words, settings: Settings) -> list[str]:
    """What the reader should know before pressing Run: sentences, none where all is well."""
    drafts, most = int(settings.draft_length), int(settings.length) - 1
    is_greedy, has_own = float(settings.temperature) < 1e-5, settings.draft_temperature != "same"
    found = {
        "empty": not settings.prompt.strip(),
        "no_drafts": drafts == 0,
        "short": 0 < most < drafts,
        "one": most < 1,
        "lookup": settings.drafter == "ngram" and has_own,
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
