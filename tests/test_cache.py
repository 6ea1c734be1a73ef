"""The paged cache as an array of slots: copies and moves reach every layer and nothing else."""

import pytest

from engine.cache import KVCache
from engine.model_config import ModelConfig

CONFIG = ModelConfig(
    model_type="llama", num_layers=3, hidden_size=16, intermediate_size=32, num_heads=4, num_kv_heads=2, head_dim=4,
    vocab_size=32, context_length=64, rms_norm_eps=1e-5, rope_theta=1e4,
)  # fmt: skip


def filled_cache() -> KVCache:
    """Five blocks of four slots; every number tells layer, slot and kind apart."""
    cache = KVCache(CONFIG, num_blocks=5, block_size=4, dtype="float32")
    for layer in range(CONFIG.num_layers):
        for slot in range(cache.num_slots):
            cache.keys[layer][slot] = layer * 100 + slot
            cache.values[layer][slot] = -(layer * 100 + slot)
    return cache


def rows(cache: KVCache, layer: int) -> list[float]:
    assert (cache.keys[layer] == -cache.values[layer]).all()
    return cache.keys[layer][:, 0, 0].tolist()


def test_the_size_follows_from_layers_slots_heads_and_dtype():
    cache = KVCache(CONFIG, num_blocks=5, block_size=4, dtype="float16")
    assert cache.num_slots == 20
    assert len(cache.keys) == len(cache.values) == 3
    assert cache.keys[0].shape == (20, 2, 4)
    assert cache.keys[0].is_contiguous()
    assert cache.num_bytes == 2 * 3 * 20 * 2 * 4 * 2


def test_a_block_is_copied_up_to_the_asked_token_in_all_layers():
    cache = filled_cache()
    cache.copy_block(source=1, target=3, num_tokens=3)
    for layer in range(3):
        expected = [layer * 100 + slot for slot in range(20)]
        expected[12:15] = expected[4:7]
        assert rows(cache, layer) == expected


def test_slots_follow_the_table():
    cache = filled_cache()
    assert cache.slots((4, 0, 2), 2, 10) == [18, 19, 0, 1, 2, 3, 8, 9]
    assert cache.slots((4,), 0, 0) == []
    with pytest.raises(IndexError):
        cache.slots((4,), 0, 5)


@pytest.mark.parametrize(
    ("source", "target"),
    [([6, 9], [5, 6]), ([5, 6, 7], [6, 7, 8]), ([3, 2], [2, 3]), ([], [])],
    ids=["path of a tree", "overlapping shift", "swap", "nothing"],
)
def test_moving_reads_everything_before_it_writes(source, target):
    cache = filled_cache()
    cache.move(source, target)
    for layer in range(3):
        expected = [layer * 100 + slot for slot in range(20)]
        for read, write in zip(source, target, strict=True):
            expected[write] = layer * 100 + read
        assert rows(cache, layer) == expected
