"""Random operations on an engine with hardly any room: every promise is checked after each of thousands of steps.

What is checked, and how, is in random_world.py.
"""

import pytest

from tests.random_world import World
from tests.test_bug_reports import assert_cache_is_fresh


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_keep_every_promise_after_every_step(seed):
    world = World(seed)
    for number in range(250):
        world.act()
        if number % 8 == 0:
            for sequence in world.engine._scheduler.running:
                if sequence.num_cached:
                    assert_cache_is_fresh(world.engine, sequence)
    world.finish()
    assert world.num_steps > 150
    assert len(set(world.endings)) >= 3


@pytest.mark.parametrize("seed", range(3))
def test_a_draft_model_holds_after_every_proposal_and_round_the_tokens_that_it_must(seed):
    world = World(seed, ("small", "twin"))
    for _ in range(600):
        world.act()
    world.finish()
    ends = {(accepted > 0, accepted == drafted) for drafted, accepted in world.rounds}
    assert ends == {(False, False), (True, False), (True, True)}
    assert len(world.rounds) > 40
