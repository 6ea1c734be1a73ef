"""What the block pool refuses, and bug reports of other engines turned into tests (B44 … B55 number the reports)."""

import pytest
from block_world import commit_all, run_once

from engine.blocks import BlockPool, Copy
from engine.errors import EngineError, OutOfBlocks


def refused(code, act, *arguments):
    with pytest.raises(EngineError) as caught:
        act(*arguments)
    assert caught.value.code == code
    return caught.value


def test_what_cannot_be_is_refused_with_a_code_and_changes_nothing():
    pool = BlockPool(4, 4)
    pool.allocate("a", 5)
    before = pool.snapshot()
    refused("sequence_exists", pool.allocate, "a", 1)
    refused("sequence_exists", pool.fork, "a", "a")
    for act in (pool.append, pool.free, pool.table, pool.length, pool.num_needed):
        refused("unknown_sequence", act, "b")
    refused("unknown_sequence", pool.truncate, "b", 0)
    refused("unknown_sequence", pool.commit, "b", [], 0)
    refused("unknown_sequence", pool.fork, "b", "c")
    for value in (-1, 1.5, True, "1"):
        refused("bad_num_tokens", pool.append, "a", value)
        refused("bad_num_tokens", pool.allocate, "b", value)
        refused("bad_num_tokens", pool.truncate, "a", value)
    refused("bad_num_tokens", pool.truncate, "a", 6)
    refused("bad_num_tokens", pool.fork, "a", "b", 6)
    refused("bad_num_tokens", pool.commit, "a", [0] * 6, 6)
    refused("bad_num_tokens", pool.commit, "a", [0] * 4, 5)
    refused("bad_config", BlockPool, 0, 16)
    refused("bad_config", BlockPool, 16, 0)
    assert pool.snapshot() == before
    assert "a" in pool
    assert "b" not in pool
    assert len(pool) == 1


# ---- public bug reports (shared with other engines) -------------------------------------------------------------


def test_b44_a_prompt_that_hits_whole_leaves_its_last_block_to_compute():
    pool = BlockPool(8, 4)
    prompt = list(range(8))
    run_once(pool, "first", prompt)
    assert pool.allocate("second", 8, prompt) == 4


def test_b45_one_token_over_a_block_takes_one_block_once():
    for num_blocks in (1, 2, 5):
        pool = BlockPool(8, 4)
        pool.allocate("a", 4 * num_blocks)
        assert pool.num_needed("a") == 1
        for _ in range(4):
            pool.append("a")
            assert len(pool.table("a")) == num_blocks + 1


def test_b49_an_evicted_block_is_not_found_under_its_old_text():
    pool = BlockPool(2, 4)
    old = list(range(5))
    run_once(pool, "old", old)
    assert pool.match(old) == 4
    pool.allocate("new", 8)
    assert pool.match(old) == 0
    commit_all(pool, "new", [7] * 8)
    assert pool.match(old) == 0


def test_b50_a_partly_filled_block_is_not_hashed():
    pool = BlockPool(8, 4)
    run_once(pool, "first", [0, 1, 2, 3, 4, 5])
    assert len(pool.snapshot()["hashes"]) == 1
    assert pool.match([0, 1, 2, 3, 8, 9]) == 4
    assert pool.match([0, 1, 2, 3, 4, 5, 6, 7, 8]) == 4


def test_b53_a_sequence_is_freed_once_and_the_total_is_conserved():
    pool = BlockPool(8, 4)
    pool.allocate("a", 9)
    pool.fork("a", "b", 6)
    pool.free("a")
    refused("unknown_sequence", pool.free, "a")
    assert (pool.num_free, pool.num_used) == (6, 2)
    pool.free("b")
    refused("unknown_sequence", pool.free, "b")
    assert (pool.num_free, pool.num_used) == (8, 0)


def test_b54_a_fork_inside_a_block_shares_it_and_the_first_append_copies_what_is_in_it():
    pool = BlockPool(8, 4)
    pool.allocate("a", 9)
    pool.fork("a", "b", 6)
    assert pool.table("b") == pool.table("a")[:2]
    assert pool.append("b") == [Copy(source=1, target=3, num_tokens=2)]
    assert pool.length("b") == 7


def test_b55_a_refusal_for_want_of_blocks_changes_nothing():
    pool = BlockPool(1, 4)
    with pytest.raises(OutOfBlocks) as caught:
        pool.allocate("a", 5)
    assert (caught.value.needed, caught.value.free) == (2, 1)
    assert "a" not in pool
    assert pool.num_free == 1

    pool = BlockPool(3, 4)
    pool.allocate("a", 6)
    pool.fork("a", "b")
    before = pool.snapshot()
    with pytest.raises(OutOfBlocks) as caught:  # a copy and a fresh block; only one is left
        pool.append("b", 3)
    assert (caught.value.needed, caught.value.free) == (2, 1)
    assert pool.snapshot() == before
    assert pool.append("b", 2) == [Copy(1, 2, 2)]


def test_b55_hits_that_nobody_holds_count_among_the_blocks_that_are_needed():
    pool = BlockPool(2, 4)
    run_once(pool, "first", list(range(5)))
    pool.allocate("other", 1)
    with pytest.raises(OutOfBlocks) as caught:  # one hit lies free, but it is the only free block
        pool.allocate("second", 5, list(range(5)))
    assert (caught.value.needed, caught.value.free) == (2, 1)
    assert pool.match(list(range(5))) == 4
