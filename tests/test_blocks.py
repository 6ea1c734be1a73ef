"""The block pool on examples worked by hand: the figures of the paper, prefix hits, and what is never written."""

import pytest
from block_world import commit_all, pool_that_gives, run_once

from engine.blocks import BlockPool, Copy

# ---- worked by hand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_blocks_of_sixteen_hold_the_tokens_in_the_fewest_blocks(num_tokens, num_blocks):
    at_once, one_by_one = BlockPool(8, 16), BlockPool(8, 16)
    at_once.allocate("a", num_tokens)
    one_by_one.allocate("a", 0)
    for _ in range(num_tokens):
        assert one_by_one.append("a") == []
    for pool in (at_once, one_by_one):
        assert len(pool.table("a")) == num_blocks == pool.num_used
        assert pool.length("a") == num_tokens
        assert pool.num_free == 8 - num_blocks


def test_vllm_figure_6_the_prompt_fills_block_7_and_three_slots_of_block_1():
    pool = pool_that_gives([7, 1, 3], num_blocks=9)
    pool.allocate("A", 7)  # Four score and seven | years ago our
    assert pool.table("A") == (7, 1)
    assert pool.waste() == 1
    assert pool.append("A") == []  # fathers
    assert pool.table("A") == (7, 1)
    assert pool.waste() == 0
    assert pool.append("A") == []  # brought
    assert pool.table("A") == (7, 1, 3)
    assert pool.waste() == 3
    assert pool.utilisation() == pytest.approx(9 / 12)


def test_vllm_figure_7_two_requests_lie_scattered_in_one_pool():
    pool = pool_that_gives([7, 1, 3, 5, 2], num_blocks=9)
    pool.allocate("A", 7)
    pool.append("A", 2)
    pool.allocate("B", 6)  # It was the best | of times
    assert (pool.table("A"), pool.table("B")) == ((7, 1, 3), (5, 2))


def test_vllm_figure_8_the_first_sample_to_write_gets_a_copy_and_the_second_writes_in_place():
    pool = pool_that_gives([7, 1, 3], num_blocks=9)
    pool.allocate("A1", 7)
    pool.fork("A1", "A2")
    assert [pool.ref_count(block) for block in (7, 1)] == [2, 2]
    assert pool.append("A1") == [Copy(source=1, target=3, num_tokens=3)]
    assert pool.table("A1") == (7, 3)
    assert [pool.ref_count(block) for block in (7, 1, 3)] == [2, 1, 1]
    assert pool.append("A2") == []
    assert pool.table("A2") == (7, 1)


def test_vllm_figure_9_beams_share_what_they_have_in_common_and_free_what_nobody_holds():
    pool = BlockPool(13, 4)
    pool.allocate("0", 4)
    pool.fork("0", "3")
    for beam in ("0", "3", "0", "3"):
        pool.append(beam, 4)
    pool.fork("0", "1")
    pool.fork("0", "2")
    for beam in "0123":
        pool.append(beam, 4)
    assert [pool.table(beam) for beam in "0123"] == [(0, 1, 3, 5), (0, 1, 3, 6), (0, 1, 3, 7), (0, 2, 4, 8)]
    assert [pool.ref_count(block) for block in range(9)] == [4, 3, 1, 3, 1, 1, 1, 1, 1]

    for parent, child in (("1", "4"), ("1", "5"), ("2", "6"), ("2", "7")):
        pool.fork(parent, child)
    before = set(pool.snapshot()["ref_counts"])
    for beam in "0123":
        pool.free(beam)
    assert before - set(pool.snapshot()["ref_counts"]) == {2, 4, 5, 8}
    assert [pool.ref_count(block) for block in (0, 1, 3, 6, 7)] == [4, 4, 4, 2, 2]
    for beam in "4567":
        assert pool.append(beam) == []  # the last block is full: nothing to copy
    assert [pool.table(beam)[:4] for beam in "4567"] == [(0, 1, 3, 6)] * 2 + [(0, 1, 3, 7)] * 2
    assert len({pool.table(beam)[4] for beam in "4567"}) == 4
    assert pool.num_used == 9
    assert pool.num_shared == 5


@pytest.mark.parametrize(("length", "reused"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (1, 0), (0, 0)])
def test_an_equal_prompt_is_reused_in_whole_blocks_with_at_least_one_token_left(length, reused):
    pool = BlockPool(16, 16)
    prompt = list(range(length))
    assert run_once(pool, "first", prompt) == 0
    assert pool.match(prompt) == reused
    assert pool.allocate("second", length, prompt) == reused
    assert pool.length("second") == length


def test_prompts_that_share_twenty_tokens_share_one_block_of_sixteen():
    pool = BlockPool(16, 16)
    pool.allocate("first", 40)
    commit_all(pool, "first", list(range(40)))
    assert pool.allocate("second", 40, [*range(20), *range(100, 120)]) == 16
    assert pool.table("first")[0] == pool.table("second")[0]
    assert pool.ref_count(pool.table("first")[0]) == 2
    assert pool.num_used == 5


def test_a_first_chunk_reuses_no_more_than_it_asks_for():
    pool = BlockPool(16, 4)
    prompt = list(range(20))
    run_once(pool, "first", prompt)
    assert pool.match(prompt) == 16
    assert pool.allocate("second", 10, prompt) == 8
    assert pool.length("second") == 10


def test_waste_is_less_than_one_block_a_sequence_and_counts_shared_slots_once():
    pool = BlockPool(16, 16)
    pool.allocate("a", 17)
    pool.allocate("b", 30)
    assert pool.waste() == 15 + 2
    pool.fork("a", "c")
    assert pool.waste() == 15 + 2
    pool.append("c")  # its own copy of the last block: 2 tokens
    assert pool.waste() == 15 + 2 + 14
    assert BlockPool(4, 16).utilisation() == 1.0


# ---- hashed blocks are never written ----------------------------------------------------------------------------


def test_drafts_that_are_taken_back_never_reach_a_hashed_block():
    pool = BlockPool(8, 4)
    text = list(range(6))
    pool.allocate("a", 6)
    commit_all(pool, "a", text)
    pool.append("a", 5)  # drafts fill the second block and begin a third
    pool.commit("a", [*text, 90, 91, 92, 93, 94], 6)  # but only six tokens are final
    assert len(pool.snapshot()["hashes"]) == 1
    pool.truncate("a", 7)
    assert pool.append("a") == []  # in place: nobody else can see the partly filled block
    commit_all(pool, "a", [*text, 90, 7])
    assert pool.match([*text, 90, 7, 8]) == 8
    assert pool.match([*text, 90, 91, 8]) == 4


def test_an_append_after_truncating_into_a_hashed_block_writes_to_a_copy():
    pool = BlockPool(8, 4)
    text = list(range(8))
    pool.allocate("a", 8)
    commit_all(pool, "a", text)
    first, second = pool.table("a")
    pool.truncate("a", 6)
    assert pool.num_needed("a") == 1
    assert pool.append("a") == [Copy(second, 2, 2)]
    assert pool.table("a") == (first, 2)
    assert pool.ref_count(second) == 0
    assert pool.match([*text, 8]) == 8  # the old text is still found, in the block that nobody wrote


def test_an_append_after_truncating_into_a_shared_block_writes_to_a_copy():
    pool = BlockPool(8, 4)
    pool.allocate("a", 8)
    pool.fork("a", "b")
    pool.truncate("b", 5)
    assert pool.append("b", 2) == [Copy(1, 2, 1)]
    assert (pool.table("a"), pool.table("b")) == ((0, 1), (0, 2))


def test_a_block_with_contents_that_are_already_known_stays_unhashed_and_does_no_harm():
    pool = BlockPool(8, 4)
    text = list(range(5))
    for seq in ("a", "b"):  # both allocated before either is computed
        pool.allocate(seq, 5, text)
    for seq in ("a", "b"):
        commit_all(pool, seq, text)
    assert list(pool.snapshot()["hashes"]) == [pool.table("a")[0]]
    pool.free("a")
    pool.free("b")
    assert pool.num_cached == 1
    assert pool.match(text) == 4


def test_a_child_can_publish_a_shared_block_that_its_parent_has_not_published():
    pool = BlockPool(8, 4)
    text = list(range(8))
    pool.allocate("parent", 8)
    pool.fork("parent", "child")
    commit_all(pool, "child", text)
    commit_all(pool, "parent", text)
    commit_all(pool, "child", text)
    assert len(pool.snapshot()["hashes"]) == 2
    pool.fork("parent", "late", 6)
    assert pool.append("late", 2) == [Copy(1, 2, 2)]
    commit_all(pool, "late", [*text[:6], 70, 71])
    assert pool.match([*text[:6], 70, 71, 0]) == 8


def test_the_same_tokens_after_other_tokens_or_under_another_key_are_a_miss():
    pool = BlockPool(16, 4)
    run_once(pool, "first", [1, 1, 1, 1, 2, 2, 2, 2, 3], ("drafter",))
    assert pool.match([1, 1, 1, 1, 2, 2, 2, 2, 3], ("drafter",)) == 8
    assert pool.match([2, 2, 2, 2, 3], ("drafter",)) == 0
    assert pool.match([9, 9, 9, 9, 2, 2, 2, 2, 3], ("drafter",)) == 0
    assert pool.match([1, 1, 1, 1, 2, 2, 2, 2, 3]) == 0
    assert pool.match([1, 1, 1, 1, 2, 2, 2, 2, 3], ("drafter", "salt")) == 0


def test_a_pool_without_prefix_caching_finds_nothing_and_writes_in_place():
    pool = BlockPool(8, 4, prefix_caching=False)
    text = list(range(9))
    assert run_once(pool, "first", text) == 0
    assert pool.match(text) == 0
    assert pool.num_cached == 0
    pool.allocate("second", 8, text)
    commit_all(pool, "second", text[:8])
    pool.truncate("second", 6)
    assert pool.append("second") == []


def test_with_a_hash_that_always_collides_only_the_block_that_came_first_is_found():
    pool = BlockPool(16, 4, hash_block=lambda parent, token_ids, extra_keys: "same")
    run_once(pool, "first", [1, 1, 1, 1, 2, 2, 2, 2, 3])
    assert pool.match([1, 1, 1, 1, 2, 2, 2, 2, 3]) == 4
    assert pool.match([1, 1, 1, 1, 1, 1, 1, 1, 3]) == 4  # same hash, same tokens, but one block too deep
    assert pool.match([2, 2, 2, 2, 3]) == 0
    assert pool.match([1, 1, 1, 1, 2, 2, 2, 2, 3], ("salt",)) == 0


def test_a_block_is_found_again_when_the_block_before_it_was_evicted_and_computed_anew():
    pool = BlockPool(3, 2)
    text = [1, 2, 3, 4, 5]
    pool.allocate("a", 2)
    pool.allocate("b", 4)
    commit_all(pool, "a", text[:2])
    commit_all(pool, "b", text[:4])  # its second block is published after the first block of a
    pool.free("a")
    pool.free("b")
    pool.allocate("other", 4)  # takes the unhashed block, then evicts what a had
    assert pool.match(text) == 0
    pool.free("other")
    pool.allocate("c", 2)
    commit_all(pool, "c", text[:2])
    assert pool.match(text) == 4


def test_the_least_recently_used_prefix_is_evicted_first_and_a_hit_makes_it_recent():
    pool = BlockPool(3, 4)
    for seq, token in (("a", 1), ("b", 2), ("c", 3)):
        pool.allocate(seq, 4)
        commit_all(pool, seq, [token] * 4)
        pool.free(seq)
    assert pool.num_cached == 3
    assert pool.allocate("again", 4, [1] * 5) == 4
    pool.free("again")
    for evicted, kept in ((2, (1, 3)), (3, (1,)), (1, ())):
        pool.allocate(f"new {evicted}", 4)
        assert pool.match([evicted] * 5) == 0
        assert all(pool.match([token] * 5) == 4 for token in kept)
