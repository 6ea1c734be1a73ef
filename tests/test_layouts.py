"""Trees laid on the rows of a pass: the right layout is plain decoding bit for bit, wrong ones are what they say."""

import pytest
from toys import exact_law, toy_engine

from engine import (
    TREE_LAYOUTS,
    Drafted,
    LaidOut,
    Request,
    Sampled,
    SamplingParams,
    compare_layouts,
    decode,
    encode,
    fold,
    tree_depths,
)  # fmt: skip
from lessons import opened
from lessons.runs import Run
from lessons.turns import Turns

PROMPT = [1, 2, 3, 4, 5, 6]


@pytest.fixture(scope="module")
def run():
    """An engine and the events of a greedy run with trees, their layouts at the end."""
    engine = toy_engine()
    params = SamplingParams(max_new_tokens=16, temperature=0.0, draft_length=3)
    events = list(engine.run([Request(PROMPT, params, "tree", id="r")]))
    return engine, events, list(compare_layouts(engine, events))


def test_every_way_is_tried_on_every_one_of_the_first_trees_and_in_order(run):
    _, events, found = run
    trees = [event.round for event in events if isinstance(event, Drafted)]
    assert len(trees) >= 3
    assert [(event.of_round, event.way) for event in found] == [(n, way) for n in trees[:8] for way in TREE_LAYOUTS]


def test_the_right_layout_is_plain_decoding_bit_for_bit_and_gives_the_text_that_the_run_gave(run):
    _, events, found = run
    texts = {}
    for event in events:
        if isinstance(event, Sampled):
            texts.setdefault(event.round, []).append(event.token_id)
    for event in (event for event in found if event.way == "tree"):
        assert set(event.errors) == {0.0}
        assert (event.path, event.favourite_ids) == (event.plain_path, event.plain_ids)
        tokens = [*(event.token_ids[node] for node in event.path[1:]), event.favourite_ids[event.path[-1]]]
        assert texts[event.of_round] == tokens[: len(texts[event.of_round])]  # the last round may be cut short
    assert all(event.errors[0] == 0.0 for event in found)  # the root is the first row, and right in every way


def test_the_wrong_layouts_are_wrong_and_positions_are_what_they_say(run):
    _, _, found = run
    for way in ("consecutive", "siblings", "flat"):
        assert max(max(event.errors) for event in found if event.way == way) > 0.1
    for event in found:
        root, nodes = event.positions[0], range(len(event.parents))
        in_line = event.way in ("consecutive", "flat")
        assert event.positions == tuple(
            root + (node if in_line else tree_depths(event.parents)[node]) for node in nodes
        )


def test_a_flat_layout_reads_the_tree_as_if_it_were_a_text(run):
    """Both mistakes at once are a chain: the toy's own logits after the text and the rows before."""
    engine, events, found = run
    written = [event.token_id for event in events if isinstance(event, Sampled)]
    event = next(event for event in found if event.way == "flat")
    text = [*PROMPT, *written][: event.positions[0]]
    for row in range(len(event.token_ids)):
        chain = exact_law(engine, [*text, *event.token_ids[: row + 1]])
        assert int(chain.argmax()) == event.favourite_ids[row]
    path = [0, *(node for node in range(1, len(event.parents)) if event.parents[node] == 0)][:2]
    alone = exact_law(engine, [*text, *(event.token_ids[node] for node in path)])
    assert int(alone.argmax()) == event.plain_ids[path[-1]]


def test_the_engine_is_as_it_was_and_the_events_survive_a_file_and_a_fold(run):
    engine, events, found = run
    assert engine.is_idle
    assert engine.pool.num_used == 0
    assert [decode(encode(event)) for event in found] == found
    opened.check([*events, *found])
    before, after = fold(events).as_dict(), fold([*events, *found]).as_dict()
    assert before == after


def test_a_run_without_trees_has_no_layouts():
    engine = toy_engine()
    events = list(engine.run([Request(PROMPT, SamplingParams(max_new_tokens=4, temperature=0.0))]))
    assert list(compare_layouts(engine, events)) == []
    assert list(compare_layouts(engine, [])) == []


def test_what_a_run_finds_out_afterwards_comes_after_its_requests_and_can_be_stopped():
    params = SamplingParams(max_new_tokens=12, temperature=0.0, draft_length=3)
    for is_stopped in (False, True):
        run = Run([Request(PROMPT, params, "tree", id="r")], after=compare_layouts)
        turns = Turns(toy_engine(), run)
        turns.start()
        while turns.step():
            run.is_stopping = is_stopped and isinstance(run.events[-1], LaidOut)
        num_laid = sum(isinstance(event, LaidOut) for event in run.events)
        assert num_laid == 1 if is_stopped else num_laid >= 4
        assert all(isinstance(event, LaidOut) for event in run.events[-num_laid:])


def test_opened_files_with_odd_layouts_are_refused(run):
    _, events, found = run
    record = encode(found[0])
    for change in ({"errors": [0.0]}, {"parents": [0, *record["parents"][1:]]}, {"path": [0, 99]}, {"path": []}):
        broken = decode(record | change)
        with pytest.raises(opened.EngineError):
            opened.check([*events, broken])
