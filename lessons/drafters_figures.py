"""Charts of the zoo: acceptance by position, drafting deeper, drafting hotter, and what held-out cards say.

Knows nothing of the page's layout: entries of a run and records of the engine in, figures out.
"""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from engine import drafter_card
from lessons import frame, plots
from lessons.drafters_account import Entry
from lessons.drafters_runs import PLAIN
from lessons.words import Words

LEARNED = {"from": "answer_tokens", "read": "tokens"}  # of a card: different tokens, and tokens of all passes
CARDS = ("eagle", "eagle_unshifted", "eagle3", "medusa", "draft_lm")
DASHES = ("solid", "dash", "dot", "dashdot")
MOST_POSITIONS = 6
FEWEST = 3  # rounds: a share of fewer says nothing


def kind_of(found: Sequence[Entry]) -> str:
    """Which experiment a run was.

    "typical" (a rule that is not exact), "hot" (several temperatures), "deep" (a drafter several times) or "zoo".
    """
    if any(entry.rule == "typical" for entry in found):
        return "typical"
    drafted = [entry.drafter for entry in found if entry.name != PLAIN]
    if len({entry.temperature for entry in found}) > 1:
        return "hot"
    return "deep" if len(set(drafted)) < len(drafted) else "zoo"


def name_of(t: Words, drafter: str) -> str:
    """A drafter's name in the reader's language; what is not in the zoo keeps its own."""
    kind = drafter.partition(":")[0]
    keys = (f"stage.name.{name}" for name in (drafter.replace(":", "_"), kind))
    return next((t(key) for key in keys if key in t), kind)


# ---- a run --------------------------------------------------------------------------------------------------------


def positions_plot(t: Words, found: Sequence[Entry]) -> go.Figure:
    """Conditional acceptance by position, a line for each drafter; positions that few rounds came to are left out."""
    figure = plots.figure(x=t("positions.x"), y=t("positions.y"), height=340)
    for number, entry in enumerate(entry for entry in found if entry.alpha is not None):
        enough = [looked_at >= FEWEST for _, looked_at in entry.by_depth[:MOST_POSITIONS]]
        size = enough.index(False) if False in enough else len(enough)
        texts = [f"{accepted}/{looked_at}" for accepted, looked_at in entry.by_depth[:size]]
        plots.lines(figure, range(1, size + 1), entry.conditional[:size], name_of(t, entry.drafter), _colour(number))
        _dress(figure, number, texts)
    figure.update_xaxes(dtick=1)
    return _shares(figure)


def deep_plot(t: Words, found: Sequence[Entry]) -> go.Figure:
    """τ (solid) rises with K; the speed-up (dashed) of the same run does not."""
    figure = plots.figure(x=t("deep.x"), y=t("deep.y"), height=340)
    for number, drafter in enumerate(dict.fromkeys(entry.drafter for entry in found if entry.name != PLAIN)):
        mine = sorted((one for one in found if one.drafter == drafter), key=lambda one: one.draft_length)
        for part, dash, values in (
            ("tau", "solid", [one.tau for one in mine]),
            ("speed", "dash", [one.speed_up for one in mine]),
        ):
            name = t(f"deep.{part}", name=name_of(t, drafter))
            plots.lines(figure, [one.draft_length for one in mine], values, name, _colour(number))
            figure.data[-1].update(line_dash=dash, marker_symbol=plots.MARKS[number])
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(tickvals=sorted({one.draft_length for one in found if one.name != PLAIN}))
    return plots.marker_line(figure, 1, t("deep.plain"), color=plots.NEUTRAL)


def hot_plot(t: Words, found: Sequence[Entry]) -> go.Figure:
    """Acceptance against temperature; a greedy draft's line is dashed."""
    figure = plots.figure(x=t("hot.x"), y=t("hot.y"), height=340)
    drafters = dict.fromkeys(entry.drafter for entry in found if entry.name != PLAIN)
    for number, drafter in enumerate(drafters):
        for is_greedy in (False, True):
            mine = [one for one in found if (one.drafter, one.is_draft_greedy) == (drafter, is_greedy)]
            mine = sorted((one for one in mine if one.alpha is not None), key=lambda one: one.temperature)
            if not mine:
                continue
            name = name_of(t, drafter) + (f" · {t('hot.greedy')}" if is_greedy else "")
            plots.lines(figure, [one.temperature for one in mine], [one.alpha for one in mine], name, _colour(number))
            _dress(figure, number, ["{}/{}".format(*map(sum, zip(*one.by_depth, strict=True))) for one in mine])
            figure.data[-1].line.dash = "dash" if is_greedy else "solid"
    return _shares(figure)


# ---- held-out cards -------------------------------------------------------------------------------------------------


def cards_plot(t: Words) -> go.Figure | None:
    """Greedy acceptance by position on held-out answers, from the cards of the trained drafters that ship."""
    cards = {name: held_out(name) for name in CARDS}
    if not any(cards.values()):
        return None
    figure = plots.figure(x=t("positions.x"), y=t("positions.y"), height=320)
    for number, (name, shares) in enumerate(cards.items()):
        if shares:
            plots.lines(figure, range(1, len(shares) + 1), shares, name_of(t, name), _colour(number))
            _dress(figure, number, [f"{share:.3f}" for share in shares])
    figure.update_xaxes(dtick=1)
    return _shares(figure)


def shift_note(t: Words) -> str:
    """What the shift is worth at the first position, from the cards of two heads that differ in it.

    Where one is missing, a sentence that says so; nothing where both are.
    """
    shifted, unshifted, fused = (held_out(name) for name in ("eagle", "eagle_unshifted", "eagle3"))
    if not shifted:
        return ""
    card = drafter_card("eagle")
    badge = frame.badge(t, "recorded", f"{card.get('machine', '')}, {card.get('date', '')}")
    said = t("cards.missing", badge=badge)
    if unshifted:
        cards = {"": card, "un": drafter_card("eagle_unshifted")}
        learned = {f"{name}shifted_{what}": one[key] for name, one in cards.items() for what, key in LEARNED.items()}
        said = t("cards.both", shifted=shifted[0], unshifted=unshifted[0], badge=badge, **learned)
    if fused:
        said += " " + t("cards.fused", first=shifted[0], last=shifted[-1], its=fused[0], end=fused[-1], badge=badge)
    return said


def held_out(name: str) -> list[float]:
    """A card's acceptance by position at temperature 0; empty where there is none."""
    card = drafter_card(name) or {}
    shares = card.get("held_out", {}).get("0.0", {}).get("acceptance", [])
    return [float(share) for share in shares]


def stamped(figure: go.Figure, text: str) -> go.Figure:
    """The figure with where its numbers come from, in small under the title of its x axis."""
    title = figure.layout.xaxis.title
    title.text = f"{title.text}<br><span style='font-size: 12px'>{escape(text)}</span>"
    return figure


# ---- style ----------------------------------------------------------------------------------------------------------


def _colour(number: int) -> str:
    return plots.OWNERS[number % len(plots.OWNERS)]


def _dress(figure: go.Figure, number: int, texts: Sequence[str]) -> None:
    """The last line's marker and dash, so that lines are told apart without colour; what a point rests on, on hover."""
    hover = "%{fullData.name}<br>%{x}: %{y:.0%} (%{text})<extra></extra>"
    line = figure.data[-1]
    mark = plots.MARKS[number % len(plots.MARKS)]
    line.update(text=list(texts), hovertemplate=hover, marker_symbol=mark, marker_size=8)
    line.line.dash = DASHES[number // len(plots.OWNERS) % len(DASHES)]


def _shares(figure: go.Figure) -> go.Figure:
    """An axis from 0 to 100 %."""
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")
