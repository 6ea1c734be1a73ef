"""The zoo's formulas derived: conditional acceptance, EAGLE's shift, a greedy draft, and typical acceptance.

Knows nothing of runs and pages; the words of a line are the lesson's, under "line.KEY".
"""

from sympy import Abs, Expr, Rational, prod, symbols, together

from lessons.proof import SIZES, Line, Sides

DEEPEST = 6  # positions for which the sums are written out
A = symbols(f"alpha1:{DEEPEST + 1}", positive=True)
P, X, Y, COST = symbols("p x y t", positive=True)

# ---- acceptance by position -----------------------------------------------------------------------------------------


def going(depth: int) -> Expr:
    """The chance that the first `depth` drafts are all accepted: the chain rule over conditional acceptances."""
    return prod(A[:depth])


def _expectation(length: int) -> Sides:
    """Σ n P(τ = n) written out, against 1 + Σ ∏ α."""
    stops = [(depth + 1) * going(depth) * (1 - A[depth]) for depth in range(length)]
    whole = sum(stops, Rational(0)) + (length + 1) * going(length)
    return [(whole, 1 + sum((going(depth) for depth in range(1, length + 1)), Rational(0)))]


def _one_more(_: int) -> Sides:
    def tau(length: int) -> Expr:
        return 1 + sum((going(depth) for depth in range(1, length + 1)), Rational(0))

    return [(tau(length + 1) - tau(length), going(length + 1)) for length in range(1, DEEPEST)]


def _pays(_: int) -> Sides:
    """S of one draft more, less S, has the sign of gain · cost − τ · dearer: over the product of both costs."""
    tau, gain, dearer = X, Y, P
    return [((tau + gain) / (COST + dearer) - tau / COST, (gain * COST - tau * dearer) / (COST * (COST + dearer)))]


# ---- EAGLE's shift --------------------------------------------------------------------------------------------------


def _mixture(_: int) -> Sides:
    """Two next tokens with chance p and 1 − p lead to features x and y: the best guess without seeing which came."""
    guess = symbols("g")
    error = P * (guess - X) ** 2 + (1 - P) * (guess - Y) ** 2
    best = P * X + (1 - P) * Y
    return [(error.diff(guess).subs(guess, best), Rational(0)), (error.subs(guess, best), P * (1 - P) * (X - Y) ** 2)]


# ---- typical acceptance ---------------------------------------------------------------------------------------------


def _typical(_: int) -> Sides:
    """Of three tokens the first two pass: accepted drafts keep their q, the share of the refused is drawn from p."""
    p, q = _law("p"), _law("q")
    passing = q[0] + q[1]
    comes_out = [chance * is_in + (1 - passing) * mine for chance, mine, is_in in zip(q, p, (1, 1, 0), strict=True)]
    return [
        (sum(comes_out), Rational(1)),
        (comes_out[2] / p[2], 1 - passing),  # what does not pass is starved by the same factor, however likely it is
        (comes_out[0] - p[0], q[0] - passing * p[0]),
    ]


def _one_hot(size: int) -> Sides:
    """Σ min(p, q) for a q that is certain of the first token; min(a, b) = (a + b − |a − b|) / 2."""
    law = _law("p", size)
    certain = [Rational(1), *[Rational(0)] * (size - 1)]
    smaller = [(a + b - Abs(together(a - b))) / 2 for a, b in zip(law, certain, strict=True)]
    return [(sum(smaller), law[0])]


def _law(letter: str, size: int = 3) -> list[Expr]:
    """Chances that sum to one: positive weights over their sum."""
    weights = symbols(f"{letter}1:{size + 1}", positive=True)
    return [weight / sum(weights) for weight in weights]


LINES = {
    "position": (
        Line("conditional", r"\alpha_i = P(\text{draft } i \text{ accepted} \mid \text{drafts } 1 \ldots i-1"
             r" \text{ accepted})"),
        Line("chain", r"P(\tau > i) = \prod_{j \le i} \alpha_j \;\Rightarrow\; \tau = 1 + \sum_{i=1}^{K}"
             r" \prod_{j \le i} \alpha_j", _expectation, range(1, DEEPEST + 1)),
        Line("more", r"\tau_{K+1} - \tau_K = \prod_{j \le K+1} \alpha_j", _one_more),
        Line("speed", r"S = \frac{\tau}{t_K}, \qquad t_K = Kc + v_K + o"),
        Line("pays", r"S_{K+1} > S_K \iff \frac{\tau_{K+1} - \tau_K}{t_{K+1} - t_K} > \frac{\tau_K}{t_K}", _pays),
    ),
    "shift": (
        Line("guess", r"\hat f = p\,f(x) + (1-p)\,f(y), \qquad E\|f - \hat f\|^2 = p(1-p)\,\|f(x) - f(y)\|^2",
             _mixture),
        Line("shifted", r"\text{shifted: } f_{t+1} = F(f_{\le t},\, x_{\le t+1}) \;\Rightarrow\; \text{no } p"
             r" \text{ left in it}"),
    ),
    "typical": (
        Line("rule", r"\text{accept } x \iff p(x) > \min\!\bigl(\varepsilon,\; \delta e^{-H(p)}\bigr)"),
        Line("law", r"P(\text{out}=x) = q(x)\,[x \in A] + (1-Q_A)\,p(x), \qquad Q_A = \sum_{x \in A} q(x)", _typical),
    ),
    "greedy": (
        Line("one_hot", r"q = \mathbf{1}[x = \hat x] \;\Rightarrow\; \alpha = \sum_x \min(p, q) = p(\hat x)", _one_hot,
             SIZES),
    ),
}  # fmt: skip
