"""Candidate trees derived: why the best nodes are closed under ancestors, what a tree is worth, two drafts at once.

Knows nothing of pages, runs or drafters. Lines are checked as `lessons.proof` does it.
"""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from sympy import Max, Min, Rational, symbols

from lessons.proof import ALPHA, SIZES, Check, Line, Sides, check

TARGET = (Rational(4, 10), Rational(3, 10), Rational(2, 10), Rational(1, 10))  # p of the worked example
DRAFT = TARGET[::-1]  # and its q
LARGEST_TREE = 4  # nodes below the root of the trees that are tried one by one
CONFIDENCES = (Fraction(1, 4), Fraction(1, 2), Fraction(1))  # 1 makes ties

# ---- the best nodes ---------------------------------------------------------------------------------------------


def values_of(parents: Sequence[int], confidences: Sequence[Fraction]) -> list[Fraction]:
    """The product of the confidences on each node's path; parents count the nodes below the root, −1 is the root."""
    values: list[Fraction] = []
    for parent, confidence in zip(parents, confidences, strict=True):
        values.append((values[parent] if parent >= 0 else 1) * confidence)
    return values


def ranked(values: Sequence[Fraction]) -> list[int]:
    """Nodes by value, the largest first, ties to the one that comes first."""
    return sorted(range(len(values)), key=lambda node: (-values[node], node))


def is_closed(parents: Sequence[int], nodes: Sequence[int]) -> bool:
    """Whether each node's parent is among the nodes too, or the root."""
    return all(parents[node] in (-1, *nodes) for node in nodes)


def cuts() -> Iterator[bool]:
    """For every small tree, every choice of confidences and every number of nodes kept: whether no node is orphaned."""
    for size in range(1, LARGEST_TREE + 1):
        shapes = itertools.product(*(range(-1, node) for node in range(size)))
        for parents, confidences in itertools.product(shapes, itertools.product(CONFIDENCES, repeat=size)):
            order = ranked(values_of(parents, confidences))
            yield from (is_closed(parents, order[:kept]) for kept in range(size + 1))


def _child_value(_: int) -> Sides:
    (value, _), (confidence, _) = symbols("p1 p2", positive=True), symbols("q1 q2", positive=True)
    return [(value - value * confidence, value * (1 - confidence))]


CLOSED = (
    Line("child_value", r"V_{\text{parent}}-V_{\text{child}}=V_{\text{parent}}\,(1-c)\;\ge\;0", _child_value),
    Line("closed", r"V_u>V_w,\ \text{or}\ V_u=V_w\ \text{and}\ u\ \text{before}\ w", trials=cuts),
)

# ---- what a tree is worth ---------------------------------------------------------------------------------------


def _linearity(_: int) -> Sides:
    """Two children a and b of the root, below each two more: every way a pass can end, times its tokens."""
    (a, b), (c, d) = symbols("p1 p2", positive=True), symbols("q1 q2", positive=True)
    ends = [(1 - a - b, 1), (a * (1 - c - d), 2), (a * c, 3), (a * d, 3), (b * (1 - c), 2), (b * c, 3)]
    return [
        (sum(chance for chance, _ in ends), Rational(1)),
        (sum(x * n for x, n in ends), 1 + a + b + a * c + a * d + b * c),
    ]


def _chain(length: int) -> Sides:
    return [((1 - ALPHA) * (1 + sum(ALPHA**depth for depth in range(1, length + 1))), 1 - ALPHA ** (length + 1))]


def _worth(_: int) -> Sides:
    (expected, value), (time, more) = symbols("p1 p2", positive=True), symbols("q1 q2", positive=True)
    return [((expected + value) * time - expected * (time + more), value * time - expected * more)]


TOKENS = (
    Line("linearity", r"E[\tau]=1+\sum_{v}P(v\text{ accepted})=1+\sum_{v}V_v", _linearity),
    Line("chain", r"V_k=\alpha^k:\quad 1+\sum_{k=1}^{K}\alpha^k=\frac{1-\alpha^{K+1}}{1-\alpha}", _chain, SIZES),
    Line("worth", r"\frac{E+V}{T+\Delta t}>\frac ET\;\Longleftrightarrow\;\frac{V}{\Delta t}>\frac ET", _worth),
)

# ---- two drafts for one place -----------------------------------------------------------------------------------


def accepted_once(p: Sequence, q: Sequence):
    """Σ min(p, q)."""
    return sum(Min(a, b) for a, b in zip(p, q, strict=True))


def residual(p: Sequence, q: Sequence) -> list:
    """(p − q)₊, normalised."""
    left = [Max(a - b, 0) for a, b in zip(p, q, strict=True)]
    return [entry / sum(left) for entry in left]


def accepted_of_two(p: Sequence, q: Sequence):
    """Two independent drafts of q, the second against the residual that the first left."""
    alpha = accepted_once(p, q)
    return alpha + (1 - alpha) * accepted_once(residual(p, q), q)


def accepted_of_two_distinct(p: Sequence, q: Sequence):
    """As before, the second drawn from q without the first."""
    total, left = accepted_once(p, q), residual(p, q)
    for first, (a, b) in enumerate(zip(p, q, strict=True)):
        others = [0 if token == first else entry / (1 - b) for token, entry in enumerate(q)]
        total += Max(b - a, 0) * accepted_once(left, others)
    return total


def _still_exact(_: int) -> Sides:
    (p, r), (q, _) = symbols("p1 p2", positive=True), symbols("q1 q2", positive=True)
    return [(Min(r, q) + Max(r - q, 0), r), (Min(p, q) + Max(p - q, 0), p)]


DRAFTS = (
    Line(
        "two_drafts",
        r"\begin{aligned}\alpha_2&=\alpha+(1-\alpha)\sum_x\min(r,q)\cr&=.6+.4\cdot.3=.72\end{aligned}",
        lambda _: [(accepted_of_two(TARGET, DRAFT), Rational(72, 100))],
    ),
    Line(
        "two_exact",
        r"\begin{aligned}\min(r,q)+(r-q)_+&=r\cr\min(p,q)+(1-\alpha)\,r&=p\end{aligned}",
        _still_exact,
    ),
    Line(
        "two_distinct",
        r"\begin{aligned}\alpha_2'&=\alpha+\sum_x\bigl(q(x)-p(x)\bigr)_+\,\beta_x\cr"
        r"\beta_x&=\sum_{y\ne x}\min\Bigl(r(y),\tfrac{q(y)}{1-q(x)}\Bigr)\cr"
        r"\alpha_2'&=.6+.1\cdot\tfrac{11}{28}+.3\cdot\tfrac5{12}\cr&=\tfrac{107}{140}\approx.7643\end{aligned}",
        lambda _: [
            (accepted_of_two_distinct(TARGET, DRAFT), Rational(107, 140)),
            (Rational(6, 10) + Rational(11, 280) + Rational(3, 10) * Rational(5, 12), Rational(107, 140)),
        ],
    ),
)

GROUPS = {"closed": CLOSED, "tokens": TOKENS, "drafts": DRAFTS}


@lru_cache
def checks() -> dict[str, Check]:
    """The check of every line by key, worked out once."""
    return {line.key: check(line) for lines in GROUPS.values() for line in lines}
