"""Exact laws against the vectors, and 200,000 draws of every rule against the law that it promises."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from engine.errors import EngineError
from engine.laws import (
    EXACT_RULES,
    LOSSY_RULES,
    MULTI_RULES,
    RULES,
    WRONG_RULES,
    accept_many,
    acceptance_rate,
    output_law,
    processed_law,
    residual_law,
)
from engine.request import SamplingParams
from engine.sampling import draft_params, probabilities
from engine.statistics import chi_square, total_variation

THREE = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
FOUR = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])


def random_fractions(vocab, seed, zeros=0):
    generator = np.random.default_rng(seed)
    weights = [Fraction(int(weight)) for weight in generator.integers(1, 50, vocab)]
    for token in generator.permutation(vocab)[:zeros]:
        weights[token] = Fraction(0)
    return np.array(weights) / sum(weights)


# ---- exact laws ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "law", "rate"),
    [
        ("exact", [0.5, 0.3, 0.2], 0.7),
        ("point_mass", [0.5, 0.3, 0.2], 0.2),
        ("sampler_match", [0.5, 0.3, 0.2], 0.29),
        ("resample_from_p", [0.35, 0.39, 0.26], 0.7),
        ("absolute_residual", [0.35, 0.30, 0.35], 0.7),
        ("inverted_ratio", [0.2, 0.3, 0.5], 0.88),
        ("soft_q_greedy_draft", [0.6, 0.0, 0.4], 0.4),
        ("typical", [0.2, 0.3, 0.5], 1.0),
    ],
)
def test_laws_and_rates_for_three_tokens(rule, law, rate):
    np.testing.assert_allclose(output_law(*THREE, rule), law, atol=1e-12)
    assert acceptance_rate(*THREE, rule) == pytest.approx(rate, abs=1e-12)


@pytest.mark.parametrize(
    ("rule", "rate"),
    [("exact", 0.6), ("sampler_match", 0.2), ("point_mass", 0.1), ("multi_draft", 0.72),
     ("multi_draft_distinct", 0.7642857), ("top_drafts", 0.30)],
)  # fmt: skip
def test_rates_for_four_tokens(rule, rate):
    assert acceptance_rate(*FOUR, rule) == pytest.approx(rate, abs=1e-6)
    np.testing.assert_allclose(output_law(*FOUR, rule), FOUR[0], atol=1e-12)


def test_residuals():
    np.testing.assert_allclose(residual_law(*THREE), [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(residual_law(*FOUR), [0.75, 0.25, 0, 0], atol=1e-12)
    second = residual_law(residual_law(*FOUR), FOUR[1])
    np.testing.assert_allclose(second, [0.9286, 0.0714, 0, 0], atol=5e-5)
    np.testing.assert_array_equal(residual_law(FOUR[0], FOUR[0]), FOUR[0])


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("zeros", [0, 2])
def test_exact_rules_give_the_target_in_exact_arithmetic(rule, zeros):
    for vocab, seed in itertools.product((3, 5, 6), range(10)):
        p, q = random_fractions(vocab, seed, zeros), random_fractions(vocab, seed + 1000, zeros)
        for num_drafts in (1, 2, 3) if rule in MULTI_RULES else (1,):
            assert (output_law(p, q, rule, num_drafts) == p).all()
            rate = acceptance_rate(p, q, rule, num_drafts)
            assert isinstance(rate, Fraction | int)
            assert 0 <= rate <= 1


@pytest.mark.parametrize("rule", WRONG_RULES)
def test_wrong_rules_do_not_give_the_target_but_still_a_law(rule):
    for seed in range(20):
        p, q = random_fractions(5, seed), random_fractions(5, seed + 1000)
        law = output_law(p, q, rule)
        assert law.sum() == 1
        assert (law >= 0).all()
        assert (law != p).any()


@pytest.mark.parametrize("seed", range(20))
def test_acceptance_is_one_minus_the_total_variation_and_more_drafts_help(seed):
    p, q = random_fractions(6, seed), random_fractions(6, seed + 1000)
    exact = acceptance_rate(p, q, "exact")
    assert exact == 1 - total_variation(p, q)
    assert acceptance_rate(p, q, "sampler_match") <= exact
    assert acceptance_rate(p, q, "multi_draft", 1) == acceptance_rate(p, q, "multi_draft_distinct", 1) == exact
    assert acceptance_rate(p, q, "top_drafts", 1) == acceptance_rate(p, q, "point_mass") == p[np.argmax(q)]
    for rule in MULTI_RULES:
        rates = [acceptance_rate(p, q, rule, num_drafts) for num_drafts in (1, 2, 3, 4)]
        assert rates == sorted(rates)
    assert acceptance_rate(p, q, "top_drafts", 6) == 1


@pytest.mark.parametrize("rule", RULES)
def test_equal_and_disjoint_laws_are_no_trap(rule):
    p = np.array([0.4, 0.3, 0.2, 0.1])
    if rule != "soft_q_greedy_draft":
        np.testing.assert_allclose(output_law(p, p, rule), p, atol=1e-12)
    left, right = np.array([0.5, 0.5, 0.0, 0.0]), np.array([0.0, 0.0, 0.5, 0.5])
    law = output_law(left, right, rule)
    assert np.isfinite(law).all()
    if rule in EXACT_RULES:
        assert acceptance_rate(left, right, rule) == 0
        assert (law == left).all()


def test_what_is_no_rule_or_no_law_is_refused():
    for p, q, rule, code in [
        (*THREE, "wishful", "bad_rule"),
        ([0.5, 0.5], [1.0], "exact", "bad_law"),
        ([0.5, np.nan], [0.5, 0.5], "exact", "bad_law"),
        ([1.5, -0.5], [0.5, 0.5], "exact", "bad_law"),
        ([0.0, 0.0], [0.5, 0.5], "exact", "bad_law"),
    ]:
        for function in (output_law, acceptance_rate, lambda p, q, rule: accept_many(p, q, rule, 10, 0)):
            with pytest.raises(EngineError) as error:
                function(p, q, rule)
            assert error.value.code == code


def test_a_law_is_processed_as_the_logits_that_made_it():
    np.testing.assert_allclose(processed_law(THREE[0], SamplingParams(temperature=1.0)), THREE[0])
    squares = THREE[0] ** 2
    np.testing.assert_allclose(processed_law(THREE[0], SamplingParams(temperature=0.5)), squares / squares.sum())
    np.testing.assert_allclose(processed_law([0.0, 0.6, 0.4], SamplingParams(temperature=1.0, top_p=0.5)), [0, 1, 0])


# ---- many draws ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_draws_are_fixed_by_the_seed_and_consistent(rule):
    first, again, other = (accept_many(*FOUR, rule, 500, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert (first.tokens != other.tokens).any()
    assert first.tokens.shape == first.accepted.shape == (500,)
    assert first.drafted.shape == first.uniforms.shape == ((500, 2) if rule in MULTI_RULES else (500,))
    if rule in MULTI_RULES:
        last = np.where(first.drafted[:, 1] >= 0, first.drafted[:, 1], first.drafted[:, 0])
        assert (np.isnan(first.uniforms) == (first.drafted < 0)).all()
    else:
        last = first.drafted
    assert (first.tokens[first.accepted] == last[first.accepted]).all()


def test_a_whole_vocabulary_is_no_trouble():
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.full(49_152, 0.01)), generator.dirichlet(np.full(49_152, 0.01))
    draws = accept_many(p, q, "exact", 100_000, 0)
    assert draws.accepted.mean() == pytest.approx(acceptance_rate(p, q, "exact"), abs=0.005)
    assert chi_square(np.bincount(draws.tokens, minlength=49_152), p).p_value > 1e-4


SETTINGS = {
    "T=1": {},
    "T=0.3": {"temperature": 0.3},
    "T=0.7": {"temperature": 0.7},
    "T=1.5": {"temperature": 1.5},
    "top_k=5": {"top_k": 5},
    "top_p=0.9": {"top_p": 0.9},
    "min_p=0.1": {"min_p": 0.1},
    "all cuts": {"temperature": 0.8, "top_k": 6, "top_p": 0.95, "min_p": 0.02},
    "repetition": {"repetition_penalty": 1.4},
    "presence": {"presence_penalty": 0.8},
    "frequency": {"frequency_penalty": 0.5, "temperature": 0.7},
    "draft T=0.4": {"draft_temperature": 0.4},
    "draft T=2": {"temperature": 0.7, "draft_temperature": 2.0},
}
TARGET_LOGITS = torch.tensor([1.9, 1.4, 0.6, 0.2, -0.3, -0.8, -1.1, -2.6])
DRAFT_LOGITS = torch.tensor([0.1, 1.2, 1.6, -0.5, 0.9, -1.4, 0.3, -1.0])
HISTORY = [1, 3, 3, 1, 5, 1]


def laws_under(setting):
    """The target's and the draft's law of one sampler setting, as the engine makes them."""
    params = SamplingParams(**({"temperature": 1.0} | SETTINGS[setting]))
    p = probabilities(TARGET_LOGITS, params, HISTORY)
    q = probabilities(DRAFT_LOGITS, draft_params(params), HISTORY)
    return p.double().numpy(), q.double().numpy()


def counts_of(draws):
    return np.bincount(draws.tokens, minlength=8)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_exact_rules_give_the_target_in_200000_draws(rule, setting):
    p, q = laws_under(setting)
    draws = accept_many(p, q, rule, 200_000, seed=17)
    assert chi_square(counts_of(draws), p).p_value > 1e-4
    rate = acceptance_rate(p, q, rule)
    assert draws.accepted.mean() == pytest.approx(rate, abs=5 * 0.5 / np.sqrt(200_000))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", WRONG_RULES + LOSSY_RULES)
def test_typical_acceptance_and_the_wrong_rules_fail_the_same_test(rule, setting):
    p, q = laws_under(setting)
    draws = accept_many(p, q, rule, 200_000, seed=17)
    assert chi_square(counts_of(draws), p).p_value < 1e-4
    assert chi_square(counts_of(draws), output_law(p, q, rule)).p_value > 1e-4  # but they follow their own law
    assert total_variation(output_law(p, q, rule), p) > 0.01


@pytest.mark.parametrize("rule", MULTI_RULES)
@pytest.mark.parametrize("num_drafts", [1, 3, 5])
def test_any_number_of_drafts_gives_the_target(rule, num_drafts):
    p, q = laws_under("T=1")
    draws = accept_many(p, q, rule, 200_000, seed=5, num_drafts=num_drafts)
    assert chi_square(counts_of(draws), p).p_value > 1e-4
    rate = acceptance_rate(p, q, rule, num_drafts)
    assert draws.accepted.mean() == pytest.approx(rate, abs=5 * 0.5 / np.sqrt(200_000))
