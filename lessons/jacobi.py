"""Jacobi iteration and Lookahead: many places are guessed at once and corrected together, with no second model.

Knows nothing of how the engine drafts: it hands requests over and sees events.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr

from engine import Engine, Event
from lessons import asking, frame, jacobi_runs, live, plots
from lessons import jacobi_figures as figures
from lessons.jacobi_proof import LINES, PLACES, cases, iterate
from lessons.jacobi_runs import FIRST, MOST_PLACES, PRESETS, recording, started
from lessons.proof import Line, is_checked
from lessons.stage import Stage, Widget
from lessons.words import Words

QUIET = {"show_progress": "hidden", "api_visibility": "private"}
GUESSED = "predict.iterations"
NUM_CASES = sum(1 for _ in cases())
UNVEILED = {"options": {"veil": ""}}

Controls = tuple[gr.components.Component, ...]

# ---- recorded runs ------------------------------------------------------------------------------------------------


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with: a text that anybody can continue."""
    yield from jacobi_runs.recorded(engine, PRESETS["count"])


def demo_days(engine: Engine) -> Iterator[Event]:
    """A text that goes round: right phrases, at first at wrong places."""
    yield from jacobi_runs.recorded(engine, PRESETS["days"])


def demo_tale(engine: Engine) -> Iterator[Event]:
    """Open-ended text."""
    yield from jacobi_runs.recorded(engine, PRESETS["tale"])


def demo_warm(engine: Engine) -> Iterator[Event]:
    """The first text at temperature 1."""
    yield from jacobi_runs.recorded(engine, PRESETS["warm"])


def demo_wide(engine: Engine) -> Iterator[Event]:
    """The first text with a window of sixty guesses."""
    yield from jacobi_runs.recorded(engine, PRESETS["wide"])


# ---- the page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lab:
    """What shows the run, and what starts one."""

    bar: Widget
    grid: Stage
    preset: gr.Radio
    run: gr.Button
    remark: gr.HTML


def build(t: Words) -> None:
    """The lesson's tab: question, predictions and the grid share the first screen, the window stands below."""
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.opening(t)
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=3, min_width=320):
            guess = _predict(t)
        with gr.Column(scale=7, min_width=600):
            lab = _lab(t)
    _window(t)
    settings = _settings(t, lab.bar)
    _derive(t)
    table, chart = _reconcile(t)
    _break(t)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t, source=t("source.lookahead"))
    _wire(t, lab, settings, guess, (table, chart))


def _predict(t: Words) -> frame.Predict:
    frame.beat(t, "predict", t("predict.title"))
    frame.prose(t("predict.intro", source=frame.badge(t, "cited", t("source.jacobi"))))
    guess = frame.predict_number(t, GUESSED, scale=(1, PRESETS[FIRST].places - 1, 1))
    frame.predict(t, "predict.speed")
    return guess


def _lab(t: Words) -> Lab:
    """The run and the grid of its Jacobi iterations."""
    run_id = recording(FIRST)
    frame.beat(t, "run", t("run.title"))
    preset = gr.Radio([(t(f"preset.{name}"), name) for name in PRESETS], value=FIRST, label=t("control.preset"))
    with gr.Row():
        with gr.Column(scale=7, min_width=320):
            bar = frame.transport(t, run_id)
        run = gr.Button(t("control.run"), variant="primary", scale=1, min_width=120, elem_id="jacobi-run")
    told = gr.HTML("", apply_default_css=False, elem_id="jacobi-remark")
    options = {"veil": f"{t.lesson}.{GUESSED}"}
    grid = Stage("iterations", t, run_id, options=options, elem_id="jacobi-grid")
    frame.prose(t("run.grid"), size="note")
    return Lab(bar, grid, preset, run, told)


def _window(t: Words) -> None:
    """The passes of Lookahead in the same run."""
    frame.prose(t("run.window", source=frame.badge(t, "cited", t("source.lookahead"))))
    Stage("window", t, recording(FIRST), elem_id="jacobi-window", elem_classes="wide")


def _settings(t: Words, bar: Widget) -> Controls:
    """What the reader sets, in the order of Settings' fields, the link to it, and the file of the bar's run."""
    first = PRESETS[FIRST]
    with gr.Row(elem_classes=["wide", "controls"]):
        prompt = gr.Textbox(first.prompt, label=t("control.prompt"), lines=2, max_lines=6, scale=2)
        heat = frame.Slider(0, 2, first.temperature, step=0.1, label=t("control.temperature"))
        places = frame.Slider(4, MOST_PLACES, first.places, step=1, label=t("control.places"))
    with gr.Row(elem_classes=["wide", "controls"]):
        width = frame.Slider(1, 16, first.width, step=1, label=t("control.width"))
        levels = frame.Slider(2, 6, first.levels, step=1, label=t("control.levels"))
        guesses = frame.Slider(1, 8, first.guesses, step=1, label=t("control.guesses"))
    settings = (prompt, heat, places, width, levels, guesses)
    frame.downloads(t, bar, jacobi_runs.is_ours)
    frame.permalink(t, dict(zip(("prompt", "t", "n", "w", "levels", "g"), settings, strict=True)))
    return settings


def _derive(t: Words) -> None:
    frame.beat(t, "derive", t("derive.title"))
    values = {"expected": {"source": frame.badge(t, "cited", t("source.lookahead"))}}
    why = {one.key: t(f"derive.{one.key}", **values.get(one.key, {})) for one in LINES}
    frame.derivation(t, [frame.Line(one.latex, why[one.key], _how(t, one)) for one in LINES])
    frame.source(t, iterate)


def _how(t: Words, line: Line) -> str:
    """What the tick of a line says: how it was checked, nothing where it was not."""
    if not is_checked(line):
        return ""
    return t("derive.check.cases", places=PLACES, cases=NUM_CASES) if line.trials else t("derive.check.sympy")


def _reconcile(t: Words) -> tuple[gr.HTML, gr.Plot]:
    frame.beat(t, "reconcile", t("reconcile.title"))
    frame.prose(t("reconcile.intro"))
    chart = plots.place(figures.pass_chart(t, live.events(recording(FIRST))), t("chart.label"))
    table = frame.table(reconciled(t, recording(FIRST), None))
    return table, chart


def reconciled(t: Words, run_id: str, guess: float | None) -> str:
    """The table of a run; the reader's guess stands where the run is the one that was asked about."""
    events = live.events(run_id)
    run = live.find(run_id)
    kind = "recorded" if run is None or run.is_recorded else "measured"
    rows = figures.reconcile_rows(t, events, kind, guess if run_id == recording(FIRST) else None)
    if not rows:
        return frame.said(t("reconcile.nothing"))
    return figures.source_note(t, events, kind) + frame.reconcile(t, rows)


def _break(t: Words) -> None:
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.intro"))
    frame.table(figures.preset_table(t))
    cited = {"source": t("source.specbench"), "authors": t("source.lookahead")}
    badges = {name: frame.badge(t, "cited", source) for name, source in cited.items()}
    frame.callout(t("break.after", **badges), "careful")


# ---- wiring -------------------------------------------------------------------------------------------------------


def _wire(t: Words, lab: Lab, settings: Controls, guess: frame.Predict, shown: tuple[gr.HTML, gr.Plot]) -> None:
    def tell(run_id: str, guess: float | None) -> list[object]:
        return [reconciled(t, run_id, guess), figures.pass_chart(t, live.events(run_id))]

    def pick(name: str, guess: float | None) -> list[object]:
        name = name if name in PRESETS else FIRST
        return [*dataclasses.astuple(PRESETS[name]), recording(name), "", *tell(recording(name), guess)]

    def run(*values: object) -> list[object]:
        return started(t, values)

    def finish(value: object, guess: float | None) -> list[object]:
        run_id = frame.run_of(value)
        return [asking.alert(t, asking.failure(t, run_id)), *tell(run_id, guess)]

    def settle(value: object, guess: float | None) -> list[object]:
        return [reconciled(t, frame.run_of(value), guess), UNVEILED]

    lab.preset.input(pick, [lab.preset, guess], [*settings, lab.bar, lab.remark, *shown], **QUIET)
    lab.run.click(run, list(settings), [lab.bar, lab.remark], **QUIET)
    lab.bar.done(finish, [lab.bar, guess], [lab.remark, *shown], **QUIET)
    guess.commit(settle, [lab.bar, guess], [shown[0], lab.grid], **QUIET)
