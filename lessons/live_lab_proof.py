"""Where the time of a race goes: the speed-up derived from a stopwatch's four numbers, each line checked by SymPy.

Knows nothing of runs and pages; the words of a line are the lesson's, under "derive.KEY".
"""

from sympy import Limit, Sum, Symbol, symbols

from lessons.proof import ALPHA, COST, Line, Sides

NUM_TOKENS, LENGTH, TAU = symbols("n K tau", positive=True)
PLAIN, DRAFT, WIDE, REST = symbols("t_1 t_d t_w t_o", positive=True)  # seconds: plain step, one draft, wide pass, rest
RATIO, OTHER = symbols("v o", positive=True)  # wide pass and rest in plain steps, as COST is one draft

VANILLA_TIME = NUM_TOKENS * PLAIN
ROUND_TIME = LENGTH * DRAFT + WIDE + REST
SPECULATIVE_TIME = NUM_TOKENS / TAU * ROUND_TIME
SPEEDUP = TAU / (LENGTH * COST + RATIO + OTHER)
IN_STEPS = {DRAFT: COST * PLAIN, WIDE: RATIO * PLAIN, REST: OTHER * PLAIN}


def _expected(length: int) -> Sides:
    index = Symbol("j", integer=True, nonnegative=True)
    written_out = Sum(ALPHA**index, (index, 0, length)).doit()
    return [(written_out * (1 - ALPHA), (1 - ALPHA ** (length + 1)).expand())]


LINES = (
    Line("vanilla", r"T_{\text{vanilla}} = n\,t(1)"),
    Line("speculative", r"T_{\text{spec}} = \frac{n}{\tau}\,\bigl(K\,t_d + t(K{+}1) + t_o\bigr)"),
    Line(
        "ratio",
        r"S = \frac{T_{\text{vanilla}}}{T_{\text{spec}}} = \frac{\tau\,t(1)}{K\,t_d + t(K{+}1) + t_o}",
        lambda _: [(VANILLA_TIME / SPECULATIVE_TIME, TAU * PLAIN / ROUND_TIME)],
    ),
    Line(
        "in_steps",
        r"\begin{gathered} S = \frac{\tau}{Kc + v + o} \\[4pt]"
        r"c=\frac{t_d}{t(1)},\; v=\frac{t(K{+}1)}{t(1)},\; o=\frac{t_o}{t(1)} \end{gathered}",
        lambda _: [((VANILLA_TIME / SPECULATIVE_TIME).subs(IN_STEPS), SPEEDUP)],
    ),
    Line(
        "break_even",
        r"S > 1 \iff \tau > Kc + v + o",
        lambda _: [(SPEEDUP - 1, (TAU - LENGTH * COST - RATIO - OTHER) / (LENGTH * COST + RATIO + OTHER))],
    ),
    Line(
        "worst",
        r"\tau \ge 1 \;\Rightarrow\; S \ge \frac{1}{Kc + v + o} = \lim_{\alpha\to0} S",
        lambda _: [(Limit(SPEEDUP.subs(TAU, 1 + ALPHA), ALPHA, 0), 1 / (LENGTH * COST + RATIO + OTHER))],
    ),
    Line(
        "expected",
        r"E[\tau] = 1 + \alpha + \dots + \alpha^K = \frac{1-\alpha^{K+1}}{1-\alpha}",
        _expected,
        range(1, 9),
    ),
)
