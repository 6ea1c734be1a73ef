"""TriForce and MagicDec: on a long text the model drafts for itself from a small part of its cache.

Knows nothing of how a drafter chooses what it sees: it sees events. What a large machine would gain is theory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr

from engine import Engine, Event
from lessons import asking, frame, live, plots
from lessons import long_context_figures as figures
from lessons import long_context_runs as runs
from lessons.long_context_proof import LINES
from lessons.long_context_runs import FIRST, PRESETS, WINDOWS, recording
from lessons.long_context_theory import ASKED, BATCHES, HERE, MODELS, SINKS, Plan
from lessons.proof import is_checked
from lessons.stage import Stage, Widget
from lessons.words import Words

QUIET = {"show_progress": "hidden", "api_visibility": "private"}
LATEST = QUIET | {"trigger_mode": "always_last"}
SWEEP = "long_context.sweep"
KEPT = (128, 256, 512, 1024, 2048)  # tokens that a draft of the theory sees

# ---- recorded runs ------------------------------------------------------------------------------------------------


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with: about a thousand tokens, continued plain, by MagicDec and by TriForce."""
    yield from runs.recorded(engine, runs.race_of(PRESETS[FIRST]), "race")


def demo_short(engine: Engine) -> Iterator[Event]:
    """The same on a document of a third of the length."""
    yield from runs.recorded(engine, runs.race_of(PRESETS["short"]), "race")


def demo_sweep(engine: Engine) -> Iterator[Event]:
    """The long document for every way of keeping and every number of kept tokens."""
    yield from runs.without_blocks(runs.recorded(engine, runs.sweep_of(PRESETS[FIRST]), "in_turn"))


# ---- the page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lab:
    """The live part of the page: what starts runs, what shows them, and what the reader sets."""

    bar: Widget
    preset: gr.Radio
    run: gr.Button
    sweep: gr.Button
    remark: gr.HTML
    settings: list[gr.components.Component]  # in the order of Settings' fields


def build(t: Words) -> None:
    """The lesson's tab: question, predictions and the first picture share the first screen."""
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.opening(t)
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=3, min_width=320):
            guess = _predict(t)
        with gr.Column(scale=7, min_width=600):
            lab = _lab(t)
    kept = plots.place(figures.kept_plot(t, live.events(live.replay(SWEEP))), t("kept.label"))
    _pays(t, guess)
    frame.beat(t, "derive", t("derive.title"))
    check = t("derive.check")
    lines = [frame.Line(one.latex, t(f"derive.{one.key}"), check if is_checked(one) else "") for one in LINES]
    frame.derivation(t, lines)
    frame.beat(t, "reconcile", t("reconcile.title"))
    table = frame.table(figures.reconciled(t, recording(FIRST)))
    _break(t)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t, source=t("source.magicdec"))
    _wire(t, lab, kept, table)


def _predict(t: Words) -> frame.Predict:
    frame.beat(t, "predict", t("predict.title"))
    values = {"batch": ASKED.batch, "kept": ASKED.kept, "alpha": ASKED.alpha, "length": ASKED.draft_length}
    frame.prose(t("predict.intro", model=ASKED.model, sinks=SINKS, **values))
    guess = frame.predict_number(t, "predict.from", scale=(0, 20000, 100))
    frame.predict(t, "predict.batch")
    return guess


def _lab(t: Words) -> Lab:
    """The running engine: the picture first, below it what the reader can set."""
    frame.beat(t, "run", t("run.title"))
    bar = frame.transport(t, recording(FIRST))
    shapes = {name: MODELS[key] for name, key in HERE.items()}
    costs = {name: {"weights": one.weight_bytes, "token": one.token_bytes} for name, one in shapes.items()}
    Stage("sparse", t, recording(FIRST), elem_id="long-context-view", options={"costs": costs})
    told = gr.HTML("", apply_default_css=False, elem_id="long-context-remark")
    first = PRESETS[FIRST]
    preset = gr.Radio([(t(f"preset.{name}"), name) for name in PRESETS], value=FIRST, label=t("control.preset"))
    prompt = gr.Textbox(first.prompt, label=t("control.prompt"), lines=3, max_lines=6)
    window = gr.Radio(WINDOWS, value=first.window, label=t("control.window"))
    with gr.Row():
        length = frame.Slider(1, 8, first.draft_length, step=1, label=t("control.length"))
        temperature = frame.Slider(0, 2, first.temperature, step=0.1, label=t("control.temperature"))
    with gr.Row():
        run = gr.Button(t("control.run"), variant="primary", elem_id="long-context-run")
        sweep = gr.Button(t("control.sweep"), elem_id="long-context-sweep")
    frame.downloads(t, bar, runs.is_ours)
    frame.permalink(t, {"prompt": prompt, "window": window, "k": length, "t": temperature})
    cited = {name: frame.badge(t, "cited", t(f"source.{name}")) for name in ("magicdec", "triforce")}
    frame.prose(t("run.intro", **cited))
    frame.prose(t("kept.intro", source=frame.badge(t, "cited", t("source.sinks")), badge=frame.badge(t, "recorded")))
    return Lab(bar, preset, run, sweep, told, [prompt, window, length, temperature])


def _pays(t: Words, guess: frame.Predict) -> None:
    """The theory: bytes and speed-up over the context, and from where it pays for every batch."""
    frame.prose(t("pays.intro", badge=frame.badge(t, "theory"), source=frame.badge(t, "cited", t("source.magicdec"))))
    with gr.Row(elem_classes=["wide", "controls"]):
        model = gr.Dropdown(list(MODELS), value=ASKED.model, label=t("control.model"), filterable=False)
        batch = gr.Radio(BATCHES, value=ASKED.batch, label=t("control.batch"))
        kept = gr.Radio(KEPT, value=ASKED.kept, label=t("control.kept"))
        alpha = frame.Slider(0.3, 0.95, ASKED.alpha, step=0.05, label=t("control.alpha"))
    chart = plots.place(figures.pays_plot(t, ASKED), t("pays.label"))
    table = frame.table(figures.pays_table(t, ASKED, None))

    def redraw(guess: float | None, *values: object) -> list[object]:
        plan = plan_of(values)
        return [figures.pays_plot(t, plan, guess), figures.pays_table(t, plan, guess)]

    controls = [model, batch, kept, alpha]
    gr.on([control.change for control in controls], redraw, [guess, *controls], [chart, table], **LATEST)
    guess.commit(redraw, [guess, *controls], [chart, table], **LATEST)


def plan_of(values: tuple[object, ...]) -> Plan:
    """The theory's plan as the controls say; one that was emptied, or is none of its choices, is as at first."""
    model, batch, kept, alpha = values
    return Plan(
        model if model in MODELS else ASKED.model,
        batch if batch in BATCHES else ASKED.batch,
        kept if kept in KEPT else ASKED.kept,
        round(float(alpha), 2) if isinstance(alpha, int | float) and 0 <= alpha <= 1 else ASKED.alpha,
    )


def _break(t: Words) -> None:
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.short"))
    frame.table(figures.contexts_table(t, [recording(name) for name in PRESETS]))
    frame.callout(t("break.sinks", source=frame.badge(t, "cited", t("source.sinks"))), "careful")


# ---- wiring -------------------------------------------------------------------------------------------------------


def _wire(t: Words, lab: Lab, kept: gr.Plot, table: gr.HTML) -> None:
    swept = live.replay(SWEEP)

    def pick(name: str) -> list[object]:
        name = name if name in PRESETS else FIRST
        one = PRESETS[name]
        values = [one.prompt, one.window, one.draft_length, one.temperature]
        return [*values, recording(name), "", figures.reconciled(t, recording(name))]

    def race(*values: object) -> list[object]:
        return runs.started(t, values, "race")

    def sweep(*values: object) -> list[object]:
        return runs.started(t, values, "in_turn")

    def finish(value: object) -> list[object]:
        run_id = frame.run_of(value)
        chart = figures.kept_plot(t, live.events(swept), live.events(run_id))
        return [figures.reconciled(t, run_id), asking.alert(t, asking.failure(t, run_id)), chart]

    shown = [lab.bar, lab.remark]
    lab.preset.input(pick, [lab.preset], [*lab.settings, *shown, table], **QUIET)
    lab.run.click(race, lab.settings, shown, **QUIET)
    lab.sweep.click(sweep, lab.settings, shown, **QUIET)
    lab.bar.done(finish, [lab.bar], [table, lab.remark, kept], **QUIET)
