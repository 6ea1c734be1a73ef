"""The acceptance rule derived line by line: acceptance, residual, output law, the greedy limit, and four wrong rules.

Knows nothing of pages or engines; how a line is checked is `lessons.proof`'s business. Over V tokens p_V and q_V are
one minus the others, so that sums to one hold by construction.
"""

from collections.abc import Callable
from functools import lru_cache

from sympy import Abs, Expr, Limit, Max, Min, Rational, Symbol, exp, symbols

from lessons.proof import SIZES, Check, Line, Sides, check
from lessons.rounds import ROUND, SPEEDUP

# ---- the two laws -----------------------------------------------------------------------------------------------


def free_laws(size: int) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """p and q as positive symbols, sums left open: for lines that speak of one token at a time."""
    return symbols(f"p1:{size + 1}", positive=True), symbols(f"q1:{size + 1}", positive=True)


def laws(size: int) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """p and q that sum to one: the last entry is one minus the others."""
    p, q = free_laws(size)
    return (*p[:-1], 1 - sum(p[:-1])), (*q[:-1], 1 - sum(q[:-1]))


def alpha_of(p: tuple, q: tuple) -> Expr:
    """Σ min(p, q): the chance that a drafted token is accepted."""
    return sum((Min(a, b) for a, b in zip(p, q, strict=True)), Rational(0))


def missing(p: tuple, q: tuple) -> tuple[Expr, ...]:
    """(p − q)₊ for every token: what the accepted path leaves short of p."""
    return tuple(Max(a - b, 0) for a, b in zip(p, q, strict=True))


def residual_of(p: tuple, q: tuple) -> tuple[Expr, ...]:
    """(p − q)₊ over its own sum: the law that a rejected position is drawn from."""
    parts = missing(p, q)
    return tuple(part / sum(parts) for part in parts)


def _token(left: Callable[[Expr, Expr], Expr], right: Callable[[Expr, Expr], Expr]) -> Sides:
    (p, *_), (q, *_) = free_laws(2)
    return [(left(p, q), right(p, q))]


def _sums(size: int, left: Callable[[tuple, tuple], Expr], right: Callable[[tuple, tuple], Expr]) -> Sides:
    p, q = laws(size)
    return [(left(p, q), right(p, q))]


def _distance(p: tuple, q: tuple) -> Expr:
    return sum(Abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def _ways_out(size: int) -> Sides:
    p, q = laws(size)
    rejected = 1 - alpha_of(p, q)
    return [(rejected * r, gap) for r, gap in zip(residual_of(p, q), missing(p, q), strict=True)]


ACCEPTANCE = (
    Line(
        "accept_path",
        r"q(x)\cdot\min\!\Bigl(1,\frac{p(x)}{q(x)}\Bigr)=\min\bigl(p(x),q(x)\bigr)",
        lambda _: _token(lambda p, q: q * Min(1, p / q), Min),
    ),
    Line(
        "min_as_abs",
        r"\min\bigl(p(x),q(x)\bigr)=\tfrac12\bigl(p(x)+q(x)-|p(x)-q(x)|\bigr)",
        lambda _: _token(Min, lambda p, q: (p + q - Abs(p - q)) / 2),
    ),
    Line(
        "alpha_is_overlap",
        r"\alpha=\sum\min(p,q)=1-\tfrac12\sum|p-q|=1-\mathrm{TV}(p,q)",
        lambda n: _sums(n, alpha_of, lambda p, q: 1 - _distance(p, q)),
        SIZES,
    ),
)
RESIDUAL = (
    Line(
        "still_missing",
        r"p(x)-\min\bigl(p(x),q(x)\bigr)=\bigl(p(x)-q(x)\bigr)_+",
        lambda _: _token(lambda p, q: p - Min(p, q), lambda p, q: Max(p - q, 0)),
    ),
    Line(
        "missing_mass",
        r"\sum_x\bigl(p(x)-q(x)\bigr)_+=1-\alpha",
        lambda n: _sums(n, lambda p, q: sum(missing(p, q)), lambda p, q: 1 - alpha_of(p, q)),
        SIZES,
    ),
    Line(
        "rejected_mass",
        r"\sum_x\bigl(q(x)-p(x)\bigr)_+=1-\alpha",
        lambda n: _sums(n, lambda p, q: sum(missing(q, p)), lambda p, q: 1 - alpha_of(p, q)),
        SIZES,
    ),
    Line(
        "residual_law",
        r"r(x)=\frac{\bigl(p(x)-q(x)\bigr)_+}{1-\alpha},\qquad\sum_x r(x)=1",
        lambda n: _sums(n, lambda p, q: sum(missing(p, q)) / (1 - alpha_of(p, q)), lambda p, q: Rational(1)),
        SIZES,
    ),
)
OUTPUT = (
    Line(
        "two_paths",
        r"P(\text{out}=x)=\underbrace{q(x)\min\!\Bigl(1,\frac{p(x)}{q(x)}\Bigr)}_{\min(p,q)}"
        r"+\underbrace{(1-\alpha)\,r(x)}_{(p-q)_+}",
        _ways_out,
        SIZES,
    ),
    Line(
        "paths_added",
        r"P(\text{out}=x)=\min(p,q)+(p-q)_+=p(x)",
        lambda _: _token(lambda p, q: Min(p, q) + Max(p - q, 0), lambda p, q: p),
    ),
)

# ---- the limit of greedy decoding -------------------------------------------------------------------------------


def _one_hot(size: int, index: int) -> tuple[Expr, ...]:
    return tuple(Rational(int(i == index)) for i in range(size))


def _softmax_limit(size: int) -> Sides:
    gaps, heat = symbols(f"g1:{size}", positive=True), Symbol("T", positive=True)
    best = 1 / (1 + sum(exp(-gap / heat) for gap in gaps))
    return [(Limit(best, heat, 0, "+"), Rational(1))]


def _one_hot_draft(size: int) -> Sides:
    p, _ = laws(size)  # d is the last token: written as one minus the others, it is seen to be at most 1
    return [(alpha_of(p, _one_hot(size, size - 1)), p[-1])]


def _both_one_hot(size: int) -> Sides:
    every = range(size)
    return [(alpha_of(_one_hot(size, a), _one_hot(size, d)), Rational(int(a == d))) for a in every for d in every]


def _greedy_residual(size: int) -> Sides:
    residuals = [(residual_of(_one_hot(size, 0), _one_hot(size, d)), _one_hot(size, 0)) for d in range(1, size)]
    return [pair for left, right in residuals for pair in zip(left, right, strict=True)]


GREEDY = (
    Line(
        "softmax_limit",
        r"\lim_{T\to0^+}\frac{e^{\ell_a/T}}{\sum_x e^{\ell_x/T}}=1\qquad(\ell_a>\ell_x)",
        _softmax_limit,
        SIZES,
    ),
    Line(
        "one_hot_draft",
        r"q=\mathbb 1_d\;\Rightarrow\;\alpha=\sum_x\min\bigl(p(x),\mathbb 1_d(x)\bigr)=p(d)",
        _one_hot_draft,
        SIZES,
    ),
    Line("both_one_hot", r"p=\mathbb 1_a,\;q=\mathbb 1_d\;\Rightarrow\;\alpha=[\,a=d\,]", _both_one_hot, SIZES),
    Line("greedy_residual", r"a\ne d\;\Rightarrow\;r=(\mathbb 1_a-\mathbb 1_d)_+=\mathbb 1_a", _greedy_residual, SIZES),
)

# ---- the laws of four rules that are wrong ----------------------------------------------------------------------


def law_resample_from_p(p: tuple, q: tuple) -> tuple[Expr, ...]:
    """A rejected position is drawn from p itself."""
    return tuple(Min(a, b) + (1 - alpha_of(p, q)) * a for a, b in zip(p, q, strict=True))


def law_absolute_residual(p: tuple, q: tuple) -> tuple[Expr, ...]:
    """A rejected position is drawn from |p − q|, normalised."""
    gaps = [Abs(a - b) for a, b in zip(p, q, strict=True)]
    return tuple(Min(a, b) + (1 - alpha_of(p, q)) * g / sum(gaps) for a, b, g in zip(p, q, gaps, strict=True))


def law_inverted_ratio(p: tuple, q: tuple) -> tuple[Expr, ...]:
    """A token is accepted with chance min(1, q/p); the residual is the right one."""
    kept = [b * Min(1, b / a) for a, b in zip(p, q, strict=True)]
    return tuple(k + (1 - sum(kept)) * r for k, r in zip(kept, residual_of(p, q), strict=True))


def law_soft_q_greedy_draft(p: tuple, q: tuple) -> tuple[Expr, ...]:
    """The draft always proposes the last token, as its most probable one, yet ratio and residual use its soft q."""
    kept = [Rational(0)] * (len(p) - 1) + [Min(1, p[-1] / q[-1])]
    return tuple(k + (1 - sum(kept)) * r for k, r in zip(kept, residual_of(p, q), strict=True))


def _resampled_twice(size: int) -> Sides:
    p, q = laws(size)  # no token is special, so the first stands for all
    return [(law_resample_from_p(p, q)[0] - p[0], Min(p[0], q[0]) - alpha_of(p, q) * p[0])]


def _halfway(size: int) -> Sides:
    p, q = laws(size)
    return [(law_absolute_residual(p, q)[0], (p[0] + q[0]) / 2)]


def _draft_keeps(_: int) -> Sides:
    """A token with q = p + surplus: its accepted mass, and the nothing that the residual adds."""
    (p, *_), (surplus, *_) = free_laws(2)
    return [((p + surplus) * Min(1, (p + surplus) / p), p + surplus), *_never_comes_out(2)]


def _never_comes_out(_: int) -> Sides:
    """A token that is not proposed and has q = p + surplus: the residual, its only way out, is 0 there."""
    (p, *_), (surplus, *_) = free_laws(2)
    return [(Max(p - (p + surplus), 0), Rational(0))]


WRONG = (
    Line("resample_from_p", r"P(\text{out}=x)-p(x)=\min\bigl(p(x),q(x)\bigr)-\alpha\,p(x)", _resampled_twice, SIZES),
    Line("absolute_residual", r"\min(p,q)+(1-\alpha)\frac{|p-q|}{\sum|p-q|}=\frac{p(x)+q(x)}2", _halfway, SIZES),
    Line("inverted_ratio", r"q(x)\ge p(x)\;\Rightarrow\;P(\text{out}=x)=q(x)\cdot1+0=q(x)", _draft_keeps),
    Line("soft_q_greedy_draft", r"x\ne d,\;q(x)\ge p(x)\;\Rightarrow\;P(\text{out}=x)=0", _never_comes_out),
)

DERIVATIONS = {
    "acceptance": ACCEPTANCE,
    "residual": RESIDUAL,
    "output": OUTPUT,
    "greedy": GREEDY,
    "round": ROUND,
    "speedup": SPEEDUP,
    "wrong": WRONG,
}


@lru_cache
def check_all() -> dict[str, Check]:
    """The check of every line by key; the answer never changes, so it is worked out once."""
    return {line.key: check(line) for lines in DERIVATIONS.values() for line in lines}
