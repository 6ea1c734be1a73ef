"""Facts of a run with sparse drafts, from its events: what was seen, what was accepted, what the clocks said.

Knows nothing of the page, nor of how a drafter chooses what it sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine import EngineStarted, Event, fold, sparse_tokens
from lessons import long_context_theory as theory
from lessons.long_context_runs import PLAIN, kind_of


@dataclass(frozen=True, slots=True)
class Drafting:
    """One drafted request. seen: tokens in view when drafting began; share: accepted drafts of all drafts.

    cost, verify, speedup: seconds of a draft, of a verify pass, and per token, against the plain request of the same
    run; None where there is none.
    """

    drafter: str
    context: int
    seen: int
    draft_length: int
    share: float
    tau: float
    cost: float | None = None
    verify: float | None = None
    speedup: float | None = None
    is_same: bool | None = None


def draftings(events: Sequence[Event]) -> list[Drafting]:
    """The requests of a run that drafted something, in the order they were submitted.

    Costs and speed-ups only where all the clocks moved: a reader's file may hold anything.
    """
    state = fold(events)
    size = state.engine.block_size if state.engine else 16
    plain = state.requests.get(PLAIN)
    found = (_drafting(one, plain, size) for name, one in state.requests.items() if name != PLAIN)
    return [one for one in found if one is not None]


def _drafting(request: object, plain: object | None, size: int) -> Drafting | None:
    views = [one.viewed for one in request.rounds if one.viewed]
    drafted = [one for one in request.rounds if one.drafted and one.verified and one.bill]
    if request.submitted is None or not views or not drafted:
        return None
    first = views[0]
    num_seen = len(first.sinks) + len(first.retrieved) + len(first.recent)
    num_drafts = sum(len(one.drafted.token_ids) for one in drafted)
    if not num_drafts:
        return None
    num_accepted = sum(one.verified.num_accepted for one in drafted)
    mine, theirs = _decoding(request), _decoding(plain) if plain else []
    times = {}
    step = sum(one.bill.seconds_forward for one in theirs) / len(theirs) if theirs else 0.0
    if step and mine and _per_token(mine) and plain.finished and request.finished:
        times = {
            "cost": sum(one.bill.seconds_draft for one in drafted) / num_drafts / step,
            "verify": sum(one.bill.seconds_forward for one in drafted) / len(drafted) / step,
            "speedup": _per_token(theirs) / _per_token(mine),
            "is_same": request.token_ids == plain.token_ids,
        }
    return Drafting(
        drafter=request.submitted.drafter,
        context=first.num_tokens,
        seen=first.num_tokens - (first.num_blocks - num_seen) * size,
        draft_length=request.submitted.draft_length,
        share=num_accepted / num_drafts,
        tau=1 + num_accepted / len(drafted),
        **times,
    )


def _decoding(request: object) -> list[object]:
    """The rounds after the prompt's."""
    return [one for one in request.rounds if one.bill and one.sampled and one.sampled[0] > 0]


def _per_token(rounds: Sequence[object]) -> float:
    bills = [one.bill for one in rounds]
    total = sum(b.seconds_draft + b.seconds_forward + b.seconds_accept + b.seconds_other for b in bills)
    return total / sum(len(one.sampled) for one in rounds)


# ---- what should be seen and cost ---------------------------------------------------------------------------------


def predicted_cost(one: Drafting, start: EngineStarted) -> float | None:
    """Bytes of a draft step over those of a plain step; None for a model whose sizes are not known here."""
    reads = theory.run_bytes(start.model, (one.seen, one.context))
    return None if reads is None else reads[0] / reads[1]


def predicted_view(one: Drafting, start: EngineStarted) -> int:
    """The tokens that should be in view, by the drafter's name: half of TriForce's window are retrieved blocks."""
    window, _, sinks = one.drafter.partition(":")[2].partition(",")
    width, size = int(window), start.block_size
    num_sinks = int(sinks) if sinks else theory.SINKS
    if kind_of(one.drafter) != "retrieved":
        return sparse_tokens(one.context, num_sinks, width, size)
    half = max(1, width // 2)
    return sparse_tokens(one.context, num_sinks, half, size) + max(1, half // size) * size
