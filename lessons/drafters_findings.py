"""What the page says once a run of the zoo is over: the chart of its experiment, and the table.

Knows nothing of the page's layout.
"""

import gradio as gr

from engine import EngineStarted, Finished
from lessons import asking, drafters_account, drafters_figures, drafters_tables, frame, live
from lessons.drafters_tables import Guesses
from lessons.words import Words

CHARTS = {"zoo": drafters_figures.positions_plot, "deep": drafters_figures.deep_plot, "hot": drafters_figures.hot_plot}


def recording(name: str) -> str:
    """The id of an experiment's recorded run."""
    return live.replay("drafters" if name == "zoo" else f"drafters.{name}")


def chart_of(t: Words, experiment: str) -> object:
    """The chart of an experiment's recorded run; None where there is no recording."""
    return _chart(t, experiment, recording(experiment))


def _chart(t: Words, experiment: str, run_id: str) -> object:
    entries = drafters_account.entries(live.events(run_id))
    return drafters_figures.stamped(CHARTS[experiment](t, entries), _origin(t, run_id)) if entries else None


def _origin(t: Words, run_id: str) -> str:
    """Where a run's numbers come from: what a badge says, as text."""
    where = next((event for event in live.events(run_id) if isinstance(event, EngineStarted)), None)
    text = t.frame(f"badge.{_kind(run_id)}")
    return f"{text} · {where.device_name}, {where.recorded[:10]}" if where else text


def _kind(run_id: str) -> str:
    run = live.find(run_id)
    return "recorded" if run is None or run.is_recorded else "measured"


def remark(t: Words, run_id: str) -> str:
    """Why a run ended by an error, or which of its requests did; nothing where none did. Safe HTML."""
    ended = [event for event in live.events(run_id) if isinstance(event, Finished) and event.finish_reason == "error"]
    names = ", ".join(frame.safe(event.request_id) for event in ended)
    return asking.failure(t, run_id) or (t("remark.failed", names=names) if names else "")


def found(t: Words, run_id: str, guesses: Guesses) -> list[object]:
    """The charts and the table after a run: the chart of its own experiment changes, the others stay."""
    events = live.events(run_id)
    entries = drafters_account.entries(events)
    mine = drafters_figures.kind_of(entries) if entries else ""
    charts = [_chart(t, name, run_id) if name == mine else gr.skip() for name in CHARTS]
    said = drafters_tables.reconciled(t, events, _kind(run_id), guesses if mine == "zoo" else Guesses())
    return [*charts, said + drafters_tables.shipped(t)]
