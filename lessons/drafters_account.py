"""A run of the zoo in numbers: for every request its speed, tokens per pass, acceptance by position, and bill.

Knows nothing of pages and charts: events in, rows out. The same arithmetic, at any moment of a run, is
assets/zoo_account.js; a test holds the two equal.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from engine import Drafted, Event, Finished, RoundFinished, Sampled, Submitted, Verified, expected_tokens_by_position
from lessons.drafters_kept import Judged, judged, surprise
from lessons.drafters_runs import PLAIN

GREEDY_BELOW = 1e-5
SHORTEST, LONGEST = 1e-9, 1e6  # seconds that a run can take


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. Times are its own clock's after its first token; costs are in plain steps, None without a plain run.

    tau: tokens per pass, the resampled or bonus one included. by_depth: (rounds with an accepted draft, rounds with one
    that was looked at) at each position of the draft, of a tree at each depth. round_cost: a whole round; draft_cost:
    one drafted token. is_same: whether the text is that of plain decoding as far as both go, None where it need not be.
    judged: the drafts that the rule could have kept. surprise: see `drafters_kept.surprise`.
    """

    name: str
    drafter: str
    draft_length: int
    temperature: float
    rule: str
    is_draft_greedy: bool
    num_tokens: int
    num_rounds: int
    tokens_per_second: float
    tau: float
    by_depth: tuple[tuple[int, int], ...]
    num_drafted: int
    seconds_draft: float
    speed_up: float | None
    round_cost: float | None
    draft_cost: float | None
    is_same: bool | None
    is_finished: bool
    judged: tuple[Judged, ...]
    surprise: float | None

    @property
    def is_lossy(self) -> bool:
        """Whether the text follows another law than the target's; greedily every rule keeps the target's choice."""
        return self.rule == "typical" and self.temperature >= GREEDY_BELOW

    @property
    def alpha(self) -> float | None:
        """Accepted ÷ looked at, over all positions; None where nothing was drafted."""
        accepted, looked_at = (sum(column) for column in zip(*self.by_depth, strict=True)) if self.by_depth else (0, 0)
        return accepted / looked_at if looked_at else None

    @property
    def conditional(self) -> tuple[float, ...]:
        """Acceptance at each position, given that the position was looked at."""
        return tuple(accepted / looked_at if looked_at else 0.0 for accepted, looked_at in self.by_depth)

    @property
    def reached(self) -> tuple[float, ...]:
        """The share of rounds that went beyond each position, from the chances of every step on the way there.

        A round that could go on may have no draft left: that chance is a factor of its own.
        """
        before = [self.num_rounds, *(accepted for accepted, _ in self.by_depth[:-1])]
        steps = [
            (looked_at / last) * chance if last else 0.0
            for (_, looked_at), last, chance in zip(self.by_depth, before, self.conditional, strict=False)
        ]
        return tuple(accumulate(steps, mul))

    @property
    def expected(self) -> float:
        """τ as the chances by position give it: 1 + Σ ∏ (drafted there · accepted there)."""
        before = [self.num_rounds, *(accepted for accepted, _ in self.by_depth[:-1])]
        shares = [a / last if last else 0.0 for (a, _), last in zip(self.by_depth, before, strict=False)]
        return expected_tokens_by_position(shares)


def entries(events: Sequence[Event]) -> list[Entry]:
    """One for each request that has tokens after its first; none for one that reports what cannot be."""
    names = [event.request_id for event in events if isinstance(event, Submitted)]
    mine: dict[str, list[Event]] = {name: [] for name in names}
    for event in events:
        if getattr(event, "request_id", None) in mine:
            mine[event.request_id].append(event)
    plain = _tally(mine.get(PLAIN, []))
    found = [(name, _tally(news)) for name, news in mine.items()]
    return [_entry(name, tally, plain) for name, tally in found if tally]


@dataclass(frozen=True, slots=True)
class _Tally:
    """Sums over the rounds of one request after the one of its first token."""

    asked: Submitted
    token_ids: tuple[int, ...]
    num_generated: int
    num_rounds: int
    seconds: float
    seconds_draft: float
    by_depth: tuple[tuple[int, int], ...]
    num_drafted: int
    is_finished: bool
    judged: tuple[Judged, ...]
    surprise: float | None

    @property
    def step(self) -> float:
        """Seconds per token."""
        return self.seconds / self.num_generated


def _tally(events: Sequence[Event]) -> _Tally | None:
    sampled = [event for event in events if isinstance(event, Sampled)]
    first = next((event.round for event in sampled if event.index == 0), None)
    bills = {event.round: event for event in events if isinstance(event, RoundFinished)}
    counts = Counter(event.round for event in sampled if event.round in bills)
    rounds = [number for number in bills if number != first and counts[number]]
    if first not in bills or not rounds:
        return None
    drafts = {event.round: event for event in events if isinstance(event, Drafted)}
    verified = {event.round: event for event in events if isinstance(event, Verified)}
    pairs = [(drafts[number], verified[number]) for number in rounds if number in drafts and number in verified]
    seconds = bills[rounds[-1]].request_clock - bills[first].request_clock
    if not SHORTEST <= seconds <= LONGEST:
        return None
    return _Tally(
        asked=next(event for event in events if isinstance(event, Submitted)),
        token_ids=tuple(event.token_id for event in sampled),
        num_generated=sum(counts[number] for number in rounds),
        num_rounds=len(rounds),
        seconds=seconds,
        seconds_draft=sum(bills[number].seconds_draft for number in rounds),
        by_depth=_by_depth(pairs),
        num_drafted=sum(len(drafted.token_ids) for drafted, _ in pairs),
        is_finished=any(isinstance(event, Finished) and event.finish_reason in ("stop", "length") for event in events),
        judged=judged(pairs),
        surprise=surprise(sampled),
    )


def _by_depth(pairs: Sequence[tuple[Drafted, Verified]]) -> tuple[tuple[int, int], ...]:
    """A round counts once at each depth: of several siblings one at most is accepted."""
    accepted, looked_at = Counter(), Counter()
    for drafted, verified in pairs:
        depths = depths_of(drafted.parents)
        fates = list(zip(depths, verified.verdicts, strict=False))
        accepted.update({depth for depth, fate in fates if fate == "accepted"})
        looked_at.update({depth for depth, fate in fates if fate != "unreached"})
    return tuple((accepted[depth], looked_at[depth]) for depth in range(max(looked_at, default=-1) + 1))


def depths_of(parents: Sequence[int]) -> list[int]:
    """How deep each draft stands in its tree, from 0; a parent that does not stand before it counts as the root."""
    depths: list[int] = []
    for index, parent in enumerate(parents):
        depths.append(depths[parent] + 1 if 0 <= parent < index else 0)
    return depths


def _entry(name: str, tally: _Tally, plain: _Tally | None) -> Entry:
    asked, step = tally.asked, plain.step if plain else None
    is_greedy = asked.temperature < GREEDY_BELOW
    must_agree = plain is not None and is_greedy and asked.rule == "exact"
    return Entry(
        name=name,
        drafter=asked.drafter if name != PLAIN else PLAIN,
        draft_length=asked.draft_length,
        temperature=asked.temperature,
        rule=asked.rule,
        is_draft_greedy=asked.draft_temperature is not None and asked.draft_temperature < GREEDY_BELOW,
        num_tokens=len(tally.token_ids),
        num_rounds=tally.num_rounds,
        tokens_per_second=1 / tally.step,
        tau=tally.num_generated / tally.num_rounds,
        by_depth=tally.by_depth,
        num_drafted=tally.num_drafted,
        seconds_draft=tally.seconds_draft,
        speed_up=step / tally.step if step else None,
        round_cost=tally.seconds / tally.num_rounds / step if step else None,
        draft_cost=tally.seconds_draft / tally.num_drafted / step if step and tally.num_drafted else None,
        is_same=_agree(tally.token_ids, plain.token_ids) if must_agree else None,
        is_finished=tally.is_finished,
        judged=tally.judged,
        surprise=tally.surprise,
    )


def _agree(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two texts are the same as far as both go."""
    return all(left == right for left, right in zip(one, other, strict=False))
