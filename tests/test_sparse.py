"""A sparse view of the cache against a dense model with a mask, and the two drafters that draft through one."""

import dataclasses
import functools
import itertools
import json
import math

import numpy as np
import pytest
import torch
from tiny_models import transformers_model
from tiny_tokenizers import save_byte_level

from engine import EngineError, Request, SamplingParams, chi_square, probabilities
from engine.batch import Batch, Part, plan
from engine.bench import long_context
from engine.bench.pass_costs import Costs, Shape, fitted, shapes
from engine.cache import KVCache
from engine.drafters import sparse
from engine.drafters.draft_model import DraftModelDrafter, StreamingDraftDrafter
from engine.drafters.sparse import MagicDecDrafter, SparseTarget, TriForceDrafter, chunk_attention, retrieve
from engine.events import Drafted, Preempted, RoundFinished, Sampled, Verified
from engine.model import Model
from tests.random_world import World
from tests.test_bug_reports import assert_cache_is_fresh
from tests.toys import VOCAB_SIZE, RandomDrafter, RandomTreeDrafter, exact_law, toy_engine, toy_model

IDS = [(5 * i + i // 3) % VOCAB_SIZE for i in range(30)]
PROMPT = [1, 2, 3, 1, 2] * 3 + [1]
SPARSE = ("magicdec:4", "triforce:8")
STREAMING = "triforce_lm"  # TriForce over a language model whose cache streams
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def engine():
    return toy_engine()


# ---- what a row sees ------------------------------------------------------------------------------------------------


def test_a_sparse_view_moves_neither_positions_nor_slots():
    """Blocks of four: two rows after 13 tokens see blocks 0 and 3 of the table, so 4 tokens and then their own."""
    sees_all = Part("generated", [8], (1, 2), 4)
    rows = plan(Batch.join([Part("generated", [6, 7], (9, 5, 3, 7), 13, blocks_seen=(0, 3)), sees_all]), 10, 4, CPU)
    assert rows.positions.tolist() == [13, 14, 4]
    assert rows.slots.tolist() == [29, 30, 8]
    assert rows.visible.tables.tolist() == [[9, 7], [1, 2]]
    assert rows.visible.row_prefix.tolist() == [6, 7, 5]


def test_rows_may_go_over_the_end_of_a_block_that_is_seen():
    rows = plan(Batch.join([Part("generated", [1, 2, 3], (4, 3, 2, 1, 0), 10, blocks_seen=(2, 3))]), 5, 4, CPU)
    assert rows.visible.tables.tolist() == [[2, 1]]
    assert rows.visible.row_prefix.tolist() == [3, 4, 5]


def dense(loaded, token_ids, is_hidden) -> torch.Tensor:
    """The Llama layers written out over a whole text, hidden keys masked: logits (tokens, vocab)."""
    config, get, n = loaded.config, loaded.tensors, len(token_ids)
    angles = torch.outer(torch.arange(n), config.rope_theta ** (-torch.arange(0, 8, 2) / 8)).double()
    turn = torch.polar(torch.ones_like(angles), angles)[:, None]  # (tokens, 1, head_dim / 2)

    def norm(x):
        return x * (x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).rsqrt()

    def rotated(x):  # (tokens, heads, head_dim)
        pairs = torch.complex(*x.chunk(2, -1)) * turn
        return torch.cat((pairs.real, pairs.imag), -1)

    def weight(layer, name):
        return get[f"model.layers.{layer}.{name}.weight"].double().T

    x = get["model.embed_tokens.weight"].double()[token_ids]
    mask = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1).bool() | is_hidden, -torch.inf)
    for layer in range(config.num_layers):
        q, k, v = (
            (norm(x) @ weight(layer, f"self_attn.{name}_proj")).view(n, -1, 8) for name in ("q", "k", "v")
        )  # fmt: skip
        scores = torch.einsum("qhd,kd->hqk", rotated(q), rotated(k)[:, 0]) * 8**-0.5 + mask
        gathered = torch.einsum("hqk,kd->qhd", scores.softmax(-1), v[:, 0]).reshape(n, -1)
        x = x + gathered @ weight(layer, "self_attn.o_proj")
        gate, up = (norm(x) @ weight(layer, f"mlp.{name}_proj") for name in ("gate", "up"))
        x = x + (torch.nn.functional.silu(gate) * up) @ weight(layer, "mlp.down_proj")
    return norm(x) @ get["lm_head.weight"].double().T


@pytest.mark.parametrize("seen", [(0, 5), (0, 2, 5), (5,), (3, 4, 5), (0, 1, 2, 3, 4, 5)])
def test_hidden_blocks_are_as_if_they_were_masked(engine, seen):
    """21 tokens see everything, then two rows (block 5) see some blocks only."""
    cache, table = KVCache(engine.model.config, 9, 4, "float32"), (8, 3, 6, 1, 0, 5)
    engine.model.forward(Batch.join([Part("prompt", IDS[:21], table, 0)]), cache)
    logits = engine.model.forward(Batch.join([Part("generated", IDS[21:23], table, 21, blocks_seen=seen)]), cache)
    is_hidden = torch.zeros(23, 23, dtype=torch.bool)
    is_hidden[21:] = torch.tensor([index // 4 not in seen for index in range(23)])
    torch.testing.assert_close(logits.double(), dense(toy_model(), IDS[:23], is_hidden)[21:], atol=2e-4, rtol=1e-4)


def test_company_changes_no_bit_and_all_blocks_are_as_good_as_none_named(engine):
    def logits(*parts):
        cache = KVCache(engine.model.config, 12, 4, "float32")
        engine.model.forward(Batch.join([Part("prompt", IDS[:14], (0, 1, 2, 3), 0)]), cache)
        engine.model.forward(Batch.join([Part("prompt", IDS[3:20], (4, 5, 6, 7, 8), 0)]), cache)
        return engine.model.forward(Batch.join(parts), cache)

    sparse_one = Part("generated", IDS[14:16], (0, 1, 2, 3), 14, blocks_seen=(0, 3))
    sparse_two = Part("generated", IDS[20:21], (4, 5, 6, 7, 8, 9), 17, blocks_seen=(1, 4))
    whole = Part("generated", IDS[20:21], (4, 5, 6, 7, 8, 9), 17)
    prompt = Part("prompt", IDS[:3], (10,), 0)
    assert torch.equal(logits(prompt, sparse_two, sparse_one)[-2:], logits(sparse_one))
    assert torch.equal(logits(prompt, sparse_one, whole)[-1:], logits(whole))
    named = Part("generated", IDS[20:21], (4, 5, 6, 7, 8, 9), 17, blocks_seen=(0, 1, 2, 3, 4))
    assert torch.equal(logits(named), logits(whole))
    assert not torch.equal(logits(sparse_two), logits(whole))


@pytest.mark.parametrize(
    "part",
    [
        Part("prompt", [1], (0, 1), 4, blocks_seen=(1,)),
        Part("generated", [1, 2], (0, 1), 4, (-1, 0), blocks_seen=(1,)),
        Part("generated", [1], (0, 1, 2), 5, blocks_seen=(0,)),
        Part("generated", [1, 2, 3], (0, 1, 2), 6, blocks_seen=(0, 1)),
        Part("generated", [1], (0, 1), 4, blocks_seen=(1, 0)),
        Part("generated", [1], (0, 1), 4, blocks_seen=(1, 1)),
        Part("generated", [1], (0, 1), 4, blocks_seen=(1, 2)),
        Part("generated", [1], (0, 1), 4, blocks_seen=(-1, 1)),
        Part("generated", [1], (0, 1), 4, blocks_seen=()),
    ],
    ids=["prompt", "tree", "own block", "last own block", "falling", "twice", "beyond", "negative", "none"],
)
def test_an_impossible_view_is_refused_before_anything_is_written(engine, part):
    cache = KVCache(engine.model.config, 4, 4, "float32")
    with pytest.raises(EngineError) as error:
        engine.model.forward(Batch.join([part]), cache)
    assert error.value.code == "bad_batch"
    assert all((tensor == 0).all() for tensor in (*cache.keys, *cache.values))


def test_a_view_is_sinks_then_what_was_asked_for_then_the_window(engine):
    target = SparseTarget(engine.model, engine.cache, window=6)
    assert target.seen(30, 3, kept=(1, 3, 7)) == (0, 1, 3, 6, 7)  # token 29 sees 24 … 29, rows end in token 31
    assert target.seen(30, 4) == (0, 6, 7, 8)
    assert list(target.hidden(30)) == [1, 2, 3, 4, 5]
    assert [len(target.hidden(number)) for number in (1, 9, 13, 14, 17, 18)] == [0, 0, 0, 1, 1, 2]
    assert SparseTarget(engine.model, KVCache(engine.model.config, 8, 1, "float32"), 2).num_sinks == 4
    assert SparseTarget(engine.model, KVCache(engine.model.config, 8, 16, "float32"), 2).num_sinks == 1


# ---- retrieval ------------------------------------------------------------------------------------------------------


def test_attention_to_mean_keys_by_hand():
    """Two chunks of two keys, one key head, two query heads of two numbers."""
    keys = torch.tensor([[[1.0, 3.0]], [[3.0, 1.0]], [[0.0, 0.0]], [[0.0, 2.0]]])  # means (2, 2) and (0, 1)
    query = torch.tensor([[1.0, 0.0], [0.0, 2.0]])  # scores · √2: 2 and 0; 4 and 2
    found = chunk_attention(query, keys, torch.tensor([1, 0]), 2)
    share = 1 / (1 + np.exp(-(2**0.5)))
    assert found.tolist() == pytest.approx([2 * (1 - share), 2 * share])


def test_the_blocks_whose_keys_answer_the_query_are_retrieved(engine):
    """Keys of a middle layer along the query in one block, in all layers that are asked; others random and small."""
    target, table = SparseTarget(engine.model, KVCache(engine.model.config, 8, 4, "float32"), 4), (3, 0, 5, 1, 7, 2, 6)
    engine.model.forward(Batch.join([Part("prompt", IDS[:26], table, 0)]), target.cache)
    before = [layer.clone() for layer in target.cache.keys]
    assert retrieve(target, IDS[:26], table, range(1, 6), 9) == (1, 2, 3, 4, 5)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(before, target.cache.keys, strict=True))
    probe = sparse.Probe((1, 2))
    part = Part("generated", IDS[25:26], table, 25)
    engine.model.forward(Batch.join([part]), target.cache, features=(probe,))
    for layer, x in probe.caught.items():
        query = sparse._query(engine.model, layer, x, 25)
        target.cache.keys[layer][4 * table[4] : 4 * table[4] + 4] = 9 * query.mean(0)
    assert retrieve(target, IDS[:26], table, range(1, 6), 1) == (4,)


def test_the_query_is_that_of_the_model(engine):
    """With nothing cached but itself a token attends to its own value; its score is q · k, so q is checked by k = q."""
    row = Batch.join([Part("generated", [3], (0, 1), 5)])
    probe, cache = sparse.Probe((2,)), KVCache(engine.model.config, 2, 4, "float32")
    engine.model.forward(row, cache, features=(probe,))
    loaded, x = toy_model(), probe.caught[2].double()
    normed = x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()
    flat = (normed @ loaded.tensors["model.layers.2.self_attn.q_proj.weight"].double().T).view(2, 8)
    angles = 5 * 1e4 ** (-torch.arange(0, 8, 2).double() / 8)
    turned = torch.complex(flat[:, :4], flat[:, 4:]) * torch.polar(torch.ones(4).double(), angles)
    wanted = torch.cat((turned.real, turned.imag), -1)
    torch.testing.assert_close(sparse._query(engine.model, 2, probe.caught[2], 5).double(), wanted, atol=1e-4, rtol=0)


# ---- drafting -------------------------------------------------------------------------------------------------------


def texts(engine, requests) -> dict[str, tuple[int, ...]]:
    made: dict[str, tuple[int, ...]] = {}
    for event in engine.run(requests):
        if isinstance(event, Sampled):
            made[event.request_id] = (*made.get(event.request_id, ()), event.token_id)
    return made


@pytest.mark.parametrize("length", [1, 2, 5, 12])
@pytest.mark.parametrize("name", ["magicdec:1", "magicdec:4", "magicdec:9", "triforce:1", "triforce:8", "triforce:20"])
def test_greedy_text_is_that_of_plain_decoding(engine, name, length):
    for prompt in (PROMPT, [5], IDS[:23]):
        params = SamplingParams(40, draft_length=length, ignore_eos=True)
        assert engine.generate(prompt, params, name).token_ids == engine.generate(prompt, params, "none").token_ids


def drafted_at(engine, name, **params) -> list[int]:
    """Lengths of the text at which something was drafted."""
    events = list(engine.run([Request([1], SamplingParams(40, ignore_eos=True, **params), name)]))
    before = {event.round: 1 + event.index for event in reversed(events) if isinstance(event, Sampled)}
    return [before[event.round] for event in events if isinstance(event, Drafted)]


@pytest.mark.parametrize(("name", "first"), [("magicdec:4", 12), ("magicdec:10", 18), ("triforce:8", 16)])
def test_nothing_is_proposed_while_all_is_seen(engine, name, first):
    """A block of sinks and the window: the first hidden block is full when 8 + window tokens are there, or more."""
    lengths = drafted_at(engine, name, draft_length=1)
    assert min(lengths) >= first
    assert min(lengths) <= first + 1
    assert drafted_at(engine, f"{name.partition(':')[0]}:40", draft_length=3) == []


@pytest.mark.parametrize("name", SPARSE)
def test_all_drafts_that_were_asked_for_are_proposed(engine, name):
    events = list(engine.run([Request(PROMPT + PROMPT, SamplingParams(20, temperature=1.0, ignore_eos=True), name)]))
    drafted = [event for event in events if isinstance(event, Drafted)]
    assert {len(event.token_ids) for event in drafted[:-1]} == {4}
    assert not any(event.is_point_mass for event in drafted)


@pytest.mark.parametrize("name", ["magicdec:x", "magicdec:0", "triforce:-4", "triforce:1.5", "magicdec:²"])
def test_a_window_that_is_no_number_is_refused(engine, name):
    with pytest.raises(EngineError) as error:
        engine.generate(PROMPT, drafter=name)
    assert error.value.code == "bad_parameter"


@pytest.mark.parametrize("name", [*SPARSE, STREAMING])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_text_depends_on_no_company_and_survives_preemption(name, temperature):
    def requests():
        params = [SamplingParams(24, temperature, seed=seed, ignore_eos=True) for seed in range(4)]
        return [Request(IDS[seed : 12 + seed], one, name, id=f"r{seed}") for seed, one in enumerate(params)]

    alone = {request.id: texts(toy_engine(), [request])[request.id] for request in requests()}
    assert texts(toy_engine(), requests()) == alone
    narrow, events = toy_engine(num_blocks=24, prefix_caching=False), []
    for request in requests():
        narrow.add(request)
    while not narrow.is_idle:
        events += narrow.step()
    assert any(isinstance(event, Preempted) for event in events)
    made = {
        name: tuple(e.token_id for e in events if isinstance(e, Sampled) and e.request_id == name) for name in alone
    }
    assert made == alone
    assert narrow.stats()["blocks_free"] == 24


@pytest.mark.parametrize("name", [*SPARSE, STREAMING])
def test_forks_and_samples_share_blocks_that_drafts_are_not_written_to(name):
    engine = toy_engine()
    params = SamplingParams(20, draft_length=3, ignore_eos=True)
    plain = engine.generate(PROMPT, params, "none").token_ids
    engine.add(Request(PROMPT, params, name, id="r", n=2))
    events = [event for _ in range(5) for event in engine.step()]
    children = [engine.fork("r", len(PROMPT) + at) for at in (1, 3)]
    while not engine.is_idle:
        events += engine.step()
    for one, at in [("r", 0), ("r.1", 0), *zip(children, (1, 3), strict=True)]:
        made = tuple(e.token_id for e in events if isinstance(e, Sampled) and e.request_id == one)
        assert made[: 20 - at] == plain[at:]


@pytest.mark.parametrize("seed", [4, 5, 6, 10])  # blocks of 4 and of 1; of 16 nothing would be hidden
def test_random_operations_keep_every_promise(seed):
    """Aborts, forks, preemption and sliding windows; texts and caches are compared with fresh ones."""
    world = World(seed, ("magicdec:1", "triforce:2"))
    size = world.engine.config.block_size  # what is hidden depends on it, and what is drafted on that
    world.truth = world._new_engine(num_blocks=256 // size, block_size=size)
    for number in range(200):
        world.act()
        for sequence in world.engine._scheduler.running if number % 10 == 0 else ():
            if sequence.num_cached:
                assert_cache_is_fresh(world.engine, sequence)
    world.finish()
    assert sum(drafted for drafted, _ in world.rounds) > 40


def test_below_triforce_a_language_model_reads_only_its_first_and_latest_blocks():
    """Block 0, and at most three blocks before the rows' own; what comes out is plain decoding's text."""
    engine, seen = toy_engine(num_blocks=128), []

    class Watched(StreamingDraftDrafter):
        def _forward(self, role, rows, table, context):
            seen.append((context, len(rows), self._seen(context + 1, len(rows))))
            return super()._forward(role, rows, table, context)

    model = Model(toy_model(3), "float32")
    cache = KVCache(model.config, 128, 4, "float32")
    inner = Watched(model, cache, VOCAB_SIZE, SparseTarget(model, cache, 8).seen)
    engine._admission._extra_drafters["over"] = lambda: TriForceDrafter(engine.model, engine.cache, inner, 8)
    events = list(engine.run([Request(IDS, SamplingParams(20, draft_length=4, ignore_eos=True), "over")]))
    plain = toy_engine().generate(IDS, SamplingParams(20, ignore_eos=True, draft_length=0)).token_ids
    assert tuple(event.token_id for event in events if isinstance(event, Sampled)) == plain
    assert len(seen) > 8
    for context, rows, blocks in seen[1:]:
        last = (context + rows - 1) // 4
        assert blocks[0] == 0
        assert blocks[-1] == last
        assert len(blocks) <= 1 + 3 + rows // 4 + 1 < last + 1 or last < 6


# ---- TriForce's inner drafter ---------------------------------------------------------------------------------------


def with_inner(new_inner, window: int = 8, **settings):
    """A toy engine in which "over" is TriForce over that drafter."""
    engine = toy_engine(**settings)
    make = engine._admission._new_drafter
    inner = (lambda: make(new_inner)) if isinstance(new_inner, str) else new_inner
    engine._admission._extra_drafters["over"] = lambda: TriForceDrafter(engine.model, engine.cache, inner(), window)
    return engine


class CheckedDraftModel(DraftModelDrafter):
    """A draft model whose keys are compared with those of a fresh pass whenever it is asked."""

    def propose(self, sequence, num_tokens, table):
        fresh = KVCache(self._model.config, 32, 4, "float32")
        rows = sequence.token_ids[: self.num_cached]
        if rows:
            self._model.forward(Batch.join([Part("prompt", rows, range(32), 0)]), fresh)
        slots = self._cache.slots(table, 0, self.num_cached)
        for kept, wanted in zip(self._cache.keys, fresh.keys, strict=True):
            torch.testing.assert_close(kept[slots], wanted[: len(rows)], atol=1e-3, rtol=1e-3)
        return super().propose(sequence, num_tokens, table)


@functools.cache
def small_model() -> Model:
    return Model(toy_model(3), "float32")


@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_a_draft_model_below_keeps_its_cache_in_step_with_the_text(temperature):
    cache = KVCache(small_model().config, 64, 4, "float32")
    engine = with_inner(lambda: CheckedDraftModel(small_model(), cache, VOCAB_SIZE))
    for seed in range(6):
        params = SamplingParams(40, temperature, seed=seed, draft_length=6, ignore_eos=True)
        events = list(engine.run([Request(PROMPT, params, "over")]))
        assert sum(isinstance(event, Sampled) for event in events) == 40
        cached = [event.num_draft_cached for event in events if isinstance(event, RoundFinished)]
        assert max(cached) > len(PROMPT)
        if not temperature:
            made = tuple(event.token_id for event in events if isinstance(event, Sampled))
            assert made == engine.generate(PROMPT, params, "none").token_ids


@pytest.mark.parametrize("inner", ["eagle", "small", "layer_skip", "magicdec:4", RandomDrafter, RandomTreeDrafter])
def test_any_drafter_may_stand_below(inner):
    engine = with_inner(inner)
    params = SamplingParams(36, draft_length=5, ignore_eos=True)
    assert engine.generate(PROMPT, params, "over").token_ids == engine.generate(PROMPT, params, "none").token_ids
    hot = SamplingParams(36, 1.0, draft_length=5, ignore_eos=True, repetition_penalty=1.2)
    assert engine.generate(PROMPT, hot, "over").token_ids == engine.generate(PROMPT, hot, "over").token_ids


def test_a_good_drafter_below_makes_fewer_sparse_passes():
    def num_passes(inner):
        engine = with_inner(inner)
        passes, forward = [], engine.model.forward
        engine.model.forward = lambda batch, *rest, **more: passes.append(batch) or forward(batch, *rest, **more)
        engine.generate(IDS, SamplingParams(30, draft_length=6, ignore_eos=True), "over")
        return sum(batch.spans[0].blocks_seen is not None for batch in passes)

    assert num_passes("early_exit:4") < num_passes(RandomDrafter)


# ---- exactness ------------------------------------------------------------------------------------------------------


NUM_RUNS = 1500


def p_value(engine, name: str) -> float:
    """χ² of the second and third token over NUM_RUNS runs against the model's own law of the pair."""
    counts, law = np.zeros((VOCAB_SIZE, VOCAB_SIZE), int), np.zeros((VOCAB_SIZE, VOCAB_SIZE))
    params = SamplingParams(4, 1.0, draft_length=2, ignore_eos=True)

    def row(token_ids):
        return probabilities(exact_law(engine, token_ids)[None].double(), params)[0].numpy()

    first = row(PROMPT)
    for a in range(VOCAB_SIZE):
        second = row([*PROMPT, a])
        law += first[a] * second[:, None] * np.stack([row([*PROMPT, a, b]) for b in range(VOCAB_SIZE)])
    seeds = [SamplingParams(4, 1.0, draft_length=2, seed=1000 * run, ignore_eos=True) for run in range(NUM_RUNS)]
    for _, second, third, _ in texts(engine, [Request(PROMPT, one, name) for one in seeds]).values():
        counts[second, third] += 1
    return chi_square(counts.ravel(), law.ravel()).p_value


WIDE = {"num_blocks": 2000, "max_running": 300, "max_batch_tokens": 4000}


@pytest.mark.parametrize("inner", ["small", RandomDrafter])
def test_text_over_drawn_inner_drafts_follows_the_models_law(inner):
    assert p_value(with_inner(inner, **WIDE), "over") > 1e-4


def test_coins_thrown_twice_are_caught(monkeypatch):
    """The coin that drew a token must not be the coin that judges it."""

    def borrowed(seed, position, purpose, index=0):
        return uniform(seed, position, ("resample", "accept")[index])

    uniform = sparse.uniform
    monkeypatch.setattr(sparse, "uniform", borrowed)
    assert p_value(with_inner(RandomDrafter, **WIDE), "over") < 1e-6


def test_accepted_drafts_are_counted_against_the_sparse_law(engine):
    """p and q of what was verified are those of the two targets: q by a pass with the view, p by one without."""
    params = SamplingParams(16, 1.0, draft_length=1, ignore_eos=True, seed=4)
    events, token_ids = list(engine.run([Request(IDS, params, "magicdec:4")])), list(IDS)
    cache, num_checked = KVCache(engine.model.config, 16, 4, "float32"), 0
    for event in events:
        if isinstance(event, Verified):
            blocks = range(16)
            engine.model.forward(Batch.join([Part("prompt", token_ids[:-1], blocks, 0)]), cache)
            drafter = MagicDecDrafter(engine.model, cache, 4)
            law = probabilities(drafter._target.logits(token_ids, (), blocks), params)[0]
            assert event.q[0] == pytest.approx(float(law[event.token_ids[0]]), abs=1e-4)
            whole = probabilities(exact_law(engine, token_ids)[None], params)[0]
            assert event.p[0] == pytest.approx(float(whole[event.token_ids[0]]), abs=1e-4)
            num_checked += 1
        elif isinstance(event, Sampled):
            token_ids.append(event.token_id)
    assert num_checked > 3


# ---- the measurement ------------------------------------------------------------------------------------------------


def test_costs_that_were_made_by_the_formula_are_found_again():
    made = Costs(3e-11, 2e-4, 4e-9, 2.7e8, 23040.0)
    wanted = list(shapes([1000, 4000], [1, 4], 4, 16))
    found = fitted(wanted, [made.seconds(shape) for shape in wanted], made.weight_bytes, made.token_bytes)
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(made), rel=1e-6)
    context, tau = 20_000, 3.0
    draft, verify = made.seconds(Shape(context, 1, 1, 272)), made.seconds(Shape(context, 4, 5, context))
    is_faster = 4 * 4 * draft + verify < tau * made.seconds(Shape(context, 4, 1, context))
    assert (made.pays_from(4, 4, tau, 272, 1) < context) == is_faster
    assert made.pays_from(4, 4, tau, 272, 4) <= made.pays_from(4, 4, tau, 272, 1)


def test_a_cost_that_would_be_negative_is_none():
    wanted = list(shapes([1000, 4000], [1, 4], 4, 16))
    found = fitted(wanted, [1e-3 * shape.batch * shape.num_rows + 1e-2 for shape in wanted], 2.7e8, 23040.0)
    assert min(dataclasses.astuple(found)) >= 0
    assert math.isinf(found.pays_from(1, 4, 1.0, 272, 1))


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> dict:
    """What a dry run on a tiny model writes."""
    folder = tmp_path_factory.mktemp("long")
    transformers_model("smollm2-tied", vocab_size=352, max_position_embeddings=512).save_pretrained(folder)
    save_byte_level(folder)
    options = ["--contexts", "300", "330", "--batches", "1", "2", "--repeats", "1", "--num-new", "12", "--kept", "32"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))  # where the loader keeps its notes
        files = ["--model", str(folder), "--dtype", "float32", "--out", str(folder / "long.json")]
        assert long_context.main([*options, *files]) == 0
    return json.loads((folder / "long.json").read_text())


def test_a_dry_run_measures_every_context_batch_and_drafter(record):
    found = {(one["context"], one["batch"], one["drafter"]) for one in record["races"]}
    assert found == set(itertools.product((300, 330), (1, 2), ("none", "magicdec", "triforce")))
    assert all(one["is_identical"] and one["seconds_per_token"] > 0 for one in record["races"])
    drafting = [one for one in record["races"] if one["drafter"] != "none"]
    assert all(0 <= one["acceptance"] <= 1 and 1 <= one["tau"] <= 5 for one in drafting)
    assert all(one["verify_kv_bytes"] > one["draft_kv_bytes"] > 0 for one in drafting)
    assert {(one["drafter"], one["window"]) for one in record["kept_tokens"]} == {("magicdec", 32), ("triforce", 32)}


def test_a_dry_run_says_from_where_on_it_would_pay(record):
    cases = [(one["batch"], one["drafts_together"]) for one in record["theory"]["pays_from"]]
    assert cases == [(1, 1), (2, 1), (2, 2)]
    assert record["theory"]["badge"] == "theory"
    assert all(one["seconds"] > 0 and one["by_the_fit"] > 0 for one in record["passes"])
