"""The search for layers to leave out: agreement by hand, the promise by its formula, greedy choice by trying all."""

import json

import pytest

from engine.bench import layers
from engine.bench.layers import Reader, promise, search
from engine.drafters.worth import time_of_pass
from tests.toys import exact_law, toy_engine

TEXTS = [[1, 2, 3, 4, 5, 6, 7, 1], [3, 1, 3, 1, 2, 0, 5]]
PROMPTS = [3, 2]


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(toy_engine(), TEXTS, PROMPTS)


def test_all_layers_agree_with_themselves_and_each_row_is_a_token_of_an_answer(reader: Reader) -> None:
    assert reader.agreement(range(4)) == 1.0
    engine = toy_engine()
    wanted = [int(exact_law(engine, text[: at + 1]).argmax())
              for text, first in zip(TEXTS, PROMPTS, strict=True) for at in range(first, len(text))]  # fmt: skip
    assert reader._wanted.tolist() == wanted
    assert 0.0 <= reader.agreement([0]) < 1.0


def test_each_step_leaves_out_the_layer_whose_loss_promises_most(reader: Reader) -> None:
    skipped: tuple[int, ...] = ()
    for found in search(reader, 4, 3, 0.1):
        options = {}
        for layer in set(range(4)) - set(skipped):
            kept = [index for index in range(4) if index not in (*skipped, layer)]
            options[layer] = promise(reader.agreement(kept), 0.1 + 0.9 * len(kept) / 4)
        (layer,) = set(found.skipped) - set(skipped)
        assert options[layer] == max(options.values()) == found.promised
        skipped = found.skipped
    assert len(skipped) == 3


def test_the_promise_is_the_best_draft_length_of_the_formula() -> None:
    def by_hand(alpha: float, cost: float, k: int) -> float:
        return sum(alpha**n for n in range(k + 1)) / (k * cost + time_of_pass(k + 1))

    for alpha, cost in ((0.9, 0.3), (0.5, 0.9), (0.74, 0.94)):
        assert promise(alpha, cost) == pytest.approx(max(by_hand(alpha, cost, k) for k in range(1, 9)))
    assert promise(0.0, 0.5) < 1 < promise(1.0, 0.2)


def test_the_command_writes_what_it_searched_and_raced(monkeypatch, tmp_path, capsys) -> None:
    engine = toy_engine()
    engine.tokenizer.chat = lambda text: [1, 2, 3, len(text) % 8]
    monkeypatch.setattr(layers, "Engine", lambda config: engine)
    monkeypatch.setattr(layers, "TUNING", {"one": ["a", "bc"]})
    out = tmp_path / "layers.json"
    options = ["--most", "2", "--raced", "1", "--repeats", "1", "--num-new", "6", "--out", str(out)]
    assert layers.main(options) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert [len(step["skipped"]) for step in written["search"]] == [1, 2]
    assert len(written["speed_up"]) == len(layers.LENGTHS)
    assert written["is_identical"]
    assert "× plain decoding" in capsys.readouterr().out
