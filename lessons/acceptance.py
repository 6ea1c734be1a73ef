"""The acceptance rule is exact: whatever the draft proposes, what comes out follows the target's own law.

Knows nothing of how a rule works: the engine draws and gives exact laws, lessons.derivations proves them.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gradio as gr

from engine import Engine, Event, accept_chain, accept_many
from lessons import acceptance_figures as figures
from lessons import acceptance_model, frame, plots, proof
from lessons.acceptance_figures import alert, said
from lessons.acceptance_laws import (
    NUM_DRAWS,
    RIGHT_RULES,
    WRONG_RULES,
    Setting,
    setting_of,
)
from lessons.derivations import DERIVATIONS
from lessons.stage import Widget
from lessons.typed_laws import LONGEST_TEXT, BadLaw, parse_pair, write_law
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
POWERS = (100, 1_000, 10_000, NUM_DRAWS)  # numbers of draws to test wrong rules with
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
LATEST = QUIET | {"trigger_mode": "always_last"}


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with."""
    yield from engine.run([acceptance_model.request(acceptance_model.PROMPT, 1.0)])


def reconciled(t: Words, setting: Setting, guess: float | None) -> str:
    """Derived against drawn; the reader's guess counts where the laws are those of the question."""
    is_asked = (write_law(setting.p), write_law(setting.q)) == EXAMPLES[FIRST]
    return frame.reconcile(t, figures.reconcile_rows(t, setting, guess if is_asked else None))


# ---- the page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Controls:
    """What a reader sets, and what of it follows; `setting` holds the Setting that came of it."""

    example: gr.Dropdown
    p: gr.Textbox
    q: gr.Textbox
    temperature: gr.Slider
    top_p: gr.Slider
    again: gr.Button
    remark: gr.HTML
    picture: Widget
    names: gr.State
    seed: gr.State
    setting: gr.State

    @property
    def inputs(self) -> list:
        """What the laws in use depend on."""
        return [self.p, self.q, self.temperature, self.top_p, self.names, self.seed]


def build(t: Words) -> None:
    """The lesson's tab."""
    first = setting_of(EXAMPLES[FIRST], 1, 1, (), FIRST_SEED)
    frame.opening(t)
    frame.beat(t, "predict", t("predict.title"))
    frame.prose(t("predict.intro"))
    frame.predict(t, "predict.law", choices=("a", "b", "c", "d"))
    guess = frame.predict_number(t, "predict.alpha", scale=(0, 1, 0.01))
    frame.beat(t, "run", t("run.title"))
    frame.prose(t("run.intro"))
    controls = _controls(t, first)
    frame.prose(t("run.cards"))
    right = _cards(t, first, RIGHT_RULES)
    with gr.Accordion(t("heat.title"), open=False):
        frame.prose(t("heat.intro"))
        curve = plots.place(figures.temperature_curve(t, first), t("heat.title"))
    acceptance_model.panel(t, controls.inputs[:5])
    _derive(t)
    frame.beat(t, "reconcile", t("reconcile.title"))
    frame.prose(t("reconcile.intro"))
    table = frame.table(reconciled(t, first, None))
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.intro"))
    power = gr.Radio([(f"{n:,}", n) for n in POWERS], value=NUM_DRAWS, label=t("control.draws"))
    wrong = _cards(t, first, WRONG_RULES)
    frame.derivation(t, lines_of(t, "wrong"))
    frame.prose(t("break.distance"))
    frame.table(figures.distance_table(t))
    frame.source(t, accept_chain, inspect.getmodule(accept_many))
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t)
    frame.permalink(t, {"p": controls.p, "q": controls.q, "t": controls.temperature, "top_p": controls.top_p})
    _wire_laws(t, controls)
    _wire_shown(t, controls, guess, (right, curve, table))
    _wire_wrong(t, controls, power, wrong)


def _controls(t: Words, first: Setting) -> Controls:
    p, q = EXAMPLES[FIRST]
    with gr.Row(elem_classes="controls"):
        choices = [(t(f"example.{name}"), name) for name in EXAMPLES]
        example = gr.Dropdown(choices, value=FIRST, label=t("control.example"), filterable=False)
        p_box = gr.Textbox(p, label=t("control.p"), max_length=LONGEST_TEXT, max_lines=1)
        q_box = gr.Textbox(q, label=t("control.q"), max_length=LONGEST_TEXT, max_lines=1)
    with gr.Row(elem_classes="controls"):
        temperature = gr.Slider(0, 3, value=1, step=0.05, label=t("control.temperature"))
        top_p = gr.Slider(0, 1, value=1, step=0.05, label=t("control.top_p"))
        again = gr.Button(t("control.again"))
    remark = gr.HTML(said(t, "input.plain"), apply_default_css=False)
    options = figures.law_options(first)
    picture = Widget("laws", t, t.group("stage."), options=options, elem_id=acceptance_model.PICTURE)
    states = gr.State(()), gr.State(FIRST_SEED), gr.State(first)
    return Controls(example, p_box, q_box, temperature, top_p, again, remark, picture, *states)


@dataclass(frozen=True, slots=True)
class Cards:
    """One card per rule, below them the rule that was chosen, and its name."""

    grid: Widget
    detail: gr.HTML
    chosen: gr.State

    @property
    def outputs(self) -> list:
        """What is drawn anew with the laws."""
        return [self.grid, self.detail]


def _cards(t: Words, first: Setting, rules: Sequence[str]) -> Cards:
    options = figures.card_options(first, first.outcomes(rules), rules[0])
    grid = Widget("rules", t, t.group("stage."), options=options, elem_classes="wide")
    shown = figures.detail(t, first, rules[0], NUM_DRAWS)
    return Cards(grid, gr.HTML(shown, apply_default_css=False, elem_classes="table-scroll"), gr.State(rules[0]))


def _derive(t: Words) -> None:
    """The derivations, three in view and three folded away, and the button that checks every line here and now."""
    frame.beat(t, "derive", t("derive.title"))
    shown = [line for group in ("acceptance", "residual", "output") for line in lines_of(t, group)]
    frame.derivation(t, shown)
    for group in ("greedy", "round", "speedup"):
        with gr.Accordion(t(f"derive.{group}"), open=False):
            frame.derivation(t, lines_of(t, group))
    button = gr.Button(t("check.button"))
    table = frame.table()
    button.click(lambda: figures.check_table(t), outputs=[table], api_visibility="private")
    frame.source(t, proof.check)


def lines_of(t: Words, group: str) -> list[frame.Line]:
    """The lines of a derivation with their reasons, the first below its introduction, and what SymPy checks."""
    lines, intro = [], t(f"derive.{group}.intro")
    for line in DERIVATIONS[group]:
        sizes = ", ".join(map(str, line.sizes))
        how = t("check.once") if line.sizes == proof.ONCE else t("check.sizes", sizes=sizes)
        lines.append(frame.Line(line.latex, f"{intro}\n\n{t(f'line.{line.key}')}".strip(), how))
        intro = ""
    return lines


# ---- wiring -------------------------------------------------------------------------------------------------------


def _wire_laws(t: Words, controls: Controls) -> None:
    """Fields, sliders, examples and dragged bars all end in a new Setting, or in the sentence that says why not."""

    def read(p: str, q: str, temperature: float, top_p: float, names: Sequence[str], seed: int):
        try:
            setting = setting_of((p, q), temperature, top_p, names, seed)
        except BadLaw as problem:
            return alert(t(f"input.{problem.code}", **problem.values)), gr.skip()
        if setting.is_plain:
            return said(t, "input.plain"), setting
        return said(t, "input.shaped", temperature=temperature, top_p=top_p), setting

    changes = [part.change for part in (controls.p, controls.q, controls.temperature, controls.top_p, controls.seed)]
    gr.on(changes, read, controls.inputs, [controls.remark, controls.setting], **LATEST)

    def example(name: str) -> tuple:
        return *EXAMPLES.get(name, EXAMPLES[FIRST]), 1, 1, ()

    controls.example.input(example, [controls.example], controls.inputs[:5], **QUIET)
    controls.again.click(lambda seed: seed + 1, [controls.seed], [controls.seed], **QUIET)
    controls.picture.act(_dragged, outputs=[controls.p, controls.q], **LATEST)


def _dragged(event: gr.EventData) -> tuple[object, object]:
    """The laws as they were dragged, written down; nothing for a message that is not one."""
    try:
        texts = [write_law([float(entry) for entry in getattr(event, law)]) for law in "pq"]
        parse_pair(*texts)
    except (BadLaw, TypeError, ValueError, AttributeError):
        return gr.skip(), gr.skip()
    return texts[0], texts[1]


def _wire_shown(t: Words, controls: Controls, guess: Widget, shown: tuple[Cards, gr.Plot, gr.HTML]) -> None:
    """Picture, cards, curve and table follow the setting."""
    cards, curve, table = shown

    def show(setting: Setting, guess: float | None, chosen: str) -> list[object]:
        return [
            figures.law_options(setting),
            figures.card_options(setting, setting.outcomes(RIGHT_RULES), chosen),
            figures.detail(t, setting, chosen, NUM_DRAWS),
            figures.temperature_curve(t, setting),
            reconciled(t, setting, guess),
        ]

    def choose(setting: Setting, event: gr.EventData) -> tuple[object, object]:
        rule = str(getattr(event, "rule", ""))
        if rule not in RIGHT_RULES:
            return gr.skip(), gr.skip()
        return figures.detail(t, setting, rule, NUM_DRAWS), rule

    outputs = [controls.picture, *cards.outputs, curve, table]
    controls.setting.change(show, [controls.setting, guess, cards.chosen], outputs, **LATEST)
    cards.grid.pick(choose, [controls.setting], [cards.detail, cards.chosen], **QUIET)
    guess.commit(lambda setting, guess: reconciled(t, setting, guess), [controls.setting, guess], [table], **QUIET)


def _wire_wrong(t: Words, controls: Controls, power: gr.Radio, cards: Cards) -> None:
    """The wrong rules follow the setting and the number of draws."""

    def show(setting: Setting, power: int, chosen: str) -> tuple[object, str]:
        num_draws = power if power in POWERS else NUM_DRAWS
        options = figures.card_options(setting, setting.outcomes(WRONG_RULES, num_draws), chosen)
        return options, figures.detail(t, setting, chosen, num_draws)

    def choose(setting: Setting, power: int, event: gr.EventData) -> tuple[object, object]:
        rule = str(getattr(event, "rule", ""))
        if rule not in WRONG_RULES or power not in POWERS:
            return gr.skip(), gr.skip()
        return figures.detail(t, setting, rule, power), rule

    inputs = [controls.setting, power, cards.chosen]
    gr.on([controls.setting.change, power.change], show, inputs, cards.outputs, **LATEST)
    cards.grid.pick(choose, [controls.setting, power], [cards.detail, cards.chosen], **QUIET)
