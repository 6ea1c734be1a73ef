"""Public bug reports of systems like this one, held against this engine: row numbers as in the project's list of them.

ELSEWHERE names the tests of other files that hold a row; the rows in NOT_BUILT concern what does not exist here yet.
"""

import ast
import re
from pathlib import Path

import pytest
import torch

from engine import EngineError, Finished, Request, Sampled, SamplingParams, Submitted, Verified
from engine.cache import KVCache
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.drafter import NOTHING
from engine.events import Drafted, Forwarded, Preempted, RoundFinished
from engine.model import Model
from engine.trace import fold
from tests.scripted_model import ScriptDrafter, scripted_model
from tests.test_engine import DRAFTERS, PROMPT, greedy
from tests.toys import VOCAB_SIZE, toy_engine, toy_model

ELSEWHERE = {
    1: ["test_engine::test_output_ends_with_the_first_end_token_wherever_it_falls_in_a_round"],
    2: ["test_engine::test_a_round_never_overshoots_the_budget"],
    3: ["test_engine::test_without_an_end_token_the_run_goes_to_its_budget"],
    5: ["test_engine::test_a_stop_string_split_over_a_round_cuts_text_and_tokens",
        "test_tokenizer::test_a_stop_string_is_found_wherever_the_pieces_are_cut"],
    8: ["test_engine::test_a_draft_model_with_a_padded_vocabulary_keeps_greedy_text"],
    9: ["test_engine::test_the_context_window_is_filled_to_its_last_token",
        "test_engine::test_a_bad_prompt_is_refused_before_anything_changes"],
    10: ["test_engine::test_what_can_never_fit_is_refused_at_once"],
    11: ["test_engine::test_what_can_never_fit_is_refused_at_once"],
    12: ["test_engine::test_greedy_speculation_equals_greedy_plain_decoding"],
    13: ["test_accept::test_drafts_from_another_law_than_stated_do_not_give_the_joint_law",
         "test_accept::test_greedy_drafts_give_the_joint_law_of_the_target",
         "test_exactness::test_the_engine_samples_from_the_models_own_law"],
    17: ["test_accept::test_an_empty_residual_falls_back_to_the_target",
         "test_accept::test_equal_laws_accept_everything_in_single_precision_too"],
    18: ["test_engine::test_bad_logits_end_their_request_and_no_other",
         "test_sampling::test_logits_without_a_law_are_refused_and_the_row_is_named"],
    20: ["test_accept::test_a_tiny_probability_is_accepted_when_both_sides_give_it"],
    21: ["test_sampling::test_settings_give_the_law_worked_out_by_hand"],
    22: ["test_engine::test_a_seed_gives_the_same_text_again_and_coins_are_independent"],
    23: ["test_engine::test_a_requests_text_depends_on_its_seed_and_not_on_its_company"],
    25: ["test_accept::test_trees_give_the_joint_law_of_the_target",
         "test_exactness::test_the_engine_samples_from_the_models_own_law"],
    28: ["test_sampling::test_settings_give_the_law_worked_out_by_hand"],
    35: ["test_sparse::test_hidden_blocks_are_as_if_they_were_masked",  # sinks keep the positions of the whole text
         "test_sparse::test_a_sparse_view_moves_neither_positions_nor_slots"],
    36: ["test_model::test_far_neighbours_keep_distinct_angles_whatever_the_weights_are"],
    37: ["test_model::test_several_sequences_in_one_pass_get_what_each_gets_alone",
         "test_model::test_each_path_through_a_tree_gives_the_logits_of_transformers"],
    39: ["test_model::test_each_node_of_a_tree_equals_the_chain_of_its_ancestors_to_the_last_bit"],
    42: ["test_batch::test_an_impossible_batch_is_refused_before_anything_is_written"],
    43: ["test_model::test_several_sequences_in_one_pass_get_what_each_gets_alone",
         "test_batch::test_without_trees_no_row_sees_anything_beyond_its_table"],
    44: ["test_blocks_refusals::test_b44_a_prompt_that_hits_whole_leaves_its_last_block_to_compute"],
    45: ["test_blocks_refusals::test_b45_one_token_over_a_block_takes_one_block_once"],
    49: ["test_blocks_refusals::test_b49_an_evicted_block_is_not_found_under_its_old_text"],
    50: ["test_blocks_refusals::test_b50_a_partly_filled_block_is_not_hashed"],
    53: ["test_blocks_refusals::test_b53_a_sequence_is_freed_once_and_the_total_is_conserved",
         "test_engine::test_abort_frees_all_blocks_in_every_state_and_twice_is_fine",
         "test_random_runs::test_random_operations_keep_every_promise_after_every_step"],
    54: ["test_blocks_refusals::test_b54_a_fork_inside_a_block_shares_it_and_the_first_append_copies_what_is_in_it"],
    55: ["test_blocks_refusals::test_b55_a_refusal_for_want_of_blocks_changes_nothing"],
    56: ["test_model::test_a_prompt_in_chunks_of_any_size_gives_the_logits_of_transformers",
         "test_engine::test_a_chunked_prompt_gives_the_text_of_a_whole_one"],
    60: ["test_engine::test_a_warm_prefix_gives_the_text_of_a_cold_one"],
    62: ["test_tokenizer::test_streamed_pieces_joined_equal_decoding_everything",
         "test_tokenizer::test_a_streamed_text_never_shows_a_broken_character"],
    64: ["test_live::test_stop_frees_the_blocks_within_one_step"],
    65: ["test_live::test_runs_wait_for_each_other_and_know_their_place"],
}  # fmt: skip
NOT_BUILT = {59: "stored caches"}
ROWS = {1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 28, 29, 30, 32, 33, 35, 36, 37, 39,
        41, 42, 43, 44, 45, 48, 49, 50, 53, 54, 55, 56, 57, 59, 60, 62, 64, 65, 67, 68}  # fmt: skip


def test_every_row_is_held_by_a_test_that_exists():
    for names in ELSEWHERE.values():
        for file, name in (entry.split("::") for entry in names):
            tree = ast.parse((Path(__file__).parent / f"{file}.py").read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
    own = [function.__doc__ or "" for name, function in globals().items() if name.startswith("test_")]
    held = {int(row) for text in own for row in re.findall(r"\bB(\d+)\b", text)}
    assert held | set(ELSEWHERE) | set(NOT_BUILT) == ROWS
    assert not (held | set(ELSEWHERE)) & set(NOT_BUILT)


@pytest.fixture(scope="module")
def engine():
    return toy_engine()


def events_of(engine, prompt, drafter="none", **params):
    return list(engine.run([Request(prompt, SamplingParams(**params), drafter)]))


def kept(events, kind):
    return [event for event in events if isinstance(event, kind)]


def with_drafter(engine, make):
    """The engine, with one more drafter named "own"."""
    engine._admission._extra_drafters["own"] = make
    return engine


def draft_model(engine, loaded, kind=DraftModelDrafter):
    """A function that makes drafters running `loaded`, on a cache that they share."""
    model = Model(loaded, "float32")
    cache = KVCache(model.config, engine.config.num_blocks, engine.config.block_size, "float32")
    return lambda: kind(model, cache, VOCAB_SIZE)


# ---- budget, end tokens, stop strings, context -------------------------------------------------------------------


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_nothing_follows_an_end_token_and_a_drafted_one_that_is_refused_ends_nothing(drafter):
    """B1: the end token of a sampled text may be drafted, accepted, resampled, or the bonus."""
    engine = toy_engine(toy_model(eos_token_ids=(3, 5)), num_blocks=200)
    requests = [
        Request(PROMPT, SamplingParams(max_new_tokens=20, temperature=1.2, seed=seed), drafter) for seed in range(12)
    ]
    state = fold(engine.run(requests))
    reasons = set()
    for request in state.requests.values():
        ends = [index for index, token in enumerate(request.token_ids) if token in (3, 5)]
        assert ends in ([], [len(request.token_ids) - 1])
        assert len(request.token_ids) == 20 or ends
        assert request.finished.finish_reason == ("stop" if ends else "length")
        assert request.text == "".join(chr(65 + token) for token in request.token_ids if token not in (3, 5))
        reasons.add(request.finished.finish_reason)
    assert "stop" in reasons


PIECES = [b"A", b"E", b"N", b"D x", b"y"]
NEXT = [1, 2, 3, 4, 0]  # "AEND xyAEND xy…"


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(("stop", "text", "num_tokens"), [
    (("END",), "A", 4), (("D x", "END"), "A", 4), (("Ny",), "AEND xyAEND xyAE", 12), (("xyAE",), "AEND ", 7),
    (("AENDx", "yA"), "AEND x", 6), (("A",), "", 1), (("END xyAEND xyA",), "A", 11), ((" ",), "AEND", 4),
])  # fmt: skip
def test_a_stop_string_is_found_across_tokens_and_rounds_and_nothing_of_it_leaks(length, stop, text, num_tokens):
    """B5, B6: "END" comes as "E", "N", "D x", one by one or all at once; text and ids end there."""
    engine = toy_engine(scripted_model(PIECES, NEXT))
    events = events_of(with_drafter(engine, lambda: ScriptDrafter(NEXT)), [4], "own", max_new_tokens=12, stop=stop,
                       draft_length=length)  # fmt: skip
    (end,) = kept(events, Finished)
    sampled = kept(events, Sampled)
    assert (end.text, end.num_tokens, len(sampled)) == (text, num_tokens, num_tokens)
    assert end.finish_reason == ("stop" if num_tokens < 12 else "length")
    assert text.startswith("".join(event.piece for event in sampled))  # what was shown was never taken back


@pytest.mark.parametrize("num_prompt", [17, 18, 19, 20, 21, 62, 63, 64])
def test_a_draft_model_with_a_shorter_context_falls_back_to_plain_decoding(num_prompt):
    """B8: prompts at the draft's window and at the target's, K = 4."""
    engine = toy_engine()
    with_drafter(engine, draft_model(engine, toy_model(3, context_length=20)))
    prompt = [token * 5 % 8 for token in range(num_prompt)]
    tokens = greedy(engine, prompt, 9, "own", 4)
    assert tokens == greedy(engine, prompt, 9)
    assert len(tokens) == min(9, 64 - num_prompt)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_what_fits_exactly_runs_to_its_end_alone(drafter):
    """B10, B11: a pool that one request fills to its last slot; a tree wider than that goes on without its drafts."""
    for num_blocks, num_new in ((4, 8), (5, 12), (6, 14), (7, 20)):
        engine = toy_engine(num_blocks=num_blocks)
        tokens = engine.generate(PROMPT, SamplingParams(max_new_tokens=num_new), drafter)
        assert (len(tokens.token_ids), tokens.finish_reason) == (num_new, "length")
        assert tokens.token_ids == greedy(toy_engine(), PROMPT, num_new)
        assert engine.stats()["blocks_free"] == num_blocks


# ---- acceptance and sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_that_is_always_wrong_costs_rounds_and_one_that_is_always_right_saves_them(temperature):
    """B15, B67: tokens per pass, correction or bonus included, are 1 for the one and K + 1 for the other."""
    for offset, tokens_per_pass in ((1, 1), (0, 5)):
        engine = with_drafter(toy_engine(scripted_model(PIECES, NEXT)), lambda by=offset: ScriptDrafter(NEXT, by))
        events = events_of(engine, [0], "own", max_new_tokens=21, draft_length=4, temperature=temperature)
        rounds = kept(events, RoundFinished)[1:]  # the first is the prompt's, which gives one token
        assert len(kept(events, Sampled)) == 21
        assert len(rounds) == 20 // tokens_per_pass
        assert {event.num_accepted for event in kept(events, Verified)} == {tokens_per_pass - 1}


@pytest.mark.parametrize("settings", [{"top_p": 0.5}, {"min_p": 0.2}, {"top_k": 2}, {"top_p": 0.0}, {"min_p": 1.0}])
def test_no_token_outside_the_targets_cut_law_comes_out_however_it_was_drafted(engine, settings):
    """B16, B28: the flat draft proposes everything; what is sampled has the probability of the cut law."""
    plain = greedy(engine, PROMPT, 30)
    for drafter in ("none", "random", "tree", "layer_skip"):
        events = events_of(engine, PROMPT, drafter, max_new_tokens=30, temperature=1.0, **settings)
        sampled = kept(events, Sampled)
        assert all(event.p > 0 for event in sampled)
        if 0.0 in settings.values() or 1.0 in settings.values():  # only the most probable token is left
            assert tuple(event.token_id for event in sampled) == plain
            assert {event.p for event in sampled} == {1.0}


def test_a_draft_without_a_law_ends_its_own_request_with_an_error():
    """B18: NaN from the draft model, none from the target; the request beside it goes on."""
    broken = toy_model(3)
    broken.tensors["lm_head.weight"][2] = float("nan")
    engine = toy_engine()
    with_drafter(engine, draft_model(engine, broken))
    for temperature in (0.0, 1.0):
        bad, good = (Request(PROMPT, SamplingParams(9, temperature), name) for name in ("own", "layer_skip"))
        ends = {event.request_id: event for event in kept(engine.run([bad, good]), Finished)}
        assert (ends[bad.id].finish_reason, ends[bad.id].message) == ("error", "bad_logits")
        assert ends[good.id].finish_reason == "length"
        assert engine.stats()["blocks_used"] == 0


def test_a_refused_draft_after_which_nothing_can_be_said_does_no_harm():
    """B18: a token that breaks the model is drafted again and again, and the target never chooses it."""
    loaded = toy_model()
    plain = greedy(toy_engine(loaded), [1, 2], 16)
    (unused, *_) = set(range(VOCAB_SIZE)) - set(plain) - {1, 2}
    loaded.tensors["model.embed_tokens.weight"][unused] = float("nan")
    for drafter in ("random", "tree"):
        assert greedy(toy_engine(loaded), [1, 2], 16, drafter) == plain


@pytest.mark.parametrize("temperature", [0, 0.0, 5e-324, 1e-45, 1e-6, 9.9e-6])
def test_every_temperature_near_zero_is_greedy(engine, temperature):
    """B21: no division by it, and not token 0."""
    for drafter in ("none", "layer_skip", "tree"):
        completion = engine.generate(PROMPT, SamplingParams(16, temperature, draft_temperature=1e-45), drafter)
        assert completion.token_ids == greedy(engine, PROMPT, 16)


def test_token_zero_is_a_token_like_any_other():
    """B22: the whole text is token 0, drafted and sampled."""
    loaded = scripted_model([b"Z", b"Y"], [0, 0])
    for drafter in ("ngram", "early_exit:4"):
        completion = toy_engine(loaded).generate([1], SamplingParams(9, 1.0), drafter)
        assert (completion.token_ids, completion.text) == ((0,) * 9, "Z" * 9)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_activations_that_overflow_end_the_request_with_an_error_and_no_text(dtype):
    """B26: the weights are finite, what they compute is not."""
    loaded = toy_model()
    for name, tensor in loaded.tensors.items():
        tensor *= 1e4 if "proj" in name else 1.0
    loaded.tensors["model.norm.weight"] *= 3e38
    engine = toy_engine(loaded, dtype=dtype)
    for drafter in ("none", "layer_skip"):
        completion = engine.generate(PROMPT, SamplingParams(8, 1.0), drafter)
        assert (completion.token_ids, completion.finish_reason) == ((), "error")
    assert engine.stats()["blocks_used"] == 0


# ---- caches and rollback -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_model_equal_to_the_target_is_accepted_to_the_end(temperature):
    """B29: with a cache of its own, 50 tokens, every round accepted whole: the last draft's keys are fed later."""
    engine = toy_engine()
    with_drafter(engine, draft_model(engine, toy_model()))
    events = events_of(engine, PROMPT, "own", max_new_tokens=50, draft_length=4, temperature=temperature)
    assert {verdict for event in kept(events, Verified) for verdict in event.verdicts} == {"accepted"}
    assert len(kept(events, Verified)) == 10  # 1 token of the prompt's pass, 9 rounds of 5, and 4 that were left


class RestingDrafter(DraftModelDrafter):
    """Proposes in every third round only."""

    def propose(self, sequence, num_tokens, table):
        return NOTHING if sequence.round % 3 else super().propose(sequence, num_tokens, table)


def test_a_draft_model_that_was_not_asked_for_some_rounds_catches_up():
    """B33: draft = target, so everything is accepted unless a cache fell behind."""
    engine = toy_engine()
    with_drafter(engine, draft_model(engine, toy_model(), RestingDrafter))
    events = events_of(engine, PROMPT, "own", max_new_tokens=50)
    assert {verdict for event in kept(events, Verified) for verdict in event.verdicts} == {"accepted"}
    assert len(kept(events, RoundFinished)) > len(kept(events, Drafted)) + 5 > 10


@pytest.mark.parametrize("drafter", ["layer_skip", "random", "tree", "own"])
def test_after_every_rejection_each_layer_holds_what_a_fresh_cache_would(drafter):
    """B30, B32, B41: keys and values of all layers against one pass from nothing, also after 0 drafts accepted."""
    engine = toy_engine()
    with_drafter(engine, draft_model(engine, toy_model(3)))
    requests = [Request(PROMPT[:length], SamplingParams(18, 0.9, seed=length), drafter) for length in (3, 7)]
    for request in requests:
        engine.add(request)
    accepted = set()
    while not engine.is_idle:
        accepted |= {event.num_accepted for event in kept(engine.step(), Verified)}
        for sequence in engine._scheduler.running:
            assert_cache_is_fresh(engine, sequence)
    assert 0 in accepted
    assert len(accepted) > 1


def assert_cache_is_fresh(engine, sequence):
    """What the engine's cache says of a running sequence, against a cache that has seen nothing else."""
    from engine.batch import Batch, Part

    known = sequence.token_ids[: sequence.num_cached]
    fresh = KVCache(engine.model.config, 16, 4, "float32")
    engine.model.forward(Batch.join([Part("prompt", known, range(16), 0, num_logits=1)]), fresh)
    slots = engine.cache.slots(engine.pool.table(sequence.id), 0, len(known))
    for layer in range(engine.model.config.num_layers):
        for ours, truth in ((engine.cache.keys, fresh.keys), (engine.cache.values, fresh.values)):
            torch.testing.assert_close(ours[layer][slots], truth[layer][: len(known)], atol=1e-4, rtol=1e-4)


# ---- blocks, prefix cache, scheduler -----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", ["none", "ngram", "layer_skip", "small", "random"])
def test_a_preempted_request_says_what_it_says_in_a_large_pool(drafter, temperature):
    """B48, B57: pools in which only one or two of four requests fit; nothing is drawn twice, tokens recounted."""
    requests = [Request(PROMPT, SamplingParams(20, temperature, seed=seed), drafter) for seed in range(4)]
    wanted = {end.request_id: end.text for end in kept(toy_engine().run(requests), Finished)}
    for num_blocks, prefix_caching in ((8, True), (8, False), (10, True), (13, True), (13, False)):
        engine = toy_engine(num_blocks=num_blocks, prefix_caching=prefix_caching)
        events = list(engine.run(requests))
        ends = {end.request_id: end for end in kept(events, Finished)}
        assert {request.id: ends[request.id].text for request in requests} == wanted
        assert {end.finish_reason for end in ends.values()} == {"length"}
        assert len(kept(events, Sampled)) == 80
        assert kept(events, Preempted)
        assert engine.stats()["blocks_used"] == 0


@pytest.mark.parametrize("length", [3, 4, 5, 7, 8, 9, 15, 16, 17])
def test_a_warm_prefix_gives_a_sampled_text_too_with_every_cache_behind_it(length):
    """B60: the second run finds blocks that the first one filled, in the draft's cache as in the target's."""
    prompt = [token * 5 % 8 for token in range(length)]
    engine = toy_engine(num_blocks=24)
    with_drafter(engine, draft_model(engine, toy_model(3)))
    for drafter in ("own", "layer_skip", "none", "own"):
        params = SamplingParams(14, 1.0, seed=length)
        cold = toy_engine(prefix_caching=False)
        with_drafter(cold, draft_model(cold, toy_model(3)))
        assert engine.generate(prompt, params, drafter).token_ids == cold.generate(prompt, params, drafter).token_ids


# ---- streaming and reporting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("drafter", ["none", "early_exit:4", "own"])
def test_characters_cut_over_tokens_and_rounds_are_never_shown_broken(drafter):
    """B62: a woman astronaut and a Chinese character, cut inside characters and across their borders."""
    text = "👩‍🚀漢".encode()
    cuts = (0, 2, 5, 9, 10, 12, 14)
    pieces = [text[first:last] for first, last in zip(cuts, cuts[1:], strict=False)]
    next_ids = [1, 2, 3, 4, 5, 0]
    for num_tokens in range(1, 14):
        engine = with_drafter(toy_engine(scripted_model(pieces, next_ids)), lambda: ScriptDrafter(next_ids))
        events = events_of(engine, [5], drafter, max_new_tokens=num_tokens, draft_length=3)
        sampled, (end,) = kept(events, Sampled), kept(events, Finished)
        assert end.text == engine.tokenizer.decode([event.token_id for event in sampled])
        shown = "".join(event.piece for event in sampled)
        assert "\ufffd" not in shown
        assert end.text in (shown, shown + "\ufffd")
        assert all("\ufffd" not in event.label for event in sampled)
    assert greedy(engine, [5], 6, drafter) == (0, 1, 2, 3, 4, 5)


def test_a_run_that_was_closed_leaves_nothing_for_the_next_one_to_report():
    """B64: closed in every place; its blocks are free at once, and the next run's events fold by themselves."""
    engine = toy_engine(num_blocks=12)
    for num_events in range(1, 40, 2):
        run = engine.run([Request(PROMPT, SamplingParams(20), "tree", n=2), Request([1], SamplingParams(5))])
        for _ in range(num_events):
            next(run)
        run.close()
        assert (engine.is_idle, engine.stats()["blocks_used"]) == (True, 0)
        next_one = Request(PROMPT, SamplingParams(3))
        state = fold(engine.run([next_one]))
        assert list(state.requests) == [next_one.id]
        assert engine.generate(PROMPT, SamplingParams(3)).token_ids == tuple(state.token_ids[next_one.id])


def test_a_completion_holds_the_tokens_of_its_own_request_only():
    """B65: somebody else's request is running in the same engine, and ends earlier or later."""
    for others in (2, 30):
        engine = toy_engine()
        engine.add(other := Request([5, 6], SamplingParams(others)))
        completion = engine.generate(PROMPT, SamplingParams(9), "layer_skip")
        assert completion.token_ids == greedy(toy_engine(), PROMPT, 9)
        assert completion.request_id != other.id


def test_a_drafter_that_is_set_is_named_asked_and_saves_passes():
    """B68: what the events say of a run is what a page counts; without drafts the page hears "none"."""
    engine = toy_engine()
    passes = {}
    for drafter, length in (("early_exit:4", 4), ("early_exit:4", 0), ("none", 4)):
        events = events_of(engine, PROMPT, drafter, max_new_tokens=21, draft_length=length)
        (submitted,) = kept(events, Submitted)
        drafted, sampled = kept(events, Drafted), kept(events, Sampled)
        assert submitted.drafter == (drafter if length and drafter != "none" else "none")
        assert bool(drafted) == (submitted.drafter != "none")
        assert len(sampled) == sum(event.num_accepted for event in kept(events, Verified)) + len(
            kept(events, RoundFinished)
        )
        passes[drafter, length] = len(kept(events, Forwarded))
    assert passes == {("early_exit:4", 4): 5, ("early_exit:4", 0): 21, ("none", 4): 21}


def test_an_unknown_sequence_is_no_ones_business(engine):
    """B53: aborting or forking what has ended, or never was, changes nothing."""
    completion = engine.generate(PROMPT, SamplingParams(3))
    before = engine.stats()
    for name in (completion.request_id, "nobody", ""):
        assert not engine.abort(name)
        with pytest.raises(EngineError, match="not generating"):
            engine.fork(name, 10)
    assert engine.stats() == before
