"""Numbers and the chart of the Jacobi lesson: passes, rows, what a pass cost, and what came of it.

Knows nothing of the page: events in, rows and figures out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from statistics import mean

import plotly.graph_objects as go

from engine import (
    Event,
    Forwarded,
    Probed,
    RoundFinished,
    Sampled,
    Submitted,
    time_of_pass,
)
from lessons import frame, live, plots
from lessons.jacobi_proof import most_rows
from lessons.jacobi_runs import FIRST, GREEDY, JACOBI, LOOKAHEAD, PRESETS, recording
from lessons.runs import origin
from lessons.words import Words

GREEDY_BELOW = 1e-5
MOST_ROWS_DRAWN = 32  # of the line that was measured beforehand
COLORS = {GREEDY: plots.NEUTRAL, JACOBI: plots.FATES["bonus"], LOOKAHEAD: plots.ACCENT}


# ---- from events to numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lane:
    """One request after its prompt's pass. rows, seconds: of each of its passes; clock: seconds of all its rounds."""

    token_ids: tuple[int, ...]  # the prompt's pass gave the first
    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    clock: float
    caught: int  # n-grams
    full_windows: int  # passes whose window had all its levels
    sizes: tuple[int, ...]  # W, N, G; none but for Lookahead

    @property
    def num_passes(self) -> int:
        """Passes after the prompt's."""
        return len(self.rows)

    @property
    def num_generated(self) -> int:
        """Tokens after the first."""
        return len(self.token_ids) - 1

    @property
    def tau(self) -> float:
        """Tokens of a pass."""
        return self.num_generated / self.num_passes

    @property
    def seconds_per_token(self) -> float:
        """On the request's own clock, after the first token."""
        return self.clock / self.num_generated


def lane_of(events: Sequence[Event], name: str) -> Lane | None:
    """The lane of a request; None where it has no pass after its prompt's, or reports what cannot be."""
    own = [event for event in events if getattr(event, "request_id", None) == name]
    passes = [e for e in events if isinstance(e, Forwarded) and name in e.request_ids and e.num_generated_rows]
    tokens = tuple(event.token_id for event in own if isinstance(event, Sampled))
    clocks = [event.request_clock for event in own if isinstance(event, RoundFinished)]
    start = next((at for at, event in enumerate(own) if isinstance(event, Sampled)), 0)
    before = sum(isinstance(event, RoundFinished) for event in own[:start])
    if len(tokens) < 2 or not passes or len(clocks) <= before or not clocks[-1] > clocks[before]:
        return None
    if not any(event.seconds for event in passes):
        return None
    probes = [event for event in own if isinstance(event, Probed)]
    submitted = next((event for event in own if isinstance(event, Submitted)), None)
    sizes = sizes_of(submitted.drafter) if submitted else ()
    window = sizes[0] * (sizes[1] - 1) if sizes else 0
    return Lane(
        tokens,
        tuple(event.num_generated_rows for event in passes),
        tuple(event.seconds for event in passes),
        clocks[-1] - clocks[before],
        sum(len(event.caught) for event in probes),
        sum(len(event.token_ids) == window for event in probes),
        sizes,
    )


def sizes_of(drafter: str) -> tuple[int, ...]:
    """W, N, G of "lookahead:5,4,3"; none for another name."""
    found = re.fullmatch(r"lookahead:(\d{1,3}),(\d{1,3}),(\d{1,3})", drafter)
    return tuple(map(int, found.groups())) if found else ()


def lanes_of(events: Sequence[Event]) -> dict[str, Lane]:
    """The requests that have a lane, in the order in which they ran."""
    found = {name: lane_of(events, name) for name in (JACOBI, LOOKAHEAD, GREEDY)}
    return {name: lane for name, lane in found.items() if lane}


def is_greedy(events: Sequence[Event]) -> bool:
    """Whether a run decodes without chance."""
    return all(event.temperature < GREEDY_BELOW for event in events if isinstance(event, Submitted))


def is_same(lane: Lane, plain: Lane) -> bool:
    """Whether one wrote what the other wrote, as far as both go."""
    return all(one == other for one, other in zip(lane.token_ids, plain.token_ids, strict=False))


def pass_ratio(lane: Lane, plain: Lane) -> float:
    """t(rows)/t(1): the mean pass of a lane over the mean pass of plain decoding."""
    return mean(lane.seconds) / max(1e-9, mean(plain.seconds))


def table_ratio(lane: Lane) -> float:
    """t(rows)/t(1) of its passes by the times that were measured beforehand on a quiet machine."""
    return float(mean(time_of_pass(num) for num in lane.rows))


def expected_speedup(lane: Lane) -> float:
    """Tokens of a pass over what its rows cost by that table."""
    return lane.tau / table_ratio(lane)


# ---- tables -------------------------------------------------------------------------------------------------------


def reconcile_rows(t: Words, events: Sequence[Event], kind: str, guess: float | None) -> list[frame.Row]:
    """A run: what the derivation says and what came. guess: the reader's iterations, None where not asked."""
    lanes = lanes_of(events)
    plain, rows = lanes.get(GREEDY), []
    if JACOBI in lanes:
        lane = lanes[JACOBI]
        note = "" if guess is None else t("reconcile.yours", value=int(guess))
        label = t("reconcile.iterations", num=lane.num_generated)
        rows.append(frame.Row(label, f"≤ {lane.num_generated}", lane.num_passes, note=note))
    if LOOKAHEAD in lanes and lanes[LOOKAHEAD].sizes:
        lane = lanes[LOOKAHEAD]
        rows.append(frame.Row(t("reconcile.rows"), f"≤ {most_rows(*lane.sizes)}", max(lane.rows)))
        rows.append(frame.Row(t("reconcile.caught"), lane.sizes[0] * lane.full_windows, lane.caught))
    for name in (JACOBI, LOOKAHEAD):
        if name in lanes and plain:
            rows += _speed_rows(t, name, lanes[name], plain)
            if is_greedy(events):
                said = t("reconcile.same" if is_same(lanes[name], plain) else "reconcile.differs")
                rows.append(frame.Row(t(f"reconcile.text.{name}"), t("reconcile.same"), said))
    return [_as(row, kind) for row in rows]


def _speed_rows(t: Words, name: str, lane: Lane, plain: Lane) -> list[frame.Row]:
    ratio = pass_ratio(lane, plain)
    gain = plain.seconds_per_token / lane.seconds_per_token
    note = t("reconcile.mean_rows", rows=mean(lane.rows))
    return [
        frame.Row(t(f"reconcile.cost.{name}"), table_ratio(lane), ratio, "×", predicted_kind="recorded", note=note),
        frame.Row(t(f"reconcile.speed.{name}"), lane.tau / ratio, gain, "×", note=t("reconcile.tau", tau=lane.tau)),
    ]


def _as(row: frame.Row, kind: str) -> frame.Row:
    return frame.Row(row.label, row.predicted, row.measured, row.unit, row.predicted_kind, kind, row.note)


def preset_table(t: Words) -> str:
    """The recorded runs side by side: what changes when the text, the temperature or the window does."""
    heads = ("run", "iterations", "tau", "rows", "expected", "speed")
    head = "".join(f"<th scope='col'>{escape(t(f'presets.{name}'))}</th>" for name in heads)
    body = "".join(_preset_row(t, name) for name in PRESETS)
    theory = f"{frame.badge(t, 'theory')} {escape(t('presets.note'))}"
    note = source_note(t, _events(recording(FIRST)), "recorded", theory)
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _preset_row(t: Words, name: str) -> str:
    lanes = lanes_of(_events(recording(name)))
    if set(lanes) != {JACOBI, LOOKAHEAD, GREEDY}:
        return ""
    jacobi, lookahead, plain = (lanes[one] for one in (JACOBI, LOOKAHEAD, GREEDY))
    cells = (
        t("presets.of", count=jacobi.num_passes, most=jacobi.num_generated),
        f"{lookahead.tau:.2f}",
        f"{mean(lookahead.rows):.0f}",
        f"{expected_speedup(lookahead):.2f}×",
        f"{plain.seconds_per_token / lookahead.seconds_per_token:.2f}×",
    )
    body = "".join(f"<td class='num'>{escape(cell)}</td>" for cell in cells)
    return f"<tr><th scope='row'>{escape(t(f'preset.{name}'))}</th>{body}</tr>"


@lru_cache(maxsize=8)
def _events(run_id: str) -> tuple[Event, ...]:
    return tuple(live.events(run_id))


def source_note(t: Words, events: Sequence[Event], kind: str, more: str = "") -> str:
    """The badge of a run's numbers, with the device and the date, and what more there is to say (safe HTML)."""
    return f"<p class='prose-text size-note'>{frame.badge(t, kind, origin(events))} {more}</p>"


# ---- the chart ----------------------------------------------------------------------------------------------------


def pass_chart(t: Words, events: Sequence[Event]) -> go.Figure:
    """Each pass as a point, rows against time; a dashed line where Lookahead's tokens of a pass just pay for it."""
    chart = plots.figure(x=t("chart.x"), y=t("chart.y"), height=360)
    lanes = lanes_of(events)
    if GREEDY not in lanes:
        return chart
    unit = max(1e-9, mean(lanes[GREEDY].seconds))
    most = max(max(lane.rows) for lane in lanes.values())
    sizes = list(range(1, min(most, MOST_ROWS_DRAWN) + 1))
    style = {"color": plots.NEUTRAL, "width": 1.5, "dash": "dot"}
    chart.add_scatter(x=sizes, y=[time_of_pass(n) for n in sizes], mode="lines", line=style, name=t("chart.table"))
    for name, lane in lanes.items():
        points = {"size": 8, "color": COLORS[name], "opacity": 0.65}
        times = [seconds / unit for seconds in lane.seconds]
        chart.add_scatter(x=list(lane.rows), y=times, mode="markers", marker=points, name=t(f"chart.{name}"))
    if LOOKAHEAD in lanes:
        tau = lanes[LOOKAHEAD].tau
        plots.marker_line(chart, tau, t("chart.pays", tau=tau), color=plots.BAD)
    chart.update_yaxes(rangemode="tozero")
    return chart
