"""Tests of the trees lesson: its answers, derivations and tables against the engine, and the recorded run."""

import dataclasses
import re

import numpy as np
import pytest

from engine import TREE_LAYOUTS, Submitted, TreeGrown, acceptance_rate, time_of_pass, tree_mask
from lessons import asking, live, runs, trees_figures, trees_proof, trees_run
from lessons.words import LANGUAGES, load

RUN = live.replay("trees")
PARENTS = (-1, -1, -1, 0, 0, 1, 1)  # the question's tree: A, B, C, A1, A2, B1, B2
CONFIDENCES = (0.6, 0.3, 0.1, 0.7, 0.2, 0.9, 0.05)
NAMES = ("A", "B", "C", "A1", "A2", "B1", "B2")

# ---- the question -------------------------------------------------------------------------------------------------


def test_the_answers_of_the_predictions_follow_from_the_values():
    values = trees_proof.values_of(PARENTS, CONFIDENCES)
    assert values == pytest.approx([0.6, 0.3, 0.1, 0.42, 0.12, 0.27, 0.015])
    order = [NAMES[node] for node in trees_proof.ranked(values)]
    assert order == ["A", "A1", "B", "B1", "A2", "C", "B2"]
    last_level = sorted((node for node in range(7) if PARENTS[node] >= 0), key=lambda node: -values[node])
    assert [NAMES[node] for node in last_level[:2]] == ["A1", "B1"]
    for language in LANGUAGES:
        t = load("trees", language)
        assert t("predict.next.after").startswith("B1")
        assert t("predict.fifth.after").startswith("A2")
        said = [float(number) for number in re.findall(r"\*\*(\.\d+)\*\*", t("predict.next.after"))]
        assert said == pytest.approx([values[NAMES.index(name)] for name in ("B1", "A2")])


# ---- derivations --------------------------------------------------------------------------------------------------


def test_every_line_is_proved_and_no_cut_orphans_a_node():
    assert all(one.is_proved for one in trees_proof.checks().values())
    assert trees_proof.checks()["closed"].num_points > 10_000


def test_a_cut_that_leaves_out_a_parent_is_seen():
    assert trees_proof.is_closed((-1, 0, 1), [1, 0])
    assert not trees_proof.is_closed((-1, 0, 1), [0, 2])
    values = trees_proof.values_of((-1, 0), (0.5, 1.5))  # no confidence: then the claim does fail
    assert not trees_proof.is_closed((-1, 0), trees_proof.ranked(values)[:1])


@pytest.mark.parametrize(
    ("rule", "derived"),
    [
        ("exact", trees_proof.accepted_once),
        ("multi_draft", trees_proof.accepted_of_two),
        ("multi_draft_distinct", trees_proof.accepted_of_two_distinct),
    ],
)
def test_the_derived_acceptance_is_the_engine_s_and_that_of_its_draws(rule, derived):
    p, q = (np.array([float(entry) for entry in law]) for law in (trees_proof.TARGET, trees_proof.DRAFT))
    theory, drawn = trees_figures._drawn(rule)
    assert float(derived(trees_proof.TARGET, trees_proof.DRAFT)) == pytest.approx(acceptance_rate(p, q, rule))
    assert theory == pytest.approx({"exact": 0.6, "multi_draft": 0.72, "multi_draft_distinct": 107 / 140}[rule])
    assert drawn == pytest.approx(theory, abs=0.008)  # five standard errors of 100,000 draws


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_interview_says_what_the_derivations_give(language):
    t = load("trees", language)
    assert {".60", ".72", ".7643"} <= set(re.findall(r"\.\d+", t("interview.long", source="")))
    check = trees_figures.check_table(t)
    assert check.count("✓") == 7
    assert "✗" not in check


# ---- the recorded run ---------------------------------------------------------------------------------------------


def test_in_the_recorded_run_cuts_are_closed_and_rounds_promise_what_their_values_add_up_to():
    events = live.events(RUN)
    grown = [event for event in events if isinstance(event, trees_run.TreeGrown)]
    assert len(grown) >= 8
    for event in grown:
        assert trees_proof.is_closed(event.parents, event.ranked)
        chosen = [event.values[node] for node in event.ranked]
        assert chosen == sorted(event.values, reverse=True)[: len(chosen)]
    rounds = trees_run.rounds_of(events)
    assert len(rounds) == len(grown)
    assert all(one.num_tokens <= 1 + sum(one.accepted) for one in rounds)  # the last may be cut short
    assert [one.expected for one in rounds] == pytest.approx(
        [1 + sum(event.values[node] for node in event.ranked) for event in grown]
    )
    assert sum(one.num_tokens > 1 for one in rounds) >= 3


def test_in_the_recorded_run_only_the_right_layout_is_right():
    right, *wrong = trees_run.layouts_of(live.events(RUN), TREE_LAYOUTS)
    assert (right.largest_error, right.num_changed, right.num_other) == (0.0, 0, 0)
    assert all(one.largest_error > 1 and one.num_changed for one in wrong)
    assert any(one.num_other for one in wrong)


def test_the_trace_is_short():
    path = runs.TRACE_FOLDER / "trees.jsonl.gz"
    assert path.stat().st_size < 200_000


# ---- tables and pictures ------------------------------------------------------------------------------------------


def test_the_chart_divides_what_is_promised_by_the_measured_time():
    free, measured = trees_figures.size_chart(load("trees", "en"), RUN).data
    sizes = range(trees_figures.LARGEST + 1)
    assert list(free.y) == sorted(free.y)
    assert list(measured.y) == pytest.approx([free.y[size] / time_of_pass(1 + size) for size in sizes])
    assert 0 < int(np.argmax(measured.y)) < trees_figures.LARGEST


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tables_name_what_they_show_and_stay_whole_without_a_run(language):
    t = load("trees", language)
    table = trees_figures.layout_table(t, RUN)
    assert table.count("<tr>") == 1 + len(TREE_LAYOUTS)
    assert "badge-recorded" in table
    assert "callout wrong" in table
    assert trees_figures.layout_table(t, "no such run") == f"<p class='prose-text size-note'>{t('break.none')}</p>"
    assert t("reconcile.tokens") in trees_figures.reconciled(t, RUN, None)
    assert t("reconcile.guess", value=1.8) in trees_figures.reconciled(t, RUN, 1.8)
    assert t("reconcile.multi_draft") in trees_figures.reconciled(t, "no such run", None)
    assert len(trees_figures.size_chart(t, "no such run").data) == 2


@pytest.mark.parametrize("way", TREE_LAYOUTS)
def test_the_small_mask_shows_what_the_layout_lets_a_row_see(way):
    parents = (-1, 0, 0, 1, 1, 2)
    picture = trees_figures.mask_picture(parents, way)
    seen, wrong = picture.count("class='seen'"), picture.count("<i class='wrong'>")
    assert seen == int(tree_mask(parents).sum())
    assert seen + wrong == (21 if way in ("siblings", "flat") else seen)
    assert picture.count("class='is-wrong'") == (0 if way in ("tree", "siblings") else 4)


# ---- the page -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("prompt", "code"), [("", "empty_prompt"), ("  \n", "empty_prompt"), (3, "bad_prompt")])
def test_what_is_no_prompt_is_refused_before_anything_runs(language, prompt, code, monkeypatch):
    toasts = []
    monkeypatch.setattr(asking, "warn", lambda t, sentence: toasts.append(sentence))
    monkeypatch.setattr(live, "run", lambda *given, **named: pytest.fail("it ran"))
    t = load("trees", language)
    assert toasts == []
    assert t.frame(f"error.{code}") in trees_run.started(t, prompt)[1]
    assert toasts == [t.frame(f"error.{code}")]


def test_a_run_without_trees_gets_a_sentence_and_one_with_trees_none(monkeypatch):
    monkeypatch.setattr(asking, "warn", lambda t, sentence: None)
    t = load("trees", "en")
    assert t("run.treeless") in trees_run.finished(t, live.replay("acceptance"))
    assert trees_run.finished(t, RUN) == ""


def test_a_file_with_other_requests_is_not_of_this_lesson():
    events = live.events(RUN)
    assert trees_run.is_ours(events)
    asked = next(event for event in events if isinstance(event, Submitted))
    assert not trees_run.is_ours([*events, dataclasses.replace(asked, request_id="another")])
    assert not trees_run.is_ours([dataclasses.replace(asked, drafter="eagle3")])


def test_a_round_whose_drafts_are_not_the_tree_s_chosen_nodes_is_left_out():
    events = live.events(RUN)
    cut = [dataclasses.replace(e, ranked=e.ranked[1:]) if isinstance(e, TreeGrown) else e for e in events]
    assert trees_run.rounds_of(events)
    assert trees_run.rounds_of(cut) == []
