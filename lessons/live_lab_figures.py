"""What a race adds up to, for the page: rows of predicted against measured, a sentence, and two charts.

Knows nothing of events: it is given the account of a race (lessons/live_lab_account.py).
"""

import plotly.graph_objects as go

from lessons import plots
from lessons.frame import Row
from lessons.live_lab_account import RaceAccount
from lessons.words import Words


def reconcile_rows(t: Words, account: RaceAccount, guesses: dict[str, float | None], kind: str) -> list[Row]:
    """The reader's guesses and three predictions, each with one more cost in it, against what was measured."""

    def row(key: str, predicted: float, measured: float, unit: str = "", **values: object) -> Row:
        return Row(
            t(f"reconcile.{key}"), predicted, measured, unit, "theory", kind, t(f"reconcile.{key}.note", **values)
        )

    rows = []
    if guesses.get("acceptance") is not None:
        rows.append(row("guess.acceptance", guesses["acceptance"], account.alpha))
    if guesses.get("speedup") is not None:
        rows.append(row("guess.speedup", guesses["speedup"], account.measured, "×"))
    share, v = account.explained, account.explained.verify_cost
    rows += [
        row("tau", account.expected, account.tau, alpha=account.alpha),
        row("textbook", account.textbook, account.measured, "×", c=account.c),
        row("with_verify", account.with_verify, account.measured, "×", v=v),
        row("predicted", account.predicted, account.measured, "×", o=share.other_cost),
    ]
    return rows


def conclusion(t: Words, account: RaceAccount) -> str:
    """One sentence on who was faster, naming the term that lost it, and one on whether the texts are the same."""
    if account.measured >= 1:
        speed = t("conclusion.faster", measured=account.measured, saved=account.passes_saved)
    else:
        worst = account.explained.worst
        speed = t(f"conclusion.lost.{worst}", measured=account.measured, cured=account.explained.cured[worst])
    return f"{speed} {identity(t, account)}"


def identity(t: Words, account: RaceAccount) -> str:
    """Whether the two texts are the same, and whether they must be."""
    if account.differs_at < 0:
        return t("conclusion.same", length=len(account.vanilla.token_ids))
    must_agree = account.vanilla.is_greedy or account.speculative.rule == "sampler_match"
    return t("conclusion.wrong" if must_agree else "conclusion.differ", index=account.differs_at + 1)


def ladder_plot(t: Words, account: RaceAccount) -> go.Figure:
    """From the textbook's speed-up to the measured one, a cost at a time; the dashed line is vanilla."""
    names = ("textbook", "with_verify", "predicted", "measured")
    figure = plots.figure(y=t("ladder.y"), height=300)
    plots.bars(figure, [t(f"ladder.{name}") for name in names], [getattr(account, name) for name in names])
    colors = [plots.NEUTRAL] * 3 + [plots.GOOD if account.measured >= 1 else plots.BAD]
    figure.update_traces(marker_color=colors, texttemplate="%{y:.2f}×", textposition="outside", cliponaxis=False)
    figure.update_layout(showlegend=False)
    return plots.marker_line(figure, 1, t("ladder.vanilla"), color=plots.NEUTRAL)


def positions_plot(t: Words, account: RaceAccount) -> go.Figure:
    """Acceptance by position in the draft, given that it was looked at; the dashed line is the one α of the formula."""
    figure = plots.figure(x=t("positions.x"), y=t("positions.y"), height=300)
    shares = [accepted / looked_at if looked_at else 0.0 for accepted, looked_at in account.by_position]
    plots.bars(figure, list(range(1, len(shares) + 1)), shares, color=plots.FATES["accepted"])
    texts = [f"{accepted}/{looked_at}" for accepted, looked_at in account.by_position]
    figure.update_traces(text=texts, textposition="outside", cliponaxis=False)
    figure.update_layout(showlegend=False)
    figure.update_yaxes(range=[0, 1.12], tickformat=".0%")
    figure.update_xaxes(dtick=1)
    return plots.marker_line(figure, account.alpha, t("positions.alpha", alpha=account.alpha), color=plots.ACCENT)
