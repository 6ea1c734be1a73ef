"""The block pool against a naive twin: 100,000 random operations of long lives, and as many of hypothesis's stories."""

import random

import pytest
from block_world import KEYS, TEXTS, World, random_act
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from engine.bench.__main__ import main as bench


@pytest.mark.parametrize(
    ("num_blocks", "block_size", "seed"), [(14, 4, 1), (40, 4, 2), (24, 3, 3), (6, 16, 4), (80, 1, 5)]
)
def test_a_naive_twin_a_real_memory_and_the_folded_events_agree_over_100_000_random_operations(
    num_blocks, block_size, seed
):
    world, dice = World(num_blocks, block_size), random.Random(seed)
    for _ in range(20_000):
        random_act(world, dice)
        world.check()
    assert world.num_refused > 100
    kinds = {type(event).__name__ for event in world.events}
    assert kinds >= {
        "BlockTaken",
        "BlockShared",
        "BlockFilled",
        "BlockHashed",
        "BlockHit",
        "BlockEvicted",
        "BlockFreed",
    }
    assert block_size == 1 or "BlockCopied" in kinds  # blocks of one token are never partly filled
    for name in list(world.texts):
        world.free(name)
    assert world.pool.num_free == num_blocks


@pytest.mark.parametrize("num_hashes", [1, 3])
def test_colliding_hashes_never_give_a_sequence_the_tokens_of_another(num_hashes):
    def poor_hash(parent, token_ids, extra_keys):
        return str(sum(token_ids) % num_hashes)

    world, dice = World(30, 4, poor_hash), random.Random(num_hashes)
    for _ in range(5_000):
        random_act(world, dice)
        world.check()


STORIES = settings(
    max_examples=1_100,
    stateful_step_count=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


class PoolMachine(RuleBasedStateMachine):
    """The same world, driven by hypothesis so that a failure is shrunk to its shortest story."""

    def __init__(self):
        super().__init__()
        self.world = World(10, 3)
        self.num_checks = 0

    def pick(self, data):
        return data.draw(st.sampled_from(sorted(self.world.texts)), label="sequence")

    @rule(data=st.data(), text=st.sampled_from(TEXTS), keys=st.sampled_from(KEYS))
    def allocate(self, data, text, keys):
        length = data.draw(st.integers(0, 20), label="prompt")
        self.world.allocate(text[:length], data.draw(st.integers(0, length), label="tokens"), keys)

    @precondition(lambda self: self.world.texts)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 2), max_size=7))
    def append(self, data, tokens):
        self.world.append(self.pick(data), tokens)

    @precondition(lambda self: self.world.texts)
    @rule(data=st.data())
    def fork(self, data):
        name = self.pick(data)
        self.world.fork(name, data.draw(st.integers(0, len(self.world.texts[name])), label="tokens"))

    @precondition(lambda self: self.world.texts)
    @rule(data=st.data())
    def truncate(self, data):
        name = self.pick(data)
        self.world.truncate(name, data.draw(st.integers(0, len(self.world.texts[name])), label="tokens"))

    @precondition(lambda self: self.world.texts)
    @rule(data=st.data())
    def commit(self, data):
        name = self.pick(data)
        self.world.commit(name, data.draw(st.integers(0, len(self.world.texts[name])), label="tokens"))

    @precondition(lambda self: self.world.texts)
    @rule(data=st.data())
    def free(self, data):
        self.world.free(self.pick(data))

    @invariant()
    def agrees(self):
        self.world.check()
        self.num_checks += 1


def test_no_short_story_among_100_000_operations_makes_the_pool_disagree_with_its_twin():
    lengths = []

    class CountedMachine(PoolMachine):
        def teardown(self):
            lengths.append(self.num_checks - 1)  # the first check comes before the first operation

    run_state_machine_as_test(CountedMachine, settings=STORIES)
    assert sum(lengths) >= 100_000
    assert max(lengths) == STORIES.stateful_step_count


def test_the_benchmark_is_found_by_name_and_an_unknown_name_gets_a_sentence(capsys, monkeypatch):
    monkeypatch.setattr("engine.bench.blocks.SIZES", (1_000,))
    assert bench(["blocks", "--calls", "2000", "--repeats", "1"]) == 0
    assert "1,000 blocks" in capsys.readouterr().out
    assert bench([]) == 0
    assert "  blocks " in capsys.readouterr().out
    for arguments in (["no such"], ["__main__"], ["prompts"], ["../blocks"]):
        assert bench(arguments) == 2
        assert "Known: " in capsys.readouterr().err
