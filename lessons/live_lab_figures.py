"""What the page says once a race is over: who was faster and why, predicted against measured, two charts; or why not.

Knows nothing of the page's layout.
"""

from dataclasses import dataclass

import plotly.graph_objects as go

from lessons import asking, frame, live, plots
from lessons.frame import Row
from lessons.live_lab_account import RaceAccount, race_account
from lessons.runs import origin
from lessons.words import Words

EVEN = 0.005  # speed-ups this near to 1 are neither faster nor slower


@dataclass(frozen=True, slots=True)
class Findings:
    """What the page says of a finished run: a sentence with a table, and two charts (None where there is nothing)."""

    text: str
    ladder: go.Figure | None
    positions: go.Figure | None

    def values(self) -> list[object]:
        """In the order of the components on the page."""
        return [self.text, self.ladder, self.positions]


def findings(t: Words, run_id: str, guesses: dict[str, float | None]) -> Findings:
    """The reconciliation of a run, and its charts."""
    events = live.events(run_id)
    account = race_account(events)
    if account is None:
        return Findings(failure(t, run_id) or frame.said(t("run.nothing")), None, None)
    kind = "recorded" if live.find(run_id).is_recorded else "measured"
    table = frame.reconcile(t, reconcile_rows(t, account, guesses, kind))
    sentence = f"{conclusion(t, account)} {frame.badge(t, kind, origin(events))}"
    positions = positions_plot(t, account) if account.by_position else None
    text = f"<p class='prose-text' id='lab-sentence'>{sentence}</p>{table}"
    return Findings(text, ladder_plot(t, account), positions)


def failure(t: Words, run_id: str) -> str:
    """Why a run was refused or ended by an error, as a sentence; nothing where it was not."""
    run = live.find(run_id)
    if run is None or run.problem is None:
        return ""
    return asking.wrong(frame.error(t, run.problem), asking.subject(run.problem))


# ---- from an account to sentences, rows and charts -----------------------------------------------------------------


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
    if abs(account.measured - 1) < EVEN:
        speed = t("conclusion.even", saved=account.passes_saved)
    elif account.measured > 1:
        speed = t("conclusion.faster", measured=account.measured, saved=account.passes_saved)
    else:
        worst = account.explained.worst
        speed = t(f"conclusion.lost.{worst}", measured=account.measured, cured=account.explained.cured[worst])
    return f"{speed} {identity(t, account)}"


def identity(t: Words, account: RaceAccount) -> str:
    """Whether the two texts are the same as far as both go, and whether they must be."""
    if account.differs_at < 0:
        length = min(len(pace.token_ids) for pace in (account.vanilla, account.speculative))
        return t("conclusion.same" if account.are_finished else "conclusion.sofar", length=length)
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
    return _beside(plots.marker_line(figure, 1, t("ladder.vanilla"), color=plots.NEUTRAL))


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
    return _beside(
        plots.marker_line(figure, account.alpha, t("positions.alpha", alpha=account.alpha), color=plots.ACCENT)
    )


def _beside(figure: go.Figure) -> go.Figure:
    """The label of the dashed line stands at its right end, where no bar has a number."""
    figure.update_annotations(x=1, xanchor="left", yanchor="middle", xshift=4)
    return figure.update_layout(margin_r=76)
