"""The race in numbers: speeds, tokens per pass, costs of a round, and the speed-up predicted and measured.

Knows nothing of pages and charts: events in, numbers out. The same arithmetic, at any moment of a run, is
assets/account.js; a test holds the two equal.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine import (
    Drafted,
    Event,
    Finished,
    RoundCosts,
    RoundFinished,
    Sampled,
    SpeedupAccount,
    Submitted,
    Verified,
    expected_tokens,
    explain_speedup,
)

VANILLA, SPECULATIVE = "vanilla", "speculative"
GREEDY_BELOW = 1e-5
SHORTEST, LONGEST = 1e-9, 1e6  # seconds that a pass can take, and a race
DRAFTS = (Drafted, Verified)


# ---- from events to numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Round:
    """One generating round: tokens it gave, verdicts and depths of its drafts, and its bill in seconds."""

    num_tokens: int
    verdicts: tuple[str, ...]
    depths: tuple[int, ...]
    draft: float
    forward: float
    other: float


@dataclass(frozen=True, slots=True)
class Pace:
    """One request on its own clock: the time to its first token, then the rounds that gave the others."""

    token_ids: tuple[int, ...]
    ttft: float
    total: float
    rounds: tuple[Round, ...]
    is_greedy: bool
    rule: str

    @property
    def num_generated(self) -> int:
        """Tokens after the first, as far as their rounds are billed."""
        return sum(item.num_tokens for item in self.rounds)

    @property
    def tpot(self) -> float:
        """Time per output token: (whole time − TTFT) ÷ (tokens − 1)."""
        return (self.total - self.ttft) / self.num_generated

    @property
    def num_drafted(self) -> int:
        """Tokens drafted in all."""
        return sum(len(item.verdicts) for item in self.rounds)

    def mean(self, part: str) -> float:
        """The mean of "draft", "forward" or "other" over the rounds, in seconds."""
        return sum(getattr(item, part) for item in self.rounds) / len(self.rounds)


@dataclass(frozen=True, slots=True)
class RaceAccount:
    """A finished race. Speed-ups are ratios of TPOT; c and v are in plain steps and plain passes."""

    vanilla: Pace
    speculative: Pace
    tau: float  # tokens per pass of the target, the resampled or bonus one included
    alpha: float  # accepted ÷ looked at, over all positions
    by_position: tuple[tuple[int, int], ...]  # (accepted, looked at)
    c: float  # one drafted token ÷ one plain step
    verify_ratio: float  # t(K+1) ÷ t(1)
    expected: float  # E[τ] for one α at every position
    measured: float
    predicted: float
    textbook: float  # as predicted, but a wide pass costs one plain step and nothing else costs anything
    with_verify: float  # as predicted, but nothing besides drafting and the pass costs anything
    explained: SpeedupAccount
    are_finished: bool  # by themselves: nobody stopped them
    differs_at: int  # −1: the same tokens, as far as both go

    @property
    def passes_saved(self) -> int:
        """Passes of the target that vanilla would have needed for the same tokens, less those that were made."""
        return self.speculative.num_generated - len(self.speculative.rounds)


def race_account(events: Sequence[Event]) -> RaceAccount | None:
    """The account of a race; None where one of the two has no token after its first, or reports what cannot be.

    A reader's file may hold anything: clocks that stand still, drafts that hang on nothing.
    """
    paces = [_pace(events, name) for name in (VANILLA, SPECULATIVE)]
    if not all(pace and pace.rounds and _is_sound(pace) for pace in paces):
        return None
    vanilla, speculative = paces
    rounds, plain = speculative.rounds, vanilla.tpot
    tau = speculative.num_generated / len(rounds)
    by_position = _by_position(rounds)
    accepted, looked_at = (sum(column) for column in zip(*by_position, strict=True)) if by_position else (0, 0)
    alpha = accepted / looked_at if looked_at else 0.0
    expected = sum(expected_tokens(alpha, len(item.verdicts)) for item in rounds) / len(rounds)
    draft, verify, other = (speculative.mean(part) for part in ("draft", "forward", "other"))
    per_round = speculative.num_drafted / len(rounds)
    are_finished = is_finished(events)
    return RaceAccount(
        vanilla=vanilla,
        speculative=speculative,
        tau=tau,
        alpha=alpha,
        by_position=by_position,
        c=draft / per_round / plain if per_round else 0.0,
        verify_ratio=verify / vanilla.mean("forward"),
        expected=expected,
        measured=plain / speculative.tpot,
        predicted=expected * plain / (draft + verify + other),
        textbook=expected * plain / (draft + plain),
        with_verify=expected * plain / (draft + verify),
        explained=explain_speedup(RoundCosts(plain, draft, verify, other), tau, per_round),
        are_finished=are_finished,
        differs_at=first_difference(vanilla.token_ids, speculative.token_ids, are_finished),
    )


def first_difference(one: Sequence[int], other: Sequence[int], are_finished: bool) -> int:
    """The first index where two texts diverge, −1 where there is none.

    A text that was cut off is compared as far as it goes: only of two finished ones does the length count.
    """
    pairs = zip(one, other, strict=False)
    found = next((index for index, (left, right) in enumerate(pairs) if left != right), -1)
    return min(len(one), len(other)) if found < 0 and are_finished and len(one) != len(other) else found


def _pace(events: Sequence[Event], name: str) -> Pace | None:
    mine = [event for event in events if getattr(event, "request_id", "") == name]
    submitted = next((event for event in mine if isinstance(event, Submitted)), None)
    sampled = [event for event in mine if isinstance(event, Sampled)]
    bills = {event.round: event for event in mine if isinstance(event, RoundFinished)}  # the last one of each round
    first = next((event.round for event in sampled if event.index == 0), None)
    if submitted is None or first not in bills:
        return None
    counts = Counter(event.round for event in sampled)
    drafted, verified = ({event.round: event for event in mine if isinstance(event, kind)} for kind in DRAFTS)
    rounds = tuple(
        _round(bill, counts[number], drafted.get(number), verified.get(number))
        for number, bill in bills.items()
        if number != first and counts[number]
    )
    total = next(event.request_clock for event in reversed(mine) if isinstance(event, RoundFinished))
    is_greedy = submitted.temperature < GREEDY_BELOW
    token_ids = tuple(event.token_id for event in sampled)
    return Pace(token_ids, bills[first].request_clock, total, rounds, is_greedy, submitted.rule)


def _round(bill: RoundFinished, num_tokens: int, drafted: Drafted | None, verified: Verified | None) -> Round:
    depths = _depths(drafted.parents) if drafted else ()
    verdicts = verified.verdicts if verified else ()
    other = bill.seconds_accept + bill.seconds_other
    return Round(num_tokens, verdicts, depths, bill.seconds_draft, bill.seconds_forward, other)


def _depths(parents: Sequence[int]) -> tuple[int, ...]:
    """How deep each draft stands in its tree; empty where one hangs on a draft that does not stand before it."""
    depths: list[int] = []
    for index, parent in enumerate(parents):
        if not -1 <= parent < index:
            return ()
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return tuple(depths)


def _is_sound(pace: Pace) -> bool:
    """Whether the times can be times, and every verdict has its draft; `pace` has at least one round."""
    seconds = [value for item in pace.rounds for value in (item.draft, item.forward, item.other)]
    is_forward = pace.ttft >= 0 and pace.total <= LONGEST and pace.tpot >= SHORTEST
    are_times = all(0 <= value <= LONGEST for value in seconds) and pace.mean("forward") >= SHORTEST
    return is_forward and are_times and all(len(item.depths) == len(item.verdicts) for item in pace.rounds)


def _by_position(rounds: Sequence[Round]) -> tuple[tuple[int, int], ...]:
    """(accepted, looked at) for each position of the draft: conditional, because an unreached draft is not counted."""
    size = max((depth + 1 for item in rounds for depth in item.depths), default=0)
    counts = [[0, 0] for _ in range(size)]
    for item in rounds:
        for depth, verdict in zip(item.depths, item.verdicts, strict=True):
            counts[depth][0] += verdict == "accepted"
            counts[depth][1] += verdict != "unreached"
    return tuple((accepted, looked_at) for accepted, looked_at in counts)


def is_finished(events: Sequence[Event]) -> bool:
    """Whether both ended by themselves, so that their texts can be compared to the end."""
    reasons = {event.request_id: event.finish_reason for event in events if isinstance(event, Finished)}
    return all(reasons.get(name) in ("stop", "length") for name in (VANILLA, SPECULATIVE))
