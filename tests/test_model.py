"""Our forward pass against `transformers` on tiny random models, and against itself in other shapes."""

import random
from collections.abc import Sequence

import pytest
import torch
from tiny_models import ARCHITECTURES, loaded_from, random_ids, transformers_model

from engine import tree
from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.model import Model, rotations
from kernels import linear

BLOCK = 8  # tokens per block
NUM_BLOCKS = 40
IDS = random_ids(44)
BUSHY = (-1, 0, 0, 1, 2, 2, 3, 3)  # a root, two candidates, and what may follow them


@pytest.fixture(scope="module", params=list(ARCHITECTURES))
def pair(request: pytest.FixtureRequest):
    """One architecture: the transformers model and ours with the same weights."""
    peer = transformers_model(request.param)
    return peer, Model(loaded_from(peer))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(loaded_from(transformers_model("smollm2-tied")))


def peer_logits(peer, token_ids: Sequence[int]) -> torch.Tensor:
    with torch.no_grad():
        return peer(torch.tensor([token_ids]), use_cache=False).logits[0]


def new_cache(model: Model, garbage: float = 0.0, dtype: str = "float32") -> KVCache:
    cache = KVCache(model.config, NUM_BLOCKS, BLOCK, dtype)
    for tensor in (*cache.keys, *cache.values):
        tensor.fill_(garbage)
    return cache


def random_table(num_tokens: int, seed: int) -> list[int]:
    """Distinct blocks in no order, the n-th seed from the n-th quarter of the pool."""
    first = seed * 10
    return random.Random(seed).sample(range(first, first + 10), -(-num_tokens // BLOCK))


def run(model: Model, cache: KVCache, *parts: Part) -> torch.Tensor:
    return model.forward(Batch.join(parts), cache)


def in_chunks(model: Model, role: str, size: int, table: Sequence[int], cache: KVCache) -> torch.Tensor:
    """The logits of IDS when `size` tokens at a time are given."""
    starts = range(0, len(IDS), size)
    return torch.cat([run(model, cache, Part(role, IDS[start : start + size], table, start)) for start in starts])


# ---- against transformers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [len(IDS), 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_prompt_in_chunks_of_any_size_gives_the_logits_of_transformers(pair, size):
    peer, model = pair
    logits = in_chunks(model, "prompt", size, random_table(len(IDS), 1), new_cache(model))
    torch.testing.assert_close(logits, peer_logits(peer, IDS), atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", [1, 5, BLOCK + 1])
def test_generated_rows_give_the_logits_of_transformers(pair, size):
    peer, model = pair
    logits = in_chunks(model, "generated", size, random_table(len(IDS), 1), new_cache(model))
    torch.testing.assert_close(logits, peer_logits(peer, IDS), atol=1e-4, rtol=0)


def test_each_path_through_a_tree_gives_the_logits_of_transformers(pair):
    peer, model = pair
    cache, table = new_cache(model), random_table(30, 2)
    run(model, cache, Part("prompt", IDS[:20], table, 0))
    nodes = random_ids(len(BUSHY), seed=5)
    logits = run(model, cache, Part("generated", nodes, table, 20, BUSHY))
    for node, path in enumerate(tree.paths(BUSHY)):
        text = IDS[:20] + [nodes[step] for step in path if step >= 0]
        torch.testing.assert_close(logits[node], peer_logits(peer, text)[-1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_narrow_weights_give_what_transformers_gives_with_the_rounded_weights(dtype):
    peer = transformers_model("qwen2-bias")
    model = Model(loaded_from(peer), dtype)
    for parameter in peer.parameters():
        if parameter.dim() == 2:
            parameter.data = linear.unpack(linear.pack(parameter.data, dtype))
    for role in ("prompt", "generated"):
        logits = in_chunks(model, role, 5, random_table(len(IDS), 1), new_cache(model))
        torch.testing.assert_close(logits, peer_logits(peer, IDS), atol=1e-4, rtol=0)


def test_a_half_precision_cache_stays_near_the_exact_logits(model):
    exact = in_chunks(model, "generated", 1, random_table(44, 1), new_cache(model))
    logits = in_chunks(model, "generated", 1, random_table(44, 1), new_cache(model, dtype="float16"))
    assert (logits - exact).norm() < 0.01 * exact.norm()


@pytest.mark.parametrize(("dtype", "error"), [("float16", 0.02), ("bfloat16", 0.1)])
def test_activations_in_half_precision_as_on_a_gpu_stay_near_the_exact_logits(pair, dtype, error, monkeypatch):
    peer, model = pair
    monkeypatch.setattr("engine.model._activation_dtype", lambda name, device: getattr(torch, name))
    narrow, cache, table = Model(loaded_from(peer), dtype), new_cache(model, dtype=dtype), random_table(30, 2)
    prompt = run(narrow, cache, Part("prompt", IDS[:20], table, 0))
    logits = torch.cat((prompt, run(narrow, cache, Part("generated", IDS[20:30], table, 20))))
    expected = peer_logits(peer, IDS[:30])
    assert logits.dtype == torch.float32
    assert (logits - expected).norm() < error * expected.norm()


# ---- against itself -----------------------------------------------------------------------------------------------


def test_several_sequences_in_one_pass_get_what_each_gets_alone(pair):
    """Generated rows to the last bit; prompt rows as near as their matrix product's order of additions allows."""
    model = pair[1]
    nodes = random_ids(len(BUSHY), seed=5)
    prefixes = {1: 13, 2: 20, 3: 8}
    parts = [
        Part("prompt", IDS[: BLOCK + 3], random_table(30, 0), 0),
        Part("generated", IDS[13:14], random_table(30, 1), 13),
        Part("generated", nodes, random_table(30, 2), 20, BUSHY),
        Part("prompt", IDS[8:20], random_table(30, 3), 8, num_logits=2),
    ]
    alone, together = new_cache(model), new_cache(model)
    for cache in (alone, together):
        for seed, num_tokens in prefixes.items():
            run(model, cache, Part("prompt", IDS[:num_tokens], random_table(30, seed), 0))
    expected = [run(model, alone, part) for part in parts]
    logits = run(model, together, *parts).split([len(rows) for rows in expected])
    torch.testing.assert_close(logits[0], expected[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(logits[3], expected[3], atol=1e-4, rtol=0)
    assert torch.equal(logits[1], expected[1])
    assert torch.equal(logits[2], expected[2])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", ["smollm2-tied", "mistral-window", "qwen3-norms", "smollm3-nope"])
def test_each_node_of_a_tree_equals_the_chain_of_its_ancestors_to_the_last_bit(name, dtype):
    model = Model(loaded_from(transformers_model(name)), dtype)
    cache, table = new_cache(model), random_table(30, 2)
    run(model, cache, Part("prompt", IDS[:19], table, 0))
    nodes = random_ids(len(BUSHY), seed=5)
    logits = run(model, cache, Part("generated", nodes, table, 19, BUSHY))
    for node, path in enumerate(tree.paths(BUSHY)):
        tokens = [nodes[step] for step in path if step >= 0]
        assert torch.equal(run(model, cache, Part("generated", tokens, table, 19))[-1], logits[node])
        stepwise = [run(model, cache, Part("generated", [token], table, 19 + i)) for i, token in enumerate(tokens)]
        assert torch.equal(stepwise[-1][0], logits[node])


def test_after_moving_the_accepted_path_the_cache_is_that_of_plain_decoding(model):
    plain, speculative, table = new_cache(model), new_cache(model), random_table(30, 2)
    nodes = random_ids(len(BUSHY), seed=5)
    path = [0, 2, 5]
    for cache in (plain, speculative):
        run(model, cache, Part("prompt", IDS[:19], table, 0))
    run(model, speculative, Part("generated", nodes, table, 19, BUSHY))
    source, target = tree.moves(path)
    slots = speculative.slots(table, 19, 19 + len(nodes))
    speculative.move([slots[node] for node in source], [slots[node] for node in target])
    for offset, node in enumerate(path):
        run(model, plain, Part("generated", [nodes[node]], table, 19 + offset))
    kept = plain.slots(table, 0, 19 + len(path))
    for layer in range(model.config.num_layers):
        assert torch.equal(plain.keys[layer][kept], speculative.keys[layer][kept])
        assert torch.equal(plain.values[layer][kept], speculative.values[layer][kept])


@pytest.mark.parametrize("role", ["prompt", "generated"])
def test_garbage_in_unused_slots_changes_nothing(pair, role):
    model = pair[1]
    clean, dirty = new_cache(model), new_cache(model, garbage=float("nan"))
    table = random_table(len(IDS), 1)
    assert torch.equal(in_chunks(model, role, 5, table, clean), in_chunks(model, role, 5, table, dirty))


@pytest.mark.parametrize("role", ["prompt", "generated"])
def test_a_random_block_table_equals_a_contiguous_cache(pair, role):
    model = pair[1]
    contiguous = KVCache(model.config, num_blocks=1, block_size=64, dtype="float32")
    expected = in_chunks(model, role, 5, [0], contiguous)
    for seed in range(4):
        logits = in_chunks(model, role, 5, random_table(len(IDS), seed), new_cache(model))
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


def test_only_the_named_layers_run_and_only_their_cache_is_touched():
    peer = transformers_model("qwen3-norms")
    model = Model(loaded_from(peer))
    cache, table = new_cache(model, garbage=float("nan")), random_table(len(IDS), 1)
    logits = model.forward(Batch.join([Part("prompt", IDS[:30], table, 0)]), cache, layers=(0, 2))
    more = model.forward(Batch.join([Part("generated", IDS[30:], table, 30)]), cache, layers=(0, 2))
    peer.model.layers = torch.nn.ModuleList([peer.model.layers[0], peer.model.layers[2]])
    peer.config.num_hidden_layers = 2
    torch.testing.assert_close(torch.cat((logits, more)), peer_logits(peer, IDS), atol=1e-4, rtol=0)
    for layer in (1, 3):
        assert cache.keys[layer].isnan().all()
        assert cache.values[layer].isnan().all()


# ---- positions ----------------------------------------------------------------------------------------------------


def test_far_neighbours_keep_distinct_angles_whatever_the_weights_are():
    model = Model(loaded_from(transformers_model("llama2-mha", max_position_embeddings=2048)), "bfloat16")
    cache = KVCache(model.config, num_blocks=1, block_size=1008, dtype="float32")
    for position in (1000, 1001):
        run(model, cache, Part("generated", [5], [0], position))
    near, far = cache.keys[0][1000], cache.keys[0][1001]
    assert (near - far).abs().max() > 0.01 * near.abs().max()


def test_the_angles_agree_with_double_precision(model):
    cos, sin = rotations(model.config)
    width = model.config.head_dim
    frequency = model.config.rope_theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(model.config.context_length, dtype=torch.float64)[:, None] * frequency
    assert cos.dtype == sin.dtype == torch.float32
    torch.testing.assert_close(cos.double(), angles.cos(), atol=1e-5, rtol=0)
    torch.testing.assert_close(sin.double(), angles.sin(), atol=1e-5, rtol=0)
