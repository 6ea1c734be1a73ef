"""The longest match: the draft is what followed the longest end of the text that stood there before (SAM decoding).

Knows nothing of any model. Hu et al., ACL 2025 (arXiv 2411.10666), here with the automaton of the sequence itself.
"""

from collections.abc import Sequence as Ids

from engine.drafters.drafter import NOTHING, Proposal
from engine.sequence import Sequence

DRAFTS_PER_TOKEN = 2  # of the match: a long one is seldom chance (Oliaro et al. 2024, arXiv 2411.04975: α · p)
SHORTEST = 1  # tokens of a match that is trusted
DOUBTED = 2  # the same where drafts have not paid lately
WORTH = 0.15  # accepted tokens per draft below which they have not
MEMORY = 0.25  # weight of the newest draft in that average


class SuffixAutomaton:
    """The smallest automaton that knows every substring of a text which grows at its end (Blumer et al. 1985).

    A state stands for substrings that end at the same places; `_length` is that of the longest, and `_link` leads to
    the longest suffix of it that ends at further places. So the link of the whole text is its longest suffix that
    occurred before. A token costs O(1) on average: n tokens make at most 2n states and 3n transitions.
    """

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]  # per state: token → state; state 0 is the empty string
        self._link = [-1]
        self._length = [0]
        self._end = [0]  # index after a place: where the state was the longest match last, else where it first stood
        self._whole = 0  # the state of the whole text
        self._match = (0, 0)

    @property
    def num_tokens(self) -> int:
        """Length of the text."""
        return self._length[self._whole]

    @property
    def match(self) -> tuple[int, int]:
        """Length of the longest suffix that occurred earlier (it may overlap), and the index after such a place."""
        return self._match

    def append(self, token: int) -> None:
        """The text grows by one token."""
        end = self.num_tokens + 1
        whole = self._new_state({}, 0, end, end)
        state = self._whole
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = whole
            state = self._link[state]
        if state >= 0:
            self._link[whole] = self._reached(state, token)
        self._whole = whole
        longest = self._link[whole]
        self._match = self._length[longest], self._end[longest]
        self._end[longest] = end

    def _reached(self, state: int, token: int) -> int:
        """The state of exactly the longest string of `state` and `token`; split off where longer ones share it."""
        shared, length = self._next[state][token], self._length[state] + 1
        if self._length[shared] == length:
            return shared
        split = self._new_state(dict(self._next[shared]), self._link[shared], length, self._end[shared])
        self._link[shared] = split
        while state >= 0 and self._next[state].get(token) == shared:
            self._next[state][token] = split
            state = self._link[state]
        return split

    def _new_state(self, following: dict[int, int], link: int, length: int, end: int) -> int:
        self._next.append(following)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1


class SuffixDrafter:
    """Copies on from the longest match, twice as many tokens as have matched.

    So a draft gets longer with each one that was right, and where a text departs from what it copied, the match is
    short and with it the draft. Where drafts have not paid lately, a match of one token is not enough.
    """

    needs_slots = False
    caches = features = ()
    num_cached = 0

    def __init__(self) -> None:
        self._automaton = SuffixAutomaton()
        self._mean_accepted = 1.0

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        """The continuation of the longest match, or nothing where that is too short."""
        token_ids = sequence.token_ids
        for index in range(self._automaton.num_tokens, len(token_ids)):
            self._automaton.append(token_ids[index])
        length, end = self._automaton.match
        if length < (SHORTEST if self._mean_accepted >= WORTH else DOUBTED):
            return NOTHING
        period = len(token_ids) - end  # past the end of the text it goes on with what it has copied itself
        drafts = range(min(num_tokens, DRAFTS_PER_TOKEN * length))
        return Proposal(tuple(token_ids[end + index % period] for index in drafts), found_at=end)

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Remembers whether drafts pay."""
        if num_drafted:
            self._mean_accepted += MEMORY * (num_accepted - self._mean_accepted)
