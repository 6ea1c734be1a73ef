"""A line of a derivation and the machine's check of it: simplified, tried at exact rational points, and in small cases.

Knows nothing of what is derived, of pages, nor of readers: expressions are built by code and never parsed from text.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod

from sympy import Abs, Expr, Limit, Symbol, expand, latex, simplify

ALPHA = Symbol("alpha", positive=True)  # chance that a drafted token is accepted
COST = Symbol("c", positive=True)  # time of one drafted token over that of one target step
LENGTH = Symbol("K", positive=True, integer=True)  # drafted tokens of a round

Sides = list[tuple[Expr, Expr]]

SIZES = (2, 3, 4)  # the V over which a line about whole laws is checked
ONCE = (2,)  # for a line about one token, or about rounds: V does not enter


@dataclass(frozen=True, slots=True)
class Line:
    """One step: `key` names its words, `latex` prints it for any V, `sides(V)` are the equalities that it claims.

    `trials` says of each case of a small world whether the line holds there. A definition claims nothing.
    """

    key: str
    latex: str
    sides: Callable[[int], Sides] = lambda _: []
    sizes: Sequence[int] = ONCE
    trials: Callable[[], Iterable[bool]] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """What the machine found: equalities proved by simplification, points and cases tried, and those that disagreed."""

    num_equalities: int
    num_proved: int
    num_points: int
    num_disagreeing: int
    seconds: float

    @property
    def is_proved(self) -> bool:
        """Whether something was claimed, every equality of it was proved by simplification and nothing disagreed."""
        is_claimed = self.num_equalities + self.num_points > 0
        return is_claimed and self.num_proved == self.num_equalities and self.num_disagreeing == 0


def is_zero(difference: Expr) -> bool:
    """Whether simplification, with min and max rewritten as absolute values, proves that an expression is 0."""
    rewritten = difference.doit().rewrite(Abs)
    return expand(rewritten) == 0 or simplify(rewritten) == 0  # expanding settles the polynomials in no time


def check(line: Line, num_points: int = 12, seed: int = 0) -> Check:
    """Prove each equality of `line`, for each V, and try it at `num_points` random rational points; and try its cases.

    A limit has no value at a point, so those lines are proved only.
    """
    started = time.perf_counter()
    generator = random.Random(seed)
    cases = list(line.trials()) if line.trials else []
    equalities, proved, tried, disagreeing = 0, 0, len(cases), cases.count(False)
    for size in line.sizes:
        sides = line.sides(size)
        equalities += len(sides)
        proved += sum(is_zero(left - right) for left, right in sides)
        pointwise = [(left, right) for left, right in sides if not left.has(Limit)]
        for point in (random_point(size, generator) for _ in range(num_points)):
            tried += len(pointwise)
            disagreeing += sum(value(left, point) != value(right, point) for left, right in pointwise)
    return Check(equalities, proved, tried, disagreeing, time.perf_counter() - started)


@cache
def is_checked(line: Line) -> bool:
    """Whether a line claims something and all of it holds; tried at no points, since its symbols may be its own."""
    return check(line, num_points=0).is_proved


def random_point(size: int, generator: random.Random) -> dict[str, Fraction]:
    """A fraction for every symbol that a line may use: p ≠ q on the simplex (equal entries are common), α, c and K."""
    p = q = random_law(size, generator)
    while p == q:  # there the residual has no mass, and is not defined
        q = random_law(size, generator)
    point = {f"{letter}{i + 1}": entry for letter, law in (("p", p), ("q", q)) for i, entry in enumerate(law)}
    point[ALPHA.name] = Fraction(generator.randint(1, 19), 20)
    point[COST.name] = Fraction(generator.randint(1, 20), 20)
    point[LENGTH.name] = Fraction(generator.randint(1, 8))
    return point


def random_law(size: int, generator: random.Random) -> list[Fraction]:
    """Positive fractions that sum to one."""
    weights = [generator.randint(1, 6) for _ in range(size)]
    return [Fraction(weight, sum(weights)) for weight in weights]


def value(expr: Expr, point: dict[str, Fraction]) -> Fraction:
    """The exact value of an expression at a point, in Python's fractions: a second route, without SymPy's rules."""
    if expr.is_Symbol:
        return point[expr.name]
    if expr.is_Rational:
        return Fraction(int(expr.p), int(expr.q))
    parts = [value(part, point) for part in expr.args]
    if expr.is_Pow:
        return parts[0] ** int(parts[1])  # every exponent of a line is a whole number
    return {"Add": sum, "Mul": prod, "Min": min, "Max": max, "Abs": lambda one: abs(one[0])}[expr.func.__name__](parts)


def as_checked(line: Line, size: int) -> str:
    """LaTeX of the first equality of a line as SymPy holds it, before simplification."""
    left, right = line.sides(size)[0]
    return f"{latex(left)} = {latex(right)}"
