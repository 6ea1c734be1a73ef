"""The acceptance rule is exact: whatever the draft proposes, what comes out follows the target's own law.

Knows nothing of how a rule works: the engine draws and gives exact laws, lessons.derivations proves them.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gradio as gr

from engine import Engine, Event, accept_chain, accept_many
from lessons import acceptance_controls as control
from lessons import acceptance_figures as figures
from lessons import acceptance_model, frame, plots, proof
from lessons.acceptance_controls import EXAMPLES, FIRST, FIRST_SEED, LATEST, QUIET, Controls
from lessons.acceptance_laws import NUM_DRAWS, RIGHT_RULES, WRONG_RULES, Setting, setting_of
from lessons.derivations import DERIVATIONS
from lessons.stage import Widget
from lessons.words import Words

POWERS = (100, 1_000, 10_000, NUM_DRAWS)  # numbers of draws to test wrong rules with


def demo(engine: Engine) -> Iterator[Event]:
    """The run that the page opens with."""
    yield from engine.run([acceptance_model.request(acceptance_model.PROMPT, 1.0)])


def reconciled(t: Words, setting: Setting, guess: float | None) -> str:
    """Derived against drawn; the reader's guess counts where the laws are those of the question."""
    is_asked = control.is_example(FIRST, (setting.p, setting.q))
    return frame.reconcile(t, figures.reconcile_rows(t, setting, guess if is_asked else None))


# ---- the page -----------------------------------------------------------------------------------------------------


def build(t: Words) -> None:
    """The lesson's tab: question, predictions and the picture share the first screen."""
    first = setting_of(EXAMPLES[FIRST], 1, 1, (), FIRST_SEED)
    with gr.Column(elem_classes=["lead", "wide"]):
        frame.opening(t)
        frame.prose(t("jump"), size="note")
    with gr.Row(elem_classes="wide"):
        with gr.Column(scale=3, min_width=320):
            guess = _predict(t)
        with gr.Column(scale=7, min_width=600):
            frame.beat(t, "run", t("run.title"))
            controls = control.place(t, first)
    asked = acceptance_model.panel(t, controls.inputs[:5])
    frame.prose(t("run.cards"))
    right = _cards(t, first, RIGHT_RULES)
    with gr.Accordion(t("heat.title"), open=False):
        frame.prose(t("heat.intro"))
        curve = plots.place(figures.temperature_curve(t, first), t("heat.title"))
    _derive(t)
    frame.beat(t, "reconcile", t("reconcile.title"))
    frame.prose(t("reconcile.intro"))
    table = frame.table(reconciled(t, first, None))
    power, wrong = _break(t, first)
    frame.beat(t, "interview", t("interview.title"))
    frame.interview(t)
    laws = {"p": controls.p, "q": controls.q, "t": controls.temperature, "top_p": controls.top_p}
    frame.permalink(t, laws | asked)
    control.wire(t, controls)
    _wire_shown(t, controls, guess, (right, curve, table))
    _wire_wrong(t, controls, power, wrong)


def _predict(t: Words) -> Widget:
    frame.beat(t, "predict", t("predict.title"))
    frame.prose(t("predict.intro"))
    guess = frame.predict_number(t, "predict.alpha", scale=(0, 1, 0.01))
    frame.predict(t, "predict.law", choices=("a", "b", "c", "d"))
    return guess


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


def _break(t: Words, first: Setting) -> tuple[gr.Radio, Cards]:
    frame.beat(t, "break", t("break.title"))
    frame.prose(t("break.intro"))
    power = gr.Radio([(f"{n:,}", n) for n in POWERS], value=NUM_DRAWS, label=t("control.draws"))
    wrong = _cards(t, first, WRONG_RULES)
    frame.derivation(t, lines_of(t, "wrong"))
    frame.prose(t("break.distance"))
    frame.table(figures.distance_table(t))
    frame.source(t, accept_chain, inspect.getmodule(accept_many))
    return power, wrong


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


def _wire_shown(t: Words, controls: Controls, guess: Widget, shown: tuple[Cards, gr.Plot, gr.HTML]) -> None:
    """Cards, curve and table follow the setting."""
    cards, curve, table = shown

    def show(setting: Setting, guess: float | None, chosen: str) -> list[object]:
        return [
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

    def settle(setting: Setting, guess: float | None) -> tuple[str, dict[str, object]]:
        """The guess stands: it goes into the table, and the picture's sum is uncovered, as it is by any move."""
        return reconciled(t, setting, guess), gr.update(options=figures.law_options(setting))

    outputs = [*cards.outputs, curve, table]
    controls.setting.change(show, [controls.setting, guess, cards.chosen], outputs, **LATEST)
    cards.grid.pick(choose, [controls.setting], [cards.detail, cards.chosen], **QUIET)
    guess.commit(settle, [controls.setting, guess], [table, controls.picture], **QUIET)


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
