"""What the reader can set in the lab: the controls, in the order of Settings' fields, and how they ride in a link.

Knows nothing of what a setting does.
"""

from collections.abc import Mapping, Sequence

import gradio as gr

from lessons import live
from lessons.controls import Slider, linked_value
from lessons.live_lab_prompts import FIRST
from lessons.live_lab_race import Settings
from lessons.words import Words

DRAFTERS = (
    "layer_skip", "ngram", "suffix", "ngram_table", "draft_lm", "eagle", "eagle2", "eagle3", "eagle3:chain",
    "eagle3:lookup", "medusa", "specinfer", "lookahead", "jacobi", "magicdec", "triforce", "early_exit",
)  # fmt: skip
STARTED_WITH = {"draft_model": "draft_model", "published": "published_head"}  # offered where the app was given one
DRAFT_TEMPERATURES = ("same", "0", "0.3", "0.6", "0.8", "1", "1.5")
MODES = ("race", "in_turn")
RULES = ("exact", "sampler_match", "typical")
LARGEST_LENGTH = 256
LINKED = ("prompt", "drafter", "k", "t", "draft_t", "top_p", "seed", "n", "chat", "mode", "rule")  # names in a link
REFUSED_AS = (  # names in a refusal of the engine's
    "prompt", "drafter", "draft_length", "temperature", "draft_temperature", "top_p", "seed", "max_new_tokens",
    "prompt_format", "mode", "rule",
)  # fmt: skip


def offered() -> tuple[str, ...]:
    """The drafters to choose from: what needs files of the reader's own only where the app was started with them."""
    given = live.drafting()
    return (*DRAFTERS, *(name for name, setting in STARTED_WITH.items() if getattr(given, setting)))


def first_drafter() -> str:
    """The one that the app was started with, where it is offered; else that of the recorded run on the page."""
    chosen = live.drafting().drafter
    return chosen if chosen in offered() else FIRST.drafter


def place(t: Words) -> list[gr.components.Component]:
    """Put the controls on the page."""

    def choices(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
        keys = {value: f"{name}.{value}".replace(":", ".") for value in values}
        return [(t(key) if key in t else value, value) for value, key in keys.items()]

    with gr.Column(elem_classes=["wide", "controls"]):
        # No max_length on any page: a browser cuts a longer text in silence, the engine refuses it in words.
        prompt = gr.Textbox(FIRST.prompt, label=t("control.prompt"), lines=2, max_lines=8)
        with gr.Row():
            drafter = gr.Dropdown(
                choices("drafter", offered()), value=first_drafter(), label=t("control.drafter"), filterable=False
            )
            drafts = Slider(0, 16, FIRST.draft_length, step=1, label=t("control.k"))
            temperature = Slider(0, 2, FIRST.temperature, step=0.05, label=t("control.t"))
    with gr.Accordion(t("control.more"), open=False, elem_classes=["wide", "answer"]):
        with gr.Row():
            draft_t = gr.Dropdown(choices("draft_t", DRAFT_TEMPERATURES), value="same", label=t("control.draft_t"),
                                  filterable=False)  # fmt: skip
            top_p = Slider(0, 1, 1, step=0.05, label=t("control.top_p"))
            length = Slider(1, LARGEST_LENGTH, FIRST.length, step=1, label=t("control.n"))
            seed = gr.Number(0, label=t("control.seed"), precision=0)
        with gr.Row():
            mode = gr.Radio(choices("mode", MODES), value="race", label=t("control.mode"))
            rule = gr.Radio(choices("rule", RULES), value="exact", label=t("control.rule"))
            chat = gr.Checkbox(True, label=t("control.chat"), info=t("control.chat.info"))
    return [prompt, drafter, drafts, temperature, draft_t, top_p, seed, length, chat, mode, rule]


def linked(settings: Sequence[gr.components.Component]) -> dict[str, gr.components.Component]:
    """The controls under the names that they have in a link."""
    return dict(zip(LINKED, settings, strict=True))


def settings_in(query: Mapping[str, str], settings: Sequence[gr.components.Component]) -> Settings | None:
    """What a link sets, all else at its first value; None where it sets nothing."""
    if not query.keys() & set(LINKED):
        return None
    values = []
    for name, control in linked(settings).items():
        given = linked_value(control, query.get(name))
        values.append(control.value if given == gr.skip() else given)
    return Settings(*values)
