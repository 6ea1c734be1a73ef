"""Two laws and what every acceptance rule makes of them: exact law, real draws, verdict.

Knows nothing of pages nor of how a rule works: the engine draws, counts and gives the exact law.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine import (
    EXACT_RULES,
    LOSSY_RULES,
    WRONG_RULES,
    Inspected,
    SamplingParams,
    accept_many,
    acceptance_rate,
    chi_square,
    output_law,
    processed_law,
    total_variation,
)
from lessons.typed_laws import parse_pair

NUM_DRAWS = 100_000
RIGHT_RULES = EXACT_RULES + LOSSY_RULES
ALL_RULES = RIGHT_RULES + WRONG_RULES
SMALLEST_P_VALUE = 1e-4  # an exact rule fails once in ten thousand times
LETTERS = "ABCDEFGH"
LARGEST_LUMP = 7  # tokens taken from a model's law; the rest of the vocabulary is one more

Law = tuple[float, ...]


# ---- one rule at work ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """One rule on one pair of laws: its exact law and acceptance, and what came out of `num_draws` real draws.

    kept, refilled: share of draws, per token, that were an accepted draft, and that made up for a refused one.
    p_value: of the χ² test that the draws follow the target's p; own_p_value: that they follow the rule's exact law.
    """

    rule: str
    law: Law
    acceptance: float
    kept: Law
    refilled: Law
    num_draws: int
    distance: float
    p_value: float
    own_p_value: float

    @property
    def drawn(self) -> Law:
        """Share of draws per token."""
        return tuple(kept + refilled for kept, refilled in zip(self.kept, self.refilled, strict=True))

    @property
    def accepted(self) -> float:
        """Share of draws that were an accepted draft."""
        return sum(self.kept)

    @property
    def verdict(self) -> str:
        """ "passes", "caught", "unseen" (another law, but these draws do not show it) or "false" (a false alarm)."""
        is_exact, seems_exact = self.distance < 1e-9, self.p_value > SMALLEST_P_VALUE
        return {(1, 1): "passes", (0, 0): "caught", (0, 1): "unseen", (1, 0): "false"}[is_exact, seems_exact]


@lru_cache(maxsize=256)
def outcome(p: Law, q: Law, rule: str, num_draws: int = NUM_DRAWS, seed: int = 0) -> Outcome:
    """Draw with the engine's rule and set the draws against p and against the rule's exact law."""
    target, draft = np.array(p), np.array(q)
    law = np.asarray(output_law(target, draft, rule), dtype=float)
    draws = accept_many(target, draft, rule, num_draws, seed)
    kept, refilled = (np.bincount(draws.tokens[mask], minlength=len(p)) for mask in (draws.accepted, ~draws.accepted))
    counts = kept + refilled
    return Outcome(
        rule=rule,
        law=tuple(law.tolist()),
        acceptance=float(acceptance_rate(target, draft, rule)),
        kept=tuple((kept / num_draws).tolist()),
        refilled=tuple((refilled / num_draws).tolist()),
        num_draws=num_draws,
        distance=float(total_variation(law, target)),
        p_value=float(chi_square(counts, target).p_value),
        own_p_value=float(chi_square(counts, law).p_value),
    )


def processed(law: Law, temperature: float, top_p: float) -> Law:
    """The law that is left after temperature and top-p."""
    params = SamplingParams(temperature=temperature, top_p=top_p)
    return tuple(np.asarray(processed_law(np.array(law), params)).tolist())


# ---- what the reader set ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """The two laws as typed and as used, temperature and top-p applied, their tokens' names, and the draws' seed."""

    typed: tuple[Law, Law]
    p: Law
    q: Law
    temperature: float
    top_p: float
    names: tuple[str, ...]
    seed: int

    @property
    def is_plain(self) -> bool:
        """Whether the laws are used as typed."""
        return self.temperature == 1 and self.top_p == 1

    def outcomes(self, rules: Sequence[str], num_draws: int = NUM_DRAWS) -> list[Outcome]:
        """What these rules do with these laws."""
        return [outcome(self.p, self.q, rule, num_draws, self.seed) for rule in rules]


def setting_of(texts: tuple[str, str], temperature: float, top_p: float, names: Sequence[str], seed: int) -> Setting:
    """Read both laws and apply temperature and top-p to both; letters where the names do not fit. Raises BadLaw."""
    typed = parse_pair(*texts)
    p, q = (processed(law, temperature, top_p) for law in typed)
    names = tuple(names) if len(names) == len(p) else tuple(LETTERS[: len(p)])
    return Setting(typed, p, q, temperature, top_p, names, seed)


# ---- laws of a model ----------------------------------------------------------------------------------------------


def lumped(event: Inspected, rest: str) -> tuple[list[str], Law, Law]:
    """Names, p and q of the likeliest tokens at one position of a run; all others together are one more, `rest`."""
    rows = sorted(zip(event.pieces, event.p, event.q, strict=True), key=lambda row: max(row[1:]), reverse=True)
    kept = [row for row in rows[:LARGEST_LUMP] if max(row[1:]) > 0]
    names = [piece for piece, _, _ in kept]
    p, q = ([row[i] for row in kept] for i in (1, 2))
    others = (max(0.0, 1 - sum(p)), max(0.0, 1 - sum(q)))
    if max(others) > 5e-4 or len(names) < 2:
        names, p, q = [*names, rest], [*p, others[0]], [*q, others[1]]
    return names, tuple(entry / sum(p) for entry in p), tuple(entry / sum(q) for entry in q)


def overlap_bounds(event: Inspected) -> tuple[float, float]:
    """The least and the most that p and q of a whole vocabulary can overlap, given their largest entries."""
    listed = sum(map(min, event.p, event.q))
    return listed, listed + max(0.0, min(1 - sum(event.p), 1 - sum(event.q)))


def visible(piece: str) -> str:
    """A token's text with leading spaces and line ends to be seen, as the stages show it."""
    bare = piece.lstrip(" ")
    return "␣" * (len(piece) - len(bare)) + bare.replace("\n", "↵").replace("\t", "⇥")
