"""The GPU script where there is no GPU: it says so, and its dry run on the CPU finds nothing wrong."""

import json

import pytest
import torch
from tiny_models import transformers_model
from tiny_tokenizers import save_byte_level

from engine import EngineError
from engine.bench import gpu
from tests.toys import toy_engine

TRAINED = ("draft_lm", "specinfer", "medusa", "eagle", "eagle3")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_sentence_and_is_content(capsys, tmp_path):
    assert gpu.main(["--out", str(tmp_path / "gpu.json")]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert not (tmp_path / "gpu.json").exists()


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> dict:
    """What a dry run on a tiny model writes."""
    folder = tmp_path_factory.mktemp("gpu")
    transformers_model("smollm2-tied", vocab_size=352, max_position_embeddings=256).save_pretrained(folder)
    save_byte_level(folder)
    options = ["--device", "cpu", "--dtypes", "float32,float16", "--tokens", "12", "--context", "64", "--repeats", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))  # where the loader keeps its notes
        assert gpu.main([*options, "--model", str(folder), "--out", str(folder / "gpu.json")]) == 0
    return json.loads((folder / "gpu.json").read_text())


def test_the_dry_run_finds_device_and_reference_equal(record):
    assert record["ok"]
    assert {check["shape"] for check in record["checks"]} == {"prompt", "steps", "verify", "tree", "ragged"}
    assert all(text["num_equal"] == text["num_tokens"] == 12 for text in record["texts"] if "plain" in text["name"])


def test_the_dry_run_times_every_pass_and_every_drafter(record):
    assert [timed["rows"] for timed in record["passes"]] == 2 * list(gpu.PASS_ROWS)
    assert record["left_out"] == list(TRAINED)  # they belong to other weights than the tiny model's
    assert {speed["drafter"] for speed in record["speed"]} == set(gpu.DRAFTERS) - set(TRAINED)
    assert all(speed["tokens_per_second"] > 0 and speed["tokens_per_pass"] >= 1 for speed in record["speed"])
    assert all(0 < speed["seconds_to_first_token"] < 5 for speed in record["speed"])
    assert record["engines"][0]["device"] == "cpu"


def test_a_trained_drafter_is_left_out_only_where_it_does_not_belong_to_the_model():
    engine = toy_engine()  # has heads of its own, and the tiny language model by another name
    assert [name for name in gpu.DRAFTERS if not gpu.can_draft(engine, name)] == ["draft_lm"]
    with pytest.raises(EngineError, match="no drafter"):
        gpu.can_draft(engine, "eagle9")


def test_a_text_is_compared_up_to_its_first_difference():
    assert gpu.compare_texts("x", [1, 2, 3], [1, 2, 4]) == {"name": "x", "num_tokens": 3, "num_equal": 2, "ok": False}
    assert gpu.compare_texts("x", [1, 2], [1, 2])["ok"]
