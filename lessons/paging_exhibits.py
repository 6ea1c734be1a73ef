"""Two mistakes from real code, cut down to a screen each, beside what is right. Plain Python, so that it can be run.

Knows nothing of the engine. A cache slot holds a number; `nan` is what nobody wrote.
"""

import math
from collections.abc import Sequence

BLOCK_SIZE = 4
GARBAGE = math.nan

# ---- a shared prefix that ends inside a block ---------------------------------------------------------------------


def share_floor(parent: list[list[float]], num_tokens: int) -> list[list[float]]:
    """Wrong: shares the whole blocks of the prefix and forgets the tokens after them, yet says it shared all."""
    return parent[: num_tokens // BLOCK_SIZE]


def share_and_copy(parent: list[list[float]], num_tokens: int) -> list[list[float]]:
    """Right: shares the partly filled block too; it is copied here, because the child is about to write into it."""
    blocks = parent[: math.ceil(num_tokens / BLOCK_SIZE)]
    if num_tokens % BLOCK_SIZE:
        blocks[-1] = list(blocks[-1])
    return blocks


def read_after_sharing(share, num_tokens: int) -> list[float]:
    """The parent holds 0, 10, 20 … 70; the child shares the first `num_tokens`, writes the next, reads all back."""
    parent = [[10.0 * (first + slot) for slot in range(BLOCK_SIZE)] for first in (0, BLOCK_SIZE)]
    child = list(share(parent, num_tokens))
    while len(child) * BLOCK_SIZE <= num_tokens:
        child.append([GARBAGE] * BLOCK_SIZE)
    child[num_tokens // BLOCK_SIZE][num_tokens % BLOCK_SIZE] = 10.0 * num_tokens
    return [slot for block in child for slot in block][: num_tokens + 1]


# ---- a length that every layer moves ------------------------------------------------------------------------------


def append_in_every_layer(tokens: Sequence[Sequence[float]]) -> tuple[list[list[float]], int]:
    """Wrong: each layer writes at `used_slots` and moves it on. tokens[t][layer] is a key; returns caches, length."""
    num_layers = len(tokens[0])
    caches = [[0.0] * (len(tokens) * num_layers) for _ in range(num_layers)]
    used_slots = 0
    for token in tokens:
        for layer, key in enumerate(token):
            caches[layer][used_slots] = key
            used_slots += 1
    return caches, used_slots


def append_then_advance(tokens: Sequence[Sequence[float]]) -> tuple[list[list[float]], int]:
    """Right: all layers write the same slot; the length moves once, after the last of them."""
    num_layers = len(tokens[0])
    caches = [[0.0] * (len(tokens) * num_layers) for _ in range(num_layers)]
    used_slots = 0
    for token in tokens:
        for layer, key in enumerate(token):
            caches[layer][used_slots] = key
        used_slots += 1
    return caches, used_slots


def keys(num_tokens: int, num_layers: int) -> list[list[float]]:
    """Keys that can be told apart: token t in layer l (from 0) is 10·t + l + 1."""
    return [[10.0 * token + layer + 1 for layer in range(num_layers)] for token in range(num_tokens)]
