"""Trees that grow (EAGLE-2, Medusa): values against training's own arithmetic, what is cut, what a pass is worth."""

import itertools

import pytest
import torch

from engine import Request, SamplingParams
from engine.draft_lm import LmShape
from engine.drafters import worth
from engine.drafters.grown import BRANCHES, MOST_NODES, Grown
from engine.events import Drafted, Sampled, Verified
from engine.head import read
from engine.medusa import MedusaShape
from engine.train import heads
from engine.train.loop import Plan, examine, train
from tests.test_head import class_of
from tests.test_train import lessons, model  # noqa: F401
from tests.toys import toy_engine, toy_lm, toy_medusa, toy_pupil

PROMPT = [1, 2, 3, 1, 2, 7, 4]


def grown_in(name: str, length: int, num_new: int = 14, **config):
    """The proposals of one run, with the text that each followed, and the features of that text."""
    engine, seen = toy_engine(num_blocks=128, **config), []
    make = engine._admission._extra_drafters[name]

    def watched():
        drafter = make()
        propose = drafter.propose

        def proposed(sequence, num_tokens, table):
            proposal = propose(sequence, num_tokens, table)
            seen.append((list(sequence.token_ids), proposal))
            return proposal

        drafter.propose = proposed
        return drafter

    engine._admission._extra_drafters[name] = watched
    events = list(engine.run([Request(PROMPT, SamplingParams(num_new, draft_length=length, ignore_eos=True), name)]))
    text = PROMPT + [event.token_id for event in events if isinstance(event, Sampled)]
    other = toy_engine(num_blocks=128)
    list(other.run([Request(text, SamplingParams(2, draft_length=1), name)]))
    return engine, seen, other._admission._extra_drafters[name]().features[0].read(range(len(text)))


def path_to(candidates, node: int) -> list[int]:
    """The tokens from the root to a node."""
    return [] if node < 0 else [*path_to(candidates, candidates.parents[node]), candidates.token_ids[node]]


@pytest.fixture
def eager(monkeypatch):
    """Every level is worth a step, and every node a row."""
    monkeypatch.setattr("engine.drafters.eagle_tree.is_worth_a_step", lambda *_: True)
    monkeypatch.setattr("engine.drafters.grown.best_size", lambda values, spent: len(values))


@pytest.mark.parametrize("length", [1, 2, 4])
@torch.no_grad()
def test_the_values_of_an_eagle_tree_are_products_of_the_heads_confidences(length, eager):
    engine, seen, features = grown_in("eagle2", length)
    pupil, checked = toy_pupil(engine.model, (4,)), 0
    for text, proposal in seen[:4]:
        found = proposal.candidates
        for node in range(len(found.token_ids)):
            chain, value = list(text), 1.0
            for step, token in enumerate(path_to(found, node)):
                felt = torch.zeros(64, features.shape[1])
                felt[: len(text) - 1] = features[: len(text) - 1]
                x = pupil._steps(class_of(felt, [*chain, *[0] * (64 - len(chain))]), step + 1)[step][0, len(chain) - 1]
                value *= float(torch.softmax(pupil._logits(x), -1)[token])
                chain.append(token)
            assert found.values[node] == pytest.approx(value, rel=1e-3)
            checked += 1
    assert checked > 10


@torch.no_grad()
def test_the_values_of_a_medusa_tree_are_products_of_the_heads_own_guesses(eager):
    engine, seen, features = grown_in("medusa", 3)
    pupil = toy_medusa(engine.model)
    for text, proposal in seen:
        found = proposal.candidates
        states = pupil._states(class_of(features[: len(text)], text[: len(features)]))
        laws = [torch.softmax(pupil._logits(x)[0, len(text) - 2], -1) for x in states]
        for node, value in enumerate(found.values):
            pairs = zip(laws, path_to(found, node), strict=False)
            assert value == pytest.approx(
                torch.tensor([float(law[token]) for law, token in pairs]).prod().item(), rel=1e-3
            )
    assert len(seen) > 4


@pytest.mark.parametrize("name", ["eagle2", "medusa"])
def test_the_best_nodes_of_each_level_are_expanded_and_the_best_of_all_are_verified(name, eager):
    _, seen, _ = grown_in(name, 3)
    for _, proposal in seen:
        found = proposal.candidates
        values, depth = found.values, [len(path_to(found, node)) for node in range(len(found.values))]
        for level in range(1, max(depth)):
            here = [node for node in range(len(values)) if depth[node] == level]
            best = sorted(sorted(here, key=lambda node: -values[node])[:BRANCHES])
            assert [node for node in found.expanded if depth[node] == level] == best
        assert len(found.ranked) == len(proposal.token_ids) <= MOST_NODES
        assert (
            sorted((values[node] for node in found.ranked), reverse=True)
            == sorted(values, reverse=True)[: len(found.ranked)]
        )
        kept = set(found.ranked)
        assert all(found.parents[node] in kept | {-1} for node in kept)
        paths = {tuple(path_to(found, node)) for node in kept}
        verified = set()
        for node, token in enumerate(proposal.token_ids):
            tokens, at = [token], proposal.parents[node]
            while at >= 0:
                tokens, at = [proposal.token_ids[at], *tokens], proposal.parents[at]
            verified.add(tuple(tokens))
        assert verified == paths


def test_trees_have_more_nodes_than_levels_and_are_verified_in_one_pass():
    engine = toy_engine(num_blocks=128)
    events = list(engine.run([Request(PROMPT, SamplingParams(30, draft_length=3, ignore_eos=True), "eagle2")]))
    drafted = [event for event in events if isinstance(event, Drafted)]
    verified = [event for event in events if isinstance(event, Verified)]
    assert max(len(event.token_ids) for event in drafted) > 3
    assert [event.num_rows for event in verified] == [1 + len(event.token_ids) for event in drafted]
    assert engine.stats()["blocks_used"] == 0


@pytest.mark.parametrize("num_blocks", [6, 7, 8, 12])
def test_a_tree_that_does_not_fit_into_the_pool_costs_no_token(num_blocks):
    """Slots that were taken for a tree that cannot be had are given back, and the head forgets them."""
    params = SamplingParams(12, draft_length=4, ignore_eos=True)
    alone = toy_engine().generate(PROMPT, params).token_ids
    engine = toy_engine(num_blocks=num_blocks)
    requests = [
        Request(PROMPT, params, name, id=str(number)) for number, name in enumerate(("eagle2", "medusa", "eagle2"))
    ]
    events = list(engine.run(requests))
    for request in requests:
        said = tuple(
            event.token_id for event in events if isinstance(event, Sampled) and event.request_id == request.id
        )
        assert said == alone
    assert engine.stats()["blocks_used"] == 0


# ---- what a pass is worth -------------------------------------------------------------------------------------------


def test_passes_between_the_measured_ones_lie_on_straight_lines():
    assert [worth.time_of_pass(rows) for rows in worth.ROWS] == pytest.approx(list(worth.TIMES))
    assert worth.time_of_pass(12) == pytest.approx((worth.TIMES[-1] + worth.TIMES[-2]) / 2)
    times = [worth.time_of_pass(rows) for rows in range(1, 40)]
    assert all(later >= before for before, later in itertools.pairwise(times))


@pytest.mark.parametrize("values", [[], [0.9], [0.01], [0.5, 0.4, 0.3, 0.2, 0.1], [0.6] * 15, [0.02] * 15])
def test_the_best_size_is_the_one_with_the_most_tokens_per_time(values):
    def rate(size: int) -> float:
        return (1 + sum(values[:size])) / (0.2 + worth.time_of_pass(1 + size))

    size = worth.best_size(values, 0.2)
    assert rate(size) == max(map(rate, range(len(values) + 1)))


def test_no_more_is_proposed_than_rows_that_cost_nothing_where_no_draft_is_likely():
    grown = Grown()
    grown.add([1, 2, 3, 4], [-1], [0.001] * 4)
    assert len(grown.proposal(0.1).token_ids) == sum(worth.time_of_pass(rows) == 1.0 for rows in (2, 3, 4))
    assert Grown().proposal(0.1).token_ids == ()


def test_another_level_is_drafted_only_where_its_parents_are_likely():
    assert worth.is_worth_a_step([0.9, 0.05], 0.95, 0.13)
    assert not worth.is_worth_a_step([0.1, 0.05], 0.15, 0.13)


# ---- in training ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [toy_medusa, toy_lm])
def test_what_drafts_without_a_layer_of_the_target_learns_too(model, lessons, make, tmp_path):  # noqa: F811
    pupil = make(model)
    before = examine(pupil, lessons, 2)[0]
    train(pupil, lessons, Plan(passes=60, size=8, rate=3e-3, warmup=5), tmp_path / "toy.pt")
    assert examine(pupil, lessons, 2)[0] > before + 0.05


@pytest.mark.parametrize(
    ("name", "make", "shape"), [("medusa", toy_medusa, MedusaShape), ("draft_lm", toy_lm, LmShape)]
)
def test_files_of_the_other_kinds_are_read_as_they_were_written(name, make, shape, tmp_path):
    pupil = make(toy_engine().model)
    heads.save(name, pupil, "f" * 64, tmp_path)
    found = read(tmp_path / f"{name}.safetensors", shape)
    assert (found.kind, found.target, found.shape) == (name, "f" * 64, pupil.shape)
    for key, value in pupil.named_parameters():
        assert torch.equal(found.tensors[key], value.detach().half())
