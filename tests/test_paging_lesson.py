"""Tests of the paging lesson: the paper's figures on real blocks, runs and forks, the simulation, the bugs, words."""

import math
import re
from pathlib import Path

import gradio as gr
import pytest
from fake_engine import FakeEngine
from sample_app import wait_for
from toys import toy_engine

from engine import (
    BlockCopied,
    BlockHit,
    BlockShared,
    BlockTaken,
    Finished,
    OutOfBlocks,
    Request,
    SamplingParams,
    Submitted,
    fold,
    save_trace,
)
from lessons import (
    asking,
    controls,
    live,
    paging_exhibits,
    paging_figures,
    paging_pool,
    paging_proof,
    paging_runs,
    paging_scenarios,
    paging_simulation,
    paging_workbench,
)
from lessons.paging_figures import PAPER_RUNNING, PAPER_SHARES
from lessons.paging_pool import play
from lessons.paging_scenarios import PRESETS
from lessons.paging_simulation import CAPACITY, POLICIES, Buddies, draw_lengths, simulate
from lessons.proof import Line, is_checked
from lessons.words import LANGUAGES, load

RECORDED = ("paging", "paging.fork", "paging.prefix", "paging.paper")


def of_kind(events, *kinds):
    return [event for event in events if isinstance(event, kinds)]


# ---- the figures of the paper, as operations on a pool ------------------------------------------------------------


def test_figure_6_a_prompt_of_seven_tokens_takes_two_blocks_and_the_second_append_a_third():
    prompt = [("new", "", 7)]
    for num_appended, num_blocks, length in ((0, 2, 7), (1, 2, 8), (2, 3, 9)):
        bench = play([*prompt, *[("append", "A", 1)] * num_appended], num_blocks=9)
        assert (len(bench.pool.table("A")), bench.pool.length("A")) == (num_blocks, length)


def test_figure_7_a_second_prompt_gets_blocks_of_its_own():
    bench = play([("new", "", 7), ("new", "", 6)], num_blocks=9)
    assert len(bench.pool.table("B")) == 2
    assert not set(bench.pool.table("A")) & set(bench.pool.table("B"))


def test_figure_8_the_first_to_write_gets_a_copy_and_the_second_writes_in_place():
    shared = play([("new", "", 7), ("fork", "A", 0)], num_blocks=9)
    first, last = shared.pool.table("A")
    assert (shared.pool.table("A/1"), shared.pool.ref_count(first), shared.pool.ref_count(last)) == (
        (first, last),
        2,
        2,
    )
    bench = play([("new", "", 7), ("fork", "A", 0), ("append", "A", 1), ("append", "A/1", 1)], num_blocks=9)
    (copied,) = of_kind(bench.events, BlockCopied)
    assert (copied.request_id, copied.index, copied.source, copied.num_tokens, copied.ref_count) == ("A", 1, last, 3, 1)
    assert bench.pool.table("A") == (first, copied.target)
    assert bench.pool.table("A/1") == (first, last)
    assert [bench.pool.ref_count(block) for block in (first, last, copied.target)] == [2, 1, 1]


def test_the_paper_s_example_runs_the_same_way_on_an_engine():
    engine = toy_engine(num_blocks=9)
    arrivals = paging_scenarios.paper_requests()
    asked = [(step, _with_tokens(request, count)) for (step, request), count in zip(arrivals, (7, 6), strict=True)]
    events = list(paging_scenarios.drive(engine, asked))
    (copied,) = of_kind(events, BlockCopied)
    assert (copied.request_id, copied.index, copied.num_tokens, copied.ref_count) == ("A", 1, 3, 1)
    assert [event.block for event in of_kind(events, BlockTaken)][:2] == [0, 1]
    assert [event.request_id for event in of_kind(events, BlockShared)] == ["A.1", "A.1"]
    assert engine.pool.num_free == 9
    assert {event.request_id for event in of_kind(events, Finished)} == {"A", "A.1", "B"}


def _with_tokens(request, count):
    import dataclasses

    return dataclasses.replace(request, prompt=[(index + count) % 8 for index in range(count)])


# ---- the pool in the reader's hands -------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_filling_the_pool_ends_in_a_typed_refusal_that_changes_nothing(language):
    t = load("paging", language)
    wanted, _, value, remark = paging_workbench.acted(t, [], ("fill", "", 7))
    bench = play([*wanted, ("new", "", 7)])
    assert isinstance(bench.refusal, OutOfBlocks)
    assert (bench.refusal.values["needed"], bench.refusal.values["free"]) == (2, 0)
    assert bench.pool.num_used == play(wanted).pool.num_used == paging_pool.NUM_BLOCKS
    assert t("bench.refusal", kind="OutOfBlocks", needed=2, free=0) in remark
    assert "alert" in remark
    assert value["events"][0]["type"] == "EngineStarted"


def test_the_same_tokens_again_share_full_blocks_only_and_freed_ones_are_found():
    bench = play([("new", "", 9), ("again", "A", 9)])
    assert [event.index for event in of_kind(bench.events, BlockShared)] == [0, 1]
    bench = play([("new", "", 9), ("free", "A", 0), ("again", "A", 9)])
    assert [event.index for event in of_kind(bench.events, BlockHit)] == [0, 1]
    assert not of_kind(bench.events, BlockCopied)


def test_the_events_of_the_bench_rebuild_its_pool():
    operations = [*paging_workbench.FIRST_OPERATIONS, ("append", "A/1", 5), ("free", "A", 0), ("again", "B", 4)]
    bench = play(operations)
    state = fold(bench.events)
    assert state.tables == {name: list(bench.pool.table(name)) for name in bench.sequences}
    assert {name: state.requests[name].cache_length for name in bench.sequences} == {
        name: bench.pool.length(name) for name in bench.sequences
    }


def test_operations_on_what_is_not_there_do_nothing_and_too_many_start_anew():
    t = load("paging", "en")
    assert not play([("free", "A", 0), ("append", "Z", 3), ("fork", "", 0)]).sequences
    many = [("new", "", 1)] * paging_pool.MOST_OPERATIONS
    assert paging_workbench.acted(t, many, ("new", "", 1))[0] == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", ["append", "fork", "free"])
@pytest.mark.parametrize("name", ["F/1", "A/1", "", "<b>" + "x" * 10**5])
def test_a_sequence_that_is_gone_is_named_and_nothing_is_done(kind, name, language):
    t = load("paging", language)
    operations = [("new", "", 6), ("fork", "A", 0), ("free", "A/1", 0)]
    done, sequences, _, remark = paging_workbench.acted(t, operations, (kind, name, 5))
    assert done == operations
    assert (sequences.choices, sequences.value) == ([("A", "A")], "A")
    assert "alert" in remark
    assert len(remark) < 300
    assert "<b>" not in remark
    assert "".join(f"&#{ord(c)};" if not c.isalnum() else c for c in name)[:3] in remark


def test_the_sequence_that_a_click_carries_reaches_the_handler_whatever_it_is():
    box = controls.Dropdown(["A"], value="A", render=False)
    assert [box.preprocess(sent) for sent in ("A", "F/1", "", None, 5, ["A"])] == ["A", "F/1", "", None, None, None]


def test_the_buttons_of_the_bench_take_turns_so_that_no_operation_is_lost():
    with gr.Blocks() as page:
        paging_workbench.panel(load("paging", "en"))
    acts = [fn for fn in page.fns.values() if fn.name == "act"]
    assert len(acts) == len(paging_workbench.BUTTONS)
    assert {(fn.concurrency_id, fn.concurrency_limit) for fn in acts} == {("bench", 1)}


# ---- what is said about a run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_run_is_there_and_keeps_what_the_formulas_predict(name):
    events = live.events(live.replay(name))
    assert events, f"{name} is not recorded"
    facts = paging_figures.facts_of(events)
    assert facts.most_empty <= facts.block_size - 1
    assert facts.copies == facts.copies_predicted
    assert facts.reused == facts.reused_predicted
    assert facts.peak_blocks <= facts.peak_entries
    assert not fold(events).tables


def test_the_recorded_runs_show_what_their_presets_promise():
    counts = {name: paging_figures.facts_of(live.events(live.replay(name))) for name in RECORDED}
    assert counts["paging"].copies == paging_scenarios.PRESETS["parallel"].num_samples - 1
    assert counts["paging.fork"].copies == 1
    assert counts["paging.prefix"].copies == 0
    assert counts["paging.prefix"].reused > 0
    assert counts["paging.paper"].copies == 1


COPIED = {1: 0, 2: 1, 4: 3, 5: 0, 6: 1, 7: 2, 8: 3, 9: 0, 12: 3, 13: 0, 14: 1}  # slots, by the fork's length


@pytest.mark.parametrize(("at", "num_slots"), COPIED.items())
def test_a_fork_copies_all_slots_of_its_last_block_but_the_one_that_is_not_computed(at, num_slots):
    """Blocks of four. After the last token of a block, at 8 tokens, three slots; after the first, at 9, none."""
    request = Request([1, 2, 3, 4, 5], SamplingParams(20, ignore_eos=True), id="A")
    events = list(paging_scenarios.drive(toy_engine(), [(0, request)], fork_at=at))
    assert [event.num_tokens for event in of_kind(events, BlockCopied)] == [num_slots] * bool(num_slots)
    facts = paging_figures.facts_of(events)
    assert (facts.copies, facts.copies_predicted) == (bool(num_slots), bool(num_slots))
    assert [event.fork_at for event in of_kind(events, Submitted)] == [0, at]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_run_that_reported_nothing_gets_a_sentence(language):
    t = load("paging", language)
    assert paging_figures.facts_of([]) is None
    assert t("reconcile.nothing") in paging_runs.reconciled(t, "no-such-run")


# ---- starting and forking -----------------------------------------------------------------------------------------

VALUES = ["a b c d e", "", 1, 8, 0.0, 0]  # what the controls say, in their order


@pytest.fixture
def toasts(monkeypatch):
    """What was shown as a toast."""
    shown = []
    monkeypatch.setattr(asking, "warn", lambda t, sentence: shown.append(sentence))
    return shown


@pytest.fixture
def engine():
    """A worker with a made-up engine."""
    live.start_with(lambda progress: FakeEngine())
    wait_for(lambda: live.status().state == "ready")
    yield
    live.start_with(None)


def ended(run_id):
    run = live.find(run_id)
    assert run.ended.wait(20)
    return run


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("prompt", "second", "code"),
    [
        ("", "", "empty_prompt"),
        (" \n\t", "", "empty_prompt"),
        (None, "", "empty_prompt"),
        (7, "", "bad_prompt"),
        (["a"], "", "bad_prompt"),
        ("fine", 7, "bad_prompt"),
    ],
)
def test_what_is_no_prompt_is_refused_before_anything_runs(language, prompt, second, code, toasts, monkeypatch):
    monkeypatch.setattr(live, "run", lambda *given: pytest.fail("it ran"))
    t = load("paging", language)
    _, said = paging_runs.started(t, [prompt, second, *VALUES[2:]])
    assert toasts == [t.frame(f"error.{code}")]
    assert toasts[0] in said
    assert "alert" in said


def test_a_prompt_of_a_hundred_thousand_characters_is_refused_with_the_lab_s_sentence(engine, toasts):
    t = load("paging", "en")
    paging_runs.started(t, ["x" * 100_000, *VALUES[1:]])
    assert toasts == [t.frame("error.prompt_over_limit", largest=2048)]


@pytest.mark.parametrize("second", [None, "", "  "])
def test_an_empty_second_prompt_is_none_and_emptied_numbers_are_as_at_first(second, engine):
    run_id, said = paging_runs.started(load("paging", "en"), ["a b", second, None, None, None, None])
    (request,) = ended(run_id).requests
    first = paging_scenarios.PRESETS["parallel"]
    assert (request.prompt, request.n, request.params.max_new_tokens) == ("a b", first.num_samples, first.length)
    assert said == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_a_model_a_run_is_refused_in_words(language, toasts):
    live.start_with(None)
    t = load("paging", language)
    _, said = paging_runs.started(t, VALUES)
    assert toasts == [t.frame("error.no_model")]
    assert "alert" in said


def test_a_fork_runs_what_the_run_on_the_page_asked_for_and_not_what_the_controls_say(engine):
    t = load("paging", "en")
    first, _ = paging_runs.started(t, VALUES)
    ended(first)
    second, _ = paging_runs.forked(t, first, ("A", 8))
    third, said = paging_runs.forked(t, second, ("A", 10))
    run = ended(third)
    assert said == ""
    assert [request.prompt for request in run.requests] == ["a b c d e"]
    assert [(one.parent, one.fork_at) for one in of_kind(run.events, Submitted)] == [("", 0), ("A", 8), ("A", 10)]
    assert paging_runs.remark(t, third) == ""


@pytest.mark.parametrize("name", paging_scenarios.PRESETS)
def test_a_fork_of_a_recorded_run_asks_for_that_recording_s_requests(name, monkeypatch):
    asked = []
    monkeypatch.setattr(live, "run", lambda *given: asked.append(given) or "new")
    assert paging_runs.forked(load("paging", "en"), paging_runs.recording(name), ("A", 70)) == ["new", ""]
    ((requests, _, forks),) = asked
    assert [one.prompt for one in requests] == [one.prompt for one in paging_scenarios.requests_of(PRESETS[name])]
    recorded = [one for one in of_kind(live.events(paging_runs.recording(name)), Submitted) if "/" in one.request_id]
    assert forks == [*((one.parent, one.fork_at) for one in recorded), ("A", 70)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_run_from_a_file_is_called_recorded_and_cannot_be_forked(language, tmp_path, toasts):
    t = load("paging", language)
    save_trace(live.events(live.replay("paging")), tmp_path / "run.jsonl.gz")
    opened = live.open_file(tmp_path / "run.jsonl.gz")
    table = paging_runs.reconciled(t, opened)
    assert 'class="badge badge-recorded"' in table
    assert "badge-measured" not in table
    paging_runs.forked(t, opened, ("A", 70))
    assert toasts == [t("fork.unknown")]


def test_a_live_run_is_called_measured(engine):
    t = load("paging", "en")
    run_id, _ = paging_runs.started(t, VALUES)
    ended(run_id)
    table = paging_runs.reconciled(t, run_id)
    assert 'class="badge badge-measured"' in table
    assert "badge-recorded" not in table


def test_a_fork_that_never_began_and_a_run_that_failed_are_told(engine, toasts):
    t = load("paging", "en")
    first, _ = paging_runs.started(t, VALUES)
    ended(first)
    late, _ = paging_runs.forked(t, first, ("A", 999))
    ended(late)
    assert t("fork.missed", id="A", at=999) in paging_runs.remark(t, late)
    failed = live.run([Request("", id="A")])
    ended(failed)
    assert t.frame("error.empty_prompt") in paging_runs.remark(t, failed)
    assert toasts == [t.frame("error.empty_prompt")]


def test_nonsense_from_the_wire_becomes_a_sentence(engine, toasts):
    t = load("paging", "en")
    first, _ = paging_runs.started(t, VALUES)
    for fork in ((None, None), ("A", "<b>"), (["A"], 3)):
        assert "alert" in paging_runs.forked(t, first, fork)[1]
    assert len(toasts) == 3


# ---- the simulation -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return paging_figures.results()


def test_the_simulation_reproduces_the_order_of_the_paper(found):
    assert [found[policy].tokens for policy in POLICIES] == sorted(found[policy].tokens for policy in POLICIES)
    for policy in POLICIES:
        assert found[policy].tokens == pytest.approx(PAPER_SHARES[policy], abs=0.06)
        assert found[policy].num_running == pytest.approx(PAPER_RUNNING[policy], rel=0.15)
    assert found["max"].num_running == 7  # 15,728 slots hold seven pieces of 2,048


def test_the_shares_of_every_policy_sum_to_one_and_paging_reserves_nothing(found):
    for shares in found.values():
        assert shares.tokens + shares.reserved + shares.internal + shares.external == pytest.approx(1)
        assert min(shares.tokens, shares.reserved, shares.internal, shares.external) >= 0
    assert found["paged"].reserved == 0


def test_larger_blocks_waste_half_a_block_per_sequence():
    lengths = draw_lengths(300)
    for block_size in (16, 128):
        shares = simulate("paged", lengths, block_size, num_steps=1200)
        assert shares.internal * CAPACITY / shares.num_running == pytest.approx((block_size - 1) / 2, rel=0.15)


def test_the_means_of_the_mix_are_those_after_the_cut_and_the_page_says_them():
    prompt, output = paging_simulation.mean_lengths()
    every = [draw_lengths(seed=seed) for seed in range(21)]
    assert (prompt, output) == pytest.approx(tuple(sum(one.mean(axis=0) for one in every) / 21))
    assert prompt < paging_simulation.MEAN_PROMPT
    assert output < paging_simulation.MEAN_OUTPUT
    for language in LANGUAGES:
        text = load("paging", language)("mix.intro", longest=2048, prompt=prompt, output=output)
        assert f"{prompt:.0f}" in text
        assert f"{output:.0f}" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_paper_says_is_not_called_predicted_nor_a_simulation_measured(language, found):
    t = load("paging", language)
    table = paging_figures.mix_table(t, found, {"max": 12, "paged": None})
    head = table.split("</thead>")[0]
    heads = re.findall(r"<th scope='col'>(.*?)</th>", head)
    assert t("mix.paper") in heads[1]
    assert "badge-cited" in heads[1]
    assert t("mix.simulation") in heads[2]
    assert "badge-simulated" in heads[2]
    for wrong in ("reconcile.predicted", "reconcile.measured"):
        assert t.frame(wrong) not in re.sub(r"<[^>]*>", "", head)
    assert table.count(t("row.guess", value=12)) == 1
    assert f"{found['max'].num_running / PAPER_RUNNING['max']:.2f}×" in table


def test_buddies_never_overlap_and_join_again():
    memory, taken = Buddies(200, 8), []
    while (piece := memory.take(9)) is not None:
        taken.append(piece)
    slots = [slot for start, size in taken for slot in range(start, start + size)]
    assert len(slots) == len(set(slots))
    for piece in taken:
        memory.give_back(*piece)
    assert memory.take(128) == (0, 128)


# ---- proofs and bugs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", paging_proof.LINES, ids=lambda line: line.key)
def test_every_line_is_checked(line):
    assert is_checked(line)


def test_a_false_claim_is_not_ticked():
    small = [paging_proof.waste(size, tokens) < size - 1 for size, tokens in paging_proof.cases()]
    assert not is_checked(Line("wrong", "", trials=lambda: small))
    assert not is_checked(Line("nothing", ""))


def test_the_floor_leaves_slots_that_nobody_wrote():
    slots = paging_exhibits.read_after_sharing(paging_exhibits.share_floor, 6)[4:]
    assert [math.isnan(slot) for slot in slots] == [True, True, False]
    assert slots[2] == 60
    for num_tokens in range(1, 9):
        right = paging_exhibits.read_after_sharing(paging_exhibits.share_and_copy, num_tokens)
        assert right == [10.0 * index for index in range(num_tokens + 1)]


def test_a_length_moved_in_every_layer_spreads_the_keys():
    caches, length = paging_exhibits.append_in_every_layer(paging_exhibits.keys(3, 2))
    assert (caches, length) == ([[1, 0, 11, 0, 21, 0], [0, 2, 0, 12, 0, 22]], 6)
    caches, length = paging_exhibits.append_then_advance(paging_exhibits.keys(3, 2))
    assert ([cache[:length] for cache in caches], length) == ([[1, 11, 21], [2, 12, 22]], 3)
    assert paging_exhibits.append_in_every_layer(paging_exhibits.keys(3, 1)) == paging_exhibits.append_then_advance(
        paging_exhibits.keys(3, 1)
    )


# ---- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_figures_of_the_words_are_those_of_the_formulas(language):
    t = load("paging", language)
    best = float(
        paging_proof.BEST_SIZE.subs(
            {paging_proof.ENTRY_BYTES: 4, paging_proof.TOKENS: 499, paging_proof.SLOT_BYTES: 819_200}
        )
    )
    assert f"{best:.2f}" == "0.07"
    assert "0.07" in t("derive.best")
    used = float(paging_proof.USED.subs({paging_proof.SIZE: 16, paging_proof.TOKENS: 330}))
    assert f"{100 * used:.0f} %" in t("derive.share")
    for share in PAPER_SHARES.values():
        assert f"{100 * share:.1f} %" in t("interview.long", source="")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tests_that_the_words_name_exist_and_compare_bit_for_bit(language):
    text = load("paging", language)("break.after")
    named = re.findall(r"`(test_\w+)`", text)
    assert len(named) == 2
    sources = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for name in named:
        body = sources.split(f"def {name}(")[1].split("\ndef ")[0]
        assert "torch.equal(" in body, name


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_on_forks_name_the_first_token_of_a_block_as_the_one_that_costs_nothing(language):
    """What the engine does is in the test of forks above."""
    t = load("paging", language)
    first = {"en": "first", "zh": "第一个"}[language]
    assert f"**{first}**" in t("lab.intro")
    assert first in t("stage.text.fork.free")
    assert "$k-1$" in t("interview.follow_ups", source="")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_percentage_of_the_paper_that_an_answer_cites_names_its_source(language):
    answers = load("paging", language).group("interview.")
    cited = [part for text in answers.values() for part in text.split("\n") if re.search(r"\d %", part)]
    assert len(cited) == 5
    assert all("{{source}}" in part for part in cited)
