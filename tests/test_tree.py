"""Candidate trees: worked examples, and random trees against definitions written the slow way."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import tree
from engine.batch import Batch, Part, plan
from engine.errors import EngineError

#     0            the root
#    1 2           two candidates for the next token
#   3   4 5        and what may follow them
BUSHY = (-1, 0, 0, 1, 2, 2)

trees = st.integers(1, 20).flatmap(
    lambda size: st.tuples(*[st.just(-1) if node == 0 else st.integers(0, node - 1) for node in range(size)])
)


def ancestors(parents, node):
    """The definition: the node, its parent, that one's parent …; root first."""
    path = []
    while node != -1:
        path.append(node)
        node = parents[node]
    return path[::-1]


def test_the_worked_example_has_these_depths_paths_children_and_mask():
    assert tree.depths(BUSHY).tolist() == [0, 1, 1, 2, 2, 2]
    assert tree.paths(BUSHY).tolist() == [[0, -1, -1], [0, 1, -1], [0, 2, -1], [0, 1, 3], [0, 2, 4], [0, 2, 5]]
    assert tree.children(BUSHY) == ((1, 2), (3,), (4, 5), (), (), ())
    assert tree.mask(BUSHY).astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ]


def test_five_paths_over_two_levels_make_the_tree_with_this_mask_and_these_positions():
    """Paths as Medusa writes them (0 the best candidate of its place, 1 the second), under a root at position 7."""
    paths = [(0,), (1,), (0, 0), (0, 1), (1, 0)]
    ranks, draft_parents = tree.merge(paths)
    parents = tree.with_root(draft_parents)
    assert (ranks, parents) == ((0, 1, 0, 1, 0), (-1, 0, 0, 1, 1, 2))
    assert tree.mask(parents).astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],  # r
        [1, 1, 0, 0, 0, 0],  # (0) sees r and itself
        [1, 0, 1, 0, 0, 0],  # (1)
        [1, 1, 0, 1, 0, 0],  # (0, 0)
        [1, 1, 0, 0, 1, 0],  # (0, 1) sees r, (0) and itself
        [1, 0, 1, 0, 0, 1],  # (1, 0)
    ]
    assert tree.depths(parents).tolist() == [0, 1, 1, 2, 2, 2]
    batch = Batch.join([Part("generated", [9, *ranks], range(4), 7, parents)])
    assert plan(batch, 4, 4, torch.device("cpu")).positions.tolist() == [7, 8, 8, 9, 9, 9]


def test_a_chain_is_a_tree_whose_mask_is_the_causal_one():
    assert tree.chain(4) == (-1, 0, 1, 2)
    assert (tree.mask(tree.chain(4)) == np.tril(np.ones((4, 4), bool))).all()
    assert tree.chain(1) == (-1,)


def test_draft_parents_count_from_minus_one_and_span_parents_from_the_root():
    assert tree.with_root((-1, -1, 0)) == (-1, 0, 0, 1)
    assert tree.with_root(()) == (-1,)


@pytest.mark.parametrize("parents", [(), (0,), (-1, -1), (-1, 1), (-1, 0, 3, 1), (-1, -2)])
def test_what_is_no_tree_is_refused(parents):
    with pytest.raises(EngineError, match="bad_tree|tree|parent"):
        tree.checked(parents)


def test_merging_holds_a_shared_beginning_once_and_orders_by_depth():
    assert tree.merge([(5, 6), (5, 7), (8,)]) == ((5, 8, 6, 7), (-1, -1, 0, 0))
    assert tree.merge([]) == ((), ())
    assert tree.merge([(), (4,), (4,)]) == ((4,), (-1,))


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=6))
def test_merging_keeps_exactly_the_beginnings_of_the_given_chains(chains):
    token_ids, draft_parents = tree.merge(chains)
    parents = tree.with_root(draft_parents)
    spelled = [tuple(token_ids[node - 1] for node in ancestors(parents, node)[1:]) for node in range(1, len(parents))]
    wanted = {tuple(tokens[: depth + 1]) for tokens in chains for depth in range(len(tokens))}
    assert len(spelled) == len(set(spelled))
    assert set(spelled) == wanted


@given(trees)
def test_depths_paths_and_mask_of_random_trees_follow_from_the_ancestors(parents):
    depths, paths, mask = tree.depths(parents), tree.paths(parents), tree.mask(parents)
    assert paths.shape == (len(parents), 1 + max(depths))
    for node in range(len(parents)):
        path = ancestors(parents, node)
        assert depths[node] == len(path) - 1
        assert paths[node].tolist() == path + [-1] * (paths.shape[1] - len(path))
        assert np.flatnonzero(mask[node]).tolist() == sorted(path)


def test_the_accepted_path_moves_to_where_a_chain_would_lie():
    assert tree.moves((0, 2, 5)) == ([2, 5], [1, 2])
    assert tree.moves((0, 1, 2)) == ([], [])
    assert tree.moves((0,)) == ([], [])


@given(trees, st.data())
def test_after_the_moves_the_first_offsets_hold_the_path_in_order(parents, data):
    path = ancestors(parents, data.draw(st.integers(0, len(parents) - 1)))
    slots = np.arange(len(parents))
    source, target = tree.moves(path)
    slots[target] = slots[source]
    assert slots[: len(path)].tolist() == path
