"""The formulas against the papers' tables, recomputed by hand, and against each other."""

from types import SimpleNamespace

import pytest

from engine.accounting import (
    RoundCosts,
    attention_intensity,
    blocks_needed,
    break_even_context,
    decode_floor_seconds,
    expected_accepted,
    expected_tokens,
    expected_tokens_by_position,
    explain_speedup,
    flops_per_token,
    kv_bytes_per_token,
    layer_flops_per_token,
    matmul_intensity,
    mla_attention_intensity,
    mla_bytes_per_token,
    model_bytes,
    num_parameters,
    operations_factor,
    optimal_draft_length,
    paging_waste,
    prefill_flops,
    reservation_waste,
    reusable_tokens,
    ridge,
    sparse_tokens,
    speedup,
    speedup_with_verify,
    tokens_distribution,
    utilisation,
)
from engine.errors import EngineError

KIB, GIB = 2**10, 2**30


def shape(layers, hidden, inner, heads, kv_heads, head_dim, vocab, **more):
    switches = {"tie_embeddings": False, "qkv_bias": False, "qk_norm": False} | more
    return SimpleNamespace(
        num_layers=layers, hidden_size=hidden, intermediate_size=inner, num_heads=heads, num_kv_heads=kv_heads,
        head_dim=head_dim, vocab_size=vocab, **switches,
    )  # fmt: skip


SMOLLM2 = shape(30, 576, 1536, 9, 3, 64, 49152, tie_embeddings=True)
LLAMA3_8B = shape(32, 4096, 14336, 32, 8, 128, 128256)


# ---- bytes and FLOPs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "kv_heads", "kib"),
    [(32, 32, 512), (40, 40, 800), (80, 64, 2560), (80, 8, 320), (32, 8, 128), (126, 8, 504), (80, 1, 40)],
)
def test_kv_bytes_per_token_of_known_models_with_head_size_128(layers, kv_heads, kib):
    assert kv_bytes_per_token(layers, kv_heads, 128) == kib * KIB


def test_kv_bytes_of_the_small_model_and_in_other_precisions():
    assert kv_bytes_per_token(30, 3, 64) == 22.5 * KIB
    assert kv_bytes_per_token(80, 8, 128, 1) * 4096 == 0.625 * GIB
    assert kv_bytes_per_token(80, 64, 128, 0.5) * 4096 == 2.5 * GIB


def test_opt_13b_takes_about_1_6_gib_for_2048_tokens_and_12_gib_hold_15_728():
    per_token = kv_bytes_per_token(40, 40, 128)
    assert per_token * 2048 / GIB == pytest.approx(1.6, abs=0.05)
    assert int(12 * GIB / per_token) == 15_728


def test_latent_attention_caches_one_latent_per_layer():
    assert mla_bytes_per_token(60, 512, 64) == 67.5 * KIB
    assert mla_bytes_per_token(61, 512, 64) == 68.625 * KIB
    assert 1 - mla_bytes_per_token(60, 512, 64, 0.75) / kv_bytes_per_token(95, 8, 128) == pytest.approx(
        0.93338, abs=1e-5
    )
    assert mla_bytes_per_token(1, 512, 64) / kv_bytes_per_token(1, 1, 128) == 2.25


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (SMOLLM2, 134_515_008),
        (LLAMA3_8B, 8_030_261_248),
        (shape(32, 4096, 11008, 32, 32, 128, 32000), 6_738_415_616),
        (shape(24, 896, 4864, 14, 2, 64, 151936, tie_embeddings=True, qkv_bias=True), 494_032_768),
        (shape(28, 1024, 3072, 16, 8, 128, 151936, tie_embeddings=True, qk_norm=True), 596_049_920),
    ],
)
def test_parameters_of_known_models_are_counted_to_the_last_one(config, parameters):
    assert num_parameters(config) == parameters


def test_decode_flops_are_two_per_matrix_weight_and_grow_with_the_context():
    weights = num_parameters(LLAMA3_8B) - 128256 * 4096 - (32 * 2 + 1) * 4096  # the embedding is looked up, norms aside
    assert flops_per_token(LLAMA3_8B, 0) == 2 * weights
    grown = flops_per_token(LLAMA3_8B, 1000) - flops_per_token(LLAMA3_8B, 0)
    assert grown == 32 * 4 * 32 * 128 * 1000
    assert layer_flops_per_token(LLAMA3_8B, 7) - layer_flops_per_token(LLAMA3_8B, 6) == 4 * 4096


def test_prefill_is_the_sum_of_its_tokens_with_one_head():
    head = 2 * 576 * 49152
    tokens = sum(flops_per_token(SMOLLM2, context) - head for context in range(1, 61))
    assert prefill_flops(SMOLLM2, 60) == tokens + head


def test_rooflines():
    assert ridge(989e12, 3.35e12) == pytest.approx(295, abs=0.5)
    assert matmul_intensity(1) == 1
    assert matmul_intensity(5, 4) == 2.5
    assert attention_intensity(32, 32) == 1
    assert attention_intensity(64, 8) == 8
    assert attention_intensity(64, 1) == 64
    assert attention_intensity(9, 3, num_rows=5) == 15
    assert mla_attention_intensity(128, 512, 64) == pytest.approx(241.8, abs=0.05)


def test_an_8b_model_in_16_bits_needs_3_46_ms_per_token_at_4k_on_an_h200():
    weights, cache = model_bytes(num_parameters(LLAMA3_8B), 2), 4096 * kv_bytes_per_token(32, 8, 128)
    assert decode_floor_seconds(weights, cache, 4.8e12) == pytest.approx(3.46e-3, abs=0.5e-5)


# ---- paged memory --------------------------------------------------------------------------------------------------


def test_blocks_are_counted_upwards():
    assert [blocks_needed(tokens, 16) for tokens in (0, 1, 15, 16, 17, 32, 33)] == [0, 1, 1, 1, 2, 2, 3]


def test_waste_of_pages_and_of_reservations():
    assert paging_waste([7], 4) == pytest.approx(1 / 8)
    assert paging_waste([16, 32], 16) == 0.0 == paging_waste([], 16)
    assert reservation_waste([7 + 1 + 2], 2048) == pytest.approx(2038 / 2048)
    assert utilisation(6, 10) == 0.6
    assert utilisation(6, 8) == 0.75
    assert utilisation(0, 0) == 1.0


@pytest.mark.parametrize(("length", "hit"), [(0, 0), (1, 0), (15, 0), (16, 0), (17, 16), (32, 16), (33, 32)])
def test_an_identical_prompt_reuses_whole_blocks_but_never_its_last_token(length, hit):
    assert reusable_tokens(length, length, 16) == hit == max(0, length - 1) // 16 * 16


def test_prompts_that_share_twenty_tokens_reuse_one_block():
    assert reusable_tokens(20, 100, 16) == 16


# ---- what a round yields -------------------------------------------------------------------------------------------

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10)
EXPECTED = {
    0.0: (1, 1, 1, 1, 1, 1, 1, 1, 1),
    0.3: (1.3, 1.39, 1.417, 1.4251, 1.4275, 1.4283, 1.4285, 1.4285, 1.4286),
    0.5: (1.5, 1.75, 1.875, 1.9375, 1.9688, 1.9844, 1.9922, 1.9961, 1.9990),
    0.6: (1.6, 1.96, 2.176, 2.3056, 2.3834, 2.4300, 2.4580, 2.4748, 2.4909),
    0.7: (1.7, 2.19, 2.533, 2.7731, 2.9412, 3.0588, 3.1412, 3.1988, 3.2674),
    0.8: (1.8, 2.44, 2.952, 3.3616, 3.6893, 3.9514, 4.1611, 4.3289, 4.5705),
    0.9: (1.9, 2.71, 3.439, 4.0951, 4.6856, 5.2170, 5.6953, 6.1258, 6.8619),
    0.95: (1.95, 2.8525, 3.7099, 4.5244, 5.2982, 6.0333, 6.7316, 7.3950, 8.6240),
    1.0: (2, 3, 4, 5, 6, 7, 8, 9, 11),
}


@pytest.mark.parametrize("alpha", EXPECTED)
def test_expected_tokens_of_a_round(alpha):
    for length, value in zip(LENGTHS, EXPECTED[alpha], strict=True):
        assert expected_tokens(alpha, length) == pytest.approx(value, abs=5.1e-5)
        assert expected_accepted(alpha, length) == pytest.approx(value - 1, abs=5.1e-5)
        if alpha < 1:
            closed = (1 - alpha ** (length + 1)) / (1 - alpha)
            assert expected_tokens(alpha, length) == pytest.approx(closed, rel=1e-14)
    assert expected_tokens(alpha, 0) == 1


@pytest.mark.parametrize("alpha", EXPECTED)
def test_the_distribution_of_tokens_sums_to_one_and_has_the_expectation_as_its_mean(alpha):
    for length in (0, *LENGTHS):
        law = tokens_distribution(alpha, length)
        assert len(law) == length + 1
        assert sum(law) == pytest.approx(1, abs=1e-14)
        mean = sum((accepted + 1) * chance for accepted, chance in enumerate(law))
        assert mean == pytest.approx(expected_tokens(alpha, length), rel=1e-14)


def test_every_round_yields_one_more_than_it_accepts_not_alpha_to_the_k_more():
    assert expected_accepted(0.8, 4) + 0.8**4 == pytest.approx(2.7712)  # the common slip
    assert expected_tokens(0.8, 4) == pytest.approx(3.3616)


def test_measured_acceptances_by_position_give_the_same_as_equal_ones():
    assert expected_tokens_by_position([0.7] * 4) == expected_tokens(0.7, 4)
    assert expected_tokens_by_position([0.5, 0.0, 1.0]) == 1.5
    assert expected_tokens_by_position([]) == 1


OPTIMA = {  # c: (K*, speed-up) for each α
    0.01: ((3, 1.376), (5, 1.875), (7, 2.297), (9, 2.972), (14, 4.232), (24, 7.486), (40, 12.542)),
    0.02: ((3, 1.337), (4, 1.794), (6, 2.170), (8, 2.758), (11, 3.817), (19, 6.365), (31, 9.954)),
    0.05: ((2, 1.264), (3, 1.630), (4, 1.921), (6, 2.353), (8, 3.092), (13, 4.674), (21, 6.600)),
    0.1: ((1, 1.182), (2, 1.458), (3, 1.674), (4, 1.981), (6, 2.470), (10, 3.431), (15, 4.479)),
    0.2: ((1, 1.083), (1, 1.250), (2, 1.400), (3, 1.583), (4, 1.868), (7, 2.373), (10, 2.875)),
    0.3: ((0, 1.000), (1, 1.154), (1, 1.231), (2, 1.369), (3, 1.554), (5, 1.874), (8, 2.175)),
    0.5: ((0, 1.000), (0, 1.000), (1, 1.067), (1, 1.133), (2, 1.220), (3, 1.376), (5, 1.514)),
}


@pytest.mark.parametrize("cost", OPTIMA)
def test_the_best_draft_length_and_its_speedup(cost):
    for alpha, (length, gain) in zip((0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), OPTIMA[cost], strict=True):
        assert optimal_draft_length(alpha, cost) == length
        assert speedup(alpha, length, cost) == pytest.approx(gain, abs=5.1e-4)


def test_drafting_pays_exactly_when_alpha_is_above_c():
    grid = [step / 40 for step in range(41)]
    for alpha in grid:
        for cost in grid:
            assert (optimal_draft_length(alpha, cost) == 0) == (alpha <= cost)
            if alpha > cost:
                best = speedup(alpha, optimal_draft_length(alpha, cost), cost)
                assert best >= (1 + alpha) / (1 + cost)


def test_limits_of_the_speedup():
    assert speedup(1.0, 4, 0.1) == pytest.approx(5 / 1.4)
    assert speedup(0.0, 4, 0.1) == pytest.approx(1 / 1.4)
    assert speedup(1.0, 4, 1.0) == pytest.approx(1.0)  # the target as its own draft
    assert speedup(0.7, 0, 0.3) == 1.0
    assert speedup_with_verify(0.8, 4, 0.05, 1.3) == pytest.approx(3.3616 / 1.5)
    assert speedup_with_verify(0.85, 1, 0.0, 1.04) == pytest.approx(1.85 / 1.04)


@pytest.mark.parametrize(
    ("alpha", "length", "operations", "speed"),
    [(0.6, 2, 1.53, 1.96), (0.7, 3, 1.58, 2.53), (0.8, 2, 1.23, 2.44), (0.8, 5, 1.63, 3.69), (0.9, 2, 1.11, 2.71),
     (0.9, 10, 1.60, 6.86)],
)  # fmt: skip
def test_table_1_of_leviathan(alpha, length, operations, speed):
    assert operations_factor(alpha, length) == pytest.approx(operations, abs=0.0051)
    assert speedup(alpha, length, 0.0) == pytest.approx(speed, abs=0.0051)


@pytest.mark.parametrize(
    ("alpha", "cost", "length", "predicted"),
    [(0.75, 0.02, 7, 3.2), (0.80, 0.04, 7, 3.3), (0.82, 0.11, 7, 2.5), (0.62, 0.02, 7, 2.3), (0.68, 0.04, 5, 2.4),
     (0.71, 0.11, 3, 1.93), (0.65, 0.02, 5, 2.4), (0.73, 0.04, 5, 2.6), (0.74, 0.11, 3, 2.0), (0.53, 0.02, 5, 1.9),
     (0.55, 0.04, 3, 1.8), (0.56, 0.11, 3, 1.54)],
)  # fmt: skip
def test_predictions_of_leviathan_for_t5(alpha, cost, length, predicted):
    assert speedup(alpha, length, cost) == pytest.approx(predicted, abs=0.055)  # α and c are rounded in print


def test_bigram_draft_of_leviathan_and_the_step_of_chen():
    assert speedup(0.2, 3, 0.0) == pytest.approx(1.25, abs=0.005)
    step = 14.1 * (4 * 1.8 / 14.1 + 1)
    assert step == pytest.approx(21.3, abs=0.01)
    assert step / 7.52 == pytest.approx(2.8, abs=0.05)
    assert step / 5.73 == pytest.approx(3.7, abs=0.05)


@pytest.mark.parametrize("bad", [(1.1, 2), (-0.1, 2), (float("nan"), 2), (0.5, -1), (0.5, 1.5)])
def test_impossible_numbers_are_refused(bad):
    with pytest.raises(EngineError) as error:
        expected_tokens(*bad)
    assert error.value.code == "bad_number"


# ---- the bill ------------------------------------------------------------------------------------------------------


def test_the_bill_agrees_with_the_formula():
    costs = RoundCosts(plain=0.010, draft=4 * 0.0005, verify=0.012, other=0.001)
    account = explain_speedup(costs, tau=expected_tokens(0.8, 4), draft_length=4)
    assert account.predicted == pytest.approx(speedup_with_verify(0.8, 4, 0.05, 1.3))
    assert (account.draft_cost, account.verify_cost, account.other_cost) == pytest.approx((0.2, 1.2, 0.1))


@pytest.mark.parametrize(
    ("costs", "tau", "length", "worst"),
    [
        (RoundCosts(plain=1, draft=0.0, verify=1.3), 1.1, 4, "acceptance"),
        (RoundCosts(plain=1, draft=3.7, verify=1.3), 4.1, 4, "draft"),
        (RoundCosts(plain=1, draft=4.0, verify=1.3), 5.0, 4, "draft"),  # the target drafts for itself
        (RoundCosts(plain=1, draft=0.0, verify=2.5), 1.9, 1, "verify"),
        (RoundCosts(plain=1, draft=0.1, verify=1.0, other=1.5), 1.9, 1, "other"),
    ],
)
def test_a_slow_run_names_the_term_that_lost_it(costs, tau, length, worst):
    account = explain_speedup(costs, tau, length)
    assert account.predicted < 1
    assert account.worst == worst
    assert account.cured[worst] == max(account.cured.values()) > account.predicted


def test_curing_an_ideal_term_changes_nothing():
    account = explain_speedup(RoundCosts(plain=1, draft=0.0, verify=1.0), tau=5.0, draft_length=4)
    assert set(account.cured.values()) == {account.predicted} == {5.0}


def test_a_bill_without_times_is_refused():
    with pytest.raises(EngineError) as error:
        explain_speedup(RoundCosts(plain=0.0, draft=0.0, verify=0.0), tau=1.0, draft_length=4)
    assert error.value.code == "bad_number"


@pytest.mark.parametrize(
    ("context", "window", "block_size", "tokens"),
    [(8000, 256, 16, 272), (8001, 256, 16, 273), (8015, 256, 16, 287), (8016, 256, 16, 272), (272, 256, 16, 272),
     (288, 256, 16, 272), (30, 6, 4, 10), (5, 256, 16, 5), (9, 2, 1, 6)],
)  # fmt: skip
def test_a_sparse_view_by_hand(context, window, block_size, tokens):
    """30 tokens, blocks of 4, window 6: block 0, and tokens 24 … 29."""
    assert sparse_tokens(context, 4, window, block_size) == tokens


def test_the_context_from_which_rounds_win_by_hand():
    """A step of 10 + n/100 ms, a round of 40 + n/100: with τ = 3, 30 + 3n/100 > 40 + n/100 from n = 500 on."""
    assert break_even_context((10, 0.01), (40, 0.01), 3) == pytest.approx(500)
    assert break_even_context((10, 0.01), (25, 0.01), 3) == 0
    assert break_even_context((10, 0.01), (40, 0.05), 3) == float("inf")
    assert break_even_context((10, 0.0), (25, 0.0), 3) == 0
    assert break_even_context((10, 0.0), (35, 0.0), 3) == float("inf")
