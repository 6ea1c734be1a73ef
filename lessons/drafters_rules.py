"""One run under two rules: what Medusa's typical acceptance buys, and what it lets pass that the exact rule would not.

Knows nothing of the page's layout: entries of a run in, chart and table out.
"""

import math
from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from engine import typical_threshold
from lessons import frame, plots
from lessons.drafters_account import Entry
from lessons.drafters_figures import kind_of, name_of
from lessons.drafters_kept import acceptances, mean_kept, wrongly_kept
from lessons.drafters_runs import PLAIN
from lessons.words import Words

HIGHEST = typical_threshold(np.ones(1))  # of all thresholds: that of a law without doubt
FAINTEST = 1e-4  # rarer drafts stand at the edge of the chart
COLUMNS = ("tau", "speed", "alpha", "expected", "refused", "p", "surprise")


def rules_plot(t: Words, found: Sequence[Entry]) -> go.Figure:
    """Each draft that the typical rule judged: the target's p against the chance that the exact rule takes it."""
    figure = plots.figure(x=t("rules.x"), y=t("rules.y"), height=360)
    for number, entry in enumerate(entry for entry in found if entry.is_lossy):
        for is_kept in (True, False):
            mine = [one for one in entry.judged if one.is_kept == is_kept]
            look = {"color": plots.OWNERS[number % len(plots.OWNERS)], "size": 9, "opacity": 0.7}
            look["symbol"] = ("circle" if number == 0 else "diamond") if is_kept else "x-thin-open"
            figure.add_scatter(
                x=[max(one.p, FAINTEST) for one in mine], y=[one.exact_chance for one in mine], mode="markers",
                name=f"{name_of(t, entry.drafter)} · {t('rules.kept' if is_kept else 'rules.not_kept')}", marker=look,
                hovertemplate="p = %{x:.3f}<br>%{y:.0%}<extra>%{fullData.name}</extra>",
            )  # fmt: skip
    plots.marker_line(figure, HIGHEST, t("rules.highest", value=HIGHEST), axis="x", color=plots.ACCENT)
    figure.update_annotations(x=math.log10(HIGHEST), y=1.06, yanchor="top", xanchor="right")  # Plotly forgets the axis
    ticks = [0.0001, 0.001, 0.01, 0.1, 1]
    figure.update_xaxes(type="log", range=[-4.1, 0.1], tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    return figure.update_yaxes(range=[-0.04, 1.06], tickformat=".0%")


def rules_table(t: Words, found: Sequence[Entry], badge: str) -> str:
    """Both rules on the same drafters, a row each, and in a sentence what changes; nothing for another experiment."""
    if not found or kind_of(found) != "typical":
        return ""
    heads = "".join(f"<th scope='col'>{escape(t(f'rules.{name}'))}</th>" for name in ("drafter", "rule", *COLUMNS))
    body = "".join(_row(t, entry) for entry in found)
    said = " ".join(_changes(t, found))
    note = escape(t("rules.note", heat=found[0].temperature, tokens=max(entry.num_tokens for entry in found)))
    table = f"<table class='figures'><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f"{frame.said(escape(said), 'careful')}{table}<p class='prose-text size-note'>{note} {badge}</p>"


def _row(t: Words, entry: Entry) -> str:
    if entry.name == PLAIN:
        rule = "–"
    else:
        rule = f"<b>{escape(t('rules.lossy'))}</b>" if entry.is_lossy else escape(t("rules.exact"))
    refused = wrongly_kept(entry.judged) if entry.is_lossy else 0.0 if entry.judged else None
    alpha, expected = acceptances(entry.judged) or (None, None)
    values = {
        "tau": f"{entry.tau:.2f}", "speed": _number(entry.speed_up, "×"), "alpha": _share(alpha),
        "expected": _share(expected if entry.is_lossy else None),
        "p": _number(mean_kept(entry.judged)), "refused": _share(refused), "surprise": _number(entry.surprise),
    }  # fmt: skip
    cells = "".join(f"<td class='num'>{values[name]}</td>" for name in COLUMNS)
    return f"<tr><th scope='row'>{escape(name_of(t, entry.drafter))}</th><td>{rule}</td>{cells}</tr>"


def _changes(t: Words, found: Sequence[Entry]) -> list[str]:
    """A sentence for each drafter of which the typical rule kept something."""
    said = []
    for entry in (entry for entry in found if entry.is_lossy):
        share = wrongly_kept(entry.judged)
        if share is not None:
            kept, exact = acceptances(entry.judged)
            said.append(t("rules.said", name=name_of(t, entry.drafter), kept=kept, exact=exact, share=share))
    return said


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _number(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:.2f}{unit}"
