"""A batch of ragged rows: worked places, slots and sights, the order of logits, and what is refused."""

import pytest
import torch
from tiny_models import VOCAB_SIZE, loaded_from, random_ids, transformers_model

from engine.batch import Batch, Part, Span, plan
from engine.cache import KVCache
from engine.errors import EngineError
from engine.model import Model
from kernels import build

NUM_BLOCKS = 10
IDS = random_ids(9)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(loaded_from(transformers_model("smollm2-tied")))


def new_cache(model: Model) -> KVCache:
    return KVCache(model.config, NUM_BLOCKS, block_size=8, dtype="float32")


# ---- worked examples ------------------------------------------------------------------------------------------------


def test_a_chain_a_tree_and_a_prompt_find_their_places():
    """Blocks of four. A chain of two after five tokens, a tree of three after six, a prompt's second piece."""
    parts = [
        Part("generated", [11, 12], (7, 2), 5),
        Part("generated", [21, 22, 23], (0, 9, 4), 6, (-1, 0, 0)),
        Part("prompt", [31, 32, 33], (5, 3), 4, num_logits=1),
    ]
    rows = plan(Batch.join(parts), NUM_BLOCKS, 4, CPU)
    assert rows.num_prompt_rows == 3
    assert rows.token_ids.tolist() == [31, 32, 33, 11, 12, 21, 22, 23]
    assert rows.positions.tolist() == [4, 5, 6, 5, 6, 6, 7, 7]
    assert rows.slots.tolist() == [12, 13, 14, 9, 10, 38, 39, 16]
    assert rows.logit_rows.tolist() == [3, 4, 5, 6, 7, 2]
    assert [(piece.first, piece.last, piece.context) for piece in rows.pieces] == [(0, 3, 4)]
    assert rows.visible.tables.tolist() == [[7, 2, 0], [0, 9, 4]]
    assert rows.visible.row_sequence.tolist() == [0, 0, 1, 1, 1]
    assert rows.visible.row_prefix.tolist() == [6, 7, 6, 6, 6]
    assert rows.visible.row_extra.tolist() == [[-1, -1], [-1, -1], [38, -1], [38, 39], [38, 16]]


def test_without_trees_no_row_sees_anything_beyond_its_table():
    rows = plan(Batch.join([Part("generated", [1], [0], 0), Part("generated", [1], [1], 3)]), NUM_BLOCKS, 4, CPU)
    assert rows.visible.row_extra.shape == (2, 0)
    assert rows.pieces == ()


def test_joined_parts_lie_one_after_the_other():
    batch = Batch.join([Part("prompt", [5, 6, 7], [0], 0, num_logits=0), Part("generated", [8, 9], [1], 2)])
    assert batch.token_ids.tolist() == [5, 6, 7, 8, 9]
    assert batch.logit_rows.tolist() == [3, 4]
    assert batch.spans == (Span("prompt", 0, 3, [0], 0), Span("generated", 3, 2, [1], 2))


# ---- through the model ----------------------------------------------------------------------------------------------


def test_logits_come_back_in_the_order_that_was_asked_for(model):
    cache = new_cache(model)
    spans = (Span("generated", 0, 2, [0], 0), Span("prompt", 2, 3, [1], 0))
    token_ids = torch.tensor(IDS[:5])
    every = model.forward(Batch(token_ids, spans, torch.arange(5)), cache)
    some = model.forward(Batch(token_ids, spans, torch.tensor([4, 0, 0])), cache)
    assert every.shape == (5, VOCAB_SIZE)
    assert every.dtype == torch.float32
    assert every.is_contiguous()
    assert torch.equal(some, every[[4, 0, 0]])
    assert model.forward(Batch(token_ids, spans, torch.empty(0, dtype=torch.int64)), cache).shape == (0, VOCAB_SIZE)


@pytest.mark.skipif(build.library() is None, reason="PyTorch alone computes in fp32, so the weights are kept so")
def test_the_memory_of_the_weights_is_counted_and_int8_takes_about_a_quarter():
    loaded = loaded_from(transformers_model("smollm2-tied", hidden_size=96, intermediate_size=256))
    sizes = {dtype: Model(loaded, dtype).num_bytes for dtype in ("float32", "float16", "int8")}
    assert sizes["float16"] < 0.51 * sizes["float32"]
    assert sizes["int8"] < 0.28 * sizes["float32"]


def test_the_memory_of_the_weights_is_counted_once_when_they_are_tied():
    tied, untied = (Model(loaded_from(transformers_model(name))) for name in ("smollm2-tied", "llama3-scaled"))
    num_parameters = sum(parameter.numel() for parameter in transformers_model("smollm2-tied").parameters())
    assert tied.head is tied.embedding
    assert untied.num_bytes - tied.num_bytes == untied.head.data.nbytes
    assert 4 * num_parameters <= tied.num_bytes < 4.1 * num_parameters  # the kernels may pad a matrix


@pytest.mark.parametrize(
    "part",
    [
        Part("prompt", IDS[:9], [0], 0),
        Part("generated", IDS[:1], [0], 8),
        Part("generated", IDS[:1], [NUM_BLOCKS], 0),
        Part("generated", IDS[:1], [-1], 0),
        Part("generated", IDS[:2], [0], 0, (-1, 1)),
        Part("generated", IDS[:2], [0], 0, (-1,)),
        Part("prompt", IDS[:2], [0], 0, (-1, 0)),
        Part("draft", IDS[:2], [0], 0),
        Part("prompt", [], [0], 0),
    ],
    ids=["short table", "full table", "no such block", "negative block", "no tree", "small tree", "prompt tree",
         "no such role", "no rows"],
)  # fmt: skip
def test_an_impossible_batch_is_refused_before_anything_is_written(model, part):
    cache = new_cache(model)
    with pytest.raises(EngineError):
        model.forward(Batch.join([part]), cache)
    assert all((tensor == 0).all() for tensor in (*cache.keys, *cache.values))
