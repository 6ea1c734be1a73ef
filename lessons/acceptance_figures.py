"""What the acceptance lesson shows of its laws: options of its stages, the curve over temperature, tables.

Knows nothing of how outcomes come about. Words come from the lesson.
"""

from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from engine import total_variation
from lessons import frame, plots
from lessons.acceptance_laws import ALL_RULES, NUM_DRAWS, Outcome, Setting, outcome, processed, visible
from lessons.derivations import DERIVATIONS, check_all
from lessons.words import Words

# ---- pictures -----------------------------------------------------------------------------------------------------


def law_options(setting: Setting) -> dict[str, object]:
    """Options of the stage `laws`; only laws in use as typed can be dragged."""
    laws = {"p": list(setting.p), "q": list(setting.q)}
    return {"tokens": list(setting.names), **laws, "editable": setting.is_plain}


def card_options(setting: Setting, found: Sequence[Outcome], chosen: str = "") -> dict[str, object]:
    """Options of the stage `rules`: one card per outcome."""
    cards = [_card(one) for one in found]
    return {"names": list(setting.names), "p": list(setting.p), "cards": cards, "chosen": chosen}


def _card(one: Outcome) -> dict[str, object]:
    shares = zip(one.law, one.kept, one.refilled, strict=True)
    return {
        "rule": one.rule,
        "verdict": one.verdict,
        "acceptance": f"{one.acceptance:.3f}",
        "accepted": f"{one.accepted:.3f}",
        "distance": f"{one.distance:.3f}",
        "p_value": p_value_text(one.p_value),
        "tokens": [{"law": law, "kept": kept, "refilled": refilled} for law, kept, refilled in shares],
    }


def p_value_text(value: float) -> str:
    """A p-value for a reader: two digits, and a power of ten where it is tiny."""
    return "< 1e-300" if value < 1e-300 else f"{value:.0e}" if value < 0.001 else f"{value:.3f}"


def temperature_curve(t: Words, setting: Setting) -> go.Figure:
    """α of the two laws as typed, against the temperature of both."""
    temperatures = [0.0, *np.geomspace(0.05, 4, 45).tolist()]
    pairs = [[processed(law, heat, 1.0) for law in setting.typed] for heat in temperatures]
    chart = plots.figure(x=t("heat.x"), y=t("heat.y"), height=260)
    chart.add_scatter(
        x=temperatures,
        y=[1 - float(total_variation(np.array(a), np.array(b))) for a, b in pairs],
        mode="lines",
        line={"color": plots.ACCENT, "width": 2.5},
        hovertemplate="T = %{x:.2f}<br>α = %{y:.3f}<extra></extra>",
    )
    chart.update_yaxes(range=[0, 1.04])
    label = t("heat.now", temperature=setting.temperature)
    return plots.marker_line(chart, setting.temperature, label, axis="x", color=plots.NEUTRAL)


# ---- tables -------------------------------------------------------------------------------------------------------


def detail(t: Words, setting: Setting, rule: str, num_draws: int) -> str:
    """What one rule does, and token by token what came of it."""
    one = outcome(setting.p, setting.q, rule, num_draws, setting.seed)
    theory, measured = frame.badge(t, "theory"), frame.badge(t, "measured", t("run.draws", draws=num_draws))
    note = f"{theory} p, {escape(t('tokens.law'))} · {measured} {escape(t('tokens.drawn'))}"
    head = f"<strong>{escape(t(f'stage.name.{rule}'))}.</strong> {escape(t(f'rule.{rule}'))}"
    return f"<p class='prose-text'>{head}</p>{token_table(t, setting, one)}<p class='prose-text size-note'>{note}</p>"


def token_table(t: Words, setting: Setting, one: Outcome) -> str:
    """Token by token: p, the rule's law, the draws, and how many standard errors the draws are from p."""
    heads = ("token", "p", "law", "drawn", "errors")
    head = "".join(f"<th scope='col'>{escape(t(f'tokens.{name}'))}</th>" for name in heads)
    body = ""
    for name, target, law, drawn in zip(setting.names, setting.p, one.law, one.drawn, strict=True):
        error = (target * (1 - target) / one.num_draws) ** 0.5
        away = f"{(drawn - target) / error:+.1f}" if error > 1e-12 else "0" if drawn == target else "∞"
        cells = "".join(
            f"<td class='num'>{cell}</td>" for cell in (f"{target:.4f}", f"{law:.4f}", f"{drawn:.4f}", away)
        )
        body += f"<tr><th scope='row'>{frame.safe(visible(name))}</th>{cells}</tr>"
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def reconcile_rows(t: Words, setting: Setting, guess: float | None) -> list[frame.Row]:
    """Acceptance of every rule, and what comes out if one resamples from p: derived and drawn.

    guess: the reader's acceptance of the exact rule, None where there is none for these laws.
    """
    rows = []
    found = setting.outcomes(ALL_RULES)
    for one in found:
        label = t("reconcile.acceptance", rule=t(f"stage.name.{one.rule}"))
        note = t("reconcile.own", p_value=p_value_text(one.own_p_value))
        if one.rule == "exact" and guess is not None:
            note = f"{t('reconcile.yours', value=guess)} · {note}"
        rows.append(frame.Row(label, one.acceptance, one.accepted, note=note))
    wrong = next(one for one in found if one.rule == "resample_from_p")
    for name, law, drawn in zip(setting.names, wrong.law, wrong.drawn, strict=True):
        label = t("reconcile.comes_out", rule=t(f"stage.name.{wrong.rule}"), token=visible(name))
        rows.append(frame.Row(label, law, drawn))
    return rows


def check_table(t: Words) -> str:
    """What the machine found for every line of every derivation."""
    heads = ("line", "proved", "points", "seconds")
    head = "".join(f"<th scope='col'>{escape(t(f'check.{name}'))}</th>" for name in heads)
    found, body = check_all(), ""
    for group, lines in DERIVATIONS.items():
        for line in lines:
            one = found[line.key]
            tick = "✓" if one.is_proved else "✗"
            points = f"{one.num_points - one.num_disagreeing}/{one.num_points}" if one.num_points else "–"
            cells = (f"{tick} {one.num_proved}/{one.num_equalities}", points, f"{1000 * one.seconds:.0f} ms")
            name = f"{t(f'derive.{group}')} · {t(f'line.{line.key}.name')}"
            body += f"<tr><th scope='row'>{escape(name)}</th>"
            body += "".join(f"<td class='num'>{cell}</td>" for cell in cells) + "</tr>"
    note = f"<p class='prose-text size-note'>{escape(t('check.note'))} {frame.badge(t, 'measured')}</p>"
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def distance_table(t: Words, num_draws: int = NUM_DRAWS) -> str:
    """The distance that an exact sampler shows by chance, √(V/2πn), for growing vocabularies."""
    label = f"{escape(t('distance.row', draws=num_draws))} {frame.badge(t, 'theory')}"
    head = f"<th scope='col'>V</th><th scope='col'>{label}</th>"
    body = ""
    for size in (8, 16, 32, 64, 128, 1000):
        distance = (size / (2 * np.pi * num_draws)) ** 0.5
        body += f"<tr><th scope='row'>{size:,}</th><td class='num'>{distance:.4f}</td></tr>"
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# ---- sentences ----------------------------------------------------------------------------------------------------


def said(t: Words, key: str, **values: object) -> str:
    """A quiet sentence below the controls."""
    return f"<p class='prose-text size-note' role='status'>{frame.safe(t(key, **values))}</p>"
