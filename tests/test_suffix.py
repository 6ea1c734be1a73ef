"""The suffix automaton against a search from the longest suffix down; what the drafter copies, how much and when."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.drafter import NOTHING
from engine.drafters.suffix import SuffixAutomaton, SuffixDrafter
from tests import test_ngram
from tests.test_ngram import hear


def longest_repeat(text) -> tuple[int, set[int]]:
    """The slow truth: the length of the longest suffix that ends earlier as well, and the indices after its places."""
    for length in range(len(text) - 1, 0, -1):
        suffix = text[len(text) - length :]
        ends = {end for end in range(length, len(text)) if text[end - length : end] == suffix}
        if ends:
            return length, ends
    return 0, set()


def automaton_of(text) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for token in text:
        automaton.append(token)
    return automaton


def look_up(text, drafter=None, num_tokens=64):
    """As test_ngram's, by default with a new automaton."""
    return test_ngram.look_up(text, drafter or SuffixDrafter(), num_tokens)


# ---- the automaton ----------------------------------------------------------------------------------------------


@given(st.text("abc", max_size=40) | st.text("ab", max_size=40))
def test_at_every_token_the_match_is_that_of_a_search_from_the_longest_suffix_down(text):
    automaton = SuffixAutomaton()
    for num_tokens, token in enumerate(text, start=1):
        automaton.append(token)
        length, ends = longest_repeat(text[:num_tokens])
        assert automaton.num_tokens == num_tokens
        assert automaton.match[0] == length
        assert automaton.match[1] in ends or not length


@pytest.mark.parametrize("alphabet", [1, 2, 3, 8, 50])
def test_longer_random_texts_too(alphabet):
    draw = random.Random(alphabet)
    text = [draw.randrange(alphabet) for _ in range(300)]
    automaton = SuffixAutomaton()
    for num_tokens, token in enumerate(text, start=1):
        automaton.append(token)
        if num_tokens % 10 == 0 or num_tokens > 280:
            length, ends = longest_repeat(text[:num_tokens])
            assert automaton.match[0] == length
            assert automaton.match[1] in ends or not length


@pytest.mark.parametrize("period", [1, 2, 3, 7])
def test_a_periodic_text_matches_all_but_its_last_period(period):
    text = ("abcdefg"[:period] * 20)[: 3 * period + 5]
    assert automaton_of(text).match == (len(text) - period, len(text) - period)


def test_it_copies_from_where_the_same_match_was_made_last():
    """“xy” stood after 2, 5 and 8 tokens. Each time it was the longest match, so each time its place moved on."""
    assert automaton_of("xyaxybxycxy").match == (2, 8)


@pytest.mark.parametrize("text", ["ab" * 500, "a" * 1000, "abcde" * 200, "aab" * 333, "".join(map(chr, range(1000)))])
def test_its_size_is_linear_in_the_text(text):
    """At most 2n states and 3n transitions (Blumer et al. 1985), whatever the text; copies are of transitions too."""
    automaton = automaton_of(text)
    assert len(automaton._next) <= 2 * len(text)
    assert sum(map(len, automaton._next)) <= 3 * len(text)


@given(st.text("ab", max_size=12))
def test_it_knows_every_substring_and_no_other(text):
    automaton, known = automaton_of(text), {""}
    reached = [(0, "")]
    while reached:
        state, word = reached.pop()
        reached += [(target, word + token) for token, target in automaton._next[state].items()]
        known.add(word)
    assert known == {text[start:end] for end in range(len(text) + 1) for start in range(end + 1)}


# ---- the draft --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "a", "ab", "abcdef"])
def test_where_the_last_token_is_new_nothing_is_proposed(text):
    assert SuffixDrafter().propose(SimpleNamespace(token_ids=list(text)), 4, ()) is NOTHING


@pytest.mark.parametrize(
    ("text", "proposed", "found_at"),
    [
        ("aa", "aa", 1),  # one token matched: two drafts, past the end with what was copied itself
        ("aaaa", "aaaaaa", 3),
        ("aba", "ba", 1),
        ("abcabc", "abcabc", 3),
        ("wxyz1yz2wxyz", "1yz2wxyz", 4),  # four tokens, although “yz” stood later
        ("xyz1yz2xyz", "1yz2xy", 3),
    ],
)
def test_the_draft_is_what_followed_the_longest_match_twice_as_long_as_it(text, proposed, found_at):
    assert look_up(text) == (proposed, found_at)


def test_no_more_is_proposed_than_was_asked_for():
    assert [len(look_up("abcabc", num_tokens=number)[0]) for number in (0, 1, 2, 5, 6, 64)] == [0, 1, 2, 5, 6, 6]


@given(st.lists(st.text("abc", max_size=5), min_size=1, max_size=8), st.integers(0, 9))
def test_a_text_that_grows_by_rounds_gives_the_drafts_of_the_whole_text(pieces, num_tokens):
    """Also of a fork, which starts with a drafter of its own in the middle of a text."""
    drafter, text = SuffixDrafter(), ""
    for piece in pieces:
        text += piece
        drafts, found_at = look_up(text, drafter, num_tokens)
        assert (drafts, found_at) == look_up(text, None, num_tokens)
        assert look_up(text, drafter, num_tokens) == (drafts, found_at)  # asked twice, as after a preemption
        length, ends = longest_repeat(text)
        assert (found_at in ends) == bool(length)
        assert len(drafts) == min(num_tokens, 2 * length)
        whole = text + drafts
        period = len(text) - found_at
        assert all(whole[place] == whole[place - period] for place in range(len(text), len(whole)))


def test_where_drafts_have_not_paid_a_single_token_is_not_enough():
    """The mean starts at 1 and loses a quarter with each failure: 0.18 after six, 0.13 after seven."""
    assert look_up("aba", hear(SuffixDrafter(), *[(2, 0)] * 6)) == ("ba", 1)
    assert look_up("aba", hear(SuffixDrafter(), *[(2, 0)] * 7)) == ("", -1)
    assert look_up("abcab", hear(SuffixDrafter(), *[(2, 0)] * 7)) == ("cabc", 2)
    assert look_up("aba", hear(SuffixDrafter(), *[(2, 0)] * 7, (4, 1))) == ("ba", 1)
    assert look_up("aba", hear(SuffixDrafter(), *[(0, 0)] * 20)) == ("ba", 1)
