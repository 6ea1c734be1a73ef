"""Medusa's typical acceptance on one law: the entropy threshold, who passes it, and what comes out; and a greedy draft.

Knows nothing of runs: the engine gives thresholds and exact output laws.
"""

from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go

from engine import (
    SamplingParams,
    acceptance_rate,
    output_law,
    processed_law,
    total_variation,
    typical_threshold,
)
from lessons import frame, plots
from lessons.words import Words

TARGET = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)  # at temperature 1
DRAFT = (0.24, 0.10, 0.22, 0.06, 0.14, 0.04, 0.12, 0.08)
NAMES = "ABCDEFGH"
FIRST = 1.0
HOTTEST = 2.0
COLDEST = 0.2
PAIRS = {  # a draft that is drawn, and one that always says its favourite: which of the two is accepted more often
    "apart": ((0.5, 0.3, 0.2), (0.2, 0.3, 0.5)),
    "sure": ((0.9, 0.05, 0.05), (0.6, 0.2, 0.2)),
}


@dataclass(frozen=True, slots=True)
class Case:
    """Both laws at one temperature, the threshold, and the laws that come out of the typical and of the exact rule."""

    p: np.ndarray
    q: np.ndarray
    threshold: float
    comes_out: np.ndarray

    @property
    def entropies(self) -> tuple[float, float]:
        """Of p, and of what the typical rule makes of it, in nats."""
        return entropy(self.p), entropy(self.comes_out)


def case(temperature: float) -> Case:
    """The example at a temperature, on target and draft."""
    params = SamplingParams(temperature=temperature)
    p, q = (np.asarray(processed_law(np.array(law), params), dtype=float) for law in (TARGET, DRAFT))
    return Case(p, q, typical_threshold(p), np.asarray(output_law(p, q, "typical"), dtype=float))


def entropy(law: np.ndarray) -> float:
    """In nats."""
    positive = law[law > 0]
    return float(-(positive * np.log(positive)).sum())


def typical_plot(t: Words, temperature: float) -> go.Figure:
    """p beside what comes out; the dashed line is the threshold that p has to pass."""
    found = case(temperature)
    figure = plots.figure(x=t("typical.x"), y=t("typical.y"), height=320)
    passing = found.p > found.threshold
    names = [f"{name} ✓" if passes else name for name, passes in zip(NAMES, passing, strict=True)]
    plots.bars(figure, names, found.p, t("typical.p"), plots.NEUTRAL)
    plots.bars(figure, names, found.q, t("typical.q"), plots.OWNERS[3])
    plots.bars(figure, names, found.comes_out, t("typical.out"), plots.BAD)
    plots.marker_line(figure, found.threshold, t("typical.threshold", value=found.threshold), color=plots.ACCENT)
    return figure.update_layout(barmode="group", margin_r=24)


def typical_table(t: Words, temperature: float) -> str:
    """Threshold, entropy, acceptance and distance at this temperature: exact rule beside typical rule."""
    found = case(temperature)
    before, after = found.entropies
    exact = output_law(found.p, found.q, "exact")
    rows = [
        ("alpha", acceptance_rate(found.p, found.q, "exact"), acceptance_rate(found.p, found.q, "typical")),
        ("distance", float(total_variation(np.asarray(exact), found.p)),
         float(total_variation(found.comes_out, found.p))),
        ("entropy", entropy(np.asarray(exact)), after),
    ]  # fmt: skip
    head = f"<th scope='col'></th><th scope='col'>{escape(t('typical.exact'))}</th>"
    head += f"<th scope='col'>{escape(t('typical.typical'))}</th>"
    body = "".join(
        f"<tr><th scope='row'>{escape(t(f'typical.{key}'))}</th><td class='num'>{left:.3f}</td>"
        f"<td class='num'>{right:.3f}</td></tr>"
        for key, left, right in rows
    )
    said = t("typical.said", entropy=before, threshold=found.threshold, passing=int((found.p > found.threshold).sum()))
    note = f"<p class='prose-text size-note'>{escape(said)} {frame.badge(t, 'theory')}</p>"
    return f"{note}<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def greedy_table(t: Words) -> str:
    """Acceptance of a drawn draft and of a greedy one, Σ min(p, q) and p(argmax q), on two pairs of laws: Markdown."""
    rows = [f"| {t('greedy.laws')} | {t('greedy.drawn')} | {t('greedy.certain')} |", "|---|---|---|"]
    for p, q in PAIRS.values():
        certain = np.eye(len(q))[int(np.argmax(q))]
        drawn, greedy = (float(acceptance_rate(np.array(p), np.array(law), "exact")) for law in (q, certain))
        rows.append(f"| p = {list(p)}, q = {list(q)} | {drawn:.2f} | {greedy:.2f} |")
    return "\n\n" + "\n".join(rows) + f"\n\n{frame.badge(t, 'theory')}"
