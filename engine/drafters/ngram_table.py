"""Lookup first, then a table: which token most often followed the last two, or the last one, in a corpus.

Knows nothing of how the table was counted. The cheapest draft that Leviathan et al. (2023, §4.1) try is a bigram table:
c ≈ 0, so that any acceptance pays.
"""

import json
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from engine.drafters.drafter import NOTHING, Proposal
from engine.drafters.lookup_first import LookupFirstDrafter
from engine.errors import EngineError
from engine.model import Model
from engine.sequence import Sequence

LEAST = 0.1  # probability that all drafts so far are right, below which the next is not worth its row: 0.03–0.05 steps
BACK_OFF = 0.4  # of a bigram's probability where the trigram's context is unknown (Brants et al. 2007, §4)
KINDS = {"keys": np.int64, "tokens": np.int32, "probabilities": np.float16}


@dataclass(frozen=True, slots=True, eq=False)
class Contexts:
    """What followed most often, by context. keys (contexts,) int64, rising; tokens int32; probabilities float16."""

    keys: np.ndarray
    tokens: np.ndarray
    probabilities: np.ndarray

    def look_up(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and their probabilities after these contexts: 0 and 0 where one is unknown. Any shape, or a number."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_known = self.keys[places] == keys
        tokens = np.where(is_known, self.tokens[places].astype(np.int64), 0)
        return tokens, np.where(is_known, self.probabilities[places], 0.0)

    def check(self, name: str) -> None:
        """Raises ValueError naming what is wrong with arrays that a file held."""
        for part, kind in KINDS.items():
            found = getattr(self, part)
            if found.dtype != kind or found.shape != (len(self.keys),) or not len(found):
                raise ValueError(f"{name}.{part} is {found.dtype} {found.shape}")
        if not (np.diff(self.keys) > 0).all() or self.tokens.min() < 0:
            raise ValueError(f"{name} has keys that do not rise or negative tokens")
        if not ((self.probabilities >= 0) & (self.probabilities <= 1)).all():
            raise ValueError(f"{name} has probabilities outside 0 to 1")


@dataclass(frozen=True, slots=True, eq=False)
class NgramTable:
    """The likeliest next token after two tokens (`trigrams`) and after one (`bigrams`)."""

    target: str  # SHA-256 of the weights whose answers were counted
    trigrams: Contexts
    bigrams: Contexts

    def after(self, before: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and their probabilities after `before` and `last`, of any one shape: the trigram's, else the bigram's.

        A token −1 stands for none. Where nothing is known, the probability is 0.
        """
        tokens, probabilities = self.trigrams.look_up(pair_keys(before, last))
        others, chances = self.bigrams.look_up(last)
        is_known = probabilities > 0
        return np.where(is_known, tokens, others), np.where(is_known, probabilities, BACK_OFF * chances)

    def chain(self, token_ids: Ids[int], num_tokens: int, all_right: float = 1.0) -> tuple[int, ...]:
        """Up to `num_tokens` tokens, each the likeliest after those before it, as long as all may well be right.

        all_right: the probability that `token_ids` are.
        """
        before, last = (-1, -1, *token_ids[-2:])[-2:]
        drafts = []
        while len(drafts) < num_tokens:
            token, probability = self.after(before, last)
            all_right *= float(probability)
            if all_right < LEAST:
                break
            before, last = last, int(token)
            drafts.append(last)
        return tuple(drafts)


def pair_keys(before: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The key of two tokens; negative, and so unknown, where the first is −1."""
    return before * 2**32 + last


def read_table(path: Path, model: Model) -> NgramTable:
    """Reads a file that `engine.train` wrote.

    Raises EngineError("bad_head") naming what is wrong with it, and ("other_weights") if it is not of the model's.
    """
    try:
        with safe_open(path, framework="np") as stored:
            about = json.loads((stored.metadata() or {})["table"])
            parts = {
                name: Contexts(*(stored.get_tensor(f"{name}.{part}") for part in KINDS))
                for name in ("trigrams", "bigrams")
            }
        for name, contexts in parts.items():
            contexts.check(name)
        table = NgramTable(about["target"], **parts)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise EngineError("bad_head", f"{path} holds no table of n-grams: {error}", path=str(path)) from error
    if table.target != model.sha256:
        sentence = f"the table belongs to weights {table.target[:12]}; {model.name} has {model.sha256[:12]}"
        raise EngineError("other_weights", sentence, drafter="ngram_table", target=model.name)
    return table


class TableDrafter:
    """The table alone; it serves all requests."""

    needs_slots = False
    caches = features = ()
    num_cached = 0

    def __init__(self, table: NgramTable) -> None:
        self._table = table

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """What the table is sure enough of, or nothing."""
        drafts = self._table.chain(sequence.token_ids, num_tokens)
        return Proposal(drafts) if drafts else NOTHING

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Nothing to learn."""


class NgramTableDrafter(LookupFirstDrafter):
    """Prompt lookup, and where that finds nothing, the table."""

    def __init__(self, table: NgramTable) -> None:
        super().__init__(TableDrafter(table))
