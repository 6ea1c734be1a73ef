"""Races out of the ordinary, made from ordinary ones: a prompt read in parts, a stopped run, a file full of nonsense.

Knows nothing of what is made of them.
"""

from dataclasses import replace

from toy_race import of

from engine import Admitted, Event, Finished, RoundFinished, Sampled

NONSENSE = (  # what a reader's file may say of the speculative request, and no engine would
    {"parents": (5, 9, -7, 0)},
    {"verdicts": ("accepted",)},
    {"verdicts": ("accepted",) * 9},
    {"request_clock": 0.0},
    {"request_clock": -1.0},
    {"request_clock": 1e308},
    {"seconds_forward": 0.0},
    {"seconds_draft": -1.0},
    {"seconds_other": 1e308},
)


def in_chunks(events: list[Event], seconds: float = 0.05) -> list[Event]:
    """The race with a prompt that is read in two parts: round 0 then has two bills, the first without a token."""
    longer: list[Event] = []
    for event in events:
        if isinstance(event, RoundFinished):
            event = replace(event, request_clock=event.request_clock + seconds)
        longer.append(event)
        if isinstance(event, Admitted):
            whole = of(events, RoundFinished, event.request_id)[0]
            now = {"step": event.step, "clock": event.clock}
            longer.append(replace(whole, seconds_forward=seconds, request_clock=seconds, num_cached=0, **now))
    return longer


def stopped(events: list[Event], num_tokens: int, reason: str = "abort") -> list[Event]:
    """The race as somebody stopped it: vanilla has so many tokens, the other all of its own."""
    return [
        replace(event, finish_reason=reason) if isinstance(event, Finished) else event
        for event in events
        if not (isinstance(event, Sampled) and event.request_id == "vanilla" and event.index >= num_tokens)
    ]


def spoilt(events: list[Event], change: dict) -> list[Event]:
    """The race with these values wherever the speculative request has such fields."""

    def spoil(event: Event) -> Event:
        mine = getattr(event, "request_id", "") == "speculative"
        return replace(event, **change) if mine and all(hasattr(event, name) for name in change) else event

    return [spoil(event) for event in events]
