"""The drafts of a request that its rule could keep: what the target gave them, and what the exact rule would have done.

Knows nothing of pages and of other requests: events in, numbers out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine import Drafted, Sampled, Verified


@dataclass(frozen=True, slots=True)
class Judged:
    """A draft whose parent was kept: its probability under target and draft, and whether the rule kept it too.

    place: its round and its parent, which siblings share.
    """

    place: tuple[int, int]
    p: float
    q: float
    is_kept: bool

    @property
    def exact_chance(self) -> float:
        """How likely the exact rule takes this draft at this place: min(1, p/q).

        The q of a draft that was chosen, not drawn, is 1. Of several chosen siblings this is the chance that of all of
        them this one is taken, for those refused before it leave p(x) / (1 − Σ p) behind.
        """
        return max(0.0, min(1.0, self.p / self.q)) if self.q > 0 else 1.0


def judged(pairs: Sequence[tuple[Drafted, Verified]]) -> tuple[Judged, ...]:
    """The drafts of these rounds that stood at the root or behind a kept one, as far as the rule looked at them."""
    found = []
    for drafted, verified in pairs:
        kept = [verdict == "accepted" for verdict in verified.verdicts]
        for node, parent in enumerate(drafted.parents[: len(kept)]):
            if verified.verdicts[node] != "unreached" and (parent < 0 or kept[parent]):
                place = (drafted.round, parent)
                found.append(Judged(place, verified.p[node], verified.q[node], kept[node]))
    return tuple(found)


def surprise(sampled: Sequence[Sampled]) -> float | None:
    """The mean of −ln p over a text's tokens, p the model's own at temperature 1; None where the run does not tell it.

    An exact rule leaves its expectation as it is for plain decoding at the same temperature.
    """
    told = [event.p_model for event in sampled if event.p_model is not None and 0 < event.p_model <= 1]
    return -sum(map(math.log, told)) / len(told) if told and len(told) == len(sampled) else None


def wrongly_kept(drafts: Sequence[Judged]) -> float | None:
    """Of the kept drafts, the share that the exact rule would have refused, in expectation over its coins."""
    kept = [one for one in drafts if one.is_kept]
    return sum(1 - one.exact_chance for one in kept) / len(kept) if kept else None


def acceptances(drafts: Sequence[Judged]) -> tuple[float, float] | None:
    """Of the places that were judged, the share where a draft was kept, and that expected of the exact rule there."""
    num_places = len({one.place for one in drafts})
    if not num_places:
        return None
    return sum(one.is_kept for one in drafts) / num_places, sum(one.exact_chance for one in drafts) / num_places


def mean_kept(drafts: Sequence[Judged]) -> float | None:
    """The mean probability that the target gave to the kept drafts."""
    kept = [one.p for one in drafts if one.is_kept]
    return sum(kept) / len(kept) if kept else None
