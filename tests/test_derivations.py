"""Tests of the derivations: every line holds, a wrong line is caught, and the laws agree with worked examples."""

import random
from fractions import Fraction

import numpy as np
import pytest
from sympy import Max, Rational, Symbol, limit

from engine import output_law
from lessons import derivations, proof, rounds
from lessons.proof import SIZES, Line, check

LINES = [line for lines in derivations.DERIVATIONS.values() for line in lines]
P = (Rational(1, 2), Rational(3, 10), Rational(1, 5))
Q = (Rational(1, 5), Rational(3, 10), Rational(1, 2))
LAWS = {
    "resample_from_p": derivations.law_resample_from_p,
    "absolute_residual": derivations.law_absolute_residual,
    "inverted_ratio": derivations.law_inverted_ratio,
    "soft_q_greedy_draft": derivations.law_soft_q_greedy_draft,
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.key)
def test_every_line_is_proved_and_holds_at_every_rational_point(line):
    assert check(line, num_points=25, seed=7).is_proved, line.key


def test_no_two_lines_share_a_key():
    assert len({line.key for line in LINES}) == len(LINES)


def test_a_residual_divided_by_alpha_instead_of_one_minus_alpha_is_not_proved_and_disagrees():
    def divided_by_alpha(size):
        p, q = derivations.laws(size)
        return [(sum(derivations.missing(p, q)) / derivations.alpha_of(p, q), Rational(1))]

    found = check(Line("wrong", "", divided_by_alpha, SIZES))
    assert found.num_proved == 0
    assert found.num_disagreeing > 0.8 * found.num_points
    assert not found.is_proved


def test_a_line_that_is_true_at_ties_only_is_caught():
    wrong = Line(
        "wrong", "", lambda n: [(Max(a - b, 0), Rational(0)) for a, b in zip(*derivations.laws(n), strict=True)], SIZES
    )
    assert not check(wrong).is_proved


@pytest.mark.parametrize("rule", LAWS)
def test_no_wrong_rule_can_be_proved_exact(rule):
    claim = Line(
        "wrong", "", lambda n: list(zip(LAWS[rule](*derivations.laws(n)), derivations.laws(n)[0], strict=True))
    )
    found = check(claim)
    assert not found.is_proved
    assert found.num_disagreeing > 0


def test_the_residual_of_equal_laws_has_no_mass_so_the_rule_must_fall_back_to_p():
    assert sum(derivations.missing(P, P)) == 0


@pytest.mark.parametrize(
    ("rule", "law"),
    [
        ("resample_from_p", ("0.35", "0.39", "0.26")),
        ("absolute_residual", ("0.35", "0.30", "0.35")),
        ("inverted_ratio", ("0.2", "0.3", "0.5")),
        ("soft_q_greedy_draft", ("0.6", "0", "0.4")),
    ],
)
def test_the_wrong_laws_of_the_worked_example(rule, law):
    assert LAWS[rule](P, Q) == tuple(Rational(entry) for entry in law)


def test_alpha_and_residual_of_the_worked_examples():
    assert derivations.alpha_of(P, Q) == Rational(7, 10)
    assert derivations.residual_of(P, Q) == (1, 0, 0)
    p, q = (tuple(Rational(n, 10) for n in order) for order in ((4, 3, 2, 1), (1, 2, 3, 4)))
    assert derivations.alpha_of(p, q) == Rational(6, 10)
    assert derivations.residual_of(p, q) == (Rational(3, 4), Rational(1, 4), 0, 0)


@pytest.mark.parametrize("rule", LAWS)
def test_the_derived_laws_are_the_engines_laws_in_exact_fractions(rule):
    generator = random.Random(3)
    for _ in range(20):
        point = proof.random_point(4, generator)
        p, q = ([point[f"{letter}{i}"] for i in range(1, 5)] for letter in "pq")
        q.sort()  # the symbolic law takes the draft's most probable token to be the last
        if q[-1] == q[-2] or p == q:
            continue
        engine_law = output_law(np.array(p, dtype=object), np.array(q, dtype=object), rule)
        rational = [tuple(Rational(x.numerator, x.denominator) for x in law) for law in (p, q)]
        assert [Fraction(int(x.p), int(x.q)) for x in LAWS[rule](*rational)] == list(engine_law)


@pytest.mark.parametrize(
    ("alpha", "length", "tokens"),
    [(0.3, 4, 1.4251), (0.5, 1, 1.5), (0.6, 4, 2.3056), (0.7, 4, 2.7731), (0.8, 4, 3.3616), (0.9, 10, 6.8619)],
)
def test_expected_tokens_of_the_table(alpha, length, tokens):
    assert float(rounds.expected_tokens(length).subs(proof.ALPHA, alpha)) == pytest.approx(tokens, abs=5e-5)


def test_a_useless_draft_costs_and_does_not_merely_bring_nothing():
    at_zero = limit(rounds.speedup(4), proof.ALPHA, 0).subs(proof.COST, Rational(1, 10))
    assert float(at_zero) == pytest.approx(0.714, abs=1e-3)


def test_drafting_pays_exactly_when_alpha_exceeds_the_cost_of_a_draft():
    speedups = [rounds.speedup(length) for length in range(1, 6)]
    for alpha in range(1, 20):
        for cost in range(1, 20):
            point = {"alpha": Fraction(alpha, 20), "c": Fraction(cost, 20)}
            assert (max(proof.value(one, point) for one in speedups) > 1) == (alpha > cost)


def test_the_exact_value_does_not_depend_on_sympys_own_arithmetic():
    x = Symbol("alpha", positive=True)
    assert proof.value(Max(x**2 - Rational(1, 3), 0) + abs(x - 1) / 3, {"alpha": Fraction(3, 4)}) == Fraction(5, 16)


def test_a_line_can_be_shown_as_it_was_checked():
    line = derivations.RESIDUAL[1]
    assert r"\max" in proof.as_checked(line, 2)
    assert "p_{1}" in proof.as_checked(line, 2)
