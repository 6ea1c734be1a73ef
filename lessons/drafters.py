"""The drafter zoo: what each drafter looks at, how often it is right, what it costs; and why τ does not rank by speed.

Knows nothing of how anything is drafted: it hands requests to the engine and events to the stages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gradio as gr

from engine import Engine, Event
from lessons import asking, drafters_account, frame, live, plots
from lessons import drafters_figures as figures
from lessons import drafters_runs as runs
from lessons import drafters_typical as typical
from lessons.drafters_figures import name_of
from lessons.drafters_findings import chart_of, found, recording, remark, rules_of
from lessons.drafters_proof import LINES
from lessons.drafters_tables import Guesses
from lessons.proof import Line, is_checked
from lessons.stage import Stage, Widget
from lessons.words import Words

EXPERIMENTS = {
    "zoo": runs.zoo_requests,
    "deep": runs.deep_requests,
    "hot": runs.hot_requests,
    "typical": runs.typical_requests,
}
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
LATEST = QUIET | {"trigger_mode": "always_last"}
GUESSES = ("fastest", "longest")
CHOICES = ("suffix", "ngram_table", "layer_skip", "eagle2", "lookahead")  # what a reader can bet on
LETTERS = ("a", "b", "c", "d", "e")

# ---- recorded runs ------------------------------------------------------------------------------------------------


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with: all drafters that ship, on one prompt."""
    yield from runs.recorded(engine, runs.zoo_requests(runs.Settings(drafters=runs.usual())))


def demo_deep(engine: Engine) -> Iterator[Event]:
    """Two drafters, deeper and deeper."""
    yield from runs.recorded(engine, runs.deep_requests(runs.Settings()))


def demo_hot(engine: Engine) -> Iterator[Event]:
    """Hotter and hotter, with drawn and with greedy drafts."""
    yield from runs.recorded(engine, runs.hot_requests(runs.Settings()))


def demo_typical(engine: Engine) -> Iterator[Event]:
    """Two drafters under the exact rule and under the typical one."""
    yield from runs.recorded(engine, runs.typical_requests(runs.Settings()))


# ---- the page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lab:
    """The live part of the page; `settings` in the order of Settings' fields."""

    bar: Widget
    run: gr.Button
    experiment: gr.Radio
    remark: gr.HTML
    zoo: Stage
    settings: Sequence[gr.components.Component]


@dataclass(frozen=True, slots=True)
class Shown:
    """What follows a finished run: a chart of each experiment, the table of both rules, and the table of all."""

    zoo: plots.Chart
    deep: plots.Chart
    hot: plots.Chart
    typical: plots.Chart
    rules: gr.HTML
    table: gr.HTML

    @property
    def outputs(self) -> list:
        """In the order in which `found` gives them."""
        return [self.zoo, self.deep, self.hot, self.typical, self.rules, self.table]


def build(t: Words) -> None:
    """The lesson's tab: question, predictions and the covered zoo share the first screen."""
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.opening(t)
    frame.beat(t, "predict", t("predict.title"))
    guesses = _predict(t)
    lab = _lab(t)
    Stage("inputs", t, recording("zoo"), elem_id="drafters-inputs", elem_classes="wide", options=options_of(t))
    zoo, hot = _derive(t)
    typical_run, rules = _typical(t)
    frame.beat(t, "reconcile", t("reconcile.title"))
    table = frame.table(found(t, recording("zoo"), Guesses())[-1])
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.intro"))
    deep = plots.place(chart_of(t, "deep"), t("break.title"))
    frame.source(t, drafters_account)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t, source=t("source.bench"))
    _wire(t, lab, guesses, Shown(zoo, deep, hot, typical_run, rules, table))


def _predict(t: Words) -> list[Widget]:
    """The two questions, side by side where there is room."""
    guesses = []
    with gr.Row(elem_classes="wide"):
        for name in GUESSES:
            with gr.Column(min_width=320):
                guesses.append(frame.predict(t, f"predict.{name}", choices=LETTERS))
    return guesses


def options_of(t: Words) -> dict[str, object]:
    """What both stages are told: families, what is missing, which predictions cover the numbers of which run."""
    families = {name.partition(":")[0]: kind.family for name, kind in runs.ZOO.items()}
    return {
        "families": families,
        "missing": list(runs.missing()),
        "veil": [f"{t.lesson}.predict.{name}" for name in GUESSES],
        "veiled": recording("zoo"),
        "badges": {kind: t.frame(f"badge.{kind}") for kind in ("measured", "recorded")},
    }


def _lab(t: Words) -> Lab:
    """The running engine: what starts it, the picture, and what the reader can set."""
    frame.beat(t, "run", t("run.title"))
    run_id = recording("zoo")
    choices = [(t(f"experiment.{name}"), name) for name in EXPERIMENTS]
    experiment = gr.Radio(choices, value="zoo", label=t("control.experiment"), elem_classes="wide")
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=7, min_width=320):
            bar = frame.transport(t, run_id)
        run = gr.Button(t("control.run"), variant="primary", scale=1, min_width=140, elem_id="drafters-run")
    remark = gr.HTML("", apply_default_css=False, elem_id="drafters-remark")
    zoo = Stage("zoo", t, run_id, elem_id="drafters-zoo", elem_classes="wide", options=options_of(t))
    with gr.Row(elem_classes=["wide", "controls"]):
        prompt = gr.Textbox(runs.PROMPT, label=t("control.prompt"), lines=2, max_lines=6, scale=2)
        temperature = frame.Slider(0, 1.5, 0, step=0.1, label=t("control.temperature"), scale=1)
    here = [(name_of(t, name), name) for name in runs.here()]
    names = gr.CheckboxGroup(here, value=list(runs.usual()), label=t("control.drafters"), elem_classes="wide")
    frame.prose(t("control.drafters.note"), size="note")
    frame.downloads(t, bar, runs.is_ours)
    frame.permalink(t, {"prompt": prompt, "t": temperature})
    return Lab(bar, run, experiment, remark, zoo, [prompt, names, temperature])


def _derive(t: Words) -> tuple[plots.Chart, plots.Chart]:
    """Acceptance by position, the shift of EAGLE, a draft with a sampler of its own."""
    frame.beat(t, "derive", t("derive.title"))
    frame.derivation(t, lines_of(t, "position"))
    zoo = plots.place(chart_of(t, "zoo"), t("positions.label"))
    frame.derivation(t, lines_of(t, "shift"))
    plots.place(figures.cards_plot(t), t("cards.label"))
    frame.derivation(t, lines_of(t, "greedy"))
    return zoo, plots.place(chart_of(t, "hot"), t("hot.label"))


def _typical(t: Words) -> tuple[plots.Chart, gr.HTML]:
    """Typical acceptance on one law, worked out; then on the engine, beside the exact rule."""
    frame.derivation(t, lines_of(t, "typical"))
    heat = frame.Slider(typical.COLDEST, typical.HOTTEST, typical.FIRST, step=0.1, label=t("typical.temperature"))
    chart = plots.place(typical.typical_plot(t, typical.FIRST), t("typical.label"))
    table = frame.table(typical.typical_table(t, typical.FIRST))

    def redraw(heat: float) -> tuple[object, str]:
        return typical.typical_plot(t, heat), typical.typical_table(t, heat)

    heat.change(redraw, [heat], [chart, table], **LATEST)
    frame.prose(t("rules.intro"))
    run = plots.place(chart_of(t, "typical"), t("rules.label"))
    return run, frame.table(rules_of(t, recording("typical")))


def lines_of(t: Words, group: str) -> list[frame.Line]:
    """The lines of a derivation with their reasons, the first below its introduction, and what SymPy checked."""
    return [
        frame.Line(line.latex, _why(t, group, number, line), t("derive.check") if is_checked(line) else "")
        for number, line in enumerate(LINES[group])
    ]


def _why(t: Words, group: str, number: int, line: Line) -> str:
    cited = {"source": frame.badge(t, "cited", t("source.eagle"))} if group == "shift" else {}
    intro = t(f"derive.{group}", **cited) if number == 0 else ""
    notes = {"shifted": figures.shift_note, "one_hot": typical.greedy_table}
    note = notes[line.key](t) if line.key in notes else ""
    return f"{intro}\n\n{t(f'line.{line.key}')} {note}".strip()


# ---- starting a run --------------------------------------------------------------------------------------------------


def started(t: Words, experiment: object, values: Sequence[object]) -> list[object]:
    """Start an experiment: the transport's new value, and what there is to say. Bad input is refused beforehand."""
    prompt, names, temperature = values
    chosen = tuple(name for name in runs.here() if isinstance(names, list) and name in names)
    refusal = asking.refusal(t, prompt) or (t("remark.none") if experiment == "zoo" and not chosen else "")

    def start() -> str:
        make = EXPERIMENTS.get(experiment, runs.zoo_requests)
        return live.run(make(runs.Settings(prompt, chosen, float(temperature or 0.0))), runs.MODE)

    return asking.started(t, refusal, start)


# ---- wiring -------------------------------------------------------------------------------------------------------


def said_by(answers: Sequence[object]) -> Guesses:
    """The drafters behind the reader's answers; None where there is none yet."""
    names = dict(zip(LETTERS, CHOICES, strict=True))
    return Guesses(*(names.get(answer) if isinstance(answer, str) else None for answer in answers))


def _wire(t: Words, lab: Lab, guesses: Sequence[Widget], shown: Shown) -> None:
    def show(experiment: str, *answers: object) -> list[object]:
        run_id = recording(experiment if experiment in EXPERIMENTS else "zoo")
        return [run_id, "", *found(t, run_id, said_by(answers))]

    def run(experiment: str, *values: object) -> list[object]:
        return started(t, experiment, values)

    def finish(value: object, *answers: object) -> list[object]:
        run_id = frame.run_of(value)
        return [*found(t, run_id, said_by(answers)), asking.alert(t, remark(t, run_id))]

    def settle(value: object, *answers: object) -> list[object]:
        """A guess stands: the numbers are uncovered, and the table sets it against the run."""
        run_id = frame.run_of(value)
        num_guesses = sum(answer is not None for answer in answers)  # another each time, or the picture hears nothing
        return [{"run": run_id, "options": {"guessed": num_guesses}}, found(t, run_id, said_by(answers))[-1]]

    lab.experiment.input(show, [lab.experiment, *guesses], [lab.bar, lab.remark, *shown.outputs], **QUIET)
    lab.run.click(run, [lab.experiment, *lab.settings], [lab.bar, lab.remark], **QUIET)
    lab.bar.done(finish, [lab.bar, *guesses], [*shown.outputs, lab.remark], **QUIET)
    for guess in guesses:
        guess.commit(settle, [lab.bar, *guesses], [lab.zoo, shown.table], **QUIET)
