"""The engine from end to end on a toy model: speculation changes nothing, budgets hold, blocks are conserved."""

import pytest
import torch

from engine import EngineError, Request, SamplingParams
from engine.events import Drafted, Finished, Preempted, Prefilled, RoundFinished, Sampled, Submitted, Verified
from engine.sampling import probabilities
from engine.state import State, apply
from engine.trace import fold
from tests.toys import VOCAB_SIZE, exact_law, toy_engine, toy_model

DRAFTERS = [
    "ngram", "suffix", "ngram_table", "layer_skip", "layer_skip:1", "early_exit:3", "early_exit:4", "small", "eagle",
    "random", "tree", "magicdec:4", "triforce:8", "jacobi", "lookahead", "lookahead:2,3,2", "eagle2", "unshifted",
    "medusa", "lm", "specinfer", "lookup_eagle",
]  # fmt: skip
PROMPT = [1, 2, 3, 1, 2, 4, 1, 2, 3]


def greedy(engine, prompt, num_tokens=24, drafter="none", length=4):
    params = SamplingParams(max_new_tokens=num_tokens, draft_length=length)
    return engine.generate(prompt, params, drafter).token_ids


def plain_by_hand(engine, prompt, num_tokens):
    """The slowest truth: recompute everything for each token."""
    token_ids = list(prompt)
    for _ in range(num_tokens):
        token_ids.append(int(exact_law(engine, token_ids).argmax()))
    return tuple(token_ids[len(prompt) :])


@pytest.fixture(scope="module")
def engine():
    return toy_engine()


def test_plain_greedy_decoding_equals_recomputing_everything(engine):
    assert greedy(engine, PROMPT) == plain_by_hand(engine, PROMPT, 24)


@pytest.mark.parametrize("length", [0, 1, 2, 4, 8, 16])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_speculation_equals_greedy_plain_decoding(engine, drafter, length):
    for prompt in (PROMPT, [5], [0, 7, 0, 7, 0, 7]):
        assert greedy(engine, prompt, 30, drafter, length) == greedy(engine, prompt, 30)


def events_of(engine, **params):
    drafter = params.pop("drafter", "none")
    prompt = params.pop("prompt", PROMPT)
    request = Request(prompt, SamplingParams(**params), drafter)
    return list(engine.run([request]))


def test_a_draft_equal_to_the_target_is_always_accepted(engine):
    events = events_of(engine, drafter="early_exit:4", max_new_tokens=40, draft_length=4)
    verified = [event for event in events if isinstance(event, Verified)]
    assert verified
    assert all(set(event.verdicts) == {"accepted"} for event in verified)


def test_a_draft_equal_to_the_target_is_always_accepted_when_sampling(engine):
    events = events_of(engine, drafter="early_exit:4", max_new_tokens=40, draft_length=4, temperature=1.0)
    verified = [event for event in events if isinstance(event, Verified)]
    assert all(set(event.verdicts) == {"accepted"} for event in verified)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("num_tokens", [0, 1, 2, 3, 4, 5])
def test_a_round_never_overshoots_the_budget(engine, drafter, num_tokens):
    tokens = greedy(engine, PROMPT, num_tokens, drafter, 4)
    assert len(tokens) == num_tokens


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_after_each_round_the_cache_holds_all_but_the_last_token(engine, drafter):
    events = events_of(engine, drafter=drafter, max_new_tokens=20, temperature=0.9)
    length = len(PROMPT)
    for event in events:
        length += isinstance(event, Sampled)
        if isinstance(event, RoundFinished):
            assert event.num_cached == length - 1


@pytest.mark.parametrize("offset", range(6))
def test_output_ends_with_the_first_end_token_wherever_it_falls_in_a_round(offset):
    plain = plain_by_hand(toy_engine(), PROMPT, 12)
    end = plain[offset]
    loaded = toy_model(eos_token_ids=(end,))
    completion = toy_engine(loaded).generate(PROMPT, SamplingParams(max_new_tokens=12), "early_exit:4")
    assert completion.token_ids == plain[: plain.index(end) + 1]
    assert completion.finish_reason == "stop"
    assert completion.text == "".join(chr(65 + token) for token in plain[: plain.index(end)])


def test_without_an_end_token_the_run_goes_to_its_budget():
    loaded = toy_model(eos_token_ids=())
    completion = toy_engine(loaded).generate(PROMPT, SamplingParams(max_new_tokens=9))
    assert (len(completion.token_ids), completion.finish_reason) == (9, "length")


def test_a_stop_string_split_over_a_round_cuts_text_and_tokens(engine):
    plain = "".join(chr(65 + token) for token in plain_by_hand(engine, PROMPT, 12))
    stop = plain[3:6]
    first = plain.index(stop)
    params = SamplingParams(max_new_tokens=12, stop=(stop,))
    completion = engine.generate(PROMPT, params, "early_exit:4")
    assert completion.text == plain[:first]
    assert len(completion.token_ids) == first + 3
    assert completion.finish_reason == "stop"


@pytest.mark.parametrize(("num_prompt", "num_new"), [(62, 2), (63, 1), (64, 0)])
def test_the_context_window_is_filled_to_its_last_token(engine, num_prompt, num_new):
    completion = engine.generate([i % 8 for i in range(num_prompt)], SamplingParams(max_new_tokens=9), "early_exit:4")
    assert (len(completion.token_ids), completion.finish_reason) == (num_new, "length")


@pytest.mark.parametrize(
    ("prompt", "code"),
    [([], "empty_prompt"), ("", "empty_prompt"), ([0] * 65, "prompt_too_long"), ([8], "bad_token"), ([-1], "bad_token"),
     ([True], "bad_token"), ("A" * 100_000, "prompt_too_long")],
)  # fmt: skip
def test_a_bad_prompt_is_refused_before_anything_changes(engine, prompt, code):
    before = engine.stats()
    with pytest.raises(EngineError) as error:
        engine.add(Request(prompt))
    assert error.value.code == code
    assert engine.stats() == before
    assert engine.is_idle


def test_what_can_never_fit_is_refused_at_once():
    engine = toy_engine(num_blocks=3)
    with pytest.raises(EngineError) as error:
        engine.add(Request([1] * 9, SamplingParams(max_new_tokens=5)))
    assert error.value.code == "never_fits"
    assert len(engine.generate([1] * 9, SamplingParams(max_new_tokens=4)).token_ids) == 4


def test_an_unknown_drafter_is_refused_with_the_known_names(engine):
    with pytest.raises(EngineError, match="ngram"):
        engine.generate(PROMPT, drafter="magic")


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_folding_the_events_rebuilds_tables_counts_and_text(engine, drafter):
    request = Request(PROMPT, SamplingParams(max_new_tokens=25, temperature=0.8), drafter, n=3)
    events = []
    for event in engine.run([request, Request([3, 3], SamplingParams(max_new_tokens=9), drafter)]):
        events.append(event)
    state = fold(events)
    assert all(not table for table in state.tables.values())
    finished = {event.request_id: event for event in events if isinstance(event, Finished)}
    assert len(finished) == 4
    for name, event in finished.items():
        tokens = [each.token_id for each in events if isinstance(each, Sampled) and each.request_id == name]
        assert event.text == "".join(chr(65 + token) for token in tokens)
    assert engine.stats()["blocks_used"] == 0


def test_at_every_step_the_folded_tables_equal_the_pools():
    engine = toy_engine(max_batch_tokens=6)
    for seed in range(3):
        engine.add(Request(PROMPT, SamplingParams(max_new_tokens=12, temperature=1.0, seed=seed), "tree", n=2))
    events = []
    while not engine.is_idle:
        events += engine.step()
        state = fold(events)
        snapshot = engine.pool.snapshot()
        assert {name: list(table) for name, table in snapshot["tables"].items()} == {
            name: table for name, table in state.tables.items() if table
        }
        assert snapshot["ref_counts"] == {block: count for block, count in state.ref_counts.items() if count}


def test_a_requests_text_depends_on_its_seed_and_not_on_its_company():
    prompts = [[1, 2, 3], [4, 5, 6, 7, 1, 2], [0] * 11, [7, 6]]
    params = [SamplingParams(max_new_tokens=15, temperature=0.9, seed=seed) for seed in range(4)]
    for drafter in ("none", "layer_skip", "random", "ngram", "suffix", "ngram_table"):
        alone = [toy_engine().generate(p, s, drafter).token_ids for p, s in zip(prompts, params, strict=True)]
        engine = toy_engine()
        requests = [Request(p, s, drafter) for p, s in zip(prompts, params, strict=True)]
        together = {request.id: [] for request in requests}
        for event in engine.run(requests):
            if isinstance(event, Sampled):
                together[event.request_id].append(event.token_id)
        assert [tuple(tokens) for tokens in together.values()] == alone


def test_sampler_match_gives_the_very_text_of_plain_sampling(engine):
    for drafter in ("layer_skip", "random", "tree", "ngram", "suffix", "ngram_table"):
        params = {"max_new_tokens": 20, "temperature": 1.0, "seed": 5}
        plain = engine.generate(PROMPT, SamplingParams(**params), "none").token_ids
        matched = engine.generate(PROMPT, SamplingParams(**params, rule="sampler_match"), drafter).token_ids
        assert matched == plain


def test_abort_frees_all_blocks_in_every_state_and_twice_is_fine(engine):
    waiting = toy_engine(max_running=1, max_batch_tokens=3)
    first = waiting.add(Request(PROMPT, SamplingParams(max_new_tokens=20), "layer_skip", n=2))
    second = waiting.add(Request(PROMPT, SamplingParams(max_new_tokens=20)))
    waiting.step()  # first is in the middle of its prompt, second waits
    assert waiting.abort(second)
    assert waiting.abort(first)
    assert not waiting.abort(first)
    reasons = [event.finish_reason for event in waiting.step() if isinstance(event, Finished)]
    assert reasons == ["abort", "abort"]
    assert waiting.stats()["blocks_used"] == 0
    assert waiting.is_idle


def test_closing_the_iterator_of_a_run_frees_its_blocks(engine):
    events = engine.run([Request(PROMPT, SamplingParams(max_new_tokens=30), "random", n=2)])
    while not isinstance(next(events), Sampled):
        pass
    events.close()
    assert engine.is_idle
    assert engine.stats()["blocks_used"] == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_bad_logits_end_their_request_and_no_other(monkeypatch, value, temperature):
    """The row after a prompt that ends with token 6 gives nothing but NaN or -inf; the good prompt ends with 2."""
    params = SamplingParams(max_new_tokens=5, temperature=temperature)
    alone = toy_engine().generate([1, 2], params)
    engine = toy_engine()
    forward = engine.model.forward

    def spoilt(batch, *others, **named):
        logits = forward(batch, *others, **named)
        prompt_ends = [span.start + span.num_rows - 1 for span in batch.spans if span.role == "prompt"]
        for at, row in enumerate(batch.logit_rows.tolist()):
            if row in prompt_ends and batch.token_ids[row] == 6:
                logits[at] = value
        return logits

    monkeypatch.setattr(engine.model, "forward", spoilt)
    bad, good = Request([1, 6], params), Request([1, 2], params)
    events = list(engine.run([bad, good]))
    finished = {event.request_id: event for event in events if isinstance(event, Finished)}
    assert (finished[bad.id].finish_reason, finished[bad.id].message) == ("error", "bad_logits")
    assert finished[good.id].finish_reason == alone.finish_reason
    sampled = [(event.request_id, event.token_id) for event in events if isinstance(event, Sampled)]
    assert sampled == [(good.id, token_id) for token_id in alone.token_ids]
    assert engine.stats()["blocks_used"] == 0


def test_parallel_samples_share_the_prompts_blocks_and_copy_on_write():
    engine = toy_engine(prefix_caching=False)
    prompt = [1, 2, 3, 4, 5, 6, 7]  # as in figure 8 of the vLLM paper: one full block, one with three tokens
    request = Request(prompt, SamplingParams(max_new_tokens=4, temperature=1.0), n=2)
    events = list(engine.run([request]))
    copies = [event for event in events if type(event).__name__ == "BlockCopied"]
    assert len(copies) == 1
    assert copies[0].index == 1
    assert copies[0].num_tokens == 3
    first = engine.generate(prompt, SamplingParams(max_new_tokens=4, temperature=1.0, seed=0)).token_ids
    second = engine.generate(prompt, SamplingParams(max_new_tokens=4, temperature=1.0, seed=1)).token_ids
    for name, alone in ((request.id, first), (f"{request.id}.1", second)):
        assert tuple(e.token_id for e in events if isinstance(e, Sampled) and e.request_id == name) == alone


def test_a_fork_continues_as_a_request_with_that_prompt_would(engine):
    engine.add(request := Request(PROMPT, SamplingParams(max_new_tokens=12)))
    events = []
    for _ in range(6):
        events += engine.step()
    child = engine.fork(request.id, len(PROMPT) + 3)
    while not engine.is_idle:
        events += engine.step()
    parent = [e.token_id for e in events if isinstance(e, Sampled) and e.request_id == request.id]
    forked = [e.token_id for e in events if isinstance(e, Sampled) and e.request_id == child]
    assert forked == parent[3:]  # greedy: the same text again


@pytest.mark.parametrize("drafter", ["none", "ngram", "suffix", "ngram_table", "random", "tree", "small", "eagle"])
@pytest.mark.parametrize("caching", [False, True])
def test_a_fork_at_any_token_of_the_prompt_goes_on_as_a_request_with_that_beginning_would(drafter, caching):
    engine = toy_engine(prefix_caching=caching)
    params = SamplingParams(max_new_tokens=9, draft_length=3, ignore_eos=True)
    alone = [engine.generate(PROMPT[:at], params).token_ids for at in range(1, len(PROMPT) + 1)]
    engine.add(Request(PROMPT, params, drafter, id="r"))
    events = engine.step()
    children = [engine.fork("r", at) for at in range(1, len(PROMPT) + 1)]
    assert engine.pool.num_shared == -(-(len(PROMPT) - 1) // engine.config.block_size)
    while not engine.is_idle:
        events += engine.step()
    made = {name: tuple(e.token_id for e in events if isinstance(e, Sampled) and e.request_id == name)
            for name in children}  # fmt: skip
    assert list(made.values()) == alone
    submitted = [event for event in events if isinstance(event, Submitted) and event.parent]
    assert [event.prompt_ids for event in submitted] == [tuple(PROMPT[:at]) for at in range(1, len(PROMPT) + 1)]
    prefilled = [e for e in events if isinstance(e, Prefilled) and e.request_id in children]
    assert [(event.start, event.num_tokens) for event in prefilled] == [(at, 1) for at in range(len(PROMPT))]
    assert engine.stats()["blocks_used"] == 0


def test_a_fork_in_the_prompt_that_finds_no_block_waits_or_takes_the_last_comers():
    engine = toy_engine(num_blocks=9)
    params = SamplingParams(max_new_tokens=12, ignore_eos=True)
    alone = engine.generate(PROMPT[:6], params).token_ids
    engine.add(Request(PROMPT, params, id="r"))
    events = engine.step()
    children = [engine.fork("r", 6) for _ in range(3)]
    while not engine.is_idle:
        events += engine.step()
    for name in children:
        assert tuple(e.token_id for e in events if isinstance(e, Sampled) and e.request_id == name) == alone
    assert any(isinstance(event, Preempted) for event in events)
    assert engine.stats()["blocks_used"] == 0


def test_a_warm_prefix_gives_the_text_of_a_cold_one():
    for length in (3, 4, 5, 7, 8, 9):
        prompt = [i * 5 % 8 for i in range(length)]
        cold = greedy(toy_engine(prefix_caching=False), prompt, 12)
        engine = toy_engine()
        assert greedy(engine, prompt, 12) == cold
        assert greedy(engine, prompt, 12) == cold
        assert greedy(engine, prompt, 12, "layer_skip") == cold


@pytest.mark.parametrize("chunk", [1, 3, 4, 5])
def test_a_chunked_prompt_gives_the_text_of_a_whole_one(chunk):
    prompt = [i * 3 % 8 for i in range(17)]
    assert greedy(toy_engine(max_batch_tokens=chunk), prompt, 8) == greedy(toy_engine(), prompt, 8)


def test_when_nobody_can_get_a_block_the_last_to_come_makes_room():
    engine = toy_engine(num_blocks=6, prefix_caching=False)
    requests = [Request([1] * 8, SamplingParams(max_new_tokens=12), id=f"r{i}") for i in range(2)]
    finished = {e.request_id: e for e in engine.run(requests) if isinstance(e, Finished)}
    reasons = sorted(event.finish_reason for event in finished.values())
    assert reasons in (["error", "length"], ["length", "length"])
    assert engine.stats()["blocks_free"] == 6


def test_a_seed_gives_the_same_text_again_and_coins_are_independent(engine):
    params = SamplingParams(max_new_tokens=20, temperature=1.0, seed=1, draft_length=4)
    runs = [engine.generate(PROMPT, params, "random").token_ids for _ in range(2)]
    assert runs[0] == runs[1]
    events = events_of(engine, drafter="random", max_new_tokens=40, temperature=1.0, seed=1)
    coins = [u for event in events if isinstance(event, Verified) for u in event.u if u is not None]
    assert len(set(coins)) == len(coins) > 10


def test_penalties_count_the_drafts_before_each_row(engine):
    params = SamplingParams(max_new_tokens=20, repetition_penalty=1.8, presence_penalty=0.5, frequency_penalty=0.3)
    for drafter in ("layer_skip", "random", "tree", "ngram", "suffix", "ngram_table"):
        assert engine.generate(PROMPT, params, drafter).token_ids == engine.generate(PROMPT, params, "none").token_ids


def test_drafts_are_reported_with_the_law_they_were_drawn_from(engine):
    events = events_of(engine, drafter="random", max_new_tokens=10, temperature=1.0)
    drafted = [event for event in events if isinstance(event, Drafted)]
    assert all(q == pytest.approx(1 / VOCAB_SIZE) for event in drafted for q in event.q)
    verified = [event for event in events if isinstance(event, Verified)]
    for event in verified:
        for p, q, u, verdict in zip(event.p, event.q, event.u, event.verdicts, strict=True):
            assert (verdict == "unreached") == (u is None)
            if u is not None:
                assert (verdict == "accepted") == (u * q < p)


def test_a_draft_model_with_a_padded_vocabulary_keeps_greedy_text():
    from engine.cache import KVCache
    from engine.drafters.draft_model import DraftModelDrafter
    from engine.model import Model

    for vocab, context in ((8, 64), (11, 64), (6, 64), (8, 20)):
        draft = Model(toy_model(3, vocab_size=vocab, context_length=context), "float32")
        cache = KVCache(draft.config, 64, 4, "float32")
        engine = toy_engine()
        engine._admission._extra_drafters["draft"] = lambda d=draft, c=cache: DraftModelDrafter(d, c, VOCAB_SIZE)
        for length in (1, 4, 8):
            assert greedy(engine, PROMPT, 30, "draft", length) == greedy(engine, PROMPT, 30)
        sampled = SamplingParams(max_new_tokens=30, temperature=0.8)
        assert len(engine.generate(PROMPT, sampled, "draft").token_ids) == 30


def test_one_engine_step_for_only_one_request_leaves_the_other_where_it_is(engine):
    first, second = Request(PROMPT, SamplingParams(max_new_tokens=3)), Request([1], SamplingParams(max_new_tokens=3))
    engine.add(first), engine.add(second)
    names = {e.request_id for _ in range(2) for e in engine.step(only=first.id) if isinstance(e, Sampled)}
    assert names == {first.id}
    engine.abort(first.id), engine.abort(second.id), engine.step()


def test_logits_of_a_verify_pass_equal_those_of_plain_steps_bit_for_bit(engine):
    plain = events_of(toy_engine(watch={"distributions"}), max_new_tokens=20)
    fast = events_of(toy_engine(watch={"distributions"}), drafter="early_exit:4", max_new_tokens=20)
    first, second = ([e.p_model for e in run if isinstance(e, Sampled)] for run in (plain, fast))
    assert first == second
    assert torch.tensor(first).isfinite().all()


def test_a_tree_wider_than_the_free_blocks_waits_for_its_turn():
    engine = toy_engine(num_blocks=20, prefix_caching=False)
    requests = [Request(PROMPT, SamplingParams(max_new_tokens=10, seed=seed), "tree") for seed in range(6)]
    finished = [event for event in engine.run(requests) if isinstance(event, Finished)]
    assert len(finished) == 6
    assert engine.stats()["blocks_free"] == 20
    whole = "".join(chr(65 + token) for token in plain_by_hand(engine, PROMPT, 10))
    assert {event.text for event in finished if event.finish_reason == "length"} == {whole}
    assert all(whole.startswith(event.text) for event in finished)


def test_forks_of_forks_throw_coins_of_their_own_and_the_fold_gives_each_its_text():
    engine, state = toy_engine(), State()
    params = SamplingParams(24, temperature=1.0, ignore_eos=True)
    engine.add(Request(PROMPT, params, id="r", n=2))
    at, texts = len(PROMPT) + 2, {}
    for number in range(100):
        for event in engine.step():
            apply(state, event)
            if isinstance(event, Finished):
                texts[event.request_id] = event.text
        if number == 3:
            first, second = engine.fork("r", at), engine.fork("r", at)
            inner = engine.fork(first, at)
            later = engine.fork("r.1", at)
        if number == 6:  # in the middle, a fork's tokens are all there
            for name in (first, second, inner, later):
                sequence = engine._sequences[name]
                assert state.token_ids[name] == sequence.token_ids[len(PROMPT) :]
                assert state.texts[name] == sequence.writer.text
                assert [token.index for token in state.requests[name].tokens] == list(range(sequence.num_output))
    assert (first, second, inner, later) == ("r/1", "r/2", "r/1/1", "r.1/1")
    assert len(texts) == len(set(texts.values())) == 6


def test_a_sample_that_waits_for_its_prompt_can_be_aborted():
    engine = toy_engine(max_batch_tokens=3)
    engine.add(Request(PROMPT * 3, SamplingParams(4), id="r", n=3))
    engine.step()
    assert [engine.abort("r.1") for _ in range(2)] == [True, False]
    ends = [event.request_id for _ in range(20) for event in engine.step() if isinstance(event, Finished)]
    assert sorted(ends) == ["r", "r.2"]
    assert engine.is_idle


def test_the_probabilities_of_drafts_that_nobody_looked_at_count_the_penalties():
    engine = toy_engine()
    params = SamplingParams(30, repetition_penalty=3.0, draft_length=6, ignore_eos=True)
    events = list(engine.run([Request(PROMPT, params, "random")]))
    token_ids = list(PROMPT)
    for event in events:
        if isinstance(event, Verified):
            for node, token in enumerate(event.token_ids):
                logits = exact_law(engine, [*token_ids, *event.token_ids[:node]])
                law = probabilities(logits[None], params, [*token_ids, *event.token_ids[:node]])[0]
                assert event.p[node] == law[token]
        elif isinstance(event, Sampled):
            token_ids.append(event.token_id)


def test_nobody_waits_for_ever_where_rows_are_few():
    engine = toy_engine(max_batch_tokens=6)
    params = SamplingParams(40, draft_length=4, ignore_eos=True)
    names = [engine.add(Request([1, 2, number], params, "random")) for number in range(4)]
    for _ in range(30):
        engine.step()
    lengths = [engine._sequences[name].num_output if name in engine._sequences else 40 for name in names]
    assert min(lengths) >= 4
    late = engine.add(Request(PROMPT * 2, params))
    for _ in range(20):
        engine.step()
    assert late not in engine._sequences or engine._sequences[late].num_output > 0
