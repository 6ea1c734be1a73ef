"""The two laws of the acceptance lesson as a reader sets them: the picture to drag, fields, sliders, examples.

Knows nothing of rules: whatever was moved or typed ends in a new Setting, or in the sentence that says why not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from lessons import frame
from lessons.acceptance_figures import law_options, said
from lessons.acceptance_laws import Setting, setting_of
from lessons.acceptance_model import PICTURE
from lessons.stage import Widget
from lessons.typed_laws import BadLaw, parse_pair, write_law
from lessons.words import Words

EXAMPLES = {  # name: p, q
    "textbook": ("0.5, 0.3, 0.2", "0.2, 0.3, 0.5"),
    "reversed": ("0.4, 0.3, 0.2, 0.1", "0.1, 0.2, 0.3, 0.4"),
    "equal": ("0.4, 0.3, 0.2, 0.1", "0.4, 0.3, 0.2, 0.1"),
    "disjoint": ("0.6, 0.4, 0, 0", "0, 0, 0.7, 0.3"),
    "sure": ("0.97, 0.01, 0.01, 0.01", "0.7, 0.1, 0.1, 0.1"),
    "logits": ("0.6439, 0.2369, 0.0871, 0.0321", "0.4772, 0.3535, 0.1301, 0.0392"),
    "eight": ("0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05", "0.25, 0.05, 0.2, 0.2, 0.05, 0.1, 0.1, 0.05"),
}
FIRST = "textbook"
FIRST_SEED = 1
VEIL = "acceptance.predict.alpha"  # the prediction that the picture would give away
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
LATEST = QUIET | {"trigger_mode": "always_last"}


@dataclass(frozen=True, slots=True)
class Controls:
    """What a reader sets, and what of it follows; `setting` holds the Setting that came of it."""

    picture: Widget
    example: gr.Dropdown
    p: gr.Textbox
    q: gr.Textbox
    wrong: tuple[gr.HTML, gr.HTML]  # below each of the two fields
    temperature: frame.Slider
    top_p: frame.Slider
    again: gr.Button
    remark: gr.HTML
    names: gr.State
    seed: gr.State
    setting: gr.State

    @property
    def inputs(self) -> list:
        """What the laws in use depend on."""
        return [self.p, self.q, self.temperature, self.top_p, self.names, self.seed]


def place(t: Words, first: Setting) -> Controls:
    """The picture, and below it all that changes it."""
    options = law_options(first) | {"veil": VEIL}
    picture = Widget("laws", t, t.group("stage."), options=options, elem_id=PICTURE)
    frame.prose(t("run.intro"), size="note")
    with gr.Column(elem_classes="controls"):
        example = gr.Dropdown(choices(t), value=FIRST, label=t("control.example"), filterable=False)
        p, wrong_p = _field(t, "p")
        q, wrong_q = _field(t, "q")
        with gr.Row():
            temperature = frame.Slider(0, 3, value=1, step=0.05, label=t("control.temperature"))
            top_p = frame.Slider(0, 1, value=1, step=0.05, label=t("control.top_p"))
        again = gr.Button(t("control.again"), size="sm")
    remark = gr.HTML(said(t, "input.plain"), apply_default_css=False)
    states = gr.State(()), gr.State(FIRST_SEED), gr.State(first)
    return Controls(picture, example, p, q, (wrong_p, wrong_q), temperature, top_p, again, remark, *states)


def _field(t: Words, law: str) -> tuple[gr.Textbox, gr.HTML]:
    """A field for a law, and directly below it the place for what is wrong with it."""
    text = EXAMPLES[FIRST]["pq".index(law)]
    with gr.Column(elem_classes="laws-field"):
        field = gr.Textbox(text, label=t(f"control.{law}"), max_lines=1)
        wrong = gr.HTML("", apply_default_css=False)
    return field, wrong


def choices(t: Words, extra: str = "") -> list[tuple[str, str]]:
    """The examples, and where the laws are none of them what they are: "model" or "own"."""
    names = [*EXAMPLES, extra] if extra else list(EXAMPLES)
    return [(t(f"example.{name}"), name) for name in names]


def example_of(p: str, q: str, names: Sequence[str]) -> str:
    """The example that these laws are; "model" for those of a run, "own" for the reader's."""
    found = next((name for name, texts in EXAMPLES.items() if texts == (p, q)), "")
    return found or ("model" if names else "own")


# ---- wiring -------------------------------------------------------------------------------------------------------


def wire(t: Words, controls: Controls) -> None:
    """Fields, sliders, examples and dragged bars all lead to `controls.setting`."""

    def read_all(*values: object) -> list[object]:
        return read(t, *values)

    changes = [part.change for part in (controls.p, controls.q, controls.temperature, controls.top_p, controls.seed)]
    outputs = [controls.remark, *controls.wrong, controls.example, controls.setting]
    gr.on(changes, read_all, controls.inputs, outputs, **LATEST)

    def example(name: str) -> list[object]:
        return [*EXAMPLES[name], 1, 1, ()] if name in EXAMPLES else [gr.skip()] * 5

    controls.example.input(example, [controls.example], controls.inputs[:5], **QUIET)
    controls.again.click(lambda seed: seed + 1, [controls.seed], [controls.seed], **QUIET)
    controls.picture.act(dragged, outputs=[controls.p, controls.q], **LATEST)


def read(t: Words, p: str, q: str, temperature: float, top_p: float, names: Sequence[str], seed: int) -> list[object]:
    """What the fields say: a remark, what is wrong with p and with q, the example that they are, the Setting."""
    try:
        setting = setting_of((p or "", q or ""), temperature, top_p, names, seed)
    except BadLaw as problem:
        sentence = frame.said(frame.safe(t(f"input.{problem.code}", **problem.values)), "wrong")
        wrong = [sentence, ""] if problem.values.get("law") == "p" else ["", sentence]
        return [gr.skip(), *wrong, gr.skip(), gr.skip()]
    values = {} if setting.is_plain else {"temperature": temperature, "top_p": top_p}
    remark = said(t, "input.plain" if setting.is_plain else "input.shaped", **values)
    name = example_of(p, q, names)
    example = gr.Dropdown(choices(t, "" if name in EXAMPLES else name), value=name)
    return [remark, "", "", example, setting]


def dragged(event: gr.EventData) -> tuple[object, object]:
    """The laws as they were dragged, written down; nothing for a message that is not one."""
    try:
        texts = [write_law([float(entry) for entry in getattr(event, law)]) for law in "pq"]
        parse_pair(*texts)
    except (BadLaw, TypeError, ValueError, AttributeError):
        return gr.skip(), gr.skip()
    return texts[0], texts[1]
