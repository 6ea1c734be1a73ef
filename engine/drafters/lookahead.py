"""Parallel decoding without a draft: Jacobi iteration (Santilli et al., ACL 2023) and Lookahead (Fu et al., ICML 2024).

Knows nothing of any second model: the guesses are the target's own favourites at rows that earlier passes computed too
early. Such rows ride along in the verify pass, and what they said is heard in `observe`.
"""

from collections import OrderedDict
from collections.abc import Sequence as Ids

import torch

from engine.drafters.drafter import NOTHING, Proposal
from engine.sampling import uniform
from engine.sequence import Sequence
from engine.tree import merge

WIDTH, LEVELS, GUESSES = 5, 4, 3  # W, N and G of the paper, small: rows are dear on a CPU


class JacobiDrafter:
    """Guesses K tokens at once and corrects all of them in every pass, until they no longer change.

    A draft is the target's favourite at its place given the guesses before it. Whatever has come to its fixed point is
    accepted; the rest is guessed anew from this pass's rows.
    """

    needs_slots = False
    caches = features = ()
    num_cached = 0

    def __init__(self) -> None:
        self._guesses: list[int] = []  # the favourites at the places behind the last known token

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """A chain of `num_tokens`: last round's corrected guesses, then tokens of the text drawn by chance."""
        known = self._guesses[:num_tokens]
        chance = [_chance(sequence, len(sequence) + at) for at in range(len(known), num_tokens)]
        return Proposal(tuple(known + chance))

    def observe(self, sequence: Sequence, logits: torch.Tensor, path: Ids[int]) -> tuple[tuple[int, ...], ...]:
        """logits (1 + drafts, vocab) of the round; the first `len(path)` drafts were right. There are no probes."""
        self._guesses = logits[len(path) + 1 :].argmax(-1).tolist()
        return ()

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Everything was said in `observe`."""


class LookaheadDrafter:
    """A window of guesses far ahead makes n-grams; those that begin with the last token are the drafts.

    The window has `levels` − 1 rows of `width` guesses. Level 0 lies behind the last token; a guess of level k stands k
    places later than the one of level 0 in its column, sees level 0 up to that column and its own column below itself.
    So the window is a tree too, and both branches are one pass. The favourite above the top of a column completes an
    n-gram, and every column moves up by one.
    """

    needs_slots = False
    caches = features = ()
    num_cached = 0

    def __init__(self, width: int = WIDTH, levels: int = LEVELS, guesses: int = GUESSES) -> None:
        """width: W. levels: N, the length of an n-gram. guesses: G, n-grams that are remembered for one first token."""
        self._width, self._levels, self._guesses = width, levels, guesses
        self._window: list[list[int]] = []  # from level 0 up; fewer levels until it has filled
        self._pool: dict[int, OrderedDict[tuple[int, ...], None]] = {}  # first token → what followed, oldest first
        self._num_drafts = 0  # of the present round

    @property
    def pool(self) -> dict[int, tuple[tuple[int, ...], ...]]:
        """The n-grams caught so far: first token → continuations of N − 1 tokens, oldest first."""
        return {first: tuple(rests) for first, rests in self._pool.items()}

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """The n-grams of the last token, merged, each cut to `num_tokens`; with them the window, as probes."""
        if num_tokens < 1:
            return NOTHING
        caught = [rest[:num_tokens] for rest in reversed(self._pool.get(sequence.token_ids[-1], ()))]
        drafts, parents = merge(caught)
        self._num_drafts = len(drafts)
        is_near_end = sequence.max_new_tokens - sequence.num_output <= self._width + self._levels
        if is_near_end:  # what it would find could not be used any more
            return Proposal(drafts, parents=parents)
        if not self._window:
            first = len(sequence)
            self._window = [[_chance(sequence, first + column) for column in range(self._width)]]
        probes = [token for level in self._window for token in level]
        return Proposal(drafts, parents=parents, probe_ids=tuple(probes), probe_parents=self._window_parents())

    def observe(self, sequence: Sequence, logits: torch.Tensor, path: Ids[int]) -> tuple[tuple[int, ...], ...]:
        """logits (1 + drafts + probes, vocab): catches the n-grams that the window completed, and moves it up."""
        rows = logits[1 + self._num_drafts :]
        if not len(rows):
            return ()
        above = rows[-self._width :].argmax(-1).tolist()
        self._window.append(above)
        if len(self._window) < self._levels:
            return ()
        caught = tuple(zip(*self._window, strict=True))
        for gram in caught:
            self._catch(gram)
        del self._window[0]
        return caught

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Everything was said in `observe`."""

    def _catch(self, gram: tuple[int, ...]) -> None:
        known = self._pool.setdefault(gram[0], OrderedDict())
        known[gram[1:]] = None
        known.move_to_end(gram[1:])
        if len(known) > self._guesses:
            known.popitem(last=False)

    def _window_parents(self) -> tuple[int, ...]:
        """Counted among drafts and probes together: level 0 is a chain behind the root, each column grows from it."""
        first, width = self._num_drafts, self._width
        chain = (-1, *range(first, first + width - 1))
        return chain + tuple(range(first, first + width * (len(self._window) - 1)))


def _chance(sequence: Sequence, place: int) -> int:
    """A token of the text so far: what a guess starts from, the same in every run with this seed."""
    at = int(uniform(sequence.params.seed, place, "guess") * len(sequence))
    return sequence.token_ids[at]
