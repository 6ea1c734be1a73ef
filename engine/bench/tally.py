"""What one contestant did on one category of prompts, and what that says against plain decoding.

Knows nothing of drafters. Definitions are the field's: τ = tokens per pass of the target after the prompt's, the
resampled or bonus one included; draft acceptance rate = accepted / drafted.
"""

import statistics
import time
from dataclasses import dataclass, field

from engine import Engine, Request
from engine.events import Drafted, Probed, RoundFinished, Sampled, Verified

POSITIONS = 8


@dataclass(slots=True)
class Tally:
    """Seconds by repeat, and of one repeat what became of the drafts.

    seconds: of the requests' own clocks (schedule, draft, pass, acceptance, blocks). whole_seconds: from call to
    return, as the programs of others are timed.
    """

    seconds: list[float] = field(default_factory=list)
    whole_seconds: list[float] = field(default_factory=list)
    num_tokens: int = 0
    num_rounds: int = 0  # passes of the target after the prompts'
    num_round_tokens: int = 0
    seconds_draft: float = 0.0
    num_drafted: int = 0
    num_accepted: int = 0
    asked: list[int] = field(default_factory=lambda: [0] * POSITIONS)  # drafts looked at, by position
    right: list[int] = field(default_factory=lambda: [0] * POSITIONS)
    texts: list[tuple[int, ...]] = field(default_factory=list)
    passes: dict[int, list[float]] = field(default_factory=dict)  # seconds of the target's passes, by rows
    rounds: list[float] = field(default_factory=list)  # seconds of each round after the prompts'
    drafting: list[float] = field(default_factory=list)  # seconds of drafting, in rounds that had drafts
    num_rows: int = 1  # of the round that is being counted

    @property
    def whole_rate(self) -> float:
        """Tokens per second from call to return, median of the repeats."""
        return self.num_tokens / statistics.median(self.whole_seconds)

    def figures(self, plain: "Tally", is_greedy: bool) -> dict[str, object]:
        """Against plain decoding of the same prompts in the same repeats.

        draft_cost: all drafting by the number of drafts, in plain decoding's whole time by its tokens; both have the
        prompt in them.
        """
        pairs = zip(self.seconds, plain.seconds, strict=True)
        rates = [self.num_tokens / one / (plain.num_tokens / other) for one, other in pairs]
        step = statistics.median(plain.seconds) / max(1, plain.num_tokens)
        return {
            "speed_up": statistics.median(rates), "lowest": min(rates), "highest": max(rates),
            "tokens_per_second": self.num_tokens / statistics.median(self.seconds),
            "whole_call_tokens_per_second": self.whole_rate,
            "tau": self.num_round_tokens / max(1, self.num_rounds),
            "draft_acceptance_rate": self.num_accepted / self.num_drafted if self.num_drafted else None,
            "acceptance_by_position": [r / a for r, a in zip(self.right, self.asked, strict=True) if a],
            "time_of_pass": self.times_of_passes(plain),
            "draft_cost": self.seconds_draft / self.num_drafted / step if self.num_drafted else 0.0,
            "draft_round_cost": self.draft_round_cost(plain),
            "is_identical": self.texts == plain.texts if is_greedy else None,
        }  # fmt: skip

    def times_of_passes(self, plain: "Tally") -> dict[str, float]:
        """t(n)/t(1): the median pass over n rows against plain decoding's, for each n that at least ten passes had."""
        if 1 not in plain.passes:
            return {}
        one = statistics.median(plain.passes[1])
        often = {rows: seconds for rows, seconds in sorted(self.passes.items()) if len(seconds) >= 10}
        return {str(rows): statistics.median(seconds) / one for rows, seconds in often.items()}

    def draft_round_cost(self, plain: "Tally") -> float | None:
        """Median drafting time of a round in median plain steps. The first of a request, where heads read it, is out.

        With K = 1 that is one step of a chain; of Medusa it is all heads once.
        """
        if not (self.drafting and plain.rounds):
            return None
        return statistics.median(self.drafting) / statistics.median(plain.rounds)

    def whole_figures(self, plain: "Tally") -> dict[str, float]:
        """Of a program that is only known from call to return, against plain decoding timed alike."""
        pairs = zip(self.whole_seconds, plain.whole_seconds, strict=True)
        rates = [self.num_tokens / one / (plain.num_tokens / other) for one, other in pairs]
        found = {"speed_up": statistics.median(rates), "lowest": min(rates), "highest": max(rates)}
        return found | {"whole_call_tokens_per_second": self.whole_rate}

    def count(self, event: object) -> None:
        """Adds one event to what became of the drafts."""
        if isinstance(event, RoundFinished) and event.round > 0:
            self.num_rounds += 1
            self.seconds_draft += event.seconds_draft
            parts = (event.seconds_draft, event.seconds_forward, event.seconds_accept, event.seconds_other)
            self.rounds.append(sum(parts))
            if self.num_rows > 1:
                self.drafting.append(event.seconds_draft)
            self.passes.setdefault(self.num_rows, []).append(event.seconds_forward)
            self.num_rows = 1
        elif isinstance(event, Sampled):
            self.num_tokens += 1
            self.num_round_tokens += event.round > 0
        elif isinstance(event, Drafted):
            self.num_drafted += len(event.token_ids)
            self.num_rows += len(event.token_ids)
        elif isinstance(event, Probed):
            self.num_rows += len(event.token_ids)
        elif isinstance(event, Verified):
            self.num_accepted += event.num_accepted
            for position, verdict in enumerate(event.verdicts[:POSITIONS]):
                self.asked[position] += verdict != "unreached"
                self.right[position] += verdict == "accepted"


def run(engine: Engine, request: Request, tally: Tally | None) -> tuple[float, float]:
    """One prompt once: seconds of its own clock, and from call to return. A tally, if given, hears of its events."""
    clock, events, start = 0.0, [], time.perf_counter()
    for event in engine.run([request]):
        events.append(event)
        if isinstance(event, RoundFinished):
            clock = event.request_clock
    whole = time.perf_counter() - start
    if tally is not None:
        num_before = len(tally.drafting)
        for event in events:
            tally.count(event)
        del tally.drafting[num_before : num_before + 1]  # the first: a head reads the prompt in it
        tally.texts.append(tuple(event.token_id for event in events if isinstance(event, Sampled)))
    return clock, whole
