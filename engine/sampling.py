"""Logits → law → token: penalties, temperature, top-k, top-p, min-p, and one draw.

Knows nothing of requests, drafts or the model: pure functions on tensors and numbers.

The law that comes out is the law that must be used everywhere: to draw, to accept a draft, to take a residual. All
random numbers are functions of (seed, position, purpose, index), so a request's text does not depend on the company
it keeps, nor on the order in which things are computed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from engine.errors import EngineError
from engine.request import SamplingParams
from kernels import argmax, softmax

History = Sequence[int] | Sequence[Sequence[int]]

# ---- logits → law ------------------------------------------------------------------------------------------------


def probabilities(logits: torch.Tensor, params: SamplingParams, history: History = ()) -> torch.Tensor:
    """Return the law to sample from: repetition, presence, frequency penalty, temperature, top-k, top-p, min-p.

    logits: (…, vocab), any float dtype; the law has the same shape, in float32 (float64 for float64 logits).
    history: the ids before these rows, prompt and output together; one sequence for all rows, or one sequence per row
    of `logits.reshape(-1, vocab)` (the rows of a draft have different histories). All penalties count all of it.
    A temperature below 1e-5 gives a one-hot law at the largest penalised logit, the lowest index on ties.
    Raises EngineError("bad_logits") if a row holds NaN or +inf, or nothing but −inf.
    """
    rows, best = _penalised(logits, params, history)  # (rows, vocab), (rows,)
    if params.is_greedy:
        return torch.zeros_like(rows).scatter_(-1, best[:, None], 1.0).reshape(logits.shape)
    laws = softmax.run(rows, params.temperature)
    for law in laws:
        _truncate(law, params)
    return laws.reshape(logits.shape)


def greedy_tokens(logits: torch.Tensor, params: SamplingParams, history: History = ()) -> torch.Tensor:
    """Return the ids (…) of the largest penalised logits, the lowest id on ties, without making a law."""
    _, best = _penalised(logits, params, history)
    return best.reshape(logits.shape[:-1])


def draft_params(params: SamplingParams) -> SamplingParams:
    """Return the parameters of the draft's own law: the target's, at the draft's temperature."""
    if params.draft_temperature is None:
        return params
    return replace(params, temperature=params.draft_temperature)


def _penalised(logits: torch.Tensor, params: SamplingParams, history: History) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the penalised rows (rows, vocab) and where each is largest (rows,), the lowest id on ties."""
    rows = logits.detach().reshape(-1, logits.shape[-1])
    if rows.dtype not in (torch.float32, torch.float64):
        rows = rows.float()
    if params.is_penalised:
        rows = rows.clone()
        for row, ids in zip(rows, _history_per_row(history, len(rows)), strict=True):
            _penalise(row, params, ids)
    best = argmax.run(rows)
    if best.numel() and best.min() < 0:
        row = int((best < 0).int().argmax())
        raise EngineError("bad_logits", f"row {row} of the logits has no finite largest entry", row=row)
    return rows, best


def _history_per_row(history: History, num_rows: int) -> Sequence[Sequence[int]]:
    if len(history) == 0 or not isinstance(history[0], Sequence | np.ndarray | torch.Tensor):
        return [history] * num_rows
    if len(history) == num_rows:
        return history
    sentence = f"history has {len(history)} sequences for {num_rows} rows; give one for all, or one per row"
    raise EngineError("bad_history", sentence, num_histories=len(history), num_rows=num_rows)


def _penalise(row: torch.Tensor, params: SamplingParams, ids: Sequence[int]) -> None:
    """Penalise in place the logits of one row (vocab,) for the ids already seen.

    Repetition (Keskar et al. 2019, CTRL, §4.1; for negative logits as in Hugging Face): a positive logit is divided by
    the penalty, a negative one multiplied, so that both fall. Presence is subtracted once, frequency once per count.
    """
    seen, counts = np.unique(np.asarray(ids, dtype=np.int64), return_counts=True)
    if seen.size and seen[0] < 0:
        raise EngineError("bad_history", f"token id {seen[0]} in the history is negative", token=int(seen[0]))
    is_known = seen < row.numel()  # a draft with a smaller vocabulary has no logit for the target's further ids
    seen = torch.from_numpy(seen[is_known]).to(row.device)
    counts = torch.from_numpy(counts[is_known]).to(row.device, row.dtype)
    values = row[seen]
    values = torch.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    row[seen] = values - params.presence_penalty - params.frequency_penalty * counts


# ---- cutting the tail --------------------------------------------------------------------------------------------


def _truncate(law: torch.Tensor, params: SamplingParams) -> None:
    """Apply top-k, top-p and min-p in place to one law (vocab,) and normalise it again.

    Only candidates are looked at twice, those that can be kept at all: a prefix of the order by probability, so that
    the result is that of sorting the whole vocabulary.
    """
    top_k = params.top_k if params.top_k < law.numel() else 0
    if top_k == 0 and params.top_p == 1.0 and params.min_p == 0.0:
        return
    row = law.cpu().numpy()
    ids = np.flatnonzero(row >= _floor(row, top_k, params.top_p))
    values = row[ids]
    smallest, num_ties = _smallest_kept(values, top_k, params.top_p, row.sum(dtype=np.float64))
    is_kept = values >= max(smallest, params.min_p * row.max())
    is_kept[np.flatnonzero(values == smallest)[num_ties:]] = False  # of equals at the cut, the lowest ids stay
    ids, values = ids[is_kept], values[is_kept]
    law.zero_()
    law[torch.from_numpy(ids)] = torch.from_numpy(values / values.sum()).to(law.device)


def _floor(row: np.ndarray, top_k: int, top_p: float) -> float:
    """Return a probability below which nothing is kept: the k-th largest, or (1 − top_p) / 2V.

    The tokens below (1 − top_p) / 2V together weigh less than (1 − top_p) / 2, so the nucleus ends before them.
    """
    if top_k > 0:
        return np.partition(row, -top_k)[-top_k]
    return (1.0 - top_p) / (2 * row.size)


def _smallest_kept(candidates: np.ndarray, top_k: int, top_p: float, mass: float) -> tuple[float, int]:
    """Return the smallest probability that top-k and then top-p keep, and how many tokens of exactly this one.

    candidates: the largest probabilities in any order; top_k = 0 and top_p = 1 are off; mass: that of the whole law,
    of which top_p is a part (after top-k, a part of what that left). The token with which the mass first reaches top_p
    is kept, so the first one always is.
    """
    if top_k == 0 and top_p == 1.0:
        return 0.0, 0
    largest = np.sort(candidates)[::-1][: top_k or None]
    if top_p < 1.0:
        summed = np.cumsum(largest, dtype=np.float64)
        if top_k > 0:
            mass = summed[-1]
        largest = largest[: 1 + np.count_nonzero(summed < top_p * mass)]
    return largest[-1], np.count_nonzero(largest == largest[-1])


# ---- one draw ----------------------------------------------------------------------------------------------------


def sample(probs: torch.Tensor | np.ndarray, uniform: float) -> int:
    """Return the token (any of the law's `vocab` ids, 0 included) at which the summed law first exceeds `uniform`.

    probs: (vocab,), not necessarily normalised; summed in float64. uniform: in [0, 1). A token of probability zero is
    never returned. Raises EngineError("bad_logits") if the mass is not a positive number.
    """
    summed = torch.as_tensor(probs).detach().cpu().double().cumsum(0)
    total = summed[-1].item()
    if not 0.0 < total < float("inf"):
        raise EngineError("bad_logits", f"the law to draw from has mass {total}; it must be positive", mass=total)
    return int(torch.searchsorted(summed, uniform * total, right=True))


PURPOSES = ("draft", "accept", "resample", "target", "fork", "guess", "middle")
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_64_BITS = 2**64 - 1


def uniform(seed: int, position: int, purpose: str, index: int = 0) -> float:
    """Return the random number of [0, 1) that belongs to these four, in steps of 2⁻⁵³.

    A function without a state: the same arguments give the same number, whatever was drawn before. position: place in
    the sequence. purpose: "draft" (draw a draft), "accept" (the coin), "resample" (draw from the residual, or the
    bonus), "target" (a plain step), "fork" (a fork's seed), "guess" (where a parallel guess starts), "middle" (the
    coins of a drafter that verifies another). index: which of several at one place, for example siblings in a tree.
    Each argument is stirred in by the SplitMix64 finaliser (Steele, Lea, Flood, OOPSLA 2014, Fig. 13).
    """
    state = 0
    for number in (seed, position, PURPOSES.index(purpose), index):
        state = ((state ^ (number & _64_BITS)) + _GOLDEN) & _64_BITS
        state = ((state ^ (state >> 30)) * _FIRST) & _64_BITS
        state = ((state ^ (state >> 27)) * _SECOND) & _64_BITS
        state ^= state >> 31
    return (state >> 11) * 2.0**-53
