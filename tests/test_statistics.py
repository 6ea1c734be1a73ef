"""χ² against SciPy and against its own promise; total variation by hand."""

from fractions import Fraction

import numpy as np
import pytest

from engine.errors import EngineError
from engine.statistics import chi_square, total_variation


def test_a_fair_die_by_hand():
    result = chi_square([8, 12, 10, 10, 9, 11], np.ones(6))
    assert result.statistic == pytest.approx((4 + 4 + 0 + 0 + 1 + 1) / 10)
    assert result.dof == 5


@pytest.mark.parametrize("seed", range(20))
def test_p_values_are_those_of_scipy(seed):
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(seed)
    law = generator.dirichlet(np.ones(8)) * 0.9 + 0.1 / 8
    counts = generator.multinomial(5000, generator.permuted(law) if seed % 4 == 0 else law)
    ours, theirs = chi_square(counts, law), stats.chisquare(counts, 5000 * law)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-300)


def test_rare_cells_are_pooled_until_five_are_expected():
    law = np.array([0.9, 0.05, 0.02, 0.02, 0.01])  # of 100: 90, 5, 2, 2, 1
    pooled = chi_square([88, 6, 3, 2, 1], law)
    assert pooled == chi_square([88, 6, 6], [0.9, 0.05, 0.05])
    assert pooled.dof == 2


def test_too_few_rare_ones_join_the_next_larger_cell():
    assert chi_square([88, 10, 2], [0.9, 0.08, 0.02]) == chi_square([88, 12], [0.9, 0.1])
    assert chi_square([1, 2], [0.5, 0.5]).p_value == 1.0
    assert chi_square([0, 0], [0.5, 0.5]).p_value == 1.0


def test_one_impossible_token_refutes_a_law():
    assert chi_square([99_999, 1], [1.0, 0.0]).p_value == 0.0
    assert chi_square([100_000, 0], [1.0, 0.0]).p_value == 1.0


def test_p_values_of_a_true_law_are_uniform():
    generator = np.random.default_rng(1)
    law = generator.dirichlet(np.ones(8))
    p_values = [chi_square(generator.multinomial(10_000, law), law).p_value for _ in range(2000)]
    deciles = np.bincount((np.array(p_values) * 10).astype(int).clip(max=9), minlength=10)
    assert chi_square(deciles, np.ones(10)).p_value > 1e-4


def test_counts_need_a_law_of_their_length():
    for counts, law in [([1, 2], [1.0]), ([1, 2], [0.0, 0.0]), ([[1]], [[1.0]])]:
        with pytest.raises(EngineError) as error:
            chi_square(counts, law)
        assert error.value.code == "bad_law"


def test_total_variation_by_hand():
    assert total_variation([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]) == pytest.approx(0.3)
    assert total_variation([1, 0], [0, 1]) == 1
    half = np.array([Fraction(1, 2), Fraction(1, 2)])
    assert total_variation(half, np.array([Fraction(1), Fraction(0)])) == Fraction(1, 2)
