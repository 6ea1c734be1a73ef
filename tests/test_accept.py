"""The acceptance rules on tensors: vectors worked by hand, known traps, and whole rounds against the target."""

import itertools
import math

import numpy as np
import pytest
import torch

from engine.accept import (
    accept_chain,
    accept_greedy,
    accept_sampler_match,
    accept_tree,
    accept_typical,
    typical_threshold,
)
from engine.errors import EngineError
from engine.laws import accept_many
from engine.sampling import sample, uniform
from engine.statistics import chi_square
from engine.verdict import DraftTree

P, Q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
LARGEST = 1 - 2**-53


def rows(*laws):
    return torch.tensor(laws, dtype=torch.float64)


def one_draft(p, q, token, coin, draw=0.0):
    """One position; the bonus law would give token 0 only if `draw` is small, so tests look at num_accepted."""
    return accept_chain(rows(p, p), None if q is None else rows(q), [token], [coin], lambda _: draw)


# ---- one position --------------------------------------------------------------------------------------------------


def test_a_draft_is_accepted_below_its_ratio_and_refused_at_it():
    assert one_draft(P, Q, 2, 0.3999).num_accepted == 1
    assert one_draft([0.5, 0.25, 0.25], [0.25, 0.25, 0.5], 2, 0.5).num_accepted == 0  # strict: u·q = p is a refusal
    assert one_draft(P, Q, 0, LARGEST).num_accepted == 1


def test_the_residual_makes_up_for_a_refusal():
    verdict = one_draft(P, Q, 2, 0.9, draw=LARGEST)
    assert (verdict.num_accepted, verdict.next_token, verdict.tokens, verdict.path) == (0, 0, (0,), ())
    assert verdict.residual.tolist() == [1, 0, 0]
    (trial,) = verdict.trials
    assert (trial.node, trial.token, trial.p, trial.q, trial.u, trial.is_accepted) == (0, 2, 0.2, 0.5, 0.9, False)
    four = one_draft([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], 3, 0.9)
    np.testing.assert_allclose(four.residual, [0.75, 0.25, 0, 0], atol=1e-6)


@pytest.mark.parametrize("tiny", [1e-9, 1e-45, 1e-300])
def test_a_tiny_probability_is_accepted_when_both_sides_give_it(tiny):
    law = [tiny, 1 - tiny]
    assert one_draft(law, law, 0, LARGEST).num_accepted == 1


def test_equal_laws_accept_everything_in_single_precision_too():
    generator = torch.Generator().manual_seed(0)
    law = torch.rand(5, 1000, generator=generator).softmax(-1)
    tokens = torch.randint(1000, (4,), generator=generator)
    verdict = accept_chain(law, law[:4], tokens, torch.full((4,), LARGEST, dtype=torch.float64), generator)
    assert verdict.num_accepted == 4
    assert verdict.tokens[:4] == tuple(tokens.tolist())


def test_an_empty_residual_falls_back_to_the_target():
    """p below q by rounding only, so that a coin next to 1 refuses although nothing is left over."""
    p = [0.5 - 1e-15, 0.5 - 1e-15]
    verdict = one_draft(p, [0.5, 0.5], 0, LARGEST, draw=0.9)
    assert verdict.num_accepted == 0
    assert verdict.next_token == 1
    assert verdict.residual.tolist() == p


def test_a_token_without_target_probability_is_refused_even_by_the_smallest_coin():
    verdict = one_draft([1.0, 0.0], [0.0, 1.0], 1, 0.0)
    assert (verdict.num_accepted, verdict.next_token) == (0, 0)
    assert one_draft([1.0, 0.0], None, 1, 0.0).num_accepted == 0


def test_a_point_mass_is_accepted_with_the_targets_probability():
    assert one_draft(P, None, 0, 0.4999).num_accepted == 1
    verdict = one_draft(P, None, 0, 0.5, draw=0.59)
    assert (verdict.num_accepted, verdict.next_token) == (0, 1)
    np.testing.assert_allclose(verdict.residual, [0, 0.6, 0.4], atol=1e-12)
    one_hot = one_draft(P, [1.0, 0.0, 0.0], 0, 0.5, draw=0.59)
    assert torch.equal(one_hot.residual, verdict.residual)


def test_broken_laws_are_refused_and_never_drawn_from():
    with pytest.raises(EngineError) as error:
        one_draft([math.nan, 0.5], [0.5, 0.5], 0, 0.5)
    assert error.value.code == "bad_logits"


# ---- chains --------------------------------------------------------------------------------------------------------


def test_all_accepted_earns_a_bonus_from_the_last_law():
    verdict = accept_chain(rows([1, 0, 0], [0, 1, 0], [0, 0, 1]), None, [0, 1], [0.9, 0.9], lambda n: n / 10)
    assert (verdict.num_accepted, verdict.tokens, verdict.path, verdict.residual) == (2, (0, 1, 2), (0, 1), None)


def test_the_first_refusal_ends_the_chain():
    laws = rows([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0])
    verdict = accept_chain(laws, None, [0, 2, 2], [0.0, 0.0, 0.0], lambda n: 0.5)
    assert (verdict.num_accepted, verdict.tokens) == (1, (0, 1))
    assert [trial.node for trial in verdict.trials] == [0, 1]


def test_without_drafts_the_target_speaks():
    for none in (None, torch.zeros(0, 3)):
        verdict = accept_chain(rows([0, 1, 0]), none, [], [], torch.Generator().manual_seed(0))
        assert (verdict.num_accepted, verdict.tokens, verdict.trials) == (0, (1,), ())


def test_the_generator_may_be_a_generator_nothing_or_a_function_of_the_number_accepted():
    laws = rows([1, 0, 0], P)
    same = [accept_chain(laws, None, [0], [0.5], torch.Generator().manual_seed(4)).tokens for _ in range(2)]
    assert same[0] == same[1]
    torch.manual_seed(4)
    assert accept_chain(laws, None, [0], [0.5], None).tokens == same[0]
    seen = []
    accept_chain(laws, None, [0], [0.5], lambda num_accepted: seen.append(num_accepted) or 0.5)
    assert seen == [1]


def test_tensors_arrays_and_lists_do_alike():
    laws, drafts = rows(P, P, P), rows(Q, Q)
    verdicts = [
        accept_chain(laws, drafts, as_type([2, 2]), as_type([0.1, 0.9]), lambda _: 0.5)
        for as_type in (list, np.array, torch.tensor)
    ]
    assert verdicts[0].tokens == verdicts[1].tokens == verdicts[2].tokens == (2, 0)
    assert all(type(token) is int for verdict in verdicts for token in verdict.tokens)
    assert accept_chain(laws.float(), drafts.float(), [2, 2], [0.1, 0.9], lambda _: 0.5).tokens == (2, 0)


@pytest.mark.parametrize(
    ("target", "draft", "tokens", "coins"),
    [((2, 3), (2, 3), 2, 2), ((3, 3), (1, 3), 2, 2), ((3, 3), (2, 4), 2, 2), ((3, 3), (2, 3), 2, 1)],
)
def test_shapes_that_do_not_fit_are_refused(target, draft, tokens, coins):
    with pytest.raises(EngineError) as error:
        accept_chain(torch.ones(target) / 3, torch.ones(draft) / 3, [0] * tokens, [0.5] * coins, None)
    assert error.value.code == "bad_shape"


def test_a_token_outside_the_vocabulary_is_refused():
    with pytest.raises(EngineError) as error:
        accept_chain(rows(P, P), rows(Q), [3], [0.5], None)
    assert error.value.code == "bad_shape"


@pytest.mark.parametrize("rule", ["exact", "point_mass"])
def test_the_vectorised_rule_decides_as_the_tensor_rule_does(rule):
    draws = accept_many(P, Q, rule, 2000, seed=3)
    for token, coin, is_accepted in zip(draws.drafted, draws.uniforms, draws.accepted, strict=True):
        assert one_draft(P, Q if rule == "exact" else None, int(token), coin).num_accepted == int(is_accepted)


# ---- whole rounds of a small Markov model --------------------------------------------------------------------------

VOCAB = 3
TARGET = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.3, 0.7, 0.0]], dtype=torch.float64)
DRAFT = torch.tensor([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.1, 0.6, 0.3]], dtype=torch.float64)
JOINT = np.array([
    TARGET[0, a] * TARGET[a, b] * TARGET[b, c] for a, b, c in itertools.product(range(VOCAB), repeat=3)
])  # fmt: skip


def resampling(seed, position):
    return lambda num_accepted: uniform(seed, position + num_accepted, "resample")


def drawn_drafts(last, seed, position):
    """The last token and three drafts; the law of a place is that of the token before it."""
    tokens = [last]
    for depth in range(3):
        tokens.append(sample(DRAFT[tokens[-1]], uniform(seed, position + depth, "draft")))
    return tokens


def chain_round(last, seed, position):
    tokens = drawn_drafts(last, seed, position)
    coins = [uniform(seed, position + depth, "accept") for depth in range(3)]
    return accept_chain(TARGET[tokens], DRAFT[tokens[:-1]], tokens[1:], coins, resampling(seed, position)).tokens


def greedy_draft_round(last, seed, position):
    tokens = [last]
    for _ in range(3):
        tokens.append(int(DRAFT[tokens[-1]].argmax()))
    coins = [uniform(seed, position + depth, "accept") for depth in range(3)]
    return accept_chain(TARGET[tokens], None, tokens[1:], coins, resampling(seed, position)).tokens


def matching_round(last, seed, position):
    tokens = drawn_drafts(last, seed, position)
    coins = [uniform(seed, position + depth, "target") for depth in range(4)]
    return accept_sampler_match(TARGET[tokens], tokens[1:], coins).tokens


def typical_round(last, seed, position):
    tokens = drawn_drafts(last, seed, position)
    return accept_typical(TARGET[tokens], tokens[1:], resampling(seed, position)).tokens


def tree_round(last, seed, position, children):
    """A 2 × 2 tree: two children of the root, two of each."""
    tokens, parents, laws = [], [], {}
    for parent, before in [(-1, last), (0, None), (1, None)]:
        before = tokens[parent] if before is None else before
        rest = DRAFT[before].clone()
        laws[parent + 1] = DRAFT[before]
        for sibling in range(2):
            coin = uniform(seed, position + (parent >= 0), "draft", sibling + 2 * (parent + 1))
            tokens.append(int(rest.argmax()) if children == "given" else sample(rest, coin))
            parents.append(parent)
            if children != "iid":
                rest[tokens[-1]] = 0.0
    tree = DraftTree(tokens, parents, None if children == "given" else laws, children)
    coins = [uniform(seed, position + (parent >= 0), "accept", node) for node, parent in enumerate(parents)]
    return accept_tree(tree, TARGET[[last, *tokens]], coins, resampling(seed, position)).tokens


def joint_test(one_round, *more, num_runs=5000):
    """χ² of the first three tokens, however many rounds they take."""
    counts = np.zeros(VOCAB**3)
    for seed in range(num_runs):
        tokens = [0]
        while len(tokens) < 4:
            tokens += one_round(tokens[-1], seed, len(tokens), *more)
        counts[tokens[1] * 9 + tokens[2] * 3 + tokens[3]] += 1
    return chi_square(counts, JOINT)


def test_chains_give_the_joint_law_of_the_target():
    result = joint_test(chain_round)
    assert result.dof > 10
    assert result.p_value > 1e-4


def test_greedy_drafts_give_the_joint_law_of_the_target():
    assert joint_test(greedy_draft_round).p_value > 1e-4


def test_sampler_match_gives_the_joint_law_of_the_target():
    assert joint_test(matching_round).p_value > 1e-4


@pytest.mark.parametrize("children", ["iid", "distinct", "given"])
def test_trees_give_the_joint_law_of_the_target(children):
    assert joint_test(tree_round, children).p_value > 1e-4


def test_typical_acceptance_does_not_give_the_joint_law_of_the_target():
    assert joint_test(typical_round).p_value < 1e-4


def test_drafts_from_another_law_than_stated_do_not_give_the_joint_law():
    def lying_round(last, seed, position):
        tokens = [last, int(DRAFT[last].argmax())]  # greedy, but judged by the soft law
        coins = [uniform(seed, position, "accept")]
        return accept_chain(TARGET[tokens], DRAFT[tokens[:1]], tokens[1:], coins, resampling(seed, position)).tokens

    assert joint_test(lying_round).p_value < 1e-4


def test_sampler_match_with_the_coins_of_plain_decoding_gives_its_text():
    for seed in range(200):
        tokens, plain = [0], [0]
        while len(tokens) < 13:
            tokens += matching_round(tokens[-1], seed, len(tokens))
        for position in range(1, len(tokens)):
            plain.append(sample(TARGET[plain[-1]], uniform(seed, position, "target")))
        assert tokens == plain


# ---- trees ---------------------------------------------------------------------------------------------------------


def test_a_tree_without_branches_is_a_chain():
    generator = torch.Generator().manual_seed(1)
    for seed in range(300):
        laws = torch.rand(5, 4, generator=generator, dtype=torch.float64).pow(3)
        laws = laws / laws.sum(-1, keepdim=True)
        drafts = laws.flip(-1)[:4]
        tokens = [sample(draft, uniform(seed, i, "draft")) for i, draft in enumerate(drafts)]
        coins = [uniform(seed, i, "accept") for i in range(4)]
        for probs, children in ((drafts, "iid"), (drafts, "distinct"), (None, "given")):
            tree = DraftTree(tokens, [-1, 0, 1, 2], probs, children)
            ours = accept_tree(tree, laws, coins, lambda n: (2 * n + 1) / 10)
            chain = accept_chain(laws, probs, tokens, coins, lambda n: (2 * n + 1) / 10)
            assert (ours.tokens, ours.trials, ours.path) == (chain.tokens, chain.trials, chain.path)


def two_siblings(children, tokens, coins, draw=0.0):
    p, q = rows([0.4, 0.3, 0.2, 0.1])[0], rows([0.1, 0.2, 0.3, 0.4])[0]
    tree = DraftTree(tokens, [-1, -1], None if children == "given" else {0: q}, children)
    return accept_tree(tree, [p] * 3, coins, lambda _: draw)


def test_what_two_refused_siblings_leave_over():
    verdict = two_siblings("iid", [3, 3], [0.9, 0.9])
    np.testing.assert_allclose(verdict.residual, [0.65 / 0.7, 0.05 / 0.7, 0, 0], atol=1e-6)
    assert [trial.p for trial in verdict.trials] == pytest.approx([0.1, 0.0])
    verdict = two_siblings("distinct", [3, 2], [0.9, 0.9])
    rest = np.maximum(np.array([0.75, 0.25, 0, 0]) - np.array([1, 2, 3, 0]) / 6, 0)
    np.testing.assert_allclose(verdict.residual, rest / rest.sum(), atol=1e-6)
    assert verdict.trials[1].q == pytest.approx(0.5)
    verdict = two_siblings("given", [3, 2], [0.9, 0.9])
    np.testing.assert_allclose(verdict.residual, [4 / 7, 3 / 7, 0, 0], atol=1e-6)
    assert verdict.trials[1].p == pytest.approx(0.2 / 0.9)


@pytest.mark.parametrize("children", ["iid", "distinct", "given"])
def test_siblings_without_target_probability_are_refused_even_by_the_smallest_coin(children):
    q = None if children == "given" else {0: rows([0.0, 0.5, 0.5])[0]}
    tree = DraftTree([1, 2], [-1, -1], q, children)
    verdict = accept_tree(tree, rows(*[[1, 0, 0]] * 3), [0.0, 0.0], lambda _: 0.0)
    assert (verdict.num_accepted, verdict.tokens) == (0, (0,))


@pytest.mark.parametrize(("children", "rate"), [("iid", 0.72), ("distinct", 107 / 140), ("given", 0.30)])
def test_acceptance_of_two_siblings_summed_over_all_drafts(children, rate):
    """Exact: every pair of drafts with its probability, and for each the widths of the accepting coins."""
    q = np.array([0.1, 0.2, 0.3, 0.4])
    total = 0.0
    for first, second in itertools.product(range(4), repeat=2):
        if children == "iid":
            chance = q[first] * q[second]
        elif children == "distinct":
            chance = 0.0 if first == second else q[first] * q[second] / (1 - q[first])
        else:
            chance = float((first, second) == (3, 2))
        if chance:
            trials = two_siblings(children, [first, second], [LARGEST, LARGEST]).trials
            ratios = [min(1.0, trial.p / trial.q) for trial in trials] + [0.0]
            total += chance * (ratios[0] + (1 - ratios[0]) * ratios[1])
    assert total == pytest.approx(rate, abs=1e-6)


def test_only_rows_on_the_path_are_read():
    class Lazy(dict):
        def __missing__(self, row):
            raise AssertionError(f"row {row} was read")

    laws = Lazy({0: rows([0, 1, 0])[0], 2: rows([0, 0, 1])[0]})
    verdict = accept_tree(DraftTree([0, 1, 2], [-1, -1, 0]), laws, [0.5] * 3, lambda _: 0.5)
    assert (verdict.tokens, verdict.path) == ((1, 2), (1,))
    assert accept_sampler_match(laws, [0, 1, 2], [0.5] * 3, [-1, -1, 0]).tokens == (1, 2)


@pytest.mark.parametrize(
    "bad",
    [
        {"parents": [0, 0]},
        {"parents": [-2, 0]},
        {"parents": [-1]},
        {"parents": [1, -1]},
        {"parents": [-1, 0], "children": "iid"},
        {"parents": [-1, 0], "draft_probs": {0: rows(Q)[0]}},
        {"parents": [-1, 0], "children": "twins"},
    ],
)
def test_what_is_no_tree_is_refused(bad):
    with pytest.raises(EngineError) as error:
        DraftTree([1, 2], **bad)
    assert error.value.code == "bad_tree"


# ---- greedy --------------------------------------------------------------------------------------------------------


def test_greedy_accepts_the_longest_agreeing_start():
    assert accept_greedy([7, 8, 9], [7, 8]).tokens == (7, 8, 9)
    assert accept_greedy([7, 8, 9], [7, 5]).tokens == (7, 8)
    assert accept_greedy([7, 8, 9], [5, 8]).tokens == (7,)
    assert accept_greedy(torch.tensor([7]), []).tokens == (7,)
    assert all(trial.u is None for trial in accept_greedy([7, 8, 9], [7, 5]).trials)


def test_greedy_follows_the_agreeing_branch_of_a_tree():
    tokens, parents = [4, 5, 6, 7, 8], [-1, -1, 0, 1, 1]
    verdict = accept_greedy([5, 0, 8, 0, 0, 9], tokens, parents)
    assert (verdict.tokens, verdict.path, verdict.num_accepted) == ((5, 8, 9), (1, 4), 2)
    assert [trial.node for trial in verdict.trials] == [0, 1, 3, 4]
    assert accept_greedy([6, 0, 8, 0, 0, 9], tokens, parents).tokens == (6,)


# ---- typical -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "threshold"),
    [([0.97, 0.01, 0.01, 0.01], 0.09), ([0.25] * 4, 0.075), ([0.01] * 100, 0.003), ([1.0, 0.0], 0.09)],
)
def test_the_threshold_falls_with_the_entropy(law, threshold):
    assert typical_threshold(torch.tensor(law, dtype=torch.float64)) == pytest.approx(threshold, abs=1e-6)


def test_typical_acceptance_takes_what_is_above_the_threshold():
    laws = rows([0.25] * 4, [0.97, 0.01, 0.01, 0.01], [0.0, 1.0, 0.0, 0.0])
    assert accept_typical(laws, [3, 0], lambda _: 0.5).tokens == (3, 0, 1)
    verdict = accept_typical(laws, [3, 1], lambda _: 0.5)
    assert (verdict.tokens, verdict.residual) == ((3, 0), None)
    assert [trial.is_accepted for trial in verdict.trials] == [True, False]


def test_typical_acceptance_takes_the_longest_branch_and_then_the_first():
    wide = [0.25] * 4
    laws = rows(wide, wide, wide, wide, wide, [0, 1, 0, 0], [0, 0, 1, 0])
    verdict = accept_typical(laws, [0, 1, 2, 3, 0, 1], lambda _: 0.5, [-1, -1, 0, 1, 3, 3])
    assert verdict.path == (1, 3, 4)
    assert verdict.tokens == (1, 3, 0, 1)
    accepted = [trial.node for trial in verdict.trials if trial.is_accepted]
    assert accepted == [1, 3, 4]


@pytest.mark.parametrize("where", ["p", "q", "u"])
def test_a_draft_is_never_judged_by_nan(where):
    p, q, u = torch.full((2, 2), 0.5), torch.full((1, 2), 0.5), [0.5]
    if where == "u":
        u = [float("nan")]
    else:
        {"p": p, "q": q}[where][0, 0] = float("nan")
    with pytest.raises(EngineError) as caught:
        accept_chain(p, q, [0], u, lambda accepted: 0.5)
    assert caught.value.code == "bad_logits"
