"""Jacobi iteration and Lookahead: the window by hand, the pool, exact text, and rows that nobody may accept."""

import itertools

import pytest
import torch

from engine import EngineError, Request, SamplingParams
from engine.drafters import MOST_IN_WINDOW, Proposal
from engine.drafters.lookahead import JacobiDrafter, LookaheadDrafter
from engine.events import Drafted, Forwarded, Probed, RoundFinished, Sampled
from tests.toys import VOCAB_SIZE, RandomDrafter, exact_law, toy_engine

PROMPT = [1, 2, 3, 1, 2, 4, 1, 2, 3]


def kept(events, kind):
    return [event for event in events if isinstance(event, kind)]


def favourite(engine, token_ids: list[int]) -> int:
    return int(exact_law(engine, token_ids).argmax())


class Watched(LookaheadDrafter):
    """Keeps every window and pool."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.seen = []

    def propose(self, sequence, num_tokens, table):
        proposal = super().propose(sequence, num_tokens, table)
        window = [list(level) for level in self._window]
        self.seen.append((list(sequence.token_ids), window, self.pool, proposal))
        return proposal


def watched(width: int, levels: int, guesses: int, num_new: int = 40):
    engine, made = toy_engine(num_blocks=128), []
    engine._admission._extra_drafters["watched"] = lambda: made.append(Watched(width, levels, guesses)) or made[-1]
    events = list(engine.run([Request(PROMPT, SamplingParams(num_new, draft_length=8, ignore_eos=True), "watched")]))
    return engine, events, made[0].seen


@pytest.mark.parametrize(("width", "levels"), [(1, 2), (3, 2), (2, 3), (4, 4)])
def test_the_window_moves_up_by_what_the_target_says_above_its_columns(width, levels):
    """Each favourite is computed from nothing, for the text that its row sees: level 0 up to its column, its column."""
    engine, _, seen = watched(width, levels, 3)
    checked = 0
    for (text, window, _, proposal), (_, after, *_) in itertools.pairwise(seen):
        if not proposal.probe_ids:
            continue
        above = [
            favourite(engine, text + window[0][: column + 1] + [level[column] for level in window[1:]])
            for column in range(width)
        ]
        is_full = len(window) == levels - 1
        assert after == (window[1:] if is_full else window) + [above]
        checked += is_full
    assert checked > 5


def test_n_grams_that_the_window_completes_are_the_drafts_of_their_first_token():
    _, events, seen = watched(3, 3, 2)
    grams: dict[int, list[tuple[int, ...]]] = {}
    for (text, window, pool, proposal), (_, after, *_) in itertools.pairwise(seen):
        assert pool == {first: tuple(rests) for first, rests in grams.items()}
        tips = {tuple(rest[:1]) for rest in grams.get(text[-1], [])}
        assert {
            (token,) for token, parent in zip(proposal.token_ids, proposal.parents, strict=True) if parent < 0
        } == tips
        if proposal.probe_ids and len(window) == 2:
            for gram in zip(*window, after[-1], strict=True):
                known = grams.setdefault(gram[0], [])
                if gram[1:] in known:
                    known.remove(gram[1:])
                known.append(gram[1:])
                del known[:-2]
    assert any(proposal.token_ids for *_, proposal in seen)
    assert len(kept(events, Drafted)) == sum(bool(proposal.token_ids) for *_, proposal in seen)


def test_window_and_n_grams_are_one_pass_and_near_the_end_there_is_no_window():
    _, events, seen = watched(3, 3, 2, num_new=30)
    rows = [event.num_generated_rows for event in kept(events, Forwarded) if event.num_generated_rows]
    asked = [1 + len(proposal.token_ids) + len(proposal.probe_ids) for *_, proposal in seen]
    assert rows[: len(asked)] == asked
    assert set(rows[len(asked) :]) <= {1}  # one token is left: nobody is asked for drafts
    assert not seen[-1][-1].probe_ids
    assert max(len(proposal.probe_ids) for *_, proposal in seen) == 6


def test_the_window_of_every_pass_is_reported_with_what_it_caught():
    _, events, seen = watched(3, 3, 2)
    with_window = [(window, proposal) for _, window, _, proposal in seen if proposal.probe_ids]
    probed = kept(events, Probed)
    assert len(probed) == len(with_window) > 10
    for event, (window, proposal) in zip(probed, with_window, strict=True):
        assert (event.token_ids, event.parents) == (proposal.probe_ids, proposal.probe_parents)
        assert len(event.pieces) == len(event.favourite_pieces) == len(event.favourite_ids) == len(event.token_ids)
        columns = zip(*window, event.favourite_ids[-3:], strict=True)
        assert event.caught == (tuple(columns) if len(window) == 2 else ())


@pytest.mark.parametrize("name", ["jacobi", "lookahead", "lookahead:1,2,1", "lookahead:7,5,4"])
@pytest.mark.parametrize("length", [1, 2, 8])
def test_text_is_that_of_plain_decoding_in_fewer_passes(name, length):
    params = SamplingParams(60, draft_length=length, ignore_eos=True)
    plain = toy_engine().generate(PROMPT, params).token_ids
    events = list(toy_engine(num_blocks=128).run([Request(PROMPT, params, name)]))
    assert tuple(event.token_id for event in kept(events, Sampled)) == plain
    assert len(kept(events, RoundFinished)) <= 60


def test_jacobi_keeps_what_has_come_to_its_fixed_point_and_guesses_the_rest_anew():
    engine = toy_engine()
    drafts, texts = [], []

    class Kept(JacobiDrafter):
        def propose(self, sequence, num_tokens, table):
            texts.append(list(sequence.token_ids))
            drafts.append(super().propose(sequence, num_tokens, table).token_ids)
            return Proposal(drafts[-1])

    engine._admission._extra_drafters["kept"] = Kept
    list(engine.run([Request(PROMPT, SamplingParams(30, draft_length=5, ignore_eos=True), "kept")]))
    for number in range(1, len(drafts)):
        text, before = texts[number], [*texts[number - 1], *drafts[number - 1]]
        known = min(len(before) - len(text) + 1, len(drafts[number]))
        wanted = [favourite(engine, before[: len(text) + at]) for at in range(max(0, known))]
        assert list(drafts[number][: len(wanted)]) == wanted


def test_a_seed_gives_the_same_guesses_and_another_seed_others():
    def drafts(seed: int) -> list[tuple[int, ...]]:
        params = SamplingParams(30, temperature=1.0, seed=seed, draft_length=4, ignore_eos=True)
        return [event.token_ids for event in kept(toy_engine().run([Request(PROMPT, params, "jacobi")]), Drafted)]

    assert drafts(1) == drafts(1) != drafts(2)


@pytest.mark.parametrize("rest", ["5", "5,4", "5,1,3", "0,4,3", "5,4,17", "a,b,c", "5,4,3,2", "-1,4,3", "٣,4,3"])
def test_a_window_that_cannot_be_is_refused(rest):
    with pytest.raises(EngineError) as caught:
        toy_engine().add(Request(PROMPT, drafter=f"lookahead:{rest}"))
    assert caught.value.code == "bad_parameter"
    assert str(MOST_IN_WINDOW) in str(caught.value)


def test_probes_are_never_accepted_even_where_they_are_right():
    """They ride behind the root with the very token that the target is about to say."""
    engine = toy_engine()

    class Right(RandomDrafter):
        def propose(self, sequence, num_tokens, table):
            token = favourite(engine, sequence.token_ids)
            return Proposal((), parents=(), probe_ids=(token, token), probe_parents=(-1, 0))

        def observe(self, sequence, logits, path):
            assert logits.shape == (3, VOCAB_SIZE)
            assert len(path) == 0
            assert torch.equal(logits[1].argmax(), exact_law(engine, sequence.token_ids).argmax())
            return ()

    engine._admission._extra_drafters["right"] = Right
    events = list(engine.run([Request(PROMPT, SamplingParams(9, ignore_eos=True), "right")]))
    assert len(kept(events, RoundFinished)) == 9  # one token each, and no Drafted was reported
    assert not kept(events, Drafted)
    assert engine.stats()["blocks_used"] == 0
