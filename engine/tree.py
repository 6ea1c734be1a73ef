"""Candidate trees: several continuations of one text that a single pass can check.

Knows nothing of probabilities, tensors or blocks: a tree is a tuple `parents` of small integers. Node 0 is the root,
the last token that is certain; `parents[0]` is -1 and every other parent comes before its child. A chain of drafts is
the tree (-1, 0, 1, …).
"""

from collections.abc import Sequence

import numpy as np

from engine.errors import EngineError

# ---- build --------------------------------------------------------------------------------------------------------


def chain(num_nodes: int) -> tuple[int, ...]:
    """The tree without branches: chain(4) == (-1, 0, 1, 2)."""
    return tuple(range(-1, num_nodes - 1))


def with_root(draft_parents: Sequence[int]) -> tuple[int, ...]:
    """Drafts count their parents among themselves, -1 being the root; here the root gets number 0.

    with_root((-1, -1, 0)) == (-1, 0, 0, 1). Raises EngineError("bad_tree") when a node comes before its parent.
    """
    return checked((-1, *(parent + 1 for parent in draft_parents)))


def checked(parents: Sequence[int]) -> tuple[int, ...]:
    """The same tree as a tuple. Raises EngineError("bad_tree") when it is none."""
    parents = tuple(parents)
    if not parents or parents[0] != -1:
        raise EngineError("bad_tree", f"a tree starts with its root, whose parent is -1; got {parents[:8]}")
    for node, parent in enumerate(parents[1:], start=1):
        if not 0 <= parent < node:
            sentence = f"node {node} has parent {parent}; it must be one of the nodes 0 to {node - 1} before it"
            raise EngineError("bad_tree", sentence, node=node, parent=parent)
    return parents


def merge(chains: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Continuations as token ids → one tree that holds each shared beginning once: (token_ids, draft_parents).

    Nodes are ordered by depth, so that whoever cuts the end cuts the deepest. Example: merge([(5, 6), (5, 7), (8,)])
    == ((5, 8, 6, 7), (-1, -1, 0, 0)).
    """
    node_of: dict[tuple[int, ...], int] = {(): -1}
    for depth in range(1, 1 + max(map(len, chains), default=0)):
        for tokens in chains:
            if len(tokens) >= depth:
                node_of.setdefault(tuple(tokens[:depth]), len(node_of) - 1)
    nodes = [beginning for beginning in node_of if beginning]
    return tuple(beginning[-1] for beginning in nodes), tuple(node_of[beginning[:-1]] for beginning in nodes)


# ---- read ---------------------------------------------------------------------------------------------------------


def depths(parents: Sequence[int]) -> np.ndarray:
    """How many steps each node lies below the root: (nodes,) int64. Its position in the text is the root's + depth."""
    depth = np.zeros(len(parents), np.int64)
    for node in range(1, len(parents)):
        depth[node] = depth[parents[node]] + 1
    return depth


def paths(parents: Sequence[int]) -> np.ndarray:
    """Each node's ancestors from the root down, then the node itself, padded with -1: (nodes, 1 + depth) int64."""
    depth = depths(parents)
    path = np.full((len(parents), 1 + depth.max()), -1, np.int64)
    for node, parent in enumerate(parents):
        if node:
            path[node] = path[parent]
        path[node, depth[node]] = node
    return path


def mask(parents: Sequence[int]) -> np.ndarray:
    """What a node may see: (nodes, nodes) bool, True where the column is an ancestor of the row or the row itself."""
    visible = np.eye(len(parents), dtype=bool)
    for node in range(1, len(parents)):
        visible[node] |= visible[parents[node]]
    return visible


def children(parents: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each node the nodes right below it, in order."""
    below: list[list[int]] = [[] for _ in parents]
    for node in range(1, len(parents)):
        below[parents[node]].append(node)
    return tuple(map(tuple, below))


# ---- keep the accepted path -----------------------------------------------------------------------------------------


def moves(path: Sequence[int]) -> tuple[list[int], list[int]]:
    """Where the accepted nodes' keys and values lie, and where they belong, counted from the root's place: (from, to).

    `path` is the accepted nodes from the root down. The node at depth d belongs at offset d; those already there are
    left out: moves((0, 2, 5)) == ([2, 5], [1, 2]).
    """
    source = [node for depth, node in enumerate(path) if node != depth]
    return source, [depth for depth, node in enumerate(path) if node != depth]
