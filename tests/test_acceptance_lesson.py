"""Tests of the acceptance lesson: what a reader types, what every rule makes of it, and whether the words are true."""

import re
from html import unescape
from types import SimpleNamespace
from unittest import mock

import gradio as gr
import numpy as np
import pytest

from engine import EngineError, Inspected
from lessons import acceptance, acceptance_controls, acceptance_figures, acceptance_laws, acceptance_model, asking, live
from lessons.acceptance_laws import ALL_RULES, WRONG_RULES, lumped, outcome, processed, setting_of
from lessons.derivations import DERIVATIONS
from lessons.runs import Run
from lessons.typed_laws import BadLaw, parse_law, parse_pair, write_law
from lessons.words import LANGUAGES, load

P, Q = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)

# ---- what a reader types ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["0.5, 0.3, 0.2", "5 3 2", "5，3、2", "[.5; .3; .2]", "50% 30% 20%", "1/2 3/10 1/5", "5e-1 3e-1 2e-1"]
)
def test_a_law_may_be_typed_in_many_ways(text):
    assert parse_law(text) == pytest.approx(P)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "size"), ("1", "size"), ("1 " * 9, "size"), ("0 0 0", "zero"), ("-1 2", "negative"), ("−1 2", "negative"),
        ("a b", "number"), ("nan 1", "number"), ("inf 1", "number"), ("1e400 1", "number"), ("1/0 1", "number"),
        ("__import__('os').getcwd() 1", "number"), ("<b>1</b> 1", "number"), ("1" * 301, "long"),
        ("\ud800 1", "number"),
    ],
)  # fmt: skip
def test_what_is_no_law_is_refused_with_the_reason(text, code):
    with pytest.raises(BadLaw) as refusal:
        parse_law(text)
    assert refusal.value.code == code


def test_a_refusal_says_which_of_the_two_laws_is_meant_and_laws_of_different_length_are_refused():
    with pytest.raises(BadLaw) as refusal:
        parse_pair("0.5 0.5", "x 1")
    assert refusal.value.values == {"law": "q", "word": "x"}
    with pytest.raises(BadLaw) as refusal:
        parse_pair("1 1", "1 1 1")
    assert (refusal.value.code, refusal.value.values) == ("lengths", {"p": 2, "q": 3})


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_refusal_has_a_sentence(language):
    t = load("acceptance", language)
    for p in ("", "0 0", "-1 1", "x 1", "1" * 301, "1 1 1"):
        with pytest.raises(BadLaw) as refusal:
            parse_pair(p, "1 1")
        assert t(f"input.{refusal.value.code}", **refusal.value.values)


def test_a_written_law_reads_back_as_itself():
    assert parse_law(write_law(P)) == pytest.approx(P)


def test_an_answer_counts_the_moves_of_the_picture_and_nonsense_from_the_wire_counts_as_none():
    t = load("acceptance", "en")
    drawn = {"p": "0.5, 0.3, 0.2", "q": "0.2, 0.3, 0.5", "moves": 3}
    *_, picture = acceptance_controls.read(t, drawn["p"], drawn["q"], 1, 1, (), 0, drawn)
    assert picture["options"]["moves"] == 3
    for odd in (None, "", 3, [], {}, {"moves": "3"}, {"moves": None}, {"moves": 2.5}):
        assert acceptance_controls.moves_of(odd) == 0


def test_a_move_that_leaves_the_laws_as_they_are_leaves_the_setting_too_and_is_counted():
    t, texts = load("acceptance", "en"), acceptance.EXAMPLES[acceptance.FIRST]
    settings, pictures = zip(
        *(acceptance_controls.read(t, *texts, 1, 1, (), 0, {"moves": moves})[-2:] for moves in (0, 2)), strict=True
    )
    assert settings[0] == settings[1] == setting_of(texts, 1, 1, (), 0)
    assert [picture["options"]["moves"] for picture in pictures] == [0, 2]


def said_of(found: list) -> tuple:
    """What `read` says is wrong with p and with q, and the example that it calls the laws."""
    _, p, q, example, *_ = found
    return p, q, example


WRONG_TEXTS = {("x 1", "1 1"): "p", ("1 1", "x 1"): "q", ("1 1", "1 1 1"): "q", ("", "1 1"): "p", (None, "1 1"): "p"}


@pytest.mark.parametrize("texts", WRONG_TEXTS)
def test_what_is_wrong_is_said_of_the_law_that_it_is_wrong_with(texts):
    t = load("acceptance", "en")
    _, p, q, *_ = acceptance_controls.read(t, *texts, 1, 1, (), 0)
    assert ("role='alert'" in p, "role='alert'" in q) == (WRONG_TEXTS[texts] == "p", WRONG_TEXTS[texts] == "q")
    assert acceptance_controls.read(t, "1 1", "1 1", 1, 1, (), 0)[1:3] == ["", ""]


def test_the_example_is_named_after_the_laws_and_markup_in_them_is_text():
    t = load("acceptance", "en")
    for texts, names, example in [
        (acceptance.EXAMPLES["reversed"], (), "reversed"),
        (("0.1, 0.9", "0.5, 0.5"), (), "own"),
        (("0.1, 0.9", "0.5, 0.5"), ("x", "y"), "model"),
    ]:
        assert said_of(acceptance_controls.read(t, *texts, 1, 1, names, 0))[2] == example
        assert example in [name for _, name in acceptance_controls.choices(t)]
    assert "<img" not in acceptance_controls.read(t, "<img> 1", "1 1", 1, 1, (), 0)[1]


@pytest.mark.parametrize(
    ("texts", "example"),
    [
        (("5 3 2", "20% 30% 50%"), "textbook"),
        (("1/2, 3/10, 1/5", "0.20, 0.30, 0.50"), "textbook"),
        (("0.5, 0.3, 0.2", "0.2, 0.301, 0.499"), "own"),
        (("1e-7, 1", "1, 1"), "tiny"),  # as the browser writes it
        ((write_law((1e-7, 1)), write_law((1, 1))), "tiny"),
        (("2e-7, 1", "1, 1"), "own"),
        (("0, 1", "1, 1"), "own"),
    ],
)
def test_laws_are_an_example_s_however_they_are_written(texts, example, monkeypatch):
    monkeypatch.setitem(acceptance.EXAMPLES, "tiny", ("0.0000001, 1", "0.5, 0.5"))
    assert acceptance_controls.example_of(parse_pair(*texts), ()) == example


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("prompt", "code"), [("", "empty_prompt"), ("  \n", "empty_prompt"), (None, "empty_prompt"), (3, "bad_prompt")]
)
def test_what_is_no_prompt_is_refused_before_anything_runs(language, prompt, code, monkeypatch):
    toasts = []
    monkeypatch.setattr(asking, "warn", lambda t, sentence: toasts.append(sentence))
    monkeypatch.setattr(live, "run", lambda *given: pytest.fail("it ran"))
    t = load("acceptance", language)
    _, said = acceptance_model.started(t, prompt, 1.0)
    assert toasts == [t.frame(f"error.{code}")]
    assert toasts[0] in said


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_end_of_a_run_says_only_why_it_failed_and_wipes_no_refusal_that_came_before_it(language):
    t, run = load("acceptance", language), Run()
    for run_id in (live.replay("acceptance"), "no such run"):
        assert acceptance_model.finished(t, run_id) == gr.skip()
    run.end("empty_prompt", EngineError("empty_prompt", ""))
    with mock.patch.object(live, "find", return_value=run), mock.patch.object(asking, "warn") as toast:
        assert t.frame("error.empty_prompt") in unescape(acceptance_model.finished(t, run.id))
    toast.assert_called_once()


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_speak_of_distributions_and_random_numbers(language):
    t = load("acceptance", language)
    wrong = {"en": r"\blaws?\b|\bcoins?\b", "zh": r"硬币|\b[Tt]emperature\b|\bseed\b"}[language]
    for key, text in t.pieces.items():
        assert not re.search(wrong, re.sub(r"\{\{[^}]*\}\}", "", text)), key


# ---- what the rules make of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", acceptance.EXAMPLES)
@pytest.mark.parametrize("rule", ALL_RULES)
def test_the_draws_of_every_rule_follow_the_law_derived_for_it(rule, example):
    p, q = parse_pair(*acceptance.EXAMPLES[example])
    found = outcome(p, q, rule, seed=acceptance.FIRST_SEED)
    assert found.own_p_value > 1e-4
    assert found.accepted == pytest.approx(found.acceptance, abs=0.008)  # five standard errors of 100,000 draws
    assert sum(found.drawn) == pytest.approx(1)


def test_exact_rules_pass_and_all_others_are_caught_on_the_first_example():
    verdicts = {rule: outcome(P, Q, rule, seed=acceptance.FIRST_SEED).verdict for rule in ALL_RULES}
    assert verdicts.pop("typical") == "caught"
    assert verdicts == {rule: "caught" if rule in WRONG_RULES else "passes" for rule in verdicts}


def test_a_wrong_rule_hides_behind_few_draws_and_where_the_laws_agree():
    p, q = parse_pair(*acceptance.EXAMPLES["eight"])
    assert outcome(p, q, "resample_from_p", 100).verdict == "unseen"
    assert outcome(p, p, "resample_from_p").verdict == "passes"


def test_the_four_answers_of_the_prediction_are_the_laws_of_four_rules():
    for language in LANGUAGES:
        t = load("acceptance", language)
        for choice, rule in {
            "a": "exact",
            "b": "resample_from_p",
            "c": "inverted_ratio",
            "d": "absolute_residual",
        }.items():
            said = [float(number) for number in re.findall(r"\.\d\d", t(f"predict.law.choice.{choice}"))]
            assert said == pytest.approx(outcome(P, Q, rule).law, abs=5e-3)


def test_temperature_zero_makes_both_laws_one_hot_and_top_p_cuts_the_tail():
    assert processed(P, 0, 1) == (1, 0, 0)
    assert processed((0.4, 0.3, 0.2, 0.1), 1, 0.6) == pytest.approx((4 / 7, 3 / 7, 0, 0))
    assert processed(P, 1, 0) == (1, 0, 0)


def test_names_fall_back_to_letters_where_they_do_not_fit():
    assert setting_of(acceptance.EXAMPLES["reversed"], 1, 1, ("x", "y"), 0).names == ("A", "B", "C", "D")
    assert setting_of(acceptance.EXAMPLES["textbook"], 1, 1, ("x", "y", "z"), 0).names == ("x", "y", "z")


@pytest.mark.parametrize(("temperature", "alpha"), [(0.2, 0.823), (0.5, 0.749), (1, 0.833), (2, 0.920)])
def test_acceptance_neither_rises_nor_falls_all_the_way_with_temperature(temperature, alpha):
    setting = setting_of(acceptance.EXAMPLES["logits"], temperature, 1, (), 0)
    assert sum(map(min, setting.p, setting.q)) == pytest.approx(alpha, abs=1e-3)


def test_a_token_that_is_impossible_and_never_drawn_is_no_standard_errors_away():
    setting = setting_of(acceptance.EXAMPLES["disjoint"], 1, 1, (), 0)
    table = acceptance_figures.token_table(load("acceptance", "en"), setting, setting.outcomes(["exact"])[0])
    assert "∞" not in table
    wrong = setting.outcomes(["absolute_residual"])[0]
    assert "∞" in acceptance_figures.token_table(load("acceptance", "en"), setting, wrong)


# ---- laws of a model ----------------------------------------------------------------------------------------------


def inspected(p, q, pieces=None):
    pieces = tuple(pieces or (f" t{i}" for i in range(len(p))))
    return Inspected(step=1, clock=0.0, request_id="r", round=1, position=0, token_ids=tuple(range(len(p))),
                     pieces=pieces, p_model=p, p=p, q=q, residual=())  # fmt: skip


def test_a_models_laws_become_at_most_eight_entries_that_sum_to_one_and_never_overlap_less():
    p, q = tuple(np.full(12, 0.05)), tuple(np.linspace(0.01, 0.1, 12))
    names, lumped_p, lumped_q = lumped(inspected(p, q), "others")
    assert len(names) == 8
    assert names[-1] == "others"
    assert sum(lumped_p) == pytest.approx(1)
    assert sum(lumped_q) == pytest.approx(1)
    assert sum(map(min, lumped_p, lumped_q)) >= sum(map(min, p, q))


def test_the_largest_entries_of_two_laws_bound_their_overlap_from_both_sides():
    whole_p, whole_q = np.random.default_rng(4).dirichlet(np.ones(40) / 4, 2)
    top = np.argsort(-np.maximum(whole_p, whole_q))[:12]
    least, most = acceptance_laws.overlap_bounds(inspected(tuple(whole_p[top]), tuple(whole_q[top])))
    assert least <= np.minimum(whole_p, whole_q).sum() <= most


def test_a_law_that_is_one_hot_still_gives_two_entries():
    names, p, q = lumped(inspected((1.0, 0.0), (1.0, 0.0)), "others")
    assert len(names) == len(p) == len(q) == 2


def test_a_token_is_named_so_that_its_blanks_are_seen():
    assert acceptance_laws.visible("  a b\n") == "␣␣a b↵"


def test_a_place_without_laws_or_of_no_run_gives_nothing():
    assert acceptance_model.position_of("no such run", SimpleNamespace(round=1, position=0)) is None
    assert acceptance_model.position_of(live.replay("acceptance"), SimpleNamespace(round=10**9, position=0)) is None
    assert acceptance_model.position_of(live.replay("acceptance"), SimpleNamespace()) is None


def test_the_recorded_run_has_tokens_with_a_drafts_law():
    assert acceptance_model.position_of(live.replay("acceptance"), SimpleNamespace(round=1, position=0)).q


# ---- the page and its words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_line_and_every_rule_has_its_words(language):
    t = load("acceptance", language)
    for lines in DERIVATIONS.values():
        for line in lines:
            assert t(f"line.{line.key}")
            assert t(f"line.{line.key}.name")
    for rule in ALL_RULES:
        assert t(f"rule.{rule}")
        assert t(f"stage.name.{rule}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_numbers_of_the_interview_answers_are_what_the_engine_computes(language):
    t = load("acceptance", language)
    follow_ups, wrong = t("interview.follow_ups"), t("interview.wrong")
    p, q = parse_pair(*acceptance.EXAMPLES["reversed"])
    for rule, places in {
        "sampler_match": 2,
        "exact": 2,
        "multi_draft": 2,
        "multi_draft_distinct": 4,
        "top_drafts": 2,
    }.items():
        assert f"{outcome(p, q, rule).acceptance:.{places}f}" in follow_ups, rule
    for temperature in (0.2, 0.5, 1, 2):
        setting = setting_of(acceptance.EXAMPLES["logits"], temperature, 1, (), 0)
        assert f"{sum(map(min, setting.p, setting.q)):.3f}" in follow_ups
    assert f"{1 / (1 + 4 * 0.1):.2f}" in follow_ups
    found = outcome(P, Q, "resample_from_p")
    assert "({})".format(",".join(f"{entry:.2f}" for entry in found.law)) in wrong
    assert f"{found.distance:.2f}" in wrong


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_check_table_reports_every_line_as_proved(language):
    table = acceptance_figures.check_table(load("acceptance", language))
    assert table.count("✓") == sum(map(len, DERIVATIONS.values()))
    assert "✗" not in table


def test_a_name_from_a_model_cannot_become_html():
    setting = setting_of(acceptance.EXAMPLES["textbook"], 1, 1, ("<img src=x onerror=alert(1)>", "b", "c"), 0)
    t = load("acceptance", "en")
    shown = acceptance_figures.detail(t, setting, "exact", 1000) + acceptance.reconciled(t, setting, 0.7)
    assert "<img" not in shown


def test_the_readers_guess_is_shown_where_the_laws_are_those_of_the_question_and_nowhere_else():
    t = load("acceptance", "en")
    asked = setting_of(acceptance.EXAMPLES["textbook"], 1, 1, (), 0)
    other = setting_of(acceptance.EXAMPLES["reversed"], 1, 1, (), 0)
    assert "you said 0.42" in acceptance.reconciled(t, asked, 0.42)
    assert "you said" not in acceptance.reconciled(t, other, 0.42)
    assert "you said" not in acceptance.reconciled(t, asked, None)
