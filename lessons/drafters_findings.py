"""What the page says once a run of the zoo is over: the chart of its experiment, and the table.

Knows nothing of the page's layout.
"""

import gradio as gr

from engine import Finished
from lessons import asking, drafters_account, drafters_figures, drafters_rules, drafters_tables, frame, live
from lessons.drafters_tables import Guesses
from lessons.runs import origin
from lessons.words import Words

CHARTS = {
    "zoo": drafters_figures.positions_plot,
    "deep": drafters_figures.deep_plot,
    "hot": drafters_figures.hot_plot,
    "typical": drafters_rules.rules_plot,
}


def recording(name: str) -> str:
    """The id of an experiment's recorded run."""
    return live.replay("drafters" if name == "zoo" else f"drafters.{name}")


def chart_of(t: Words, experiment: str) -> object:
    """The chart of an experiment's recorded run; None where there is no recording."""
    return _chart(t, experiment, recording(experiment))


def _chart(t: Words, experiment: str, run_id: str) -> object:
    entries = drafters_account.entries(live.events(run_id))
    return drafters_figures.stamped(CHARTS[experiment](t, entries), _origin(t, run_id)) if entries else None


def rules_of(t: Words, run_id: str) -> str:
    """The table of both rules; nothing for a run that has not both. Safe HTML."""
    entries = drafters_account.entries(live.events(run_id))
    return drafters_rules.rules_table(t, entries, frame.badge(t, _kind(run_id), origin(live.events(run_id))))


def _origin(t: Words, run_id: str) -> str:
    """Where a run's numbers come from: what a badge says, as text."""
    text, where = t.frame(f"badge.{_kind(run_id)}"), origin(live.events(run_id))
    return f"{text} · {where}" if where else text


def _kind(run_id: str) -> str:
    run = live.find(run_id)
    return "recorded" if run is None or run.is_recorded else "measured"


def remark(t: Words, run_id: str) -> str:
    """Why a run ended by an error, or which of its requests did; nothing where none did. Safe HTML."""
    ended = [event for event in live.events(run_id) if isinstance(event, Finished) and event.finish_reason == "error"]
    names = ", ".join(frame.safe(event.request_id) for event in ended)
    return asking.failure(t, run_id) or (t("remark.failed", names=names) if names else "")


def found(t: Words, run_id: str, guesses: Guesses) -> list[object]:
    """Charts, the table of rules and the table after a run: those of its own experiment change, the others stay."""
    events = live.events(run_id)
    entries = drafters_account.entries(events)
    mine = drafters_figures.kind_of(entries) if entries else ""
    charts = [_chart(t, name, run_id) if name == mine else gr.skip() for name in CHARTS]
    said = drafters_tables.reconciled(t, events, _kind(run_id), guesses if mine == "zoo" else Guesses())
    rules = rules_of(t, run_id) if mine == "typical" else gr.skip()
    return [*charts, rules, said + drafters_tables.shipped(t)]
