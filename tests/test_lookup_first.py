"""Lookup in front of a trained head: who drafts when, and a head that was passed over is none the worse for it."""

from types import SimpleNamespace

import pytest
import torch

from engine import Request, SamplingParams
from engine.drafters.drafter import NOTHING, Proposal
from engine.drafters.lookup_first import LookupFirstDrafter
from engine.events import Drafted, Sampled
from tests.toys import toy_engine


class Other:
    """Proposes as many sevens as it may, and remembers what it is asked and told."""

    needs_slots, caches, features = True, (), ()

    def __init__(self, is_drawn: bool = False) -> None:
        self.num_cached, self.asked, self.told, self._is_drawn = 3, [], [], is_drawn

    def propose(self, sequence: object, num_tokens: int, table: object) -> Proposal:
        self.asked.append(num_tokens)
        laws = torch.full((num_tokens, 8), 0.125) if self._is_drawn else None
        return Proposal((7,) * num_tokens, laws) if num_tokens else NOTHING

    def update(self, sequence: object, num_drafted: int, num_accepted: int) -> None:
        self.told.append((num_drafted, num_accepted))


def test_the_other_is_asked_only_where_nothing_is_found_and_for_few() -> None:
    other = Other()
    drafter = LookupFirstDrafter(other, most=2)
    assert drafter.propose(SimpleNamespace(token_ids=[1, 2, 7, 1, 2]), 5, ()).token_ids == (7, 1, 2, 7)
    drafter.update(SimpleNamespace(), 4, 1)
    assert drafter.propose(SimpleNamespace(token_ids=[1, 2, 7, 1, 2, 4]), 5, ()).token_ids == (7, 7)
    drafter.update(SimpleNamespace(), 2, 1)
    assert (other.asked, other.told) == ([2], [(0, 0), (2, 1)])


@pytest.mark.parametrize("is_drawn", [False, True])
def test_behind_the_others_chain_goes_on_what_costs_nothing_as_point_masses(is_drawn: bool) -> None:
    asked = []

    def go_on(token_ids: list[int], num_tokens: int) -> tuple[int, ...]:
        asked.append((token_ids, num_tokens))
        return (3, 5)

    drafter = LookupFirstDrafter(Other(is_drawn), most=1, go_on=go_on)
    made = drafter.propose(SimpleNamespace(token_ids=[9, 1, 2, 4]), 6, ())
    assert (made.token_ids, asked) == ((7, 3, 5), [([2, 4, 7], 5)])
    if is_drawn:
        assert made.laws.tolist()[0] == [0.125] * 8
        assert made.laws.tolist()[1:] == torch.eye(8)[[3, 5]].tolist()
    else:
        assert made.laws is None


def test_nothing_goes_on_where_there_is_no_room_for_more() -> None:
    drafter = LookupFirstDrafter(Other(), most=2, go_on=lambda token_ids, num_tokens: (1,) * num_tokens)
    assert drafter.propose(SimpleNamespace(token_ids=[9, 1, 2, 4]), 2, ()).token_ids == (7, 7)
    assert drafter.propose(SimpleNamespace(token_ids=[9, 1, 2, 4]), 0, ()).token_ids == ()


def test_its_cache_is_the_others() -> None:
    other = Other()
    drafter = LookupFirstDrafter(other)
    drafter.num_cached -= 1
    assert (drafter.num_cached, other.num_cached, drafter.needs_slots) == (2, 2, True)


def test_a_head_that_was_passed_over_drafts_as_if_it_had_been_asked_each_time() -> None:
    """Each of its drafts begins with what the head alone proposes after the same text."""
    prompt = [1, 2, 3, 1, 2, 7, 4]
    events = list(toy_engine().run([Request(prompt, SamplingParams(40, draft_length=3), "lookup_eagle")]))
    tokens = prompt + [event.token_id for event in events if isinstance(event, Sampled)]
    known, by_lookup, by_head, by_table = len(prompt), 0, 0, 0
    for event in events:
        known += isinstance(event, Sampled)
        if not isinstance(event, Drafted):
            continue
        if event.found_at >= 0:
            by_lookup += 1
            continue
        alone = toy_engine().run([Request(tokens[: known - 1], SamplingParams(8, draft_length=2), "eagle3")])
        assert next(each for each in alone if isinstance(each, Drafted)).token_ids == event.token_ids[:2]
        by_head, by_table = by_head + 1, by_table + (len(event.token_ids) > 2)
    assert by_lookup
    assert by_head
    assert by_table
