"""SpecInfer: each node's law is the model's own after its path, others' chains are merged in, and sampling is exact."""

import numpy as np
import pytest
import torch

from engine import Request, SamplingParams
from engine.accept import accept_tree
from engine.drafters.specinfer import EXPANSION, OTHERS_AT_MOST
from engine.events import Drafted, Inspected, Sampled, Verified
from engine.sampling import draft_params, probabilities
from engine.statistics import chi_square
from engine.train.features import TOP
from engine.train.loop import Class
from engine.verdict import DraftTree
from tests.toys import VOCAB_SIZE, toy_engine, toy_lm

PROMPT = [1, 2, 3, 1, 2, 4, 1, 2, 3, 5, 1]


def proposals(params: SamplingParams, **config: object):
    """What was proposed in a run, each with the text that it followed; and the run's events and engine."""
    engine, seen = toy_engine(num_blocks=128, **config), []
    make = engine._admission._extra_drafters["specinfer"]

    def watched():
        drafter = make()
        propose = drafter.propose

        def proposed(sequence, num_tokens, table):
            proposal = propose(sequence, num_tokens, table)
            seen.append((list(sequence.token_ids), num_tokens, proposal))
            return proposal

        drafter.propose = proposed
        return drafter

    engine._admission._extra_drafters["specinfer"] = watched
    events = list(engine.run([Request(PROMPT, params, "specinfer")]))
    return engine, events, seen


def own_logits(engine, token_ids: list[int]) -> torch.Tensor:
    """The tiny model's logits after a text, by training's own arithmetic: (vocab,)."""
    nothing = torch.zeros(1, len(token_ids), TOP)
    batch = Class(torch.tensor([token_ids]), nothing[..., :1], nothing.long(), nothing, nothing[..., 0] > 0)
    wide = torch.full((VOCAB_SIZE,), float("-inf"))
    with torch.no_grad():
        wide[:6] = toy_lm(engine.model)._logits(batch)[0, -1]
    return wide


def path_to(proposal, node: int) -> list[int]:
    return [] if node < 0 else [*path_to(proposal, proposal.parents[node]), proposal.token_ids[node]]


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
def test_each_node_says_the_law_that_it_was_drawn_from(block_size):
    """Whatever block the last token lies in: rows behind it go on in scratch blocks."""
    params = SamplingParams(14, temperature=0.9, draft_length=3, seed=5, ignore_eos=True)
    engine, _, seen = proposals(params, block_size=block_size)
    checked = 0
    for text, _, proposal in seen:
        assert proposal.children == "each"
        for node, law in enumerate(proposal.laws):
            if float(law.max()) == 1.0:  # another drafter's, certain of it
                assert int(law.argmax()) == proposal.token_ids[node]
                continue
            before = text + path_to(proposal, proposal.parents[node])
            own = probabilities(own_logits(engine, before)[None], draft_params(params), before)[0]
            assert torch.allclose(law, own.float(), atol=2e-3)
            checked += 1
    assert checked > 30


def test_the_tree_has_the_expansions_children_and_the_others_chain():
    params = SamplingParams(20, temperature=1.0, draft_length=3, ignore_eos=True)
    _, _, seen = proposals(params)
    sizes = np.cumprod(EXPANSION)
    for _, depth, proposal in seen:
        own = [node for node, law in enumerate(proposal.laws) if float(law.max()) < 1.0]
        levels = [len(path_to(proposal, node)) for node in own]
        assert [levels.count(level + 1) for level in range(min(depth, len(sizes)))] == list(sizes[: min(depth, 3)])
        assert len(proposal.token_ids) - len(own) <= min(depth, OTHERS_AT_MOST)
    assert any(len(proposal.token_ids) > sizes.sum() for *_, proposal in seen)


def test_a_greedy_draft_has_no_equal_siblings_and_greedy_text_is_that_of_plain_decoding():
    params = SamplingParams(40, draft_length=3, ignore_eos=True)
    engine, events, seen = proposals(params)
    for _, _, proposal in seen:
        siblings = list(zip(proposal.parents, proposal.token_ids, strict=True))
        assert len(set(siblings)) == len(siblings)
        assert proposal.laws is None
    said = tuple(event.token_id for event in events if isinstance(event, Sampled))
    assert said == toy_engine().generate(PROMPT, params).token_ids
    assert engine.stats()["blocks_used"] == 0


def test_what_is_reported_is_each_nodes_own_probability():
    params = SamplingParams(14, temperature=0.9, draft_length=3, seed=5, ignore_eos=True)
    _, events, seen = proposals(params, watch={"distributions"})
    drafted = [event for event in events if isinstance(event, Drafted)]
    for event, (*_, proposal) in zip(drafted, seen, strict=True):
        assert event.q == tuple(float(law[token]) for law, token in zip(proposal.laws, proposal.token_ids, strict=True))
    verified = [event for event in events if isinstance(event, Verified)]
    for event, one in zip(verified, drafted, strict=True):
        for node, verdict in enumerate(event.verdicts):
            if verdict != "unreached":
                assert event.q[node] == pytest.approx(one.q[node])
    assert any(isinstance(event, Inspected) for event in events)


@pytest.mark.parametrize("certain", [False, True])
def test_two_drafters_of_different_laws_leave_the_targets_law(certain):
    """Two levels, siblings from laws of their own; 40,000 trees drawn and accepted by the rule itself."""
    dice = np.random.default_rng(3)
    p = [torch.tensor(dice.dirichlet([0.7] * 5)) for _ in range(6)]  # after the root, and after each first token
    q, r = torch.tensor(dice.dirichlet([1.0] * 5)), torch.tensor(dice.dirichlet([0.4] * 5))
    r = torch.eye(5, dtype=torch.float64)[2] if certain else r
    counts = np.zeros((5, 5))
    for _ in range(40_000):
        first, second = int(dice.choice(5, p=q.numpy())), int(dice.choice(5, p=r.numpy()))
        below = int(dice.choice(5, p=r.numpy()))
        tree = DraftTree((first, second, below), (-1, -1, 0), torch.stack([q, r, r]), "each")
        rows = torch.stack([p[0], p[1 + first], p[1 + second], p[0]])
        said = accept_tree(tree, rows, dice.random(3), lambda accepted: dice.random()).tokens
        last = said[1] if len(said) > 1 else int(dice.choice(5, p=p[1 + said[0]].numpy()))
        counts[said[0], last] += 1
    law = np.stack([float(p[0][a]) * p[1 + a].numpy() for a in range(5)])
    assert chi_square(counts.ravel(), law.ravel()).p_value > 1e-4
