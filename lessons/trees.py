"""Trees: several continuations of a text, checked by one pass of the target.

Knows nothing of how trees are grown, laid out or accepted: it sees events, and asks the engine for comparisons.
"""

from collections.abc import Iterator

import gradio as gr

from engine import Engine, Event, lay_tree
from lessons import frame, live, plots, trees_run
from lessons import trees_figures as figures
from lessons.stage import Stage, Widget
from lessons.trees_proof import GROUPS
from lessons.words import Words

QUIET = {"show_progress": "hidden", "api_visibility": "private"}


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with, and its trees laid out in every way."""
    yield from trees_run.recorded(engine, trees_run.PROMPT)


# ---- the page -----------------------------------------------------------------------------------------------------


def build(t: Words) -> None:
    """The lesson's tab: question, predictions and the pass share the first screen."""
    run_id = live.replay("trees")
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.opening(t)
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=3, min_width=320):
            guess = _predict(t)
        with gr.Column(scale=8, min_width=320):
            frame.beat(t, "run", t("run.title"))
            bar = frame.transport(t, run_id)
            Stage("tree_pass", t, run_id, words="pass.", elem_id="trees-pass")
    told = _lab(t, bar)
    frame.prose(t("build.title"))
    options = figures.build_options(t)
    Stage("tree_build", t, run_id, words="build.", options=options, elem_id="trees-build", elem_classes="wide")
    _derive(t)
    shown = _reconcile(t, run_id)
    layouts = _break(t, run_id)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t, source=t("source.eagle2"))
    _wire(t, bar, guess, (told, *shown, layouts))


def _predict(t: Words) -> frame.Predict:
    frame.beat(t, "predict", t("predict.title"))
    frame.prose(t("predict.intro"))
    frame.predict(t, "predict.next")
    frame.predict(t, "predict.fifth")
    return frame.predict_number(t, "predict.tokens", scale=(1, 4, 0.1))


def _lab(t: Words, bar: Widget) -> gr.HTML:
    """The reader's own prompt, below the pass."""
    frame.prose(t("run.intro"))
    with gr.Row(elem_classes=["wide", "controls"]):
        prompt = gr.Textbox(trees_run.PROMPT, label=t("run.prompt"), max_lines=3, scale=6)
        button = gr.Button(t("run.live"), variant="primary", scale=1, min_width=140, elem_id="trees-run")
    told = gr.HTML("", apply_default_css=False, elem_id="trees-told")
    frame.downloads(t, bar, trees_run.is_ours)
    frame.permalink(t, {"prompt": prompt})
    button.click(lambda text: trees_run.started(t, text), [prompt], [bar, told], **QUIET)
    return told


def _derive(t: Words) -> None:
    frame.beat(t, "derive", t("derive.title"))
    frame.derivation(t, [line for group in GROUPS for line in figures.lines_of(t, group)])
    button = gr.Button(t("check.button"))
    table = frame.table()
    button.click(lambda: figures.check_table(t), outputs=[table], **QUIET)


def _reconcile(t: Words, run_id: str) -> tuple[gr.HTML, gr.Plot]:
    frame.beat(t, "reconcile", t("reconcile.title"))
    table = frame.table(figures.reconciled(t, run_id, None))
    frame.prose(f"{t('size.intro')}\n\n{figures.size_badges(t)}")
    chart = plots.place(figures.size_chart(t, run_id), t("size.label"))
    return table, chart


def _break(t: Words, run_id: str) -> gr.HTML:
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.intro"))
    table = frame.table(figures.layout_table(t, run_id))
    frame.source(t, lay_tree)
    return table


# ---- wiring -------------------------------------------------------------------------------------------------------


def _wire(t: Words, bar: Widget, guess: frame.Predict, shown: tuple[gr.HTML, gr.HTML, gr.Plot, gr.HTML]) -> None:
    """Tables and chart follow the run that the bar shows, and the reader's number."""
    _, table, _, _ = shown

    def finish(value: object, said: float | None) -> list[object]:
        run_id = frame.run_of(value)
        return [
            trees_run.finished(t, run_id),
            figures.reconciled(t, run_id, said),
            figures.size_chart(t, run_id),
            figures.layout_table(t, run_id),
        ]

    def settle(value: object, said: float | None) -> str:
        return figures.reconciled(t, frame.run_of(value), said)

    bar.done(finish, [bar, guess], list(shown), **QUIET)
    guess.commit(settle, [bar, guess], [table], **QUIET)
