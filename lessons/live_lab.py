"""The live lab: one model answers one prompt twice, vanilla against speculative; each token shows what became of it.

Knows nothing of how tokens are drafted or accepted: it hands requests to the engine and events to the stages.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr
from gradio.context import Context

from engine import explain_speedup
from lessons import asking, frame, live, live_lab_controls, plots
from lessons.controls import linked_run
from lessons.live_lab_account import race_account
from lessons.live_lab_controls import LINKED, REFUSED_AS, linked, settings_in
from lessons.live_lab_figures import Findings, failure, findings
from lessons.live_lab_prompts import FIRST, PRESETS, preset
from lessons.live_lab_proof import LINES
from lessons.live_lab_race import (
    Settings,
    demo,
    demo_chinese,
    demo_code,
    demo_copy,
    demo_layers,
    demo_lookup,
    demo_repeat,
    is_ours,
    preset_of,
    race,
    recording,
    remarks,
    settings_of,
)
from lessons.proof import is_checked
from lessons.stage import Stage, Widget
from lessons.words import Words

__all__ = ["build", "demo", "demo_chinese", "demo_code", "demo_copy", "demo_layers", "demo_lookup", "demo_repeat"]

GUESSED = "copy"  # the preset that the reader is asked about
NO_PRESET = "none"
BREAKS = {  # what each button of "break it" changes
    "deep": {"drafter": "early_exit", "draft_length": 12},
    "typical": {"drafter": "layer_skip", "draft_length": 4, "temperature": 0.8, "rule": "typical"},
    "match": {"drafter": "layer_skip", "draft_length": 4, "temperature": 0.8, "rule": "sampler_match"},
}
QUIET = {"show_progress": "hidden", "api_visibility": "private"}

# ---- the page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """The components that others act on; `settings` in the order of Settings' fields."""

    bar: Widget
    run: gr.Button
    presets: Widget
    settings: Sequence[gr.components.Component]
    refusal: gr.HTML  # stands until the next run, or until what was refused is changed
    remark: gr.HTML
    guessed: gr.State  # the id of the run that the guesses are about


def build(t: Words) -> None:
    """The lesson's tab: the demo first, ready to be run, then the beats."""
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.title(t)
    page = _lab(t)
    frame.question(t)
    guesses = _predict(t, page)
    _read(t)
    _derive(t)
    found = _reconcile(t)
    _break(t, page)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t)
    _wire(t, page, guesses, found)
    _open_links(t, page, found)


def _lab(t: Words) -> Page:
    with gr.Column(elem_classes=["wide", "lab"], elem_id="lab"):
        bar, run = _bar(t)
        with gr.Column(elem_id="lab-remark"):
            refusal, remark = (gr.HTML("", apply_default_css=False) for _ in range(2))
        with gr.Row(min_height=570):  # heights from the start, so that nothing jumps when the stages draw
            with gr.Column(scale=7, min_width=340):
                Stage("race", t, elem_id="lab-race", min_height=540)
            with gr.Column(scale=3, min_width=300):
                Stage("inspector", t, options={"proof": "lesson=acceptance"}, elem_id="lab-inspector", min_height=480)
        Stage("ribbon", t, elem_id="lab-ribbon", min_height=150)
        options = {"names": [item.name for item in PRESETS]}
        presets = Widget("presets", t, t.group("stage."), options=options, elem_id="lab-presets", min_height=62)
        settings = live_lab_controls.place(t)
        with gr.Row(elem_classes="lab-links"):
            frame.downloads(t, bar, is_ours)
            frame.permalink(t, linked(settings))
    return Page(bar, run, presets, settings, refusal, remark, gr.State(""))


def _bar(t: Words) -> tuple[Widget, gr.Button]:
    """The transport, whose run all stages of the lesson follow, and beside it the button that starts another."""
    opening = {"run": recording(FIRST.name), "unless": list(LINKED)}  # a link's settings have a run of their own
    with gr.Row(elem_classes="lab-bar", min_height=84):
        with gr.Column(scale=7, min_width=200):
            bar = frame.transport(t, opening, autoplay=True)
        run = gr.Button(t("run.button"), variant="primary", scale=0, min_width=120, elem_id="lab-run")
    return bar, run


def _predict(t: Words, page: Page) -> dict[str, Widget]:
    frame.beat(t, "predict", t("predict.title"))
    frame.prose(t("predict.intro"))
    guesses = {
        "acceptance": frame.predict_number(t, "predict.acceptance", scale=(0, 1, 0.05)),
        "speedup": frame.predict_number(t, "predict.speedup", scale=(0, 6, 0.1), unit="×"),
    }
    show = gr.Button(t("predict.show"), elem_id="lab-guessed")

    def reveal() -> list[object]:
        values = list(dataclasses.astuple(settings_of(preset(GUESSED))))
        return [recording(GUESSED), recording(GUESSED), GUESSED, *values, ""]

    outputs = [page.bar, page.guessed, page.presets, *page.settings, page.refusal]
    show.click(reveal, outputs=outputs, js=_TO_RACE, **QUIET)
    return guesses


def _read(t: Words) -> None:
    frame.beat(t, "run", t("run.title"))
    frame.prose(t("run.intro"))
    Stage("ledger", t, elem_id="lab-ledger", elem_classes="wide")
    Stage("caches", t, elem_id="lab-caches", elem_classes="wide")
    frame.callout(t("run.fair"), "note")


def _derive(t: Words) -> None:
    frame.beat(t, "derive", t("derive.title"))
    frame.prose(t("derive.intro"))
    check = t("derive.check")
    lines = [frame.Line(one.latex, t(f"derive.{one.key}"), check if is_checked(one) else "") for one in LINES]
    frame.derivation(t, lines)
    frame.prose(t("derive.after"))
    frame.source(t, race_account, explain_speedup)


def _reconcile(t: Words) -> list[gr.components.Component]:
    first = findings(t, recording(FIRST.name), {})
    frame.beat(t, "reconcile", t("reconcile.title"))
    frame.prose(t("reconcile.intro"))
    text = frame.table(first.text)
    with gr.Row(elem_classes="wide"):
        with gr.Column(min_width=300):
            ladder = plots.place(first.ladder, t("ladder.label"))
        with gr.Column(min_width=300):
            positions = plots.place(first.positions, t("positions.label"))
    return [text, ladder, positions]


def _break(t: Words, page: Page) -> None:
    frame.beat(t, "break", t("break.title"))
    intros = {"deep": f"{t('break.intro')}\n\n"}
    for name, changes in BREAKS.items():
        frame.prose(intros.get(name, "") + t(f"break.{name}"))
        button = gr.Button(t(f"break.{name}.button"), elem_id=f"lab-break-{name}")

        def broken(*values: object, changes: dict[str, object] = changes) -> list[object]:
            changed = dataclasses.replace(Settings(*values), **changes)
            names = [item.name for item in dataclasses.fields(changed)]  # what stays is not sent back: it may be odd
            return [*(changes.get(name, gr.skip()) for name in names), *started(t, changed)]

        outputs = [*page.settings, page.bar, page.refusal, page.remark]
        button.click(broken, inputs=list(page.settings), outputs=outputs, js=_TO_RACE, **QUIET)


# Wherever the reader asked for a run, they are taken to see it; the tour must not talk over it.
_TO_RACE = """(...values) => {
  const race = document.querySelector("#lab-race");
  race?.querySelector(".stage")?.dispatchEvent(new Event("interrupt"));
  const top = race?.getBoundingClientRect().top ?? 0;
  if (top < 0 || top > window.innerHeight / 2) {
    document.querySelector("#lab").scrollIntoView({ behavior: "smooth", block: "start" });
  }
  return values;
}"""


# In the browser, for an answer of the server's might take away a later refusal.
_CHANGED = """() => document.querySelector("#lab-remark [data-of~='%s']") ? ["", ""] : []"""


def started(t: Words, settings: Settings) -> list[object]:
    """Start a race: the transport's new value, why it was refused, and what there is to say about one that was not."""
    if not settings.prompt.strip():
        return [gr.skip(), asking.alert(t, t("remark.empty"), "prompt"), ""]
    run, alert = asking.started(t, "", lambda: live.run(race(settings), settings.mode))
    return [run, alert, "" if alert else frame.said(" ".join(remarks(t, settings)))]


def _wire(t: Words, page: Page, guesses: dict[str, Widget], found: Sequence[gr.components.Component]) -> None:
    def pick(event: gr.EventData) -> list[object]:
        chosen = preset(str(frame.heard(event, "preset")))
        run_id = recording(chosen.name)
        return [*dataclasses.astuple(settings_of(chosen)), run_id if live.find(run_id) else gr.skip(), "", ""]

    def run(*values: object) -> list[object]:
        return started(t, Settings(*values))

    def remark(*values: object) -> str:
        return frame.said(" ".join(remarks(t, Settings(*values))), "careful")

    def finish(run: object, guessed: str, acceptance: float | None, speedup: float | None) -> list[object]:
        run_id = frame.run_of(run)
        mine = {"acceptance": acceptance, "speedup": speedup} if run_id == guessed else {}
        return [*findings(t, run_id, mine).values(), failure(t, run_id) or gr.skip()]

    inputs = list(page.settings)
    said = [page.refusal, page.remark]
    page.presets.pick(pick, outputs=[*inputs, page.bar, *said], **QUIET)
    page.run.click(run, inputs=inputs, outputs=[page.bar, *said], js=_TO_RACE, **QUIET)
    for name, item in zip(REFUSED_AS, inputs, strict=True):
        item.input(None, outputs=said, js=_CHANGED % name, **QUIET)
    committed = [page.settings[0].blur, *(item.change for item in page.settings[1:])]
    gr.on(committed, remark, inputs=inputs, outputs=[page.remark], queue=False, trigger_mode="always_last", **QUIET)
    page.bar.done(finish, inputs=[page.bar, page.guessed, *guesses.values()], outputs=[*found, page.refusal], **QUIET)


def _open_links(t: Words, page: Page, found: Sequence[gr.components.Component]) -> None:
    """Who follows a link to settings sees the run that was recorded with them, or an empty stage and what to press."""

    def opened(request: gr.Request) -> list[object]:
        query = dict(request.query_params)
        settings = settings_in(query, page.settings) if query.get("lesson") == t.lesson else None
        if settings is None:
            return [gr.skip()] * (2 + len(found))
        chosen = preset_of(settings)
        if linked_run(t, query):  # the transport shows it; its end fills the rest
            return [chosen.name if chosen else NO_PRESET, *[gr.skip()] * (1 + len(found))]
        run_id = recording(chosen.name) if chosen else ""
        if not live.find(run_id):
            return [NO_PRESET, {"run": ""}, *Findings(frame.said(t("stage.race.empty")), None, None).values()]
        return [chosen.name, run_id, *findings(t, run_id, {}).values()]

    outputs = [page.presets, page.bar, *found]
    Context.root_block.load(opened, outputs=outputs, queue=False, **QUIET)
