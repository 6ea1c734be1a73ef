"""Prompt lookup by hand: which earlier place it copies from, how much, and when it leaves a short match alone."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.drafter import NOTHING
from engine.drafters.ngram import LONGEST, SHORTEST, NgramDrafter

FAR = "wxyz1yz2wxyz"  # "wxyz" stood at 0, "yz" at 5 as well
SHORT = "xyz1yz2xyz"  # the same with a key of three at most


def look_up(text, drafter=None, num_tokens=64):
    """What is proposed after a text, and where it was found; a token is a letter."""
    drafter = drafter or NgramDrafter()
    proposal = drafter.propose(SimpleNamespace(token_ids=list(text)), num_tokens, ())
    assert proposal.laws is proposal.parents is None  # a chain, and each token of it certain
    return "".join(proposal.token_ids), proposal.found_at


def hear(drafter, *rounds):
    """Tells a drafter of rounds: (drafted, accepted). Returns it."""
    for num_drafted, num_accepted in rounds:
        drafter.update(SimpleNamespace(token_ids=[]), num_drafted, num_accepted)
    return drafter


# ---- where ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "a", "ab", "aa", "aba", "abcdef", "abxcb"])
def test_without_an_earlier_pair_like_the_last_one_nothing_is_proposed(text):
    assert NgramDrafter().propose(SimpleNamespace(token_ids=list(text)), 4, ()) is NOTHING


@pytest.mark.parametrize(
    ("text", "proposed", "found_at"),
    [
        ("ab1ab", "1ab1", 2),
        (FAR, "1yz2", 4),  # a key of four, although "yz" stood later
        (SHORT, "1yz2", 3),  # a key of three, although "yz" stood later
        ("ab1ab2ab", "2ab2", 5),  # the later of two places
        ("abcd1abcd2abcd", "2abc", 9),
        ("aaa", "aaaa", 2),
        ("aaaaaa", "aaaa", 5),  # the latest place overlaps the key itself
    ],
)
def test_the_draft_follows_the_latest_place_of_the_longest_key(text, proposed, found_at):
    assert look_up(text) == (proposed, found_at)


def test_what_was_the_end_when_it_was_last_asked_is_found_once_something_follows():
    drafter = NgramDrafter()
    assert look_up("ab1", drafter) == ("", -1)
    assert look_up("ab1cdb1", drafter) == ("cdb1", 3)
    assert look_up("ab1cdb1cab", drafter) == ("1cdb", 2)


@given(st.lists(st.text("abc", max_size=5), min_size=1, max_size=8))
def test_places_are_those_of_a_search_from_the_end_however_the_text_grows(pieces):
    drafter, text = NgramDrafter(), ""
    for piece in pieces:
        text += piece
        lengths = [length for length in range(LONGEST, SHORTEST - 1, -1) if length < len(text)]
        begins = {length: text.rfind(text[-length:], 0, len(text) - 1) for length in lengths}
        places = [begin + length for length, begin in begins.items() if begin >= 0]
        assert look_up(text, drafter)[1] == (places[0] if places else -1)


# ---- how much ---------------------------------------------------------------------------------------------------


def test_a_repeating_text_goes_on_past_its_own_end():
    drafter = hear(NgramDrafter(), (4, 4))
    assert look_up("abcabc", drafter, 10) == ("abcabcabca", 3)
    assert look_up("abcabc1abcabc", drafter, 9) == ("1abcabc1a", 6)


def test_no_more_is_proposed_than_was_asked_for():
    assert [len(look_up("ab1ab", num_tokens=number)[0]) for number in (1, 2, 3, 4, 5, 64)] == [1, 2, 3, 4, 4, 4]


@pytest.mark.parametrize(
    ("rounds", "length"),
    [
        ([], 4),
        ([(4, 4)], 16),  # four times as many after a draft that was accepted as a whole
        ([(4, 4), (16, 16)], 64),
        ([(3, 3)], 12),  # the engine had asked for fewer
        ([(4, 3)], 3),  # the accepted part
        ([(4, 4), (16, 5)], 5),
        ([(4, 1)], 2),  # never fewer than two
        ([(4, 0)], 2),
        ([(4, 0), (2, 2)], 8),
        ([(4, 4), (0, 0)], 16),  # a round without a draft says nothing
    ],
)
def test_the_next_draft_is_as_long_as_the_last_one_earned(rounds, length):
    assert len(look_up("ab1ab", hear(NgramDrafter(), *rounds))[0]) == length


# ---- whether ----------------------------------------------------------------------------------------------------


def test_where_lookups_have_not_paid_only_a_key_of_four_is_trusted():
    """The mean starts at 1 and loses a quarter with each failure: 0.32 after four, 0.24 after five."""
    still, no_more = (hear(NgramDrafter(), *[(2, 0)] * number) for number in (4, 5))
    assert look_up(SHORT, still) == ("1y", 3)
    assert look_up(SHORT, no_more) == ("", -1)
    assert look_up(FAR, hear(NgramDrafter(), *[(2, 0)] * 5)) == ("1y", 4)


def test_a_lookup_that_pays_brings_the_trust_back():
    """0.24 + (1 − 0.24) / 4 = 0.43 accepted tokens per lookup."""
    assert look_up(SHORT, hear(NgramDrafter(), *[(2, 0)] * 5, (2, 1))) == ("1y", 3)


def test_rounds_without_a_lookup_take_no_trust_away():
    assert look_up(SHORT, hear(NgramDrafter(), *[(0, 0)] * 20)) == ("1yz2", 3)
