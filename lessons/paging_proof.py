"""What paging wastes, derived: a line carries equalities that SymPy reduces to 0, or is tried in every case.

Knows nothing of runs and pages; the words of a line are the lesson's, under "derive.KEY".
"""

from sympy import Sum, ceiling, diff, floor, sqrt, symbols

from lessons.proof import Line

SIZE, TOKENS, PROMPT, SAMPLES = symbols("B L P n", positive=True, integer=True)
INDEX = symbols("r", nonnegative=True, integer=True)
SLOT_BYTES, ENTRY_BYTES, REAL_SIZE = symbols("s e b", positive=True)
LARGEST = 12  # block sizes tried one by one

WASTE = SIZE * ceiling(TOKENS / SIZE) - TOKENS
MEAN_WASTE = Sum(INDEX, (INDEX, 0, SIZE - 1)) / SIZE
USED = TOKENS / (TOKENS + (SIZE - 1) / 2)
COST = SLOT_BYTES * (REAL_SIZE - 1) / 2 + ENTRY_BYTES * TOKENS / REAL_SIZE
BEST_SIZE = sqrt(2 * ENTRY_BYTES * TOKENS / SLOT_BYTES)
SHARED = floor(PROMPT / SIZE)
TOGETHER = SHARED + SAMPLES * (ceiling(TOKENS / SIZE) - SHARED)


def cases() -> list[tuple[int, int]]:
    """All block sizes up to 12 with every length up to three blocks."""
    return [(size, tokens) for size in range(1, LARGEST + 1) for tokens in range(1, 3 * size + 1)]


def waste(size: int, tokens: int) -> int:
    """Empty slots of a sequence: block size times blocks, less tokens."""
    return int(WASTE.subs({SIZE: size, TOKENS: tokens}))


LINES = (
    Line(
        "blocks",
        r"w(L) = B\left\lceil \tfrac{L}{B} \right\rceil - L",
        trials=lambda: (waste(b, n) == -n % b for b, n in cases()),
    ),
    Line("bound", r"0 \;\le\; w(L) \;\le\; B-1", trials=lambda: (0 <= waste(b, n) <= b - 1 for b, n in cases())),
    Line(
        "mean",
        r"E[w] = \frac1B \sum_{r=0}^{B-1} r = \frac{B-1}{2}",
        lambda _: [(MEAN_WASTE, (SIZE - 1) / 2)],
    ),
    Line(
        "share",
        r"\text{used} = \frac{L}{L + \frac{B-1}{2}} = 1 - \frac{B-1}{2L + B - 1}",
        lambda _: [(USED, 1 - (SIZE - 1) / (2 * TOKENS + SIZE - 1))],
    ),
    Line(
        "best",
        r"\text{cost}(B) = s\,\frac{B-1}{2} + e\,\frac{L}{B} \;\Rightarrow\; B^\ast = \sqrt{\frac{2eL}{s}}",
        lambda _: [(diff(COST, REAL_SIZE).subs(REAL_SIZE, BEST_SIZE), 0 * SIZE)],
    ),
    Line(
        "sharing",
        r"\begin{aligned}\text{blocks} &= \left\lfloor \tfrac{P}{B} \right\rfloor + n\left(\left\lceil \tfrac{L}{B}"
        r" \right\rceil - \left\lfloor \tfrac{P}{B} \right\rfloor\right) \cr"
        r" \text{saved} &= (n-1)\left\lfloor \tfrac{P}{B} \right\rfloor\end{aligned}",
        lambda _: [(SAMPLES * ceiling(TOKENS / SIZE) - TOGETHER, (SAMPLES - 1) * SHARED)],
    ),
)
