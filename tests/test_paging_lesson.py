"""Tests of the paging lesson: the paper's figures on real blocks, the simulation, the refusal, the bugs, the words."""

import math

import pytest
from toys import toy_engine

from engine import BlockCopied, BlockHit, BlockShared, BlockTaken, EngineError, Finished, OutOfBlocks, Submitted, fold
from lessons import (
    live,
    paging,
    paging_exhibits,
    paging_figures,
    paging_pool,
    paging_proof,
    paging_scenarios,
    paging_workbench,
)
from lessons.paging_figures import PAPER_RUNNING, PAPER_SHARES
from lessons.paging_pool import play
from lessons.paging_simulation import CAPACITY, POLICIES, Buddies, draw_lengths, simulate
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
    assert "OutOfBlocks" in remark
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


@pytest.mark.parametrize(("at", "copies"), [(10, 1), (11, 1), (13, 0), (14, 1)])
def test_a_fork_copies_exactly_where_it_cuts_a_block(at, copies):
    """A fork at 13 tokens shares the keys and values of 12: three whole blocks of four."""
    request = paging_scenarios.Request([1, 2, 3, 4, 5], paging_scenarios.SamplingParams(20, ignore_eos=True), id="A")
    events = list(paging_scenarios.drive(toy_engine(), [(0, request)], fork_at=at))
    facts = paging_figures.facts_of(events)
    assert (facts.copies, facts.copies_predicted) == (copies, copies)
    assert [event.fork_at for event in of_kind(events, Submitted)] == [0, at]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_run_that_reported_nothing_gets_a_sentence(language):
    t = load("paging", language)
    assert paging_figures.facts_of([]) is None
    assert t("reconcile.nothing") in paging.reconciled(t, "no-such-run")


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_a_model_a_run_is_refused_in_words(language):
    t = load("paging", language)
    _, remark, _ = paging.started(t, paging_scenarios.PRESETS["parallel"], [])
    assert "alert" in remark


def test_hostile_settings_become_an_error_and_not_a_fault():
    settings = paging.settings_of(["", " ", 4.0, 8.0, 0.5, None])
    assert (settings.second, settings.num_samples, settings.seed) == ("", 4, 0)
    engine = toy_engine()
    with pytest.raises(EngineError):
        engine.add(paging_scenarios.requests_of(settings)[0])


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
    assert line.is_checked


def test_a_false_claim_is_not_ticked():
    wrong = paging_proof.Line("wrong", "", claim=lambda size, tokens: paging_proof.waste(size, tokens) < size - 1)
    assert not wrong.is_checked
    assert not paging_proof.Line("nothing", "").is_checked


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
        assert f"{100 * share:.1f} %" in t("interview.long")
