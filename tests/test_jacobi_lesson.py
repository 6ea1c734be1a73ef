"""Tests of the Jacobi lesson: its derivation, the numbers it reads from runs, its page, and whether its words hold."""

import dataclasses
import re

import pytest

from engine import Forwarded, Request, SamplingParams, Submitted, expected_tokens, load_trace
from lessons import asking, jacobi, jacobi_figures, jacobi_proof, jacobi_runs, live
from lessons.jacobi_proof import ALPHA, LINES, cases, expected, greedy, iterate, most_rows
from lessons.jacobi_runs import FIRST, GREEDY, JACOBI, LOOKAHEAD, PRESETS
from lessons.proof import is_checked
from lessons.runs import TRACE_FOLDER, Run
from lessons.turns import Turns
from lessons.words import LANGUAGES, load
from tests.toys import toy_engine

PROMPT = [1, 2, 3, 1, 2, 4, 1, 2, 3]


@pytest.fixture(scope="module")
def toy_run():
    """The three requests of the lesson on the toy."""
    settings = dataclasses.replace(PRESETS[FIRST], prompt=PROMPT, places=16, width=3, levels=3, guesses=2)
    requests = [
        dataclasses.replace(request, params=dataclasses.replace(request.params, ignore_eos=True))
        for request in jacobi_runs.requests_of(settings)
    ]
    run = Run(requests, mode="in_turn")
    turns = Turns(toy_engine(num_blocks=128), run)
    turns.start()
    while turns.step():
        pass
    return run.events


# ---- the derivation -----------------------------------------------------------------------------------------------


def test_every_line_that_claims_something_is_checked_and_the_others_are_definitions():
    assert [line.key for line in LINES if not is_checked(line)] == ["update", "speed"]


def test_a_false_claim_about_the_iteration_is_found_out():
    """That one iteration fewer would always do is wrong: some model needs all three."""
    enough = [len(iterate(model.__getitem__, guess)) - 1 < jacobi_proof.PLACES for model, guess in cases()]
    assert not is_checked(dataclasses.replace(LINES[3], trials=lambda: enough))


def test_the_iteration_by_hand_stands_still_at_the_greedy_text():
    def counts(text):
        return len(text) if all(token == at for at, token in enumerate(text)) else 9

    history = iterate(counts, (9, 9, 9, 9))
    assert history == [(9, 9, 9, 9), (0, 9, 9, 9), (0, 1, 9, 9), (0, 1, 2, 9), (0, 1, 2, 3)]
    assert history[-1] == greedy(counts, 4)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_one_candidate_gives_what_the_engine_s_own_formula_gives(alpha):
    for length in range(1, 5):
        assert float(expected(1, length).subs(ALPHA, alpha)) == pytest.approx(expected_tokens(alpha, length))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_rows_of_the_interview_answer_are_right(language):
    assert f"{most_rows(15, 5, 15)}" in load("jacobi", language)("interview.follow_ups")


# ---- runs ---------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_run_obey_the_derivation(toy_run):
    lanes = jacobi_figures.lanes_of(toy_run)
    assert list(lanes) == [JACOBI, LOOKAHEAD, GREEDY]
    jacobi_lane, lookahead, plain = lanes.values()
    assert jacobi_lane.num_generated == 15
    assert jacobi_lane.num_passes <= 15
    assert plain.rows == (1,) * 47
    assert lookahead.sizes == (3, 3, 2)
    assert max(lookahead.rows) <= most_rows(3, 3, 2)
    assert lookahead.caught == 3 * lookahead.full_windows > 0
    assert lookahead.tau == pytest.approx(47 / lookahead.num_passes)
    for lane in (jacobi_lane, lookahead):
        assert jacobi_figures.is_same(lane, plain)
        assert lane.clock > 0
    assert not jacobi_figures.is_same(dataclasses.replace(plain, token_ids=(0, 0, 0)), plain)


def test_a_run_that_has_not_come_far_gives_fewer_rows_and_none_at_all_before_the_first_pass(toy_run):
    t = load("jacobi", "en")
    counts = [len(jacobi_figures.reconcile_rows(t, toy_run[:stop], "measured", None)) for stop in range(len(toy_run))]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert len(jacobi_figures.reconcile_rows(t, toy_run, "measured", None)) == 9


def test_the_chart_has_every_pass_and_the_line_at_the_tokens_of_a_pass(toy_run):
    t, lanes = load("jacobi", "en"), jacobi_figures.lanes_of(toy_run)
    chart = jacobi_figures.pass_chart(t, toy_run)
    assert [len(trace.x) for trace in chart.data[1:]] == [lane.num_passes for lane in lanes.values()]
    assert chart.layout.shapes[0].y0 == pytest.approx(lanes[LOOKAHEAD].tau)
    assert not jacobi_figures.pass_chart(t, []).data


@pytest.mark.parametrize("name", PRESETS)
def test_the_recorded_runs_are_short_and_greedy_ones_end_at_the_plain_text(name):
    path = TRACE_FOLDER / f"{jacobi_runs.recording(name).removeprefix('recorded-')}.jsonl.gz"
    assert path.stat().st_size <= 200_000
    events = load_trace(path)
    lanes = jacobi_figures.lanes_of(events)
    assert set(lanes) == {JACOBI, LOOKAHEAD, GREEDY}
    assert lanes[JACOBI].num_generated == PRESETS[name].places - 1
    if jacobi_figures.is_greedy(events):
        assert jacobi_figures.is_same(lanes[JACOBI], lanes[GREEDY])
        assert jacobi_figures.is_same(lanes[LOOKAHEAD], lanes[GREEDY])
    assert lanes[LOOKAHEAD].sizes == tuple(dataclasses.astuple(PRESETS[name])[3:])


def test_what_the_words_say_of_the_recorded_runs_is_true():
    """Counting repeats and a story does not; a wide window gains little for its rows; chance keeps fewer guesses."""
    lanes = {name: jacobi_figures.lanes_of(live.events(jacobi_runs.recording(name))) for name in PRESETS}
    taus = {name: lane[LOOKAHEAD].tau for name, lane in lanes.items()}
    assert taus["count"] > 1.3
    assert taus["days"] > 2
    assert lanes["days"][JACOBI].num_passes >= 22
    assert taus["tale"] < taus["count"]
    assert taus["warm"] < taus["count"]
    assert lanes["tale"][JACOBI].num_passes >= 22
    assert taus["wide"] < 1.2 * taus["count"]
    assert max(lanes["wide"][LOOKAHEAD].rows) > 60
    expected = {name: jacobi_figures.expected_speedup(lane[LOOKAHEAD]) for name, lane in lanes.items()}
    assert {name for name, gain in expected.items() if gain > 1} == {"days"}
    assert expected["count"] > 0.85
    assert all(jacobi_figures.expected_speedup(lane[JACOBI]) < 1 for lane in lanes.values())


def test_controls_that_were_emptied_count_as_at_first_and_a_prompt_that_is_none_is_refused(monkeypatch):
    assert jacobi_runs.settings_of(("x", *[None] * 5)) == dataclasses.replace(PRESETS[FIRST], prompt="x")
    toasts = []
    monkeypatch.setattr(asking, "warn", lambda t, sentence: toasts.append(sentence))
    monkeypatch.setattr(live, "run", lambda *given: pytest.fail("it ran"))
    t = load("jacobi", "en")
    for prompt in ("", "  ", None, 3):
        assert jacobi_runs.started(t, (prompt, 0, 24, 5, 4, 3))[1].count("role='alert'") == 1
    assert len(toasts) == 4


def test_a_value_that_the_engine_refuses_is_said_in_words(monkeypatch):
    monkeypatch.setattr(asking, "warn", lambda t, sentence: None)
    _, said = jacobi_runs.started(load("jacobi", "en"), ("x", -1, 24, 5, 4, 3))
    assert "role='alert'" in said


def test_the_largest_controls_make_requests_that_the_engine_takes():
    engine = toy_engine(num_blocks=128)
    settings = jacobi_runs.Settings(PROMPT, 0.0, jacobi_runs.MOST_PLACES, 16, 6, 8)
    events = list(engine.run(jacobi_runs.requests_of(settings)))
    assert jacobi_figures.lane_of(events, LOOKAHEAD) is not None
    assert isinstance(jacobi_runs.requests_of(settings)[0], Request)
    assert jacobi_runs.requests_of(settings)[2].params == SamplingParams(jacobi_runs.LENGTH, 0.0, draft_length=0)


@pytest.mark.parametrize("name", ["lookahead", "lookahead:5", "lookahead:a,b,c", "ngram", "lookahead:5,4,3;x", ""])
def test_only_a_whole_triple_of_sizes_is_one(name):
    assert jacobi_figures.sizes_of(name) == ()
    assert jacobi_figures.sizes_of("lookahead:5,4,3") == (5, 4, 3)


# ---- the page and its words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tables_show_the_guess_where_it_was_asked_for_and_every_recorded_run(language):
    t = load("jacobi", language)
    said = t("reconcile.yours", value=17)
    assert said in jacobi.reconciled(t, jacobi_runs.recording(FIRST), 17)
    assert said not in jacobi.reconciled(t, jacobi_runs.recording("tale"), 17)
    assert t("reconcile.nothing") in jacobi.reconciled(t, "no such run", 17)
    assert jacobi_figures.preset_table(t).count("<tr>") == 1 + len(PRESETS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_speak_of_distributions(language):
    wrong = {"en": r"\blaws?\b|\bcoins?\b", "zh": r"硬币|\b[Tt]emperature\b|\bseed\b"}[language]
    for key, text in load("jacobi", language).pieces.items():
        assert not re.search(wrong, re.sub(r"\{\{[^}]*\}\}", "", text)), key


def test_a_file_with_other_requests_is_not_of_this_lesson_and_passes_without_time_give_no_lane(toy_run):
    assert jacobi_runs.is_ours(toy_run)
    asked = [event for event in toy_run if isinstance(event, Submitted)]
    assert jacobi_runs.is_ours(asked[:1])
    assert not jacobi_runs.is_ours(asked[1:])
    assert not jacobi_runs.is_ours([*asked, dataclasses.replace(asked[0], request_id="another")])
    assert not jacobi_runs.is_ours([dataclasses.replace(asked[0], drafter="ngram")])
    still = [dataclasses.replace(one, seconds=0.0) if isinstance(one, Forwarded) else one for one in toy_run]
    assert jacobi_figures.lanes_of(toy_run)
    assert jacobi_figures.lanes_of(still) == {}
