"""What the long-context lesson shows of its runs and of its theory: charts and tables.

Knows nothing of the page's layout, nor of how a drafter chooses what it sees.
"""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from engine import EngineStarted, Event
from lessons import frame, live, plots
from lessons import long_context_theory as theory
from lessons.long_context_facts import Drafting, draftings, predicted_cost, predicted_view
from lessons.long_context_runs import KINDS, kind_of
from lessons.long_context_theory import BATCHES, CONTEXTS, Plan
from lessons.runs import origin
from lessons.words import Words

COLORS = {"sinks": plots.OWNERS[0], "bare": plots.OWNERS[6], "retrieved": plots.OWNERS[3]}
SYMBOLS = {"sinks": "circle", "bare": "x", "retrieved": "diamond"}
TICKS = [256, 1024, 4096, 16384, 65536]


# ---- acceptance against kept tokens -------------------------------------------------------------------------------


def kept_plot(t: Words, recorded: Sequence[Event], now: Sequence[Event] = ()) -> go.Figure:
    """Share of accepted drafts over the tokens that they saw; lines are the recorded sweep, open marks another run."""
    chart = plots.figure(t("kept.x"), t("kept.y"), height=340)
    for events, is_now in ((recorded, False), (now, True)):
        every = draftings(events)
        for kind in KINDS:
            points = sorted((one.seen, one.share) for one in every if kind_of(one.drafter) == kind)
            if points:
                chart.add_scatter(**_points(t, kind, points, is_now))
    ticks = {"tickvals": [16, 32, 64, 128, 256, 512, 1024], "type": "log"}
    return chart.update_layout(yaxis={"range": [0, 1.03], "tickformat": ".0%"}, xaxis=ticks)


def _points(t: Words, kind: str, points: Sequence[tuple[int, float]], is_now: bool) -> dict[str, object]:
    name = t("kept.now", kind=t(f"kept.{kind}")) if is_now else t(f"kept.{kind}")
    symbol = f"{SYMBOLS[kind]}-open" if is_now else SYMBOLS[kind]
    return {
        "x": [seen for seen, _ in points], "y": [share for _, share in points], "name": name,
        "mode": "markers" if is_now else "lines+markers", "line": {"color": COLORS[kind], "width": 2},
        "marker": {"color": COLORS[kind], "symbol": symbol, "size": 13 if is_now else 9},
        "hovertemplate": "%{x:,} → %{y:.0%}",
    }  # fmt: skip


# ---- theory -------------------------------------------------------------------------------------------------------


def pays_plot(t: Words, plan: Plan, guess: float | None = None) -> go.Figure:
    """Above the bytes that one pass reads, below the speed-up of rounds, both over the context.

    guess: where the reader thought that it starts to pay; shown for the plan that was asked about.
    """
    chart = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09, row_heights=[0.42, 0.58])
    chart.update_layout(plots.figure(height=620).layout)
    _add_bytes(t, chart, plan)
    _add_speedups(t, chart, plan)
    axis = plots.figure().layout.xaxis.to_plotly_json()
    ticks = {"type": "log", "tickvals": TICKS, "ticktext": [f"{tick:,}" for tick in TICKS]}
    chart.update_xaxes(axis | ticks)
    chart.update_xaxes(title={"text": t("pays.x")}, row=2, col=1)
    chart.update_yaxes(plots.figure().layout.yaxis.to_plotly_json())
    chart.update_yaxes(title={"text": t("pays.bytes")}, type="log", dtick="D2", row=1, col=1)
    chart.update_yaxes(title={"text": t("pays.speedup")}, rangemode="tozero", row=2, col=1)
    line = {"line": {"color": plots.NEUTRAL, "width": 1.5, "dash": "dash"}, "row": 2, "col": 1}
    chart.add_hline(y=1, **line)
    if plan.pays_from <= CONTEXTS[-1]:
        _add_moment(chart, plan.pays_from, t("pays.from", context=theory.whole(plan.pays_from)), plots.GOOD)
    if guess and plan == theory.ASKED:
        _add_moment(chart, max(guess, CONTEXTS[0]), t("pays.guess"), plots.BAD)
    return chart


def _add_moment(chart: go.Figure, context: float, label: str, color: str) -> None:
    """A vertical line through both panels, its label at the foot of the lower one."""
    style = {"line": {"color": color, "width": 2, "dash": "dot"}}
    chart.add_vline(x=context, row="all", col=1, **style)
    is_below = color == plots.GOOD
    chart.add_scatter(x=[context], y=[0.12 if is_below else 0.36], mode="text", text=[f" {label} "],
                      textposition="middle right" if context < 8000 else "middle left", textfont={"color": color},
                      showlegend=False, hoverinfo="skip", cliponaxis=False, row=2, col=1)  # fmt: skip


def _add_bytes(t: Words, chart: go.Figure, plan: Plan) -> None:
    reads = [plan.step_bytes(context) for context in CONTEXTS]
    gigabytes = {
        "pays.target": ([(one["weights"] + one["full"]) / 1e9 for one in reads], plots.NEUTRAL, "solid"),
        "pays.draft": ([(one["weights"] + one["draft"]) / 1e9 for one in reads], plots.OWNERS[0], "solid"),
        "pays.weights": ([one["weights"] / 1e9 for one in reads], plots.OWNERS[1], "dot"),
    }
    for key, (values, color, dash) in gigabytes.items():
        chart.add_scatter(x=CONTEXTS, y=values, name=t(key), mode="lines", row=1, col=1,
                          line={"color": color, "width": 2.5, "dash": dash},
                          hovertemplate="%{x:,}: %{y:,.1f} GB")  # fmt: skip


def _add_speedups(t: Words, chart: go.Figure, plan: Plan) -> None:
    """The reader's batch thick, others thin; dotted where weights and caches overflow the machine's memory."""
    for batch in sorted({1, 32, BATCHES[-1], plan.batch}):
        one = Plan(plan.model, batch, plan.kept, plan.alpha, plan.draft_length)
        style = {"color": plots.OWNERS[0] if batch == plan.batch else plots.NEUTRAL,
                 "width": 4 if batch == plan.batch else 1.5}  # fmt: skip
        fits = [context for context in CONTEXTS if context <= one.fits_up_to]
        beyond = CONTEXTS[max(0, len(fits) - 1) :]
        for contexts, dash in ((fits, "solid"), (beyond, "dot")):
            if contexts:
                chart.add_scatter(x=contexts, y=[one.speedup(context) for context in contexts], mode="lines",
                                  line=style | {"dash": dash}, showlegend=False, row=2, col=1,
                                  hovertemplate=f"B = {batch}, %{{x:,}}: %{{y:.2f}}×<extra></extra>")  # fmt: skip
        chart.add_scatter(x=[CONTEXTS[-1]], y=[one.speedup(CONTEXTS[-1])], mode="text", text=[f"B = {batch}"],
                          textposition="top left", textfont={"color": style["color"]}, showlegend=False,
                          hoverinfo="skip", row=2, col=1)  # fmt: skip


def pays_table(t: Words, plan: Plan, guess: float | None) -> str:
    """From which context it pays, for every batch; the reader's guess beside the one that was asked about."""
    head = "".join(f"<th scope='col'>{escape(t(f'pays.head.{name}'))}</th>" for name in ("batch", "from", "fits"))
    body = ""
    for batch in BATCHES:
        one = Plan(plan.model, batch, plan.kept, plan.alpha, plan.draft_length)
        note = f"<div class='note'>{escape(t('pays.said', value=guess))}</div>" if guess and one == theory.ASKED else ""
        room = theory.whole(one.fits_up_to) if one.fits_up_to > 0 else "–"
        cells = f"<td class='num'>{theory.whole(one.pays_from)}</td><td class='num'>{room}</td>"
        body += f"<tr><th scope='row'>{batch}{note}</th>{cells}</tr>"
    note = f"<p class='prose-text size-note'>{frame.badge(t, 'theory')} {escape(t('pays.note'))}</p>"
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


# ---- predicted against measured -----------------------------------------------------------------------------------


def reconciled(t: Words, run_id: str) -> str:
    """The table of a race: what bytes predict, and what the clocks said; a sentence for a run without a plain one."""
    events, run = live.events(run_id), live.find(run_id)
    start = next((event for event in events if isinstance(event, EngineStarted)), None)
    found = [one for one in draftings(events) if one.speedup is not None]
    if start is None or not found:
        return f"<p class='prose-text size-note'>{escape(t('reconcile.nothing'))}</p>"
    kind = "recorded" if run.is_recorded else "measured"
    rows = [row for one in found for row in _rows(t, one, start, kind)]
    note = f"<p class='prose-text size-note'>{frame.badge(t, kind, origin(events))}</p>"
    return frame.reconcile(t, rows) + note


def _rows(t: Words, one: Drafting, start: EngineStarted, kind: str) -> list[frame.Row]:
    cost = predicted_cost(one, start) if kind_of(one.drafter) != "retrieved" else None
    gain = None if cost is None else one.tau / (one.draft_length * cost + 1)
    texts = {True: t("row.same.yes"), False: t("row.same.no")}
    rows = [
        (t("row.seen"), predicted_view(one, start), one.seen, ""),
        (t("row.share"), None, one.share, ""),
        (t("row.cost"), cost, one.cost, "" if cost is not None else t("row.cost.triforce")),
        (t("row.verify"), 1.0, one.verify, t("row.verify.note")),
        (t("row.speedup"), gain, one.speedup, ""),
        (t("row.same"), texts[True], texts[bool(one.is_same)], ""),
    ]
    return [frame.Row(f"{one.drafter} · {label}", wanted, got, "", "theory", kind, note)
            for label, wanted, got, note in rows]  # fmt: skip


def contexts_table(t: Words, run_ids: Sequence[str]) -> str:
    """The drafters of several races side by side: context, cost of a draft, share accepted, speed-up."""
    heads = ("drafter", "context", "cost", "share", "speedup")
    head = "".join(f"<th scope='col'>{escape(t(f'contexts.{name}'))}</th>" for name in heads)
    body = ""
    for run_id in run_ids:
        for one in (one for one in draftings(live.events(run_id)) if one.speedup is not None):
            cells = (f"{one.context:,}", f"{one.cost:.2f}", f"{one.share:.0%}", f"{one.speedup:.2f}×")
            values = "".join(f"<td class='num'>{cell}</td>" for cell in cells)
            body += f"<tr><th scope='row'>{escape(one.drafter)}</th>{values}</tr>"
    note = f"<p class='prose-text size-note'>{frame.badge(t, 'recorded')}</p>"
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
