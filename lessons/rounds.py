"""A round of K drafted tokens derived line by line: E[τ], its limits, and when drafting pays.

Knows nothing of how a token is accepted: α, the same at every position and independent, is all that enters.
"""

from sympy import Expr, Limit, Rational, Symbol

from lessons.proof import ALPHA, COST, LENGTH, Line, Sides

ROUNDS = range(9)  # the draft lengths K for which a sum over a round is written out


def geometric(length: int) -> Expr:
    """1 + α + … + α^K: the chances that a round goes beyond 0, 1, … K tokens."""
    return sum((ALPHA**j for j in range(length + 1)), Rational(0))


def expected_tokens(length: int | Symbol = LENGTH) -> Expr:
    """E[τ] in closed form: tokens of one round, the resampled or bonus one included."""
    return (1 - ALPHA ** (length + 1)) / (1 - ALPHA)


def _expectation(length: int) -> Expr:
    stopped = [(j + 1) * ALPHA**j * (1 - ALPHA) for j in range(length)]
    return sum(stopped, Rational(0)) + (length + 1) * ALPHA**length


def _total_chance(length: int) -> Expr:
    return sum((ALPHA**j * (1 - ALPHA) for j in range(length)), Rational(0)) + ALPHA**length


def _one_more_token(_: int) -> Sides:
    longer, whole = expected_tokens(LENGTH + 1), expected_tokens(LENGTH)
    return [(whole.subs(LENGTH, 1), 1 + ALPHA), (longer - whole, ALPHA ** (LENGTH + 1))]


def _tau_limits(_: int) -> Sides:
    whole = expected_tokens()
    return [(Limit(whole, ALPHA, 1), LENGTH + 1), (Limit(whole, ALPHA, 0), Rational(1))]


ROUND = (
    Line(
        "chance_of_tau",
        r"\begin{aligned}P(\tau=j+1)&=\alpha^j(1-\alpha)\;(j<K)\cr P(\tau=K+1)&=\alpha^K\end{aligned}",
        lambda _: [(_total_chance(k), Rational(1)) for k in ROUNDS],
    ),
    Line(
        "expectation",
        r"E[\tau]=\sum_{j<K}(j+1)\,\alpha^j(1-\alpha)+(K+1)\,\alpha^K=\sum_{j=0}^{K}\alpha^j",
        lambda _: [(_expectation(k), geometric(k)) for k in ROUNDS],
    ),
    Line(
        "closed_form",
        r"(1-\alpha)\sum_{j=0}^{K}\alpha^j=1-\alpha^{K+1}\;\Rightarrow\;E[\tau]=\frac{1-\alpha^{K+1}}{1-\alpha}",
        lambda _: [((1 - ALPHA) * geometric(k), 1 - ALPHA ** (k + 1)) for k in ROUNDS],
    ),
    Line("every_length", r"E_{K+1}[\tau]-E_K[\tau]=\alpha^{K+1}", _one_more_token),
    Line("tau_limits", r"\lim_{\alpha\to1}E[\tau]=K+1,\qquad\lim_{\alpha\to0}E[\tau]=1", _tau_limits),
)

# ---- what a round costs -----------------------------------------------------------------------------------------


def speedup(length: int | Symbol = LENGTH) -> Expr:
    """E[τ] over the cost of a round, 1 + Kc, in units of one plain step; a pass over K + 1 rows is taken to cost 1."""
    return expected_tokens(length) / (1 + length * COST)


def _speedup_limits(_: int) -> Sides:
    cost = 1 + LENGTH * COST
    return [(Limit(speedup(), ALPHA, 0), 1 / cost), (Limit(speedup(), ALPHA, 1), (LENGTH + 1) / cost)]


def _bound(_: int) -> Sides:
    gains = [ALPHA * sum((1 - ALPHA**j for j in range(k)), Rational(0)) for k in ROUNDS]
    return [(1 + k * ALPHA - geometric(k), gain) for k, gain in zip(ROUNDS, gains, strict=True)]


SPEEDUP = (
    Line(
        "speedup_limits",
        r"S=\frac{E[\tau]}{1+Kc},\quad\lim_{\alpha\to0}S=\frac{1}{1+Kc},\quad\lim_{\alpha\to1}S=\frac{K+1}{1+Kc}",
        _speedup_limits,
    ),
    Line(
        "one_draft_pays",
        r"S_{K=1}-1=\frac{\alpha-c}{1+c}",
        lambda _: [(speedup(1) - 1, (ALPHA - COST) / (1 + COST))],
    ),
    Line(
        "no_draft_pays",
        r"\begin{gathered}1+K\alpha-E[\tau]=\alpha\sum_{j<K}(1-\alpha^j)\ge0\cr"
        r"\Rightarrow\;S\le\frac{1+K\alpha}{1+Kc}\end{gathered}",
        _bound,
    ),
)
