"""What the trees lesson shows of runs and rules: tables, the chart of tree sizes, the mask of each layout.

Knows nothing of engines and controls. Words come from the lesson.
"""

from collections.abc import Sequence
from functools import lru_cache
from html import escape

import numpy as np
import plotly.graph_objects as go

from engine import (
    PASS_TIMES_MEASURED_ON,
    TREE_LAYOUTS,
    LaidOut,
    accept_many,
    acceptance_rate,
    time_of_pass,
    tree_depths,
    tree_mask,
)  # fmt: skip
from lessons import frame, live, plots
from lessons.proof import Line, check
from lessons.runs import origin
from lessons.trees_proof import DRAFT, GROUPS, TARGET, checks
from lessons.trees_run import Layout, TreeRound, layouts_of, outcome, rounds_of
from lessons.words import Words

NUM_DRAWS = 100_000
LARGEST = 15  # nodes: a pass over 16 rows is the widest that was measured

# ---- predicted against measured -----------------------------------------------------------------------------------


def reconciled(t: Words, run_id: str, guess: float | None) -> str:
    """Tokens of a pass: promised by the confidences and counted; acceptance of two drafts: derived and drawn."""
    run = live.find(run_id)
    kind = "recorded" if run is not None and run.is_recorded else "measured"
    rounds = rounds_of(live.events(run_id))
    rows = []
    if rounds:
        promised, got = _mean([one.expected for one in rounds]), _mean([one.num_tokens for one in rounds])
        note = t("reconcile.over", rounds=len(rounds), nodes=_mean([len(one.kept) for one in rounds]))
        note = note if guess is None else f"{t('reconcile.guess', value=guess)} · {note}"
        rows.append(frame.Row(t("reconcile.tokens"), promised, got, measured_kind=kind, note=note))
        rows += [_calibration(t, rounds, ends, kind) for ends in ((0.0, 0.1), (0.1, 0.4), (0.4, 1.0))]
    rows += [
        frame.Row(t(f"reconcile.{rule}"), *_drawn(rule)) for rule in ("exact", "multi_draft", "multi_draft_distinct")
    ]
    return frame.reconcile(t, [row for row in rows if row is not None])


def _calibration(t: Words, rounds: Sequence[TreeRound], ends: tuple[float, float], kind: str) -> frame.Row | None:
    """Nodes whose value lies between the ends: their mean value, and the share of them that was accepted."""
    nodes = [
        pair for one in rounds for pair in zip(one.kept, one.accepted, strict=True) if ends[0] < pair[0] <= ends[1]
    ]
    if not nodes:
        return None
    values, accepted = zip(*nodes, strict=True)
    label = t("reconcile.value", low=f"{ends[0]:g}", high=f"{ends[1]:g}")
    return frame.Row(label, _mean(values), _mean(accepted), measured_kind=kind, note=t("reconcile.nodes", n=len(nodes)))


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers))


@lru_cache
def _drawn(rule: str) -> tuple[float, float]:
    """Acceptance of the worked example: by the engine's formula, and in draws of its code."""
    p, q = (np.array([float(entry) for entry in law]) for law in (TARGET, DRAFT))
    return float(acceptance_rate(p, q, rule)), float(accept_many(p, q, rule, NUM_DRAWS, 1).accepted.mean())


def size_chart(t: Words, run_id: str) -> go.Figure:
    """Tokens per plain step against the nodes verified: at the measured pass times, and if width cost nothing."""
    rounds = rounds_of(live.events(run_id))
    sizes = list(range(LARGEST + 1))
    expected = [_mean([1 + sum(one.values[:size]) for one in rounds]) if rounds else 1.0 for size in sizes]
    measured = [tokens / time_of_pass(1 + size) for size, tokens in zip(sizes, expected, strict=True)]
    chart = plots.figure(x=t("size.x"), y=t("size.y"), height=300)
    plots.lines(chart, sizes, expected, t("size.free"), plots.NEUTRAL)
    plots.lines(chart, sizes, measured, t("size.measured"), plots.ACCENT)
    best = int(np.argmax(measured))
    chart.update_yaxes(rangemode="tozero")
    return plots.marker_line(chart, best, t("size.best", size=best), axis="x", color=plots.ACCENT)


def size_badges(t: Words) -> str:
    """Where the two curves come from."""
    values = {"theory": frame.badge(t, "theory"), "recorded": frame.badge(t, "recorded", PASS_TIMES_MEASURED_ON)}
    return t("size.badges", **values)


# ---- layouts, right and wrong -------------------------------------------------------------------------------------


def layout_table(t: Words, run_id: str) -> str:
    """Each way to lay a tree on rows: what a row sees, which positions, and how far that is from decoding alone."""
    events, run = live.events(run_id), live.find(run_id)
    found = layouts_of(events, TREE_LAYOUTS)
    if not found:
        return f"<p class='prose-text size-note'>{escape(t('break.none'))}</p>"
    is_recorded = run is not None and run.is_recorded
    badge = frame.badge(t, "recorded", origin(events)) if is_recorded else frame.badge(t, "measured")
    heads = ("way", "mask", "error", "changed", "texts")
    head = "".join(f"<th scope='col'>{escape(t(f'break.{name}'))}</th>" for name in heads)
    example = next(event for event in events if isinstance(event, LaidOut))
    body = "".join(_layout_row(t, one, example) for one in found)
    note = f"<p class='prose-text size-note'>{escape(t('break.note', trees=found[0].num_trees))} {badge}</p>"
    table = f"<table class='figures tree-layouts'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{table}{note}{_first_difference(t, found)}"


def _layout_row(t: Words, one: Layout, example: LaidOut) -> str:
    verdict = "good" if one.largest_error == 0 and not one.num_other else "bad"
    name = f"<th scope='row'><strong>{escape(t(f'break.way.{one.way}'))}</strong>"
    name += f"<div class='note'>{escape(t(f'break.what.{one.way}'))}</div></th>"
    cells = (
        t("break.errors", typical=one.typical_error, largest=one.largest_error),
        t("break.share", part=one.num_changed, whole=one.num_rows),
        t("break.share", part=one.num_other, whole=one.num_trees),
    )
    cells = "".join(f"<td class='num is-{verdict}'>{escape(cell)}</td>" for cell in cells)
    return f"<tr>{name}<td>{mask_picture(example.parents, one.way)}</td>{cells}</tr>"


def mask_picture(parents: Sequence[int], way: str) -> str:
    """The rows of a pass as small squares, one filled where a row sees another, and the position that it is told."""
    rows, size = tree_mask(parents), len(parents)
    positions = list(tree_depths(parents)) if way in ("tree", "siblings") else range(size)
    if way in ("siblings", "flat"):
        rows = np.tril(np.ones((size, size), bool))
    right = tree_mask(parents)
    lines = ""
    for row in range(size):
        looks = ["wrong" if rows[row, c] and not right[row, c] else "seen" if rows[row, c] else "" for c in range(size)]
        told = "" if positions[row] == tree_depths(parents)[row] else " class='is-wrong'"
        lines += "".join(f"<i class='{look}'></i>" for look in looks) + f"<b{told}>+{positions[row]}</b>"
    return f"<span class='mask-picture' style='--size: {size}' aria-hidden='true'>{lines}</span>"


def _first_difference(t: Words, found: Sequence[Layout]) -> str:
    """The first tree after which a wrong layout writes another text, beside what decoding plainly writes."""
    wrong = next((one for one in found if one.first_other is not None), None)
    if wrong is None:
        return f"<p class='prose-text callout note'>{escape(t('break.lucky'))}</p>"
    tree = wrong.first_other
    texts = {by: "".join(outcome(tree, by)) for by in ("plain", "favourite")}
    shown = {by: f"<code>{frame.safe(visible(text))}</code>" for by, text in texts.items()}
    values = {"way": escape(t(f"break.way.{wrong.way}")), "root": f"<code>{frame.safe(visible(tree.pieces[0]))}</code>"}
    sentence = t("break.other", round=tree.of_round, plain=shown["plain"], other=shown["favourite"], **values)
    return f"<p class='prose-text callout wrong'>{sentence}</p>"


def visible(text: str) -> str:
    """Blanks and line ends to be seen."""
    return text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")


# ---- derivations --------------------------------------------------------------------------------------------------


def lines_of(t: Words, group: str) -> list[frame.Line]:
    """The lines of a derivation with their reasons and how each was checked."""
    return [frame.Line(line.latex, t(f"line.{line.key}"), _how(t, line)) for line in GROUPS[group]]


def _how(t: Words, line: Line) -> str:
    if not line.trials:
        return t("check.sympy")
    found = check(line)
    if not found.is_proved:
        raise ValueError(f"{found.num_disagreeing} of {found.num_points} cuts leave a node without its parent")
    return t("check.trees", cuts=f"{found.num_points:,}")


def check_table(t: Words) -> str:
    """What the machine found for every line, and for every small tree."""
    head = "".join(f"<th scope='col'>{escape(t(f'check.{name}'))}</th>" for name in ("line", "proved", "points"))
    body = ""
    for key, one in checks().items():
        proved = f"{'✓' if one.is_proved else '✗'} {one.num_proved}/{one.num_equalities}"
        points = f"{one.num_points - one.num_disagreeing}/{one.num_points}"
        if key == "closed":
            proved, points = t("check.orphans", failed=one.num_disagreeing), f"{one.num_points:,}"
        body += f"<tr><th scope='row'>{escape(t(f'line.{key}.name'))}</th><td class='num'>{escape(proved)}</td>"
        body += f"<td class='num'>{points}</td></tr>"
    note = f"<p class='prose-text size-note'>{frame.badge(t, 'measured')}</p>"
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def build_options(t: Words) -> dict[str, object]:
    """Options of the stage `tree_build`: measured pass times, the worked example, badges."""
    return {
        "times": [time_of_pass(rows) for rows in range(1, LARGEST + 2)],
        "badges": {kind: t.frame(f"badge.{kind}") for kind in ("theory", "recorded")},
        "sources": {"theory": t.frame("badge.theory.title"), "recorded": PASS_TIMES_MEASURED_ON},
    }
