"""Logits → law → token, against vectors worked by hand and against a slow version that sorts the whole vocabulary."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.request import SamplingParams
from engine.sampling import PURPOSES, draft_params, greedy_tokens, probabilities, sample, uniform
from engine.statistics import chi_square

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
DRAFT_LOGITS = torch.tensor([1.5, 1.2, 0.2, -1.0], dtype=torch.float64)


def law(logits=LOGITS, history=(), **settings):
    return probabilities(logits, SamplingParams(**({"temperature": 1.0} | settings)), history)


def slow_probabilities(logits, params):
    """The filters one after the other on the whole sorted vocabulary, in float64, one row (vocab,)."""
    if params.temperature < 1e-5:
        return np.eye(len(logits))[int(np.argmax(logits))]
    scaled = (logits - logits.max()) / params.temperature
    probs = torch.softmax(torch.from_numpy(scaled), -1).numpy()
    order = np.argsort(-probs, kind="stable")  # equals: lowest id first
    if params.top_k:
        order = order[: params.top_k]
    if params.top_p < 1:
        total = probs[order].sum(dtype=np.float64)
        before = np.concatenate([[0.0], np.cumsum(probs[order], dtype=np.float64)[:-1]])
        keep = before < params.top_p * total
        keep[0] = True
        order = order[keep]
    order = order[probs[order] >= params.min_p * probs.max()]
    kept = np.zeros_like(probs)
    kept[order] = probs[order]
    return kept / kept.sum()


# ---- vectors worked by hand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.6439, 0.2369, 0.0871, 0.0321]),
        ({"top_p": 0.9}, [0.6652, 0.2447, 0.0900, 0]),
        ({"top_p": 0.6}, [1, 0, 0, 0]),  # the first token crosses 0.6
        ({"top_p": 0.0}, [1, 0, 0, 0]),
        ({"top_p": 1.0}, [0.6439, 0.2369, 0.0871, 0.0321]),
        ({"top_k": 0}, [0.6439, 0.2369, 0.0871, 0.0321]),
        ({"top_k": 10**6}, [0.6439, 0.2369, 0.0871, 0.0321]),
        ({"top_k": 10**6, "top_p": 0.9}, [0.6652, 0.2447, 0.0900, 0]),
        ({"top_k": 2}, [0.7311, 0.2689, 0, 0]),
        ({"top_k": 2, "top_p": 0.7}, [1, 0, 0, 0]),  # top-p counts what top-k left: 0.7311 of 1
        ({"min_p": 0.1}, [0.6652, 0.2447, 0.0900, 0]),
        ({"min_p": 1.0}, [1, 0, 0, 0]),
        ({"temperature": 0.0}, [1, 0, 0, 0]),
        ({"temperature": 1e-6}, [1, 0, 0, 0]),
        ({"temperature": 1e-45}, [1, 0, 0, 0]),
        ({"temperature": 1e-5}, [1, 0, 0, 0]),
    ],
)
def test_settings_give_the_law_worked_out_by_hand(settings, expected):
    np.testing.assert_allclose(law(**settings).numpy(), expected, atol=5.1e-5)


def test_the_draft_has_its_own_law():
    np.testing.assert_allclose(law(DRAFT_LOGITS).numpy(), [0.4772, 0.3535, 0.1301, 0.0392], atol=5.1e-5)


@pytest.mark.parametrize(
    ("temperature", "alpha"), [(1, 0.8333), (0.2, 0.8233), (0.5, 0.7486), (1.5, 0.8890), (2, 0.9196), (0, 1.0)]
)
def test_acceptance_depends_on_the_temperature(temperature, alpha):
    p, q = law(temperature=temperature), law(DRAFT_LOGITS, temperature=temperature)
    assert torch.minimum(p, q).sum().item() == pytest.approx(alpha, abs=5.1e-5)


def test_the_nucleus_on_both_sides_or_on_the_target_alone():
    p, q = law(top_p=0.9), law(DRAFT_LOGITS, top_p=0.9)
    assert torch.minimum(p, q).sum().item() == pytest.approx(0.8314, abs=5.1e-5)
    assert torch.minimum(p, law(DRAFT_LOGITS)).sum().item() == pytest.approx(0.8120, abs=5.1e-5)


def test_the_draft_parameters_differ_in_the_temperature_only():
    params = SamplingParams(temperature=0.7, top_p=0.9, draft_temperature=0.2)
    assert draft_params(params) == replace(params, temperature=0.2)
    same = replace(params, draft_temperature=None)
    assert draft_params(same) is same


# ---- greedy and ties -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab", [3, 100, 50_000])
def test_ties_go_to_the_lowest_index(vocab):
    logits = torch.zeros(2, vocab)
    logits[1, 1:] = 1.0
    greedy = SamplingParams()
    assert greedy_tokens(logits, greedy).tolist() == [0, 1]
    assert probabilities(logits, greedy).argmax(-1).tolist() == [0, 1]
    for cut in ({"top_p": 0.0}, {"top_k": 1}):
        kept = law(logits, **cut)
        assert kept.argmax(-1).tolist() == [0, 1]
        assert kept.count_nonzero() == 2


def test_ties_across_the_cut_keep_the_lowest_ids():
    logits = torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0, 0.0])
    assert law(logits, top_k=4).nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert law(torch.zeros(10), top_p=0.45).nonzero().flatten().tolist() == [0, 1, 2, 3, 4]
    assert law(torch.zeros(10), min_p=1.0).count_nonzero() == 10


def test_a_greedy_law_is_one_hot_at_the_penalised_maximum():
    params = SamplingParams(temperature=0.0, repetition_penalty=3.0)
    one_hot = probabilities(LOGITS, params, history=[0])
    assert one_hot.tolist() == [0, 1, 0, 0]
    assert greedy_tokens(LOGITS, params, history=[0]).item() == 1


# ---- the whole vocabulary ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.5])
@pytest.mark.parametrize(
    "cuts",
    [{"top_p": 0.5}, {"top_p": 0.95}, {"top_p": 0.9999}, {"top_p": 1 - 1e-9}, {"top_k": 50}, {"top_k": 3000},
     {"min_p": 0.05}, {"top_k": 700, "top_p": 0.9, "min_p": 0.01}],
)  # fmt: skip
def test_a_real_vocabulary_gives_what_sorting_all_of_it_gives(spread, temperature, cuts):
    generator = torch.Generator().manual_seed(int(spread * 10) + int(temperature * 10))
    logits = torch.randn(2, 49_152, generator=generator) * spread
    logits[1] = (logits[1] * 4).round() / 4  # many ties
    params = SamplingParams(temperature=temperature, **cuts)
    ours = probabilities(logits, params).numpy()
    for row in range(2):
        slow = slow_probabilities(logits[row].numpy(), params)
        is_other = (ours[row] > 0) != (slow > 0)
        most = 1e-7 if cuts.get("top_p", 1.0) > 1 - 1e-7 else 0.0  # there fp32 does not tell who comes last
        assert np.maximum(ours[row], slow)[is_other].sum() <= most
        np.testing.assert_allclose(ours[row], slow, rtol=2e-5, atol=max(1e-12, most))


@settings(max_examples=300, deadline=None)
@given(
    logits=st.lists(st.one_of(st.integers(-4, 4), st.floats(-30, 30, width=32), st.just(-math.inf)), min_size=1),
    temperature=st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.0, 100.0]),
    top_k=st.integers(0, 12),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
def test_any_finite_logits_give_a_law_and_the_slow_one(logits, temperature, top_k, top_p, min_p):
    row = np.array(logits, dtype=np.float32)
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    if not np.isfinite(row).any():
        with pytest.raises(EngineError):
            probabilities(torch.from_numpy(row), params)
        return
    ours = probabilities(torch.from_numpy(row), params)
    assert ours.sum().item() == pytest.approx(1, abs=1e-5)
    assert (ours >= 0).all()
    np.testing.assert_allclose(ours.numpy(), slow_probabilities(row, params), atol=2e-6)


def test_shapes_are_kept_and_rows_do_not_know_each_other():
    logits = torch.randn(2, 3, 100, generator=torch.Generator().manual_seed(0))
    params = SamplingParams(temperature=0.9, top_p=0.8, top_k=40, min_p=0.01)
    together = probabilities(logits, params)
    assert together.shape == logits.shape
    for first in range(2):
        for second in range(3):
            assert torch.equal(together[first, second], probabilities(logits[first, second], params))


def test_the_logits_are_not_changed_and_half_precision_is_widened():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    law(logits, history=[1, 2], repetition_penalty=1.5, top_p=0.5, min_p=0.1)
    assert torch.equal(logits, before)
    assert law(logits.half()).dtype == law(logits.bfloat16()).dtype == torch.float32
    assert law(logits.double()).dtype == torch.float64


# ---- penalties -----------------------------------------------------------------------------------------------------


def test_repetition_divides_positive_logits_and_multiplies_negative_ones():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
    ours = law(logits, history=[0, 3, 3, 2], repetition_penalty=2.0)
    assert torch.allclose(ours, torch.tensor([1.0, 1.0, 0.0, -2.0], dtype=torch.float64).softmax(-1))


def test_presence_counts_once_and_frequency_each_time():
    ours = law(history=[1, 1, 1, 0], presence_penalty=0.5, frequency_penalty=0.25)
    expected = torch.tensor([2 - 0.5 - 0.25, 1 - 0.5 - 0.75, 0, -1], dtype=torch.float64)
    assert torch.allclose(ours, expected.softmax(-1))


def test_penalties_come_before_the_temperature():
    ours = law(history=[0], presence_penalty=1.0, temperature=0.5)
    assert torch.allclose(ours, (torch.tensor([1.0, 1.0, 0.0, -1.0], dtype=torch.float64) / 0.5).softmax(-1))


def test_all_penalties_agree_with_transformers():
    processors = pytest.importorskip("transformers.generation.logits_process")
    logits = torch.randn(1, 60, generator=torch.Generator().manual_seed(3))
    history = [5, 5, 9, 59, 0]
    theirs = processors.RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([history]), logits.clone())
    theirs = processors.TemperatureLogitsWarper(0.7)(None, theirs)
    theirs = processors.TopKLogitsWarper(20)(None, theirs)
    theirs = processors.TopPLogitsWarper(0.8)(None, theirs)
    theirs = processors.MinPLogitsWarper(0.05)(None, theirs)
    ours = law(logits, history, repetition_penalty=1.3, temperature=0.7, top_k=20, top_p=0.8, min_p=0.05)
    assert torch.allclose(ours, theirs.softmax(-1), atol=1e-6)


def test_speculative_rows_have_each_their_own_history():
    rows = LOGITS.repeat(3, 1)
    histories = [[0], [0, 1], [0, 1, 1]]
    settings = {"repetition_penalty": 1.5, "frequency_penalty": 0.3}
    together = law(rows, histories, **settings)
    for row, history in enumerate(histories):
        assert torch.equal(together[row], law(LOGITS, history, **settings))
    assert not torch.allclose(together[1], together[2])
    assert torch.equal(law(rows, [[], [0], []], **settings)[0], law())


def test_history_may_be_arrays_and_may_name_tokens_that_a_small_draft_lacks():
    expected = law(history=[0, 2], repetition_penalty=2.0)
    assert torch.equal(law(history=np.array([0, 2, 4000]), repetition_penalty=2.0), expected)
    assert torch.equal(law(LOGITS[None], torch.tensor([[0, 2]]), repetition_penalty=2.0)[0], expected)


def test_as_many_histories_as_rows_or_one():
    with pytest.raises(EngineError) as error:
        law(LOGITS.repeat(3, 1), [[0], [1]], repetition_penalty=2.0)
    assert error.value.code == "bad_history"


# ---- bad logits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [[math.nan, 0, 0], [-math.inf] * 3, [math.inf, 0, 0], [0, 0, math.nan]])
def test_logits_without_a_law_are_refused_and_the_row_is_named(bad, temperature):
    logits = torch.tensor([[0.0, 1.0, 2.0], bad, [0.0, 1.0, 2.0]])
    for refuse in (probabilities, greedy_tokens):
        with pytest.raises(EngineError) as error:
            refuse(logits, SamplingParams(temperature=temperature))
        assert error.value.code == "bad_logits"
        assert error.value.values == {"row": 1}


def test_forbidden_tokens_are_fine_as_long_as_one_is_left():
    assert law(torch.tensor([-math.inf, 3.0, -math.inf])).tolist() == [0, 1, 0]


# ---- one draw ------------------------------------------------------------------------------------------------------


def test_a_draw_takes_the_first_token_at_which_the_sum_exceeds_the_number():
    probs = torch.tensor([0.25, 0.0, 0.25, 0.5, 0.0])
    draws = [sample(probs, number) for number in (0.0, 0.2499, 0.25, 0.4999, 0.5, 1 - 2**-53)]
    assert draws == [0, 0, 2, 2, 3, 3]
    assert sample(np.array([0.25, 0.75]), 0.3) == 1


def test_a_token_of_probability_zero_is_never_drawn():
    zero_first = torch.tensor([0.0, 0.0, 1e-30, 1.0, 0.0])
    assert sample(zero_first, 0.0) == 2
    assert sample(zero_first, 1 - 2**-53) == 3
    for mass in (1e-40, 0.1, 0.3, 3.0, 7.7e37):
        assert sample(torch.tensor([0.0, mass, 0.0]), 1 - 2**-53) == 1


def test_a_law_without_mass_is_refused():
    for bad in (torch.zeros(3), torch.tensor([0.5, math.nan])):
        with pytest.raises(EngineError) as error:
            sample(bad, 0.5)
        assert error.value.code == "bad_logits"


def test_draws_follow_the_law():
    probs = law(torch.tensor([2.0, 1.0, 0.0, -1.0, -math.inf, 0.5]))
    counts = np.bincount([sample(probs, uniform(7, i, "target")) for i in range(20_000)], minlength=6)
    assert counts[4] == 0
    assert chi_square(counts, probs.numpy()).p_value > 1e-4


# ---- random numbers ------------------------------------------------------------------------------------------------


def test_a_random_number_depends_on_its_four_arguments_and_on_nothing_else():
    first = uniform(5, 17, "accept", 2)
    uniform(1, 2, "draft")
    assert uniform(5, 17, "accept", 2) == first
    assert uniform(6, 17, "accept", 2) != first
    assert uniform(5, 18, "accept", 2) != first
    assert uniform(5, 17, "draft", 2) != first
    assert uniform(5, 17, "accept") != first


def test_random_numbers_are_fixed_for_good():
    """Recorded once: a change would change the text of every recorded run."""
    assert uniform(0, 0, "draft") == 0.1296456182997474
    assert uniform(-1, 3, "accept", 1) == 0.5923477880307151
    assert uniform(2**63 - 1, 10**6, "target") == 0.13073172468372818


def test_all_streams_are_distinct():
    numbers = {
        uniform(seed, position, purpose, index)
        for seed in (-(2**63), -1, 0, 1, 2, 2**63 - 1)
        for position in range(200)
        for purpose in PURPOSES
        for index in range(8)
    }
    assert len(numbers) == 6 * 200 * len(PURPOSES) * 8
    assert all(0 <= number < 1 for number in numbers)


@pytest.mark.parametrize("walk", ["seed", "position", "index"])
@pytest.mark.parametrize("purpose", PURPOSES)
def test_random_numbers_are_uniform_and_neighbours_are_independent(walk, purpose):
    """χ² on 64 cells, and on 16 × 16 cells of neighbouring pairs, along each counter."""
    n = 20_000
    makers = {
        "seed": lambda i: uniform(i, 11, purpose),
        "position": lambda i: uniform(42, i, purpose),
        "index": lambda i: uniform(42, 11, purpose, i),
    }
    numbers = np.array([makers[walk](i) for i in range(n)])
    cells = np.bincount((numbers * 64).astype(int), minlength=64)
    assert chi_square(cells, np.ones(64)).p_value > 1e-4
    coarse = (numbers * 16).astype(int)
    for lag in (1, 2, 7):
        pairs = np.bincount(coarse[:-lag] * 16 + coarse[lag:], minlength=256)
        assert chi_square(pairs, np.ones(256)).p_value > 1e-4
        assert abs(np.corrcoef(numbers[:-lag], numbers[lag:])[0, 1]) < 5 / math.sqrt(n)


def test_streams_of_different_purposes_are_independent():
    n = 20_000
    columns = np.array([[uniform(3, i, purpose) for purpose in PURPOSES] for i in range(n)])
    correlations = np.corrcoef(columns.T) - np.eye(len(PURPOSES))
    assert np.abs(correlations).max() < 5 / math.sqrt(n)


def test_low_bits_are_random_too():
    bits = np.array([int(uniform(9, i, "accept") * 2**53) & 0xFF for i in range(20_000)])
    assert chi_square(np.bincount(bits, minlength=256), np.ones(256)).p_value > 1e-4


# ---- what has no law -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("logits", "penalty", "history"), [([1e38, 0.0], 0.01, [0]), ([-1e38, -1e38], 100.0, [0, 1])])
def test_logits_that_a_penalty_drives_out_of_range_are_refused(logits, penalty, history):
    params = SamplingParams(temperature=1.0, repetition_penalty=penalty)
    with pytest.raises(EngineError) as caught:
        probabilities(torch.tensor(logits), params, history)
    assert caught.value.code == "bad_logits"


def test_a_negative_token_in_the_history_is_refused():
    with pytest.raises(EngineError) as caught:
        probabilities(torch.zeros(4), SamplingParams(presence_penalty=1.0), [2, -1])
    assert caught.value.code == "bad_history"
