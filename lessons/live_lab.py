"""The live lab: one model answers one prompt twice, vanilla against speculative; each token shows what became of it.

Knows nothing of how tokens are drafted or accepted: it hands requests to the engine and events to the stages.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from engine import EngineError, explain_speedup
from lessons import frame, live, plots
from lessons.live_lab_account import race_account
from lessons.live_lab_figures import failure, findings, said
from lessons.live_lab_prompts import FIRST, PRESETS, preset
from lessons.live_lab_proof import LINES
from lessons.live_lab_race import (
    Settings,
    demo,
    demo_chinese,
    demo_code,
    demo_copy,
    demo_lookup,
    demo_repeat,
    race,
    recording,
    remarks,
    settings_of,
)
from lessons.stage import Stage, Widget
from lessons.words import Words

__all__ = ["build", "demo", "demo_chinese", "demo_code", "demo_copy", "demo_lookup", "demo_repeat"]

DRAFTERS = ("layer_skip", "ngram", "early_exit")
DRAFT_TEMPERATURES = ("same", "0", "0.3", "0.6", "0.8", "1", "1.5")
MODES = ("race", "in_turn")
RULES = ("exact", "sampler_match", "typical")
LONGEST_PROMPT = 12_000  # characters
LARGEST_LENGTH = 256
GUESSED = "copy"  # the preset that the reader is asked about
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
    remark: gr.HTML
    guessed: gr.State  # the id of the run that the guesses are about


def build(t: Words) -> None:
    """The lesson's tab: the race first, then how to run it, then the beats."""
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.title(t)
    page = _lab(t)
    _read(t)
    frame.question(t)
    guesses = _predict(t, page)
    _derive(t)
    found = _reconcile(t)
    _break(t, page)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t)
    _wire(t, page, guesses, found)


def _lab(t: Words) -> Page:
    first = recording(FIRST.name)
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=7, min_width=340):
            Stage("race", t, first, elem_id="lab-race")
        with gr.Column(scale=3, min_width=300):
            Stage("inspector", t, first, options={"proof": "lesson=acceptance"}, elem_id="lab-inspector")
    Stage("ribbon", t, first, elem_id="lab-ribbon", elem_classes="wide")
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=7, min_width=340):
            bar = frame.transport(t, first, autoplay=True)
        run = gr.Button(t("run.button"), variant="primary", scale=1, min_width=160, elem_id="lab-run")
    remark = gr.HTML("", apply_default_css=False, elem_id="lab-remark", elem_classes="wide")
    options = {"names": [item.name for item in PRESETS]}
    presets = Widget("presets", t, t.group("stage."), options=options, elem_classes="wide", elem_id="lab-presets")
    settings = _controls(t)
    with gr.Row(elem_classes="wide"):
        frame.downloads(t, bar)
        frame.permalink(t, linked(settings))
    return Page(bar, run, presets, settings, remark, gr.State(""))


def linked(settings: Sequence[gr.components.Component]) -> dict[str, gr.components.Component]:
    """The settings under the names that they have in a link."""
    names = ("prompt", "drafter", "k", "t", "draft_t", "top_p", "seed", "n", "chat", "mode", "rule")
    return dict(zip(names, settings, strict=True))


def _controls(t: Words) -> list[gr.components.Component]:
    """In the order of Settings' fields."""

    def choices(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
        return [(t(f"{name}.{value}") if f"{name}.{value}" in t else value, value) for value in values]

    with gr.Column(elem_classes=["wide", "controls"]):
        prompt = gr.Textbox(FIRST.prompt, label=t("control.prompt"), max_length=LONGEST_PROMPT, lines=2, max_lines=8)
        with gr.Row():
            drafter = gr.Dropdown(
                choices("drafter", DRAFTERS), value=FIRST.drafter, label=t("control.drafter"), filterable=False
            )
            drafts = gr.Slider(0, 16, FIRST.draft_length, step=1, label=t("control.k"))
            temperature = gr.Slider(0, 2, FIRST.temperature, step=0.05, label=t("control.t"))
    with gr.Accordion(t("control.more"), open=False, elem_classes=["wide", "answer"]):
        with gr.Row():
            draft_t = gr.Dropdown(choices("draft_t", DRAFT_TEMPERATURES), value="same", label=t("control.draft_t"),
                                  filterable=False)  # fmt: skip
            top_p = gr.Slider(0, 1, 1, step=0.05, label=t("control.top_p"))
            length = gr.Slider(1, LARGEST_LENGTH, FIRST.length, step=1, label=t("control.n"))
            seed = gr.Number(0, label=t("control.seed"), precision=0, minimum=0, maximum=2**31 - 1)
        with gr.Row():
            mode = gr.Radio(choices("mode", MODES), value="race", label=t("control.mode"))
            rule = gr.Radio(choices("rule", RULES), value="exact", label=t("control.rule"))
            chat = gr.Checkbox(True, label=t("control.chat"), info=t("control.chat.info"))
    return [prompt, drafter, drafts, temperature, draft_t, top_p, seed, length, chat, mode, rule]


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
        return [recording(GUESSED), recording(GUESSED), GUESSED, *values]

    outputs = [page.bar, page.guessed, page.presets, *page.settings]
    show.click(reveal, outputs=outputs, js=_TO_RACE, **QUIET)
    return guesses


def _read(t: Words) -> None:
    frame.beat(t, "run", t("run.title"))
    frame.prose(t("run.intro"))
    Stage("ledger", t, recording(FIRST.name), elem_id="lab-ledger", elem_classes="wide")
    Stage("caches", t, recording(FIRST.name), elem_id="lab-caches", elem_classes="wide")
    frame.callout(t("run.fair"), "note")


def _derive(t: Words) -> None:
    frame.beat(t, "derive", t("derive.title"))
    frame.prose(t("derive.intro"))
    check = t("derive.check")
    lines = [
        frame.Line(one.latex, t(f"derive.{one.key}"), check if one.sides() and one.is_proved else "") for one in LINES
    ]
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
            return [*dataclasses.astuple(changed), *started(t, changed)]

        outputs = [*page.settings, page.bar, page.remark]
        button.click(broken, inputs=list(page.settings), outputs=outputs, js=_TO_RACE, **QUIET)


_TO_RACE = """(...values) => {
  document.querySelector("#lab-race")?.scrollIntoView({ behavior: "smooth", block: "start" });
  return values;
}"""


def started(t: Words, settings: Settings) -> list[object]:
    """Start a race: the transport's new value, and what there is to say about it."""
    if not settings.prompt.strip():
        return [gr.skip(), said(t("remark.empty"), "wrong")]
    try:
        return [live.run(race(settings), settings.mode), said(" ".join(remarks(t, settings)))]
    except EngineError as problem:
        return [gr.skip(), said(frame.error(t, problem), "wrong")]


def _wire(t: Words, page: Page, guesses: dict[str, Widget], found: Sequence[gr.components.Component]) -> None:
    def pick(event: gr.EventData) -> list[object]:
        chosen = preset(str(getattr(event, "preset", "")))
        run_id = recording(chosen.name)
        return [*dataclasses.astuple(settings_of(chosen)), run_id if live.find(run_id) else gr.skip(), ""]

    def run(*values: object) -> list[object]:
        return started(t, Settings(*values))

    def remark(*values: object) -> str:
        return said(" ".join(remarks(t, Settings(*values))), "careful")

    def finish(run: object, guessed: str, acceptance: float | None, speedup: float | None) -> list[object]:
        run_id = run.get("run", "") if isinstance(run, dict) else str(run or "")
        mine = {"acceptance": acceptance, "speedup": speedup} if run_id == guessed else {}
        return [*findings(t, run_id, mine).values(), failure(t, run_id) or gr.skip()]

    inputs = list(page.settings)
    page.presets.pick(pick, outputs=[*inputs, page.bar, page.remark], **QUIET)
    page.run.click(run, inputs=inputs, outputs=[page.bar, page.remark], js=_TO_RACE, **QUIET)
    committed = [page.settings[0].blur, *(item.change for item in page.settings[1:])]
    gr.on(committed, remark, inputs=inputs, outputs=[page.remark], queue=False, trigger_mode="always_last", **QUIET)
    page.bar.done(finish, inputs=[page.bar, page.guessed, *guesses.values()], outputs=[*found, page.remark], **QUIET)
