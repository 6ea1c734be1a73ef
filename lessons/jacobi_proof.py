"""Jacobi iteration and Lookahead, derived: a line carries equalities for SymPy, or is tried on every small model.

Knows nothing of runs and pages; the words of a line are the lesson's, under "derive.KEY".
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from sympy import Expr, Rational, prod, symbols

from lessons.proof import ALPHA, Line

PLACES, TOKENS = 3, 2  # a small model: two tokens, three places, a favourite after each of 7 beginnings
WIDTH, LEVELS, GUESSES = symbols("W N G", positive=True, integer=True)
SIZES = tuple(itertools.product((1, 2, 3), (1, 2, 3)))  # (b candidates, γ tokens each)

Text = tuple[int, ...]
SmallModel = Mapping[Text, int]


# ---- the iteration ------------------------------------------------------------------------------------------------


def iterate(favourite: Callable[[Text], int], guess: Sequence[int]) -> list[Text]:
    """All guesses from the first to the fixed point; every place is corrected at once, from the guess before."""
    history = [tuple(guess)]
    while True:
        old = history[-1]
        new = tuple(favourite(old[:place]) for place in range(len(old)))
        if new == old:
            return history
        history.append(new)


def greedy(favourite: Callable[[Text], int], length: int) -> Text:
    """One place after the other, each from what is certain."""
    text: Text = ()
    while len(text) < length:
        text += (favourite(text),)
    return text


def small_models() -> Iterator[SmallModel]:
    """Every model of two tokens over three places: 2⁷ of them."""
    beginnings = [text for length in range(PLACES) for text in itertools.product(range(TOKENS), repeat=length)]
    for favourites in itertools.product(range(TOKENS), repeat=len(beginnings)):
        yield dict(zip(beginnings, favourites, strict=True))


def cases() -> Iterator[tuple[SmallModel, Text]]:
    """Every small model with every first guess: 1,024 cases."""
    yield from itertools.product(small_models(), itertools.product(range(TOKENS), repeat=PLACES))


def _grows(model: SmallModel, guess: Text) -> bool:
    """After k iterations the first k places are the greedy text's."""
    truth, history = greedy(model.__getitem__, PLACES), iterate(model.__getitem__, guess)
    return all(one[:count] == truth[:count] for count, one in enumerate(history))


def _stands_at_greedy(model: SmallModel, guess: Text) -> bool:
    """A guess stands still exactly where it is the greedy text."""
    return (len(iterate(model.__getitem__, guess)) == 1) == (guess == greedy(model.__getitem__, PLACES))


def _is_bounded(model: SmallModel, guess: Text) -> bool:
    return len(iterate(model.__getitem__, guess)) - 1 <= PLACES


# ---- tokens of a pass ---------------------------------------------------------------------------------------------


def expected(candidates: int, length: int) -> Expr:
    """E[τ] with b candidates of γ tokens, each token right with probability α, independently."""
    return length + 1 - sum(((1 - ALPHA**i) ** candidates for i in range(1, length + 1)), Rational(0))


def counted(candidates: int, length: int) -> Expr:
    """The same, counted: over all ways in which the candidates can end, 1 + the longest, times its chance."""
    chances = [ALPHA**i * (1 - ALPHA) for i in range(length)] + [ALPHA**length]
    ways = itertools.product(range(length + 1), repeat=candidates)
    return sum(((1 + max(ends)) * prod(chances[end] for end in ends) for ends in ways), Rational(0))


def _more(candidates: int, length: int) -> tuple[Expr, Expr]:
    gain = sum((ALPHA**i * (1 - ALPHA**i) ** candidates for i in range(1, length + 1)), Rational(0))
    return expected(candidates + 1, length) - expected(candidates, length), gain


def most_rows(width: int, levels: int, guesses: int) -> int:
    """1 + (N − 1)(W + G): the last known token, the window, and the n-grams where none share a beginning."""
    return 1 + (levels - 1) * (width + guesses)


LINES = (
    Line("update", r"y_i^{(k+1)}=\arg\max_v\;p\bigl(v\mid x,\,y_{<i}^{(k)}\bigr)"),
    Line(
        "induction",
        r"y_{1..k}^{(k)}=g_{1..k}\,\Rightarrow\,y_{1..k+1}^{(k+1)}=g_{1..k+1}",
        trials=lambda: itertools.starmap(_grows, cases()),
    ),
    Line("fixed", r"y^{(k+1)}=y^{(k)}\iff y^{(k)}=g", trials=lambda: itertools.starmap(_stands_at_greedy, cases())),
    Line(
        "bound",
        r"y^{(n)}=g:\quad\text{at most }n\text{ iterations}",
        trials=lambda: itertools.starmap(_is_bounded, cases()),
    ),
    Line(
        "expected",
        r"\begin{aligned}E[\tau]&=1+\sum_{i=1}^{\gamma}\bigl(1-(1-\alpha^i)^b\bigr)\cr"
        r"&=\gamma+1-\sum_{i=1}^{\gamma}(1-\alpha^i)^b\end{aligned}",
        lambda _: [(expected(b, length), counted(b, length)) for b, length in SIZES],
    ),
    Line(
        "single",
        r"b=1:\quad E[\tau]=\sum_{i=0}^{\gamma}\alpha^i=\frac{1-\alpha^{\gamma+1}}{1-\alpha}",
        lambda _: [(expected(1, k), (1 - ALPHA ** (k + 1)) / (1 - ALPHA)) for k in range(1, 6)],
    ),
    Line(
        "more",
        r"E_{b+1}[\tau]-E_b[\tau]=\sum_{i=1}^{\gamma}\alpha^i(1-\alpha^i)^b",
        lambda _: [_more(b, length) for b, length in SIZES],
    ),
    Line(
        "rows",
        r"\begin{aligned}n&\le1+\underbrace{(N-1)\,W}_{\text{window}}+\underbrace{(N-1)\,G}_{\text{verify}}\cr"
        r"&=1+(N-1)(W+G)\end{aligned}",
        lambda _: [((LEVELS - 1) * WIDTH + (LEVELS - 1) * GUESSES + 1, most_rows(WIDTH, LEVELS, GUESSES))],
    ),
    Line("speed", r"S=\frac{E[\tau]}{t(n)/t(1)}>1\iff E[\tau]>\frac{t(n)}{t(1)}"),
)
