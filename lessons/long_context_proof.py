"""When a sparse draft pays, derived from bytes: each line carries equalities that SymPy reduces to 0.

Knows nothing of runs and pages; the words of a line are the lesson's, under "derive.KEY". Time is bytes over bandwidth,
and the bandwidth cancels: so the formulas speak of bytes alone.
"""

from sympy import Limit, oo, symbols

from lessons.proof import Line, Sides

WEIGHTS, TOKEN, BATCH, CONTEXT, SEEN = symbols("W kappa B L w", positive=True)
LENGTH, TAU, KEPT = symbols("K tau a", positive=True)  # drafts of a round, tokens of it, share of drafts accepted

PLAIN = WEIGHTS + BATCH * TOKEN * CONTEXT
DRAFT = WEIGHTS + BATCH * TOKEN * SEEN
COST = DRAFT / PLAIN
SPEEDUP = TAU * PLAIN / (LENGTH * DRAFT + PLAIN)
PAYS_FROM = SEEN / KEPT + WEIGHTS / (BATCH * TOKEN) * (1 - KEPT) / KEPT
OF_SHARE = {TAU: 1 + KEPT * LENGTH}


def _limits(_: int) -> Sides:
    return [
        (Limit(COST, CONTEXT, oo), 0 * SEEN),
        (Limit(COST, BATCH, oo), SEEN / CONTEXT),
        (Limit(COST, BATCH, 0, "+"), 1 + 0 * SEEN),
    ]


def _ends(_: int) -> Sides:
    at_window = SPEEDUP.subs(CONTEXT, SEEN)
    return [(at_window, TAU / (LENGTH + 1)), (Limit(SPEEDUP, CONTEXT, oo), TAU)]


def _break_even(_: int) -> Sides:
    return [(SPEEDUP.subs(OF_SHARE).subs(CONTEXT, PAYS_FROM), 1 + 0 * SEEN)]


def _batches(_: int) -> Sides:
    shrinks = PAYS_FROM.diff(BATCH) + WEIGHTS * (1 - KEPT) / (KEPT * TOKEN * BATCH**2)
    return [(Limit(PAYS_FROM, BATCH, oo), SEEN / KEPT), (shrinks, 0 * SEEN)]


LINES = (
    Line("steps", r"T(L) = W + B\,\kappa\,L, \qquad D = W + B\,\kappa\,w"),
    Line(
        "cost",
        r"c = \frac{D}{T(L)}, \quad \lim_{L\to\infty} c = 0, \quad \lim_{B\to\infty} c = \frac{w}{L},"
        r" \quad \lim_{B\to 0} c = 1",
        _limits,
    ),
    Line(
        "ratio",
        r"S = \frac{\tau\,T}{K D + T} = \frac{\tau}{K c + 1}",
        lambda _: [(SPEEDUP, TAU / (LENGTH * COST + 1))],
    ),
    Line("ends", r"S\big|_{L=w} = \frac{\tau}{K+1} \le 1, \qquad \lim_{L\to\infty} S = \tau", _ends),
    Line(
        "gain",
        r"\begin{gathered} S > 1 \iff (\tau - 1)\,T > K D \cr"
        r" \iff a\,T > D, \qquad a = \frac{\tau-1}{K} \end{gathered}",
        lambda _: [((SPEEDUP - 1) * (LENGTH * DRAFT + PLAIN), (TAU - 1) * PLAIN - LENGTH * DRAFT),
                 (((TAU - 1) * PLAIN - LENGTH * DRAFT).subs(OF_SHARE), LENGTH * (KEPT * PLAIN - DRAFT))],
    ),
    Line("break_even", r"L^\ast = \frac{w}{a} + \frac{W}{B\,\kappa}\cdot\frac{1-a}{a}", _break_even),
    Line(
        "batch",
        r"\frac{\partial L^\ast}{\partial B} = -\frac{W}{B^2\kappa}\cdot\frac{1-a}{a} \le 0,"
        r" \qquad \lim_{B\to\infty} L^\ast = \frac{w}{a}",
        _batches,
    ),
)  # fmt: skip
