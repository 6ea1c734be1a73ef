"""Tests of the long-context lesson: what drafts saw, facts of a race, the theory by hand, proofs, controls, words."""

import dataclasses
import math
import re

import pytest
from toys import toy_engine

from engine import (
    EngineError,
    EngineStarted,
    Finished,
    Request,
    RoundFinished,
    SamplingParams,
    Submitted,
    Verified,
    Viewed,
    blocks_needed,
    num_parameters,
)
from lessons import (
    asking,
    live,
    long_context,
    long_context_facts,
    long_context_figures,
    long_context_proof,
    long_context_runs,
    opened,
)
from lessons import long_context_theory as theory
from lessons.long_context_runs import KINDS, PRESETS, WINDOWS, Settings, kind_of, race_of, recorded, sweep_of
from lessons.long_context_text import document, entries
from lessons.long_context_theory import ASKED, MODELS, Plan
from lessons.proof import Line, is_checked
from lessons.words import LANGUAGES, load

PROMPT = [1, 2, 3, 1, 2] * 6  # 30 tokens, blocks of 4


def toy_requests(names: dict[str, str], length: int = 12) -> list[Request]:
    params = SamplingParams(length, draft_length=3, ignore_eos=True)
    return [Request(PROMPT, params, drafter, id=name) for name, drafter in names.items()]


@pytest.fixture(scope="module")
def race() -> list:
    names = {"plain": "none", "magicdec": "magicdec:8", "triforce": "triforce:8", "bare": "magicdec:8,0"}
    return list(recorded(toy_engine(), toy_requests(names), "race"))


# ---- what a draft saw ---------------------------------------------------------------------------------------------


def test_the_engine_reports_the_blocks_that_a_draft_saw_by_kind(race):
    """31 tokens are known when drafting begins: 8 blocks, of which a window of 8 hides those before (31 − 8) // 4."""
    first = {name: next(e for e in race if isinstance(e, Viewed) and e.request_id == name)
             for name in ("magicdec", "triforce", "bare")}  # fmt: skip
    assert {one.num_tokens for one in first.values()} == {31}
    assert (first["magicdec"].sinks, first["magicdec"].recent) == ((0,), (5, 6, 7))
    assert (first["bare"].sinks, first["bare"].recent) == ((), (5, 6, 7))
    assert (first["triforce"].sinks, first["triforce"].recent) == ((0,), (6, 7))
    assert len(first["triforce"].retrieved) == 1
    assert set(first["triforce"].retrieved) <= set(range(1, 6))
    assert not first["magicdec"].retrieved


def test_every_view_has_its_drafts_and_stays_within_the_table(race):
    for event in (event for event in race if isinstance(event, Viewed)):
        seen = event.sinks + event.retrieved + event.recent
        assert list(seen) == sorted(set(seen))
        assert event.num_blocks == blocks_needed(event.num_tokens, 4)
        assert len(seen) < event.num_blocks
        assert any(isinstance(other, Verified) and (other.request_id, other.round) == (event.request_id, event.round)
                   for other in race)  # fmt: skip


def test_facts_of_a_race_are_those_of_its_events(race):
    found = {one.drafter: one for one in long_context_facts.draftings(race)}
    assert set(found) == {"magicdec:8", "triforce:8", "magicdec:8,0"}
    one = found["magicdec:8"]
    verified = [event for event in race if isinstance(event, Verified) and event.request_id == "magicdec"]
    drafts = sum(len(event.token_ids) for event in verified)
    assert one.share == sum(event.num_accepted for event in verified) / drafts
    assert one.tau == pytest.approx(1 + one.share * drafts / len(verified))
    assert (one.context, one.seen) == (31, 31 - 4 * 4)  # blocks 1 to 4 are hidden
    assert all(other.is_same for other in found.values())
    assert all(min(other.cost, other.verify, other.speedup) > 0 for other in found.values())


def test_the_view_is_predicted_from_the_drafters_name(race):
    start = next(event for event in race if isinstance(event, EngineStarted))
    for one in long_context_facts.draftings(race):
        assert long_context_facts.predicted_view(one, start) == one.seen, one.drafter
    assert long_context_facts.predicted_cost(one, start) is None  # a model whose sizes are not in the list


def test_without_sinks_is_a_drafter_of_its_own_and_nonsense_after_the_comma_is_refused():
    engine = toy_engine()
    plain = engine.generate(PROMPT, SamplingParams(16, ignore_eos=True), "none").token_ids
    assert engine.generate(PROMPT, SamplingParams(16, ignore_eos=True), "magicdec:4,0").token_ids == plain
    for name in ("magicdec:4,", "magicdec:4,x", "magicdec:4,-1", "magicdec:,0", "triforce:4,0"):
        with pytest.raises(EngineError, match="tokens after the colon"):
            engine.generate(PROMPT, drafter=name)


def test_a_view_that_no_engine_reports_cannot_be_opened(race):
    opened.check(race)
    at = next(index for index, event in enumerate(race) if isinstance(event, Viewed))
    for changes in ({"recent": (5, 6, 8)}, {"recent": (6, 5, 7)}, {"sinks": (5,)}, {"num_blocks": 3}):
        wrong = [*race[:at], dataclasses.replace(race[at], **changes), *race[at + 1 :]]
        with pytest.raises(EngineError):
            opened.check(wrong)


# ---- theory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "billions", "kibibytes"),
    [("Llama-3.1-8B", 8.03, 128), ("Llama-2-7B", 6.74, 512), ("Qwen2.5-7B", 7.62, 56), ("SmolLM2-135M", 0.1345, 22.5)],
)
def test_the_models_have_the_parameters_and_the_cache_of_their_cards(name, billions, kibibytes):
    assert num_parameters(MODELS[name]) / 1e9 == pytest.approx(billions, rel=2e-3)
    assert MODELS[name].token_bytes / 1024 == kibibytes


def test_the_break_even_context_is_the_closed_form_while_memory_is_the_limit():
    """L* = w/a + W(1 − a)/(Bκa), by hand for Llama-3.1-8B at batch 32: about 3,400 tokens."""
    share = (ASKED.tau - 1) / ASKED.draft_length
    shape = ASKED.shape
    expected = ASKED.seen / share + shape.weight_bytes / (ASKED.batch * shape.token_bytes) * (1 - share) / share
    assert ASKED.pays_from == pytest.approx(expected)
    assert theory.whole(ASKED.pays_from) == "3,400"


@pytest.mark.parametrize("model", MODELS)
def test_at_the_break_even_context_the_speed_up_is_one_and_a_larger_batch_needs_less(model):
    lengths = [Plan(model, batch).pays_from for batch in theory.BATCHES]
    assert lengths == sorted(lengths, reverse=True)
    for batch in (1, 32, 256):
        plan = Plan(model, batch)
        assert plan.speedup(plan.pays_from) == pytest.approx(1)
        assert plan.speedup(plan.pays_from * 1.1) > 1 > plan.speedup(plan.pays_from * 0.9)


def test_verification_is_free_for_the_matrices_up_to_the_batch_that_the_words_name():
    assert Plan(batch=59).line(5)[0] == Plan(batch=59).line(1)[0]
    assert Plan(batch=62).line(5)[0] > Plan(batch=62).line(1)[0]


def test_drafts_that_are_never_accepted_never_pay_and_a_view_of_everything_changes_nothing():
    assert math.isinf(Plan(alpha=0.0).pays_from)
    assert theory.whole(math.inf) == "∞"
    assert ASKED.speedup(ASKED.seen) == 1


@pytest.mark.parametrize("line", long_context_proof.LINES[1:], ids=lambda line: line.key)
def test_every_line_but_the_definition_is_proved(line):
    assert is_checked(line)


def test_a_false_line_gets_no_tick():
    wrong = Line("wrong", "", lambda _: [(long_context_proof.SPEEDUP, long_context_proof.TAU)])
    assert not is_checked(wrong)
    assert not is_checked(long_context_proof.LINES[0])


# ---- runs ---------------------------------------------------------------------------------------------------------


def test_the_document_has_as_many_different_entries_as_asked_for():
    assert len(set(entries(40))) == 40
    assert document(3).count("\n\n") == 3
    assert document(12).startswith(document(9))


def test_a_race_has_three_requests_and_a_sweep_one_for_each_way_and_window():
    assert [request.drafter for request in race_of(PRESETS["long"])] == ["none", "magicdec:128", "triforce:128"]
    asked = sweep_of(PRESETS["long"])
    assert len(asked) == len(WINDOWS) * len(KINDS) <= live.MAX_REQUESTS
    assert {kind_of(request.drafter) for request in asked} == set(KINDS)
    assert kind_of("ngram") == ""


@pytest.mark.parametrize("prompt", ["", "  \n", None, 3])
def test_what_is_no_prompt_is_refused_before_anything_runs(prompt, monkeypatch):
    toasts = []
    monkeypatch.setattr(asking, "warn", lambda t, sentence: toasts.append(sentence))
    monkeypatch.setattr(live, "run", lambda *given: pytest.fail("it ran"))
    _, said = long_context_runs.started(load("long_context", "en"), [prompt, 128, 4, 0.0], "race")
    assert toasts[0] in said


def test_emptied_controls_are_as_at_first_and_nonsense_from_the_wire_changes_nothing():
    assert long_context_runs.settings_of(["x", None, None, None]) == Settings("x", 128, 4, 0.0)
    assert long_context.plan_of((None, None, "no", None)) == ASKED
    assert long_context.plan_of(("Llama-2-7B", 1, 128, 0.7)) == Plan("Llama-2-7B", 1, 128, 0.7)


# ---- charts, tables, words ----------------------------------------------------------------------------------------


def test_the_points_of_the_chart_are_the_shares_of_the_run(race):
    chart = long_context_figures.kept_plot(load("long_context", "en"), race, race)
    shares = {one.drafter: (one.seen, one.share) for one in long_context_facts.draftings(race)}
    assert [(trace.x[0], trace.y[0]) for trace in chart.data] == 2 * [
        shares[name] for name in ("magicdec:8", "magicdec:8,0", "triforce:8")
    ]
    assert [trace.mode for trace in chart.data[3:]] == ["markers"] * 3


def test_the_guess_is_shown_for_the_plan_that_was_asked_about_and_no_other():
    t = load("long_context", "en")
    other = Plan(batch=1)
    assert "you said 4,200" in long_context_figures.pays_table(t, ASKED, 4200)
    assert "you said" not in long_context_figures.pays_table(t, Plan("Llama-2-7B"), 4200)
    assert "your guess" in str(long_context_figures.pays_plot(t, ASKED, 4200))
    assert "your guess" not in str(long_context_figures.pays_plot(t, other, 4200))


@pytest.mark.parametrize("name", ["long_context", "long_context.short", "long_context.sweep"])
def test_a_recorded_run_holds_views_and_exact_texts(name):
    events = live.events(live.replay(name))
    assert any(isinstance(event, Viewed) for event in events)
    texts = {event.request_id: event.text for event in events if isinstance(event, Finished)}
    asked = [event for event in events if isinstance(event, Submitted)]
    assert len({texts[event.request_id] for event in asked}) == 1
    found = long_context_facts.draftings(events)
    assert len(found) == (len(WINDOWS) * len(KINDS) if name.endswith("sweep") else 2)
    start = events[0]
    for one in found:
        assert long_context_facts.predicted_view(one, start) == one.seen


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_numbers_of_the_words_are_those_of_the_formulas(language):
    t = load("long_context", language)
    answer = t("interview.long", source="")
    at_8000 = Plan().step_bytes(8000)
    assert f"{at_8000['full'] / 1e9:.0f} GB" in answer
    assert f"{at_8000['weights'] / 1e9:.0f} GB" in answer
    ratio = Plan("Qwen2.5-7B").pays_from / Plan().pays_from
    assert ratio == pytest.approx(2, abs=0.25)
    assert re.search(r"\b59\b", t("pays.intro", badge="", source=""))


def test_a_file_of_a_race_or_a_sweep_is_of_this_lesson_and_one_with_other_names_is_not(race):
    asked = {event.request_id: event for event in race if isinstance(event, Submitted)}
    three = [asked[name] for name in ("plain", "magicdec", "triforce")]
    assert long_context_runs.is_ours(three)
    assert not long_context_runs.is_ours(three[:1])
    assert not long_context_runs.is_ours([*three, asked["bare"]])
    swept = [dataclasses.replace(one, request_id=one.drafter) for one in asked.values() if one.request_id != "plain"]
    assert long_context_runs.is_ours(swept)
    for name in ("magicdec:x", "magicdec:1e9", "magicdec:", "ngram", "triforce:" + "9" * 5000):
        assert not long_context_runs.is_ours([dataclasses.replace(swept[0], request_id=name, drafter=name)])


def test_clocks_that_stand_still_give_no_speed_up_and_no_error(race):
    still = {"seconds_draft": 0.0, "seconds_forward": 0.0, "seconds_accept": 0.0, "seconds_other": 0.0}
    events = [dataclasses.replace(one, **still) if isinstance(one, RoundFinished) else one for one in race]
    found = long_context_facts.draftings(events)
    assert found
    assert all(one.speedup is None for one in found)
