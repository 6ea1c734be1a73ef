"""Tests of the drafter zoo: the numbers of a run, the experiments, the typical rule, the record, words and page."""

import dataclasses
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toys import toy_engine

from engine import (
    Drafted,
    DraftTree,
    EngineStarted,
    Finished,
    RoundFinished,
    Sampled,
    SamplingParams,
    Submitted,
    Verified,
    accept_tree,
    bench_record,
    composition,
    drafter_card,
    output_law,
    records,
    typical_threshold,
)
from lessons import (
    asking,
    drafters,
    drafters_figures,
    drafters_findings,
    drafters_kept,
    drafters_rules,
    drafters_tables,
    drafters_typical,
    live,
)
from lessons import drafters_account as account
from lessons import drafters_runs as runs
from lessons.drafters_proof import LINES
from lessons.drafters_tables import Guesses
from lessons.proof import is_checked
from lessons.words import LANGUAGES, load

SUBMITTED = {
    "step": 0, "clock": 0.0, "prompt_ids": (1,), "pieces": ("A",), "draft_temperature": None, "temperature": 0.0,
    "top_p": 1.0, "top_k": 0, "min_p": 0.0, "rule": "exact", "seed": 0, "max_new_tokens": 9, "parent": "", "fork_at": 0,
}  # fmt: skip

VOCABULARY = 49152  # of the model that the recorded runs are of
ASSETS = Path(__file__).parent.parent / "assets"


def told(name, rounds, seconds, drafter="made-up", parents=(-1, 0)):
    """The events of one request by hand: each round (tokens, verdicts), each of so many seconds on its own clock."""
    events = [Submitted(request_id=name, drafter=drafter, draft_length=2, **SUBMITTED)]
    index = 0
    for number, (num_tokens, verdicts) in enumerate([(1, ()), *rounds]):
        at = {"step": number, "clock": 0.0, "request_id": name, "round": number}
        if verdicts:
            num = len(verdicts)
            drafts = at | {"token_ids": tuple(range(num)), "q": (1.0,) * num}
            events.append(Drafted(**drafts, drafter=drafter, pieces=("x",) * num, parents=parents, is_point_mass=True,
                                  found_at=-1, seconds=0.0))  # fmt: skip
            events.append(Verified(**drafts, rule="exact", p=(1.0,) * num, p_model=(), u=(None,) * num,
                                   verdicts=verdicts, num_accepted=verdicts.count("accepted"), num_rows=1 + num,
                                   ))  # fmt: skip
        for _ in range(num_tokens):
            events.append(Sampled(**at, index=index, token_id=index, piece="x", label="x", fate="target", p=1.0,
                                  p_model=None))  # fmt: skip
            index += 1
        events.append(RoundFinished(**at, seconds_draft=0.1 if verdicts else 0.0, seconds_forward=0.0,
                                    seconds_accept=0.0, seconds_other=0.0, request_clock=seconds * (number + 1),
                                    num_cached=index, num_draft_cached=0))  # fmt: skip
    return events


BOTH, FIRST, NONE = ("accepted", "accepted"), ("accepted", "rejected"), ("rejected", "unreached")
PLAIN = told("plain", [(1, ())] * 6, 1.0, drafter="")
DRAFTED = told("drafted", [(3, BOTH), (2, FIRST), (1, NONE)], 2.0)


# ---- the numbers of a run -------------------------------------------------------------------------------------------


def test_an_example_by_hand_three_rounds_of_two_drafts():
    plain, drafted = account.entries(PLAIN + DRAFTED)
    assert (plain.tau, plain.speed_up, plain.alpha, plain.draft_cost) == (1, 1, None, None)
    assert drafted.by_depth == ((2, 3), (1, 2))
    assert drafted.conditional == pytest.approx((2 / 3, 1 / 2))
    assert (drafted.alpha, drafted.tau) == (pytest.approx(3 / 5), 2)
    assert drafted.expected == pytest.approx(1 + 2 / 3 + 2 / 3 * 1 / 2)  # 1 + Σ ∏ α
    assert (drafted.round_cost, drafted.speed_up) == (pytest.approx(2), pytest.approx(1))  # τ = 2 at two steps a round
    assert drafted.draft_cost == pytest.approx(0.05)
    assert drafted.is_same


def test_siblings_count_once_a_round_and_a_text_that_differs_is_told():
    tree = told("tree", [(2, ("rejected", "accepted"))], 1.0, parents=(-1, -1))
    assert account.entries(PLAIN + tree)[1].by_depth == ((1, 1),)
    other = [_with_token(event, 77) if isinstance(event, Sampled) and event.index == 2 else event for event in DRAFTED]
    assert account.entries(PLAIN + other)[1].is_same is False


def _with_token(event, token_id):
    return dataclasses.replace(event, token_id=token_id)


def test_without_plain_decoding_there_are_no_costs_and_clocks_that_stand_still_give_no_row():
    (alone,) = account.entries(DRAFTED)
    assert (alone.speed_up, alone.round_cost, alone.is_same) == (None, None, None)
    assert account.entries(told("still", [(1, ())] * 3, 0.0)) == []
    assert account.entries([]) == []


@pytest.mark.parametrize("drafter", ["eagle", "eagle2", "medusa", "ngram_table", "tree", "random"])
def test_on_a_toy_engine_acceptance_by_position_gives_tau_and_greedy_text_is_that_of_plain_decoding(drafter):
    settings = runs.Settings(prompt=[1, 2, 3], length=40)
    (plain,) = runs.zoo_requests(settings)
    params = SamplingParams(40, draft_length=3, seed=1)
    asked = [plain, dataclasses.replace(plain, params=params, drafter=drafter, id=drafter, cache_salt=drafter)]
    events = list(runs.recorded(toy_engine(), asked))
    _, entry = account.entries(events)
    cut = 1 / entry.num_rounds  # the last round may be cut off before all that was accepted
    assert abs(entry.expected - entry.tau) <= 3 * cut + 1e-9
    assert entry.is_same is True
    assert math.isclose(entry.speed_up, entry.tau / entry.round_cost)


# ---- the experiments ------------------------------------------------------------------------------------------------


def test_the_four_experiments_are_told_apart_by_their_runs():
    assert drafters_figures.kind_of(account.entries(PLAIN + DRAFTED)) == "zoo"
    again = told("again", [(1, NONE)] * 2, 1.0)
    assert drafters_figures.kind_of(account.entries(PLAIN + DRAFTED + again)) == "deep"
    hot = [SimpleNamespace(name=str(heat), drafter="eagle", temperature=heat, rule="exact") for heat in (0.0, 1.0)]
    assert drafters_figures.kind_of(hot) == "hot"
    lossy = [SimpleNamespace(name=rule, drafter="eagle", temperature=0.7, rule=rule) for rule in runs.RULES]
    assert drafters_figures.kind_of(lossy) == "typical"


def test_every_experiment_has_one_plain_run_distinct_names_and_few_enough_requests():
    for make in drafters.EXPERIMENTS.values():
        requests = make(runs.Settings(drafters=tuple(runs.ZOO)))
        names = [request.id for request in requests]
        assert names.count(runs.PLAIN) == 1
        assert len(set(names)) == len(names) <= live.MAX_REQUESTS


def test_a_greedy_draft_is_asked_for_as_draft_temperature_zero():
    hot = runs.hot_requests(runs.Settings())
    greedy = [request.params.draft_temperature for request in hot if request.id.endswith("greedy")]
    assert greedy
    assert set(greedy) == {0.0}


def test_a_drafter_without_its_weights_is_missing_and_not_offered(monkeypatch):
    monkeypatch.setattr(runs, "drafter_card", lambda name: None)
    assert {"eagle", "eagle2", "medusa", "ngram_table"} <= set(runs.missing())
    assert "ngram" in runs.usual()
    assert not set(runs.usual()) & set(runs.missing())


@pytest.mark.parametrize("language", LANGUAGES)
def test_bad_input_gets_a_sentence_and_starts_nothing(language, monkeypatch):
    t = load("drafters", language)
    monkeypatch.setattr(asking, "warn", lambda t, sentence: None)
    for values, key in ((["", ["ngram"], 0], ""), ([None, ["ngram"], 0], ""), (["x", [], 0], "remark.none"),
                        (["x", None, 0], "remark.none"), (["x", ["<b>"], 0], "remark.none")):  # fmt: skip
        bar, remark = drafters.started(t, "zoo", values)
        assert isinstance(bar, dict)
        assert "alert" in remark
        assert not key or t(key) in remark


# ---- typical acceptance and the greedy draft ------------------------------------------------------------------------


def test_typical_acceptance_is_not_exact_and_more_of_the_likely_comes_out_when_cold():
    found = drafters_typical.case(1.0)
    before, _ = found.entropies
    assert found.threshold == pytest.approx(min(0.09, 0.3 * math.exp(-before)))
    assert np.abs(found.comes_out - found.p).max() > 0.01
    assert np.allclose(output_law(found.p, found.q, "exact"), found.p)
    hot, cold = drafters_typical.case(2.0), drafters_typical.case(0.3)
    assert (hot.p > hot.threshold).sum() > (cold.p > cold.threshold).sum()


def test_the_law_of_the_derivation_is_the_engine_s():
    found = drafters_typical.case(1.0)
    passing = found.p > found.threshold
    mine = found.q * passing + (1 - found.q[passing].sum()) * found.p
    assert np.allclose(mine, found.comes_out)


def test_a_greedy_draft_may_be_accepted_less_often_or_more():
    table = drafters_typical.greedy_table(load("drafters", "en"))
    assert "| 0.70 | 0.20 |" in table
    assert "| 0.70 | 0.90 |" in table


# ---- both rules on one run ------------------------------------------------------------------------------------------


def judged_by_hand(parents, p, q, verdicts):
    """The drafts of one round, judged so."""
    asked = told("hand", [(1, verdicts)], 1.0, parents=parents)
    drafted, verified = (next(event for event in asked if isinstance(event, kind)) for kind in (Drafted, Verified))
    return drafters_kept.judged([(drafted, dataclasses.replace(verified, p=p, q=q))])


def test_an_example_by_hand_of_what_the_exact_rule_would_have_done_with_a_chain():
    drafts = judged_by_hand((-1, 0), (0.3, 0.05), (0.6, 0.1), FIRST)
    assert [one.exact_chance for one in drafts] == pytest.approx([0.5, 0.5])
    assert drafters_kept.wrongly_kept(drafts) == pytest.approx(0.5)
    assert drafters_kept.acceptances(drafts) == pytest.approx((1 / 2, 1 / 2))
    assert drafters_kept.mean_kept(drafts) == pytest.approx(0.3)


def test_siblings_share_a_place_and_what_stands_behind_a_draft_that_was_not_kept_was_never_up():
    verdicts = ("rejected", "accepted", "rejected")
    drafts = judged_by_hand((-1, -1, 0), (0.2, 0.5, 0.9), (1.0, 1.0, 1.0), verdicts)
    assert [one.p for one in drafts] == [0.2, 0.5]
    assert drafters_kept.acceptances(drafts) == pytest.approx((1, 0.7))
    assert drafters_kept.wrongly_kept(drafts) == pytest.approx(0.5)
    nothing = judged_by_hand((-1, 0), (0.0, 0.0), (0.0, 0.0), NONE)
    assert (drafters_kept.wrongly_kept(nothing), drafters_kept.mean_kept(nothing)) == (None, None)
    assert drafters_kept.acceptances(()) is None


def test_the_exact_rule_takes_each_of_several_chosen_siblings_with_the_chance_that_is_said():
    law, num = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64), 4000
    tree, dice = DraftTree((0, 1), (-1, -1)), torch.Generator().manual_seed(1)
    taken = [accept_tree(tree, [law] * 3, torch.rand(2, generator=dice), dice).path for _ in range(num)]
    for node, token in enumerate(tree.tokens):
        chance = drafters_kept.Judged((0, -1), float(law[token]), 1.0, is_kept=True).exact_chance
        spread = 5 * math.sqrt(chance * (1 - chance) / num)
        assert sum(path == (node,) for path in taken) / num == pytest.approx(chance, abs=spread)


@pytest.fixture(scope="module")
def both_rules():
    """The experiment on the toy, with a drafter that draws in the place of the tiny language model."""
    (plain, *asked) = runs.typical_requests(runs.Settings(prompt=[1, 2, 3], length=24))
    asked = [request for request in asked if request.drafter == "medusa"]
    drawn = [dataclasses.replace(one, drafter="random", id=f"random {one.params.rule}") for one in asked]
    return list(runs.recorded(toy_engine(), [plain, *asked, *drawn]))


def test_the_experiment_differs_in_nothing_but_the_rule_and_is_never_greedy():
    plain, *asked = runs.typical_requests(runs.Settings())
    assert plain.params.temperature == runs.WARM
    for exact, typical in zip(asked[::2], asked[1::2], strict=True):
        assert dataclasses.replace(exact.params, rule="typical") == typical.params
        assert exact.drafter == typical.drafter
    assert {one.params.temperature for one in runs.typical_requests(runs.Settings(temperature=1.2))} == {1.2}


def test_on_a_toy_engine_the_typical_rule_keeps_whatever_is_likely_enough(both_rules):
    found = {entry.name: entry for entry in account.entries(both_rules)}
    assert [name for name, entry in found.items() if entry.is_lossy] == ["medusa typical", "random typical"]
    chain = found["random typical"].judged
    assert all(one.is_kept for one in chain if one.p > drafters_rules.HIGHEST)
    assert any(not one.is_kept for one in chain)
    assert any(one.is_kept and one.exact_chance < 1 for one in chain)
    greedy = dataclasses.replace(found["random typical"], temperature=0.0)
    assert not greedy.is_lossy


@pytest.mark.parametrize("language", LANGUAGES)
def test_both_rules_stand_in_one_table_and_one_chart_with_the_lossy_one_named(language, both_rules):
    t = load("drafters", language)
    found = account.entries(both_rules)
    table = drafters_rules.rules_table(t, found, "BADGE")
    assert table.count(f"<b>{t('rules.lossy')}</b>") == 2
    assert table.count("<tr>") == 1 + len(found)
    assert "BADGE" in table
    series = drafters_rules.rules_plot(t, found).data
    num_judged = [len(entry.judged) for entry in found if entry.is_lossy]
    assert [len(series[0].x) + len(series[1].x), len(series[2].x) + len(series[3].x)] == num_judged
    assert drafters_rules.rules_table(t, account.entries(PLAIN + DRAFTED), "BADGE") == ""
    said = drafters_tables.reconciled(t, both_rules, "measured", Guesses())
    assert said.count(t("rules.lossy")) == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_recorded_run_of_both_rules_fills_its_chart_and_its_table_and_leaves_the_others(language):
    t = load("drafters", language)
    zoo, deep, hot, typical, rules, _ = drafters.found(t, drafters.recording("typical"), Guesses())
    assert all(isinstance(other, dict) for other in (zoo, deep, hot))
    assert all(any(len(line.x) for line in typical.data if name in line.name) for name in ("Medusa", t("rules.kept")))
    assert rules.count(f"<b>{t('rules.lossy')}</b>") == len(runs.JUDGED)
    assert "badge-recorded" in rules
    assert rules == drafters_findings.rules_of(t, drafters.recording("typical"))
    assert drafters_findings.rules_of(t, "no such run") == ""


@pytest.fixture(scope="module")
def judged_on_the_record():
    """Of every round of the recorded run under the typical rule: drafter, parents, p and whether each was kept."""
    events = live.events(drafters.recording("typical"))
    parents = {(event.request_id, event.round): event.parents for event in events if isinstance(event, Drafted)}
    return [
        (event.request_id, parents[event.request_id, event.round], event.p, [v == "accepted" for v in event.verdicts])
        for event in events
        if isinstance(event, Verified) and event.rule == "typical"
    ]


def test_on_the_record_a_chain_keeps_what_passes_and_nothing_far_to_the_left_is_kept(judged_on_the_record):
    is_sure = [False, False]  # to pass, not to pass: both must have been there
    lowest = typical_threshold(np.full(VOCABULARY, 1 / VOCABULARY))
    for name, parents, p, is_kept in judged_on_the_record:
        for node, parent in enumerate(parents):
            was_up = parent < 0 or is_kept[parent]
            assert was_up or not is_kept[node]
            if p[node] <= lowest:
                is_sure[1] = True
                assert not is_kept[node]
            elif was_up and p[node] > drafters_rules.HIGHEST and name == "draft_lm typical":
                is_sure[0] = True
                assert is_kept[node]
    assert all(is_sure)


def test_on_the_record_a_tree_keeps_one_path_as_long_as_any_that_passes_and_not_all_that_passes(judged_on_the_record):
    left_out = 0
    for name, parents, p, is_kept in judged_on_the_record:
        if name != "medusa typical":
            continue
        kept_below = [parents[node] for node in range(len(p)) if is_kept[node]]
        assert len(set(kept_below)) == len(kept_below)  # siblings are never both kept
        passing = [0] * len(p)  # how long the path to each draft is, if all of it is sure to pass
        for node, parent in enumerate(parents):
            before = 0 if parent < 0 else passing[parent]
            if p[node] > drafters_rules.HIGHEST and (parent < 0 or before):
                passing[node] = before + 1
                left_out += not is_kept[node]
        assert max(passing) <= sum(is_kept)
    assert left_out > 0


def test_a_surprise_is_told_only_where_every_token_tells_its_probability():
    tokens = [event for event in PLAIN if isinstance(event, Sampled)]
    assert drafters_kept.surprise(tokens) is None
    known = [dataclasses.replace(event, p_model=1 / math.e) for event in tokens]
    assert drafters_kept.surprise(known) == pytest.approx(1)
    assert drafters_kept.surprise([*known, tokens[0]]) is None


# ---- drafters with a variant in their name --------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_variant_has_a_name_of_its_own_or_that_of_its_kind(language):
    t = load("drafters", language)
    assert drafters_figures.name_of(t, "eagle3:lookup") == t("stage.name.eagle3_lookup")
    assert drafters_figures.name_of(t, "eagle3:chain") == t("stage.name.eagle3_chain")
    assert drafters_figures.name_of(t, "magicdec:32") == t("stage.name.magicdec")
    assert drafters_figures.name_of(t, "made:up") == "made"


@pytest.mark.parametrize("name", ["magicdec:8", "triforce:8", "lookup_eagle"])
def test_drafters_of_long_contexts_and_lookup_before_a_head_take_part_and_write_the_plain_text(name):
    settings = runs.Settings(prompt=[1, 2, 3, 1, 2] * 5, length=20)
    (plain,) = runs.zoo_requests(settings)
    params = SamplingParams(20, draft_length=3, seed=1)
    asked = [plain, dataclasses.replace(plain, params=params, drafter=name, id=name, cache_salt=name)]
    _, entry = account.entries(list(runs.recorded(toy_engine(), asked)))
    assert entry.num_drafted > 0
    assert entry.is_same is True


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_every_drafter_reads_is_told_and_behind_lookup_the_table_is_named(language):
    t = load("drafters", language)
    kinds = dict(re.findall(r"(\w+): \"(\w+)\"", (ASSETS / "zoo_reads.js").read_text().split("};")[0]))
    assert {name.partition(":")[0] for name in runs.ZOO} | {"eagle3_lookup"} <= set(kinds)
    for name, kind in kinds.items():
        assert f"stage.reads.{name}" in t or f"stage.reads.{kind}" in t
    table = {"en": "table", "zh": "表"}[language]
    lab = load("live_lab", language)
    for said in (t("stage.name.eagle3_lookup"), t("stage.reads.eagle3_lookup"), lab("drafter.eagle3.lookup"),
                 lab("stage.drafter.eagle3.lookup")):  # fmt: skip
        assert table in said


def test_drafters_of_long_contexts_run_when_asked_for():
    assert {"magicdec:32", "triforce:32"} <= set(runs.here()) - set(runs.usual())
    assert "eagle3:lookup" in runs.usual()


# ---- opened files ---------------------------------------------------------------------------------------------------


def test_a_file_with_other_requests_is_of_no_experiment():
    started = EngineStarted(
        step=0, clock=0.0, model="m", weights_sha256="", dtype="", cache_dtype="", device="", device_name="",
        threads=1, block_size=4, num_blocks=4, context_length=9, recorded="", versions=(),
    )  # fmt: skip
    asked = Submitted(request_id="made-up", drafter="made-up", draft_length=2, **SUBMITTED)
    plain = dataclasses.replace(asked, request_id=runs.PLAIN, drafter="")
    assert runs.is_ours([started, plain, asked])
    assert not runs.is_ours([started])
    assert not runs.is_ours([started, asked])
    assert not runs.is_ours([started, plain, dataclasses.replace(asked, request_id="vanilla")])


@pytest.mark.parametrize("group", LINES)
def test_every_line_that_claims_something_is_proved(group):
    for line in LINES[group]:
        assert is_checked(line) == bool(line.sides(2)), line.key


# ---- what ships -----------------------------------------------------------------------------------------------------


def test_a_record_is_found_by_name_alone_and_a_broken_one_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    (tmp_path / "good.json").write_text('{"a": 1}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    assert bench_record("good") == {"a": 1}
    assert [bench_record(name) for name in ("broken", "list", "none", "../good")] == [None] * 4


def test_a_record_names_the_drafters_that_were_trained_again_after_it():
    head, table = (drafter_card(name)["file_sha256"] for name in ("eagle3", "ngram_table"))
    measured = {"eagle3:chain": {"eagle3": head}, "eagle3:lookup": {"eagle3": head, "ngram_table": "another"},
                "ngram_table": {"ngram_table": table}, "eagle": {"eagle": "another"}, "x": {"gone": "1"}}  # fmt: skip
    assert drafters_tables.trained_anew({"weights_sha256": measured}) == ["eagle3:lookup", "eagle", "x"]
    assert drafters_tables.trained_anew({}) == []


def test_a_card_s_tau_is_that_of_its_acceptance_by_position():
    card = drafter_card("eagle")
    assert drafter_card("no such drafter") is None
    shares, taus = card["held_out"]["0.0"]["acceptance"], card["held_out"]["0.0"]["tau"]
    for length, tau in taus.items():
        expected = 1 + sum(math.prod(shares[:depth]) for depth in range(1, int(length) + 1))
        assert expected == pytest.approx(tau, abs=2e-3)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_bench_s_record_is_a_table_with_its_badge_and_without_one_there_is_a_sentence(language):
    t = load("drafters", language)
    assert t("record.none").split("`")[0] in drafters_tables.record_table(t, None)
    kinds = {"overall": 1.2, "chat": {"speed_up": 1.5, "tau": 2.25}, "code": {"speed_up": 0.9, "tau": 1.5}}
    record = {"cpu": "A CPU", "dtype": "float16", "date": "2026-11-30", "repeats": 5, "new_tokens": 96,
              "temperature": 0.0, "drafters": {"eagle K=2": kinds, "eagle3:chain K=2": kinds}}  # fmt: skip
    table = drafters_tables.record_table(t, json.loads(json.dumps(record)))
    for text in ("1.50×", "2.25", "A CPU", "2026-11-30", "badge-recorded", "EAGLE-3", t("record.chat")):
        assert text in table


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_works_together_has_a_row_for_every_drafter_and_a_sentence_for_every_reason(language):
    t = load("drafters", language)
    table = drafters_tables.together_table(t)
    assert table.count("<tr>") == 1 + len(runs.ZOO)
    for name in runs.ZOO:
        for cell in composition(name):
            assert t(f"together.{cell.partner}")
            assert cell.status == "runs" or t(f"together.reason.{cell.reason}") in table


# ---- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_drafter_family_and_line_has_its_words(language):
    t = load("drafters", language)
    for name, kind in runs.ZOO.items():
        assert drafters_figures.name_of(t, name) != name
        assert t(f"stage.family.{kind.family}")
    assert [t(f"line.{line.key}") for lines in LINES.values() for line in lines]
    for key in ("fastest", "longest"):
        assert all(f"predict.{key}.choice.{letter}" in t for letter in drafters.LETTERS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_recorded_run_fills_chart_and_table_and_the_guesses_are_set_against_it(language):
    t = load("drafters", language)
    zoo, *others, table = drafters.found(t, drafters.recording("zoo"), Guesses("eagle2", "suffix"))
    assert len(zoo.data) > 4
    assert all(isinstance(other, dict) for other in others)  # Gradio's way to say that they stay
    assert "badge-recorded" in table
    assert t("stage.name.layer_skip") in table
    assert drafters.found(t, "no such run", Guesses())[-1].count(t("reconcile.nothing")) == 1


def test_requests_that_ended_by_an_error_are_named(monkeypatch):
    t = load("drafters", "en")
    ended = Finished(step=1, clock=0.0, request_id="<b>", text="", finish_reason="error", message="", num_tokens=0)
    monkeypatch.setattr(live, "events", lambda run_id: [*PLAIN, ended])
    assert drafters_findings.remark(t, "no such run").endswith("model: &#60;b&#62;.")
    monkeypatch.setattr(live, "events", lambda run_id: PLAIN)
    assert not drafters_findings.remark(t, "no such run")


def test_in_the_recorded_run_every_greedy_text_is_that_of_plain_decoding_and_the_rankings_differ():
    found = account.entries(live.events(drafters.recording("zoo")))
    assert all(entry.is_same and entry.is_finished for entry in found)
    drafted = [entry for entry in found if entry.name != runs.PLAIN]
    assert max(drafted, key=lambda one: one.tau) is not max(drafted, key=lambda one: one.speed_up)
