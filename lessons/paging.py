"""PagedAttention: the cache is cut into blocks, a table says where each block lies.

Knows nothing of how the engine manages blocks: it sees events.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gradio as gr

from engine import Engine, Event
from lessons import frame, live, paging_exhibits, paging_simulation, plots
from lessons import paging_figures as figures
from lessons import paging_scenarios as scenarios
from lessons import paging_workbench as workbench
from lessons.paging_figures import badge_words
from lessons.paging_proof import LARGEST, LINES
from lessons.paging_runs import forked, reconciled, recording, remark, started
from lessons.paging_scenarios import FIRST, PRESETS
from lessons.proof import Line, is_checked
from lessons.stage import Stage, Widget
from lessons.words import Words

QUIET = {"show_progress": "hidden", "api_visibility": "private"}
LATEST = QUIET | {"trigger_mode": "always_last"}
PAPER = "paging.paper"
BLOCK_SIZES = (1, 4, 16, 64, 256, 1024)

# ---- recorded runs ------------------------------------------------------------------------------------------------


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with: one prompt, four samples."""
    yield from scenarios.recorded(engine, PRESETS["parallel"])


def demo_fork(engine: Engine) -> Iterator[Event]:
    """One request, forked in the middle of a block."""
    yield from scenarios.recorded(engine, PRESETS["fork"], scenarios.FORKED_AT)


def demo_prefix(engine: Engine) -> Iterator[Event]:
    """Two prompts that begin alike, one after the other."""
    yield from scenarios.recorded(engine, PRESETS["prefix"])


def demo_paper(engine: Engine) -> Iterator[Event]:
    """Figures 6-8 of the paper, in a pool of nine blocks of four slots."""
    yield from scenarios.drive(scenarios.paper_engine(engine.config), scenarios.paper_requests())


# ---- the page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lab:
    """The live part of the page: what shows the run, what starts it, and what the reader sets."""

    bar: Widget
    blocks: Stage
    preset: gr.Radio
    run: gr.Button
    remark: gr.HTML
    settings: Sequence[gr.components.Component]  # in the order of Settings' fields


def build(t: Words) -> None:
    """The lesson's tab: question, prediction and the first picture share the first screen."""
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.opening(t)
        frame.prose(t("jump"), size="note")
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=3, min_width=320):
            guesses = _predict(t)
        with gr.Column(scale=7, min_width=600):
            _paper(t)
    lab = _lab(t)
    workbench.panel(t)
    _derive(t)
    table = _reconcile(t, guesses)
    _break(t)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t, source=t("source.vllm"))
    _wire_lab(t, lab, table)


def _predict(t: Words) -> dict[str, frame.Predict]:
    frame.beat(t, "predict", t("predict.title"))
    sizes = {"slots": paging_simulation.CAPACITY, "longest": paging_simulation.LONGEST}
    frame.prose(t("predict.intro", source=frame.badge(t, "cited", t("source.vllm")), **sizes))
    return {
        "max": frame.predict_number(t, "predict.reserved", scale=(0, 60, 1)),
        "paged": frame.predict_number(t, "predict.paged", scale=(0, 60, 1)),
    }


def _paper(t: Words) -> None:
    """Nine blocks of four slots: small enough to read every token."""
    frame.beat(t, "run", t("run.title"))
    run_id = live.replay(PAPER)
    frame.transport(t, run_id, channel=PAPER, autoplay=False)
    Stage("blocks", t, run_id, channel=PAPER, elem_id="paging-paper", options=badge_words(t))
    frame.prose(t("run.intro"))
    frame.prose(t("run.paper", source=frame.badge(t, "cited", t("source.vllm"))), size="note")


def _lab(t: Words) -> Lab:
    """The running engine: the picture first, below it what the reader can set."""
    frame.prose(t("lab.intro"))
    preset = gr.Radio([(t(f"preset.{name}"), name) for name in PRESETS], value=FIRST, label=t("control.preset"))
    run_id = recording(FIRST)
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=7, min_width=320):
            bar = frame.transport(t, run_id)
        run = gr.Button(t("control.run"), variant="primary", scale=1, min_width=140, elem_id="paging-run")
    told = gr.HTML("", apply_default_css=False, elem_id="paging-remark")
    options = badge_words(t) | {"can_fork": True}
    blocks = Stage("blocks", t, run_id, elem_id="paging-blocks", elem_classes="wide", options=options)
    settings = _settings(t)
    frame.prose(t("lab.after"), size="note")
    frame.downloads(t, bar)
    frame.permalink(t, dict(zip(("prompt", "second", "n", "length", "t", "seed"), settings, strict=True)))
    return Lab(bar, blocks, preset, run, told, settings)


def _settings(t: Words) -> list[gr.components.Component]:
    """In the order of Settings' fields."""
    first = PRESETS[FIRST]
    with gr.Row(elem_classes=["wide", "controls"]):
        prompt = gr.Textbox(first.prompt, label=t("control.prompt"), lines=2, max_lines=8)
        second = gr.Textbox(first.second, label=t("control.second"), lines=2, max_lines=8)
    with gr.Row(elem_classes=["wide", "controls"]):
        samples = frame.Slider(1, scenarios.MOST_SAMPLES, first.num_samples, step=1, label=t("control.n"))
        length = frame.Slider(2, scenarios.LONGEST_OUTPUT, first.length, step=1, label=t("control.length"))
        temperature = frame.Slider(0, 2, first.temperature, step=0.05, label=t("control.temperature"))
        seed = gr.Number(first.seed, label=t("control.seed"), precision=0)
    return [prompt, second, samples, length, temperature, seed]


def _derive(t: Words) -> None:
    frame.beat(t, "derive", t("derive.title"))
    frame.prose(t("derive.intro"))
    lines = [frame.Line(one.latex, t(f"derive.{one.key}"), _how(t, one)) for one in LINES]
    frame.derivation(t, lines)
    frame.callout(t("derive.cost", source=frame.badge(t, "cited", t("source.vllm"))), "careful")


def _how(t: Words, line: Line) -> str:
    """What the tick of a line says: how it was checked, nothing where it was not."""
    if not is_checked(line):
        return ""
    return t("derive.check.cases", largest=LARGEST) if line.trials else t("derive.check.sympy")


def _reconcile(t: Words, guesses: dict[str, frame.Predict]) -> gr.HTML:
    frame.beat(t, "reconcile", t("reconcile.title"))
    frame.prose(t("reconcile.intro"))
    table = frame.table(reconciled(t, recording(FIRST)))
    prompt, output = paging_simulation.mean_lengths()
    frame.prose(t("mix.intro", longest=paging_simulation.LONGEST, prompt=prompt, output=output))
    with gr.Row(elem_classes="controls"):
        size = gr.Radio(BLOCK_SIZES, value=16, label=t("control.block_size"))
        seed = frame.Slider(0, 20, 0, step=1, label=t("control.mix"))
    simulated, cited = frame.badge(t, "simulated"), frame.badge(t, "cited", t("source.vllm"))
    frame.prose(t("mix.badges", simulated=simulated, cited=cited), size="note")
    chart = plots.place(figures.fragmentation_plot(t, figures.results()), t("chart.label"))
    mix = frame.table(figures.mix_table(t, figures.results(), {}))
    frame.source(t, paging_simulation)

    def redraw(reserved: float | None, paged: float | None, block_size: int, mix_seed: int) -> list[object]:
        found = figures.results(int(block_size), int(mix_seed))
        said = dict(zip(guesses, (reserved, paged), strict=True))
        return [figures.fragmentation_plot(t, found), figures.mix_table(t, found, said)]

    inputs = [*guesses.values(), size, seed]
    gr.on([size.change, seed.release], redraw, inputs, [chart, mix], **LATEST)
    for guess in guesses.values():
        guess.commit(lambda *values: redraw(*values)[1], inputs, [mix], **LATEST)
    return table


def _break(t: Words) -> None:
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.prefix"))
    shared = frame.Slider(1, 8, 6, step=1, label=t("control.shared"))
    words = t.group("slots.")
    prefix = Widget("slots", t, words, value=figures.prefix_rows(t, 6), elem_id="paging-prefix")
    frame.source(t, paging_exhibits.share_floor, paging_exhibits.share_and_copy, paging_exhibits.read_after_sharing)
    frame.prose(t("break.layers"))
    layers = frame.Slider(1, 4, 2, step=1, label=t("control.layers"))
    caches = Widget("slots", t, words, value=figures.layer_rows(t, 2), elem_id="paging-layers")
    frame.source(t, paging_exhibits.append_in_every_layer, paging_exhibits.append_then_advance)
    frame.callout(t("break.after"), "note")
    shared.change(lambda value: figures.prefix_rows(t, int(value)), [shared], [prefix], **LATEST)
    layers.change(lambda value: figures.layer_rows(t, int(value)), [layers], [caches], **LATEST)


# ---- wiring -------------------------------------------------------------------------------------------------------


def _wire_lab(t: Words, lab: Lab, table: gr.HTML) -> None:
    def pick(name: str) -> list[object]:
        name = name if name in PRESETS else FIRST
        return [*dataclasses.astuple(PRESETS[name]), recording(name), "", reconciled(t, recording(name))]

    def run(*values: object) -> list[object]:
        return started(t, values)

    def fork(event: gr.EventData) -> list[object]:
        run_id, request_id, at = (frame.heard(event, name) for name in ("run", "request", "at"))
        return forked(t, str(run_id), (request_id, at))

    def finish(value: object) -> list[object]:
        run_id = frame.run_of(value)
        return [reconciled(t, run_id), remark(t, run_id)]

    shown = [lab.bar, lab.remark]
    lab.preset.input(pick, [lab.preset], [*lab.settings, *shown, table], **QUIET)
    lab.run.click(run, list(lab.settings), shown, **QUIET)
    lab.blocks.act(fork, None, shown, **QUIET)
    lab.bar.done(finish, [lab.bar], [table, lab.remark], **QUIET)
