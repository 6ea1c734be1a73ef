"""The records of acceptance: a draft tree goes in, a Verdict made of Trials comes out.

Knows nothing of the rules that decide (see `engine.accept`). A row is a place in a draft: row 0 comes before all
drafts, row 1 + i after draft i; laws are given per row, each the law of the token that follows there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from engine.errors import EngineError

Ints = Sequence[int] | torch.Tensor
Floats = Sequence[float] | torch.Tensor
Laws = Sequence[torch.Tensor] | Mapping[int, torch.Tensor] | torch.Tensor  # by row; each law is (vocab,)


@dataclass(frozen=True, slots=True)
class Trial:
    """One draft that was looked at. p, q: probabilities of its token under the laws used; u: the coin, if any."""

    node: int
    token: int
    p: float
    q: float
    u: float | None
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a draft: `tokens` are the accepted drafts, in order, and then `next_token`.

    path: indices of the accepted drafts; trials: the drafts looked at, in order; residual: the law (vocab,) that
    `next_token` was drawn from where it makes up for a refused draft, otherwise None.
    """

    num_accepted: int
    next_token: int
    tokens: tuple[int, ...]
    path: tuple[int, ...]
    trials: tuple[Trial, ...]
    residual: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Drafts as a tree: `parents[i]` is the draft before draft i, −1 for the root; parents come before children.

    children: how siblings came about, which decides what makes up for a refused one. "given": chosen, not drawn (the k
    most probable, a lookup). "iid": drawn independently; "distinct": drawn without replacement; for these two
    `draft_probs[row]` is the law (vocab,) that the first child of that row was drawn from. "each": drawn independently,
    but not all by the same drafter; `draft_probs[i]` is the law of draft i itself.
    Raises EngineError("bad_tree").
    """

    tokens: Ints
    parents: Ints
    draft_probs: Laws | None = None
    children: str = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(as_list(self.tokens)))
        object.__setattr__(self, "parents", tuple(as_list(self.parents)))
        children_by_row(self.parents, len(self.tokens))
        is_drawn = self.children in ("iid", "distinct", "each")
        if not is_drawn and self.children != "given" or is_drawn == (self.draft_probs is None):
            sentence = (
                f"children is {self.children!r}; it must be given (no draft_probs), iid, distinct or each (with them)"
            )
            raise EngineError("bad_tree", sentence, children=self.children)


def as_list(numbers: Ints | Floats) -> list:
    """Return plain Python numbers, whatever they came in."""
    return numbers.tolist() if hasattr(numbers, "tolist") else list(numbers)


def children_by_row(parents: Ints | None, num_drafts: int) -> list[list[int]]:
    """Return the drafts that follow each row, N+1 lists; parents None is a chain. Raises EngineError("bad_tree")."""
    parents = range(-1, num_drafts - 1) if parents is None else as_list(parents)
    if len(parents) != num_drafts or not all(-1 <= parent < node for node, parent in enumerate(parents)):
        sentence = f"parents are {list(parents)} for {num_drafts} drafts; each must be −1 or an earlier draft"
        raise EngineError("bad_tree", sentence, parents=tuple(parents))
    children: list[list[int]] = [[] for _ in range(num_drafts + 1)]
    for node, parent in enumerate(parents):
        children[parent + 1].append(node)
    return children
