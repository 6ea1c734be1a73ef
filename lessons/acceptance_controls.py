"""The two laws of the acceptance lesson as a reader sets them: the picture to drag, fields, sliders, examples.

Knows nothing of rules: whatever was moved or typed ends in a new Setting, or in the sentence that says why not.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from lessons import frame
from lessons.acceptance_figures import law_options, said
from lessons.acceptance_laws import Law, Setting, setting_of
from lessons.acceptance_model import PICTURE
from lessons.stage import Widget
from lessons.typed_laws import BadLaw, is_same, parse_pair
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
IN_TURN = LATEST | {"concurrency_id": "laws", "concurrency_limit": 1}
_WRITTEN = "(laws) => [laws.p, laws.q]"
_EXAMPLE = f"(name) => {{ const laws = {json.dumps(EXAMPLES)}[name]; return laws ? [...laws, 1, 1] : []; }}"


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


def choices(t: Words) -> list[tuple[str, str]]:
    """The examples, and what laws are that are none of them: always the same list, for it may be open."""
    return [(t(f"example.{name}"), name) for name in (*EXAMPLES, "model", "own")]


def example_of(laws: tuple[Law, Law], names: Sequence[str]) -> str:
    """The example that these laws are, however typed; "model" for those of a run, "own" for the reader's."""
    found = next((name for name in EXAMPLES if is_example(name, laws)), "")
    return found or ("model" if names else "own")


def is_example(name: str, laws: tuple[Law, Law]) -> bool:
    """Whether p and q are those of an example."""
    return all(map(is_same, laws, parse_pair(*EXAMPLES[name])))


def unnamed(example: object) -> object:
    """The names of the tokens once an example was chosen: none but letters."""
    return () if example in EXAMPLES else gr.skip()


# ---- wiring -------------------------------------------------------------------------------------------------------


def wire(t: Words, controls: Controls) -> None:
    """Fields, sliders, examples and dragged bars all lead to `controls.setting`, and back to the picture."""

    def read_all(*values: object) -> list[object]:
        return read(t, *values)

    laws = [controls.p, controls.q]
    parts = (*laws, controls.temperature, controls.top_p, controls.names, controls.seed)
    outputs = [controls.remark, *controls.wrong, controls.example, controls.setting, controls.picture]
    # The browser writes the fields: the server's answer would come late, and undo what the reader has moved meanwhile.
    written = controls.picture.act(None, [controls.picture], laws, js=_WRITTEN, **QUIET)
    controls.example.input(None, [controls.example], controls.inputs[:4], js=_EXAMPLE, **QUIET)
    chosen = controls.example.input(unnamed, [controls.example], [controls.names], **QUIET)
    controls.again.click(lambda seed: seed + 1, [controls.seed], [controls.seed], **QUIET)
    inputs = [*controls.inputs, controls.picture]
    gr.on([part.change for part in parts], read_all, inputs, outputs, **IN_TURN)
    # Also where the fields stay as they were: moves count, and a name that laws do not have goes back to theirs.
    for event in (written, chosen):
        event.then(read_all, inputs, outputs, **IN_TURN)


def read(
    t: Words, p: str, q: str, temperature: float, top_p: float, names: Sequence[str], seed: int, drawn: object = None
) -> list[object]:
    """What the fields say: a remark, what is wrong with p and with q, the example that they are, Setting and picture.

    drawn: the picture's value, whose count of moves goes back to it with the laws.
    """
    try:
        setting = setting_of((p or "", q or ""), temperature, top_p, names, seed)
    except BadLaw as problem:
        sentence = frame.said(frame.safe(t(f"input.{problem.code}", **problem.values)), "wrong")
        wrong = [sentence, ""] if problem.values.get("law") == "p" else ["", sentence]
        return [gr.skip(), *wrong, gr.skip(), gr.skip(), gr.skip()]
    values = {} if setting.is_plain else {"temperature": temperature, "top_p": top_p}
    remark = said(t, "input.plain" if setting.is_plain else "input.shaped", **values)
    picture = gr.update(options=law_options(setting) | {"moves": moves_of(drawn)})
    return [remark, "", "", example_of(setting.typed, names), setting, picture]


def moves_of(drawn: object) -> int:
    """How many moves the picture had counted when it last wrote the fields; 0 for a value that is not a picture's."""
    moves = drawn.get("moves") if isinstance(drawn, dict) else 0
    return moves if isinstance(moves, int) else 0
