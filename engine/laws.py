"""What the acceptance rules do on one position: their exact output laws, and many draws at once.

Knows nothing of models and sequences: p is the target's law, q the draft's, both (vocab,) arrays. The rules that the
engine runs are in `engine.accept`; here they stand beside the wrong ones that lessons show.

Rules with one draft x: drawn from some law, accepted iff u · denominator(x) < numerator(x), otherwise replaced by a
draw from a fallback law.

| rule                | x drawn from | accepted iff         | fallback           | output for .5 .3 .2 and .2 .3 .5 |
|---------------------|--------------|----------------------|--------------------|----------------------------------|
| exact               | q            | u·q(x) < p(x)        | max(p − q, 0)      | p                                |
| point_mass          | argmax q     | u < p(x)             | p without argmax q | p                                |
| sampler_match       | q            | x is a draw y from p | y                  | p                                |
| typical             | q            | p(x) > min(ε, δe^−H) | p                  | [.2, .3, .5]: not p              |
| resample_from_p     | q            | u·q(x) < p(x)        | p                  | [.35, .39, .26]                  |
| absolute_residual   | q            | u·q(x) < p(x)        | abs(p − q)         | [.35, .30, .35]                  |
| inverted_ratio      | q            | u·p(x) < q(x)        | max(p − q, 0)      | [.2, .3, .5] = q                 |
| soft_q_greedy_draft | argmax q     | u·q(x) < p(x)        | max(p − q, 0)      | [.6, 0, .4]                      |

Rules with several drafts try them in turn by the exact rule, each against what the refused ones left over:
multi_draft (independent draws of q), multi_draft_distinct (without replacement), top_drafts (the most probable of q,
each a point mass).
"""

from dataclasses import dataclass

import numpy as np
import torch

from engine.accept import typical_threshold
from engine.errors import EngineError
from engine.request import SamplingParams
from engine.sampling import probabilities

MULTI_RULES = ("multi_draft", "multi_draft_distinct", "top_drafts")
EXACT_RULES = ("exact", "point_mass", "sampler_match", *MULTI_RULES)
LOSSY_RULES = ("typical",)
WRONG_RULES = ("resample_from_p", "absolute_residual", "inverted_ratio", "soft_q_greedy_draft")
RULES = EXACT_RULES + LOSSY_RULES + WRONG_RULES

# ---- exact laws ----------------------------------------------------------------------------------------------------


def output_law(p: np.ndarray, q: np.ndarray, rule: str, num_drafts: int = 2) -> np.ndarray:
    """Return the law (vocab,) of the token that comes out; arrays of Fractions give Fractions (not for "typical").

    p, q: (vocab,), normalised here. num_drafts: for rules with several. Raises EngineError("bad_rule", "bad_law").
    """
    p, q = _checked(p, q, rule)
    if rule in MULTI_RULES:
        return _multi_law(p, q, rule, num_drafts)[0]
    if rule == "sampler_match":
        return p
    one = _one_draft(p, q, rule)
    return one.kept + (1 - one.kept.sum()) * one.fallback


def acceptance_rate(p: np.ndarray, q: np.ndarray, rule: str, num_drafts: int = 2) -> float:
    """Return the probability that a draft is accepted (one of them, for rules with several); else as `output_law`."""
    p, q = _checked(p, q, rule)
    if rule in MULTI_RULES:
        return _multi_law(p, q, rule, num_drafts)[1]
    return (p * q).sum() if rule == "sampler_match" else _one_draft(p, q, rule).kept.sum()


def residual_law(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return max(p − q, 0) normalised, and p itself where nothing is left of it (p = q)."""
    p, q = np.asarray(p), np.asarray(q)
    return _normalised(np.maximum(p - q, 0), p)


def processed_law(law: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Return what temperature, top-k, top-p and min-p make of a law (vocab,): `probabilities` of its logarithm."""
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray(law, dtype=np.float64))
    return probabilities(torch.from_numpy(logits), params).numpy()


@dataclass(frozen=True, slots=True)
class _OneDraft:
    """A rule with one draft, as the table above says it; all (vocab,)."""

    draft: np.ndarray
    numerator: np.ndarray
    denominator: np.ndarray
    fallback: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """The probability that x is drafted and accepted: draft · min(1, numerator / denominator)."""
        is_sure = self.numerator >= self.denominator
        return np.where(is_sure, self.draft, self.draft * self.numerator / np.where(is_sure, 1, self.denominator))


def _one_draft(p: np.ndarray, q: np.ndarray, rule: str) -> _OneDraft:
    ones = q * 0 + 1
    if rule == "point_mass":
        greedy = _one_hot(q)
        return _OneDraft(greedy, p, ones, residual_law(p, greedy))
    if rule == "typical":
        threshold = typical_threshold(torch.from_numpy(p.astype(np.float64)))
        return _OneDraft(q, (p > threshold) * ones, ones, p)
    if rule == "resample_from_p":
        return _OneDraft(q, p, q, p)
    if rule == "absolute_residual":
        return _OneDraft(q, p, q, _normalised(abs(p - q), p))
    if rule == "inverted_ratio":
        return _OneDraft(q, q, p, residual_law(p, q))
    if rule == "soft_q_greedy_draft":
        return _OneDraft(_one_hot(q), p, q, residual_law(p, q))
    return _OneDraft(q, p, q, residual_law(p, q))


def _multi_law(left: np.ndarray, rest: np.ndarray, rule: str, num_drafts: int) -> tuple[np.ndarray, float]:
    """Return the output law and the acceptance of `num_drafts` further drafts.

    left: what refused drafts left over of p. rest: what they left over of q (all of it, for independent draws).
    """
    if num_drafts == 0:
        return left, 0
    draft = _one_hot(rest) if rule == "top_drafts" else rest
    law = np.minimum(left, draft)
    refused, accepted = draft - law, law.sum()
    left_after = residual_law(left, draft)
    for token, chance in _refusals(refused, rule):
        further, also_accepted = _multi_law(left_after, _rest_after(rest, token, rule), rule, num_drafts - 1)
        law, accepted = law + chance * further, accepted + chance * also_accepted
    return law, accepted


def _refusals(refused: np.ndarray, rule: str) -> list[tuple[int, float]]:
    """The ways in which a draft is refused, with their chances; one for all where the token makes no difference."""
    if rule == "multi_draft":
        return [(-1, refused.sum())]
    return [(int(token), refused[token]) for token in np.flatnonzero(refused)]


def _rest_after(rest: np.ndarray, token: int, rule: str) -> np.ndarray:
    if rule == "multi_draft":
        return rest
    others = rest.copy()
    others[token] = 0
    return _normalised(others, rest)


# ---- many draws ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draws:
    """n independent draws. tokens: what came out (n,); accepted: whether a draft did (n,) bool.

    drafted, uniforms: the draft and its coin (n,); for rules with several drafts (n, num_drafts), −1 and NaN where an
    earlier one was accepted. For "sampler_match" the coin is the one that draws the target's token.
    """

    tokens: np.ndarray
    accepted: np.ndarray
    drafted: np.ndarray
    uniforms: np.ndarray


def accept_many(p: np.ndarray, q: np.ndarray, rule: str, n: int, seed: int, num_drafts: int = 2) -> Draws:
    """Draft, throw the coin and take the output, n times. Arguments as in `output_law`; the seed fixes the draws."""
    p, q = (law.astype(np.float64) for law in _checked(p, q, rule))
    for name, value in (("n", n), ("seed", seed)):
        if value < 0:
            raise EngineError("bad_number", f"{name} is {value!r}; it must be ≥ 0", name=name, value=value)
    generator = np.random.default_rng(seed)
    if rule in MULTI_RULES:
        return _try_in_turn(p, q, rule, (n, num_drafts), generator)
    coins = generator.random(n)
    if rule == "sampler_match":
        drafted, tokens = _draw(q, generator.random(n)), _draw(p, coins)
        return Draws(tokens, drafted == tokens, drafted, coins)
    one = _one_draft(p, q, rule)
    drafted = _draw(one.draft, generator.random(n))
    accepted = coins * one.denominator[drafted] < one.numerator[drafted]
    tokens = np.where(accepted, drafted, _draw(one.fallback, generator.random(n)))
    return Draws(tokens, accepted, drafted, coins)


def _try_in_turn(
    p: np.ndarray, q: np.ndarray, rule: str, shape: tuple[int, int], generator: np.random.Generator
) -> Draws:
    """Draw as a rule with several drafts does; shape: (n, num_drafts)."""
    tokens, drafted, uniforms = np.full(shape[0], -1), np.full(shape, -1), np.full(shape, np.nan)
    waiting = [(np.arange(shape[0]), p, q)]  # draws without an accepted draft, with what is left of p and of q there
    for turn in range(shape[1]):
        refused = []
        for draws, left, rest in waiting:
            draft = _one_hot(rest) if rule == "top_drafts" else rest
            x, u = _draw(draft, generator.random(len(draws))), generator.random(len(draws))
            drafted[draws, turn], uniforms[draws, turn] = x, u
            is_accepted = u * draft[x] < left[x]
            tokens[draws[is_accepted]] = x[is_accepted]
            left = residual_law(left, draft)
            groups = np.where(is_accepted, -2, -1 if rule == "multi_draft" else x)
            for token in np.unique(groups[~is_accepted]):
                refused.append((draws[groups == token], left, _rest_after(rest, token, rule)))
        waiting = refused
    accepted = tokens >= 0
    for draws, left, _ in waiting:
        tokens[draws] = _draw(left, generator.random(len(draws)))
    return Draws(tokens, accepted, drafted, uniforms)


def _draw(law: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Return for each uniform number the token at which the summed law first exceeds it."""
    summed = np.cumsum(law)
    return np.searchsorted(summed, uniforms * summed[-1], side="right")


# ---- arithmetic on laws --------------------------------------------------------------------------------------------


def _checked(p: np.ndarray, q: np.ndarray, rule: str) -> tuple[np.ndarray, np.ndarray]:
    if rule not in RULES:
        raise EngineError("bad_rule", f"rule is {rule!r}; it must be one of {RULES}", rule=rule)
    laws = [law if law.dtype == object else law.astype(np.float64) for law in (np.asarray(p), np.asarray(q))]
    for law in laws:
        if law.ndim != 1 or law.shape != laws[0].shape or not (law >= 0).all() or not 0 < law.sum() < np.inf:
            sentence = f"p and q must be equally long lists of numbers ≥ 0, not all 0; one of them is {law}"
            raise EngineError("bad_law", sentence)
    return laws[0] / laws[0].sum(), laws[1] / laws[1].sum()


def _normalised(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    mass = part.sum()
    return part / mass if mass > 0 else whole


def _one_hot(law: np.ndarray) -> np.ndarray:
    """All mass on the most probable token, the lowest on ties."""
    peak = law * 0
    peak[np.argmax(law)] = 1
    return peak
