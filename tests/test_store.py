"""The store: a model is converted once, appears whole or not at all, and a full disk is said so in a sentence."""

import errno
import shutil
from pathlib import Path

import pytest
from make_gguf import gguf_of

from engine import convert, store, weights
from engine.errors import EngineError


@pytest.fixture
def load(tmp_path):
    """weights.load with a store of the test's own."""
    return lambda name, progress=None: weights.load(str(name), progress, store=tmp_path / "store")


@pytest.fixture
def gguf(tiny_model, tmp_path) -> Path:
    path = tmp_path / "small.gguf"
    path.write_bytes(gguf_of(tiny_model("smollm2-tied"), "llama"))
    return path


def refusal(load, name) -> EngineError:
    with pytest.raises(EngineError) as caught:
        load(name)
    return caught.value


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def test_a_gguf_file_is_converted_once_and_read_from_the_store_afterwards(load, gguf, tmp_path, monkeypatch):
    phases = []
    first = load(gguf, lambda fraction, code: phases.append((code, fraction)))
    assert [code for code, fraction in phases if fraction == 1.0] == ["convert", "open"]
    assert all(0 <= fraction <= 1 for _, fraction in phases)
    monkeypatch.setattr(weights, "convert", None)
    assert load(gguf).sha256 == first.sha256
    assert not list((tmp_path / "store" / "models").glob(".*"))


def test_a_changed_gguf_file_is_converted_again(load, gguf, tiny_model):
    first = load(gguf)
    gguf.write_bytes(gguf_of(tiny_model("llama2-mha"), "llama"))
    assert load(gguf).sha256 != first.sha256


def test_what_is_damaged_in_the_store_is_made_anew(load, gguf):
    first = load(gguf)
    path = first.folder / "model.safetensors"
    whole = path.read_bytes()
    for damaged in (b"", whole[:4], whole[:100], b"\xff" * 8 + whole[8:], whole[:-1]):
        path.write_bytes(damaged)
        assert load(gguf).sha256 == first.sha256
        assert path.read_bytes() == whole
    (first.folder / "tokenizer.json").unlink()
    assert load(gguf).sha256 == first.sha256


def test_a_conversion_that_fails_at_any_tensor_leaves_nothing(load, gguf, tmp_path, monkeypatch):
    number_of_tensors = len(load(gguf).tensors)
    shutil.rmtree(tmp_path / "store")
    real = convert.hub_tensor
    for last in (0, 1, number_of_tensors - 1):
        count = iter(range(10**6))

        def fail(*arguments, count=count, last=last):
            if next(count) == last:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        monkeypatch.setattr(convert, "hub_tensor", fail)
        error = refusal(load, gguf)
        assert error.code == "disk_full"
        assert "free some space" in str(error)
        assert names_in(tmp_path / "store" / "models") == []
    monkeypatch.setattr(convert, "hub_tensor", real)
    assert len(load(gguf).tensors) == number_of_tensors


def test_too_small_a_disk_is_noticed_before_anything_is_written(load, gguf, tmp_path, monkeypatch):
    monkeypatch.setattr(store.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 10**6))
    error = refusal(load, gguf)
    assert error.code == "disk_full"
    assert error.values["free"] == 10**6 < error.values["needed"]
    assert names_in(tmp_path / "store" / "models") == []


def test_a_store_that_cannot_be_written_is_said_so(load, gguf, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store.tempfile, "mkdtemp", refuse)
    error = refusal(load, gguf)
    assert error.code == "store_unwritable"
    assert "--cache" in str(error)


def test_a_file_where_the_store_should_be_is_said_so(gguf, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for place in ("file", "file/below"):
        with pytest.raises(EngineError, match="--cache") as caught:
            weights.load(str(gguf), store=tmp_path / place)
        assert caught.value.code == "store_unwritable"


def test_a_folder_opens_even_if_the_store_cannot_be_written(tiny_model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert weights.load(str(tiny_model("llama2-mha")), store=tmp_path / "file" / "store").sha256


def test_leftovers_of_killed_processes_are_swept_when_they_are_old(load, gguf, tmp_path, monkeypatch):
    models = tmp_path / "store" / "models"
    (models / ".small-123.abc").mkdir(parents=True)
    load(gguf)
    assert (models / ".small-123.abc").is_dir()
    monkeypatch.setattr(store, "_LEFTOVER_AFTER", -1.0)
    shutil.rmtree(load(gguf).folder)
    load(gguf)
    assert not (models / ".small-123.abc").exists()


def test_of_two_processes_that_convert_at_once_the_first_to_finish_wins(tmp_path):
    with store.new_folder(tmp_path / "model", 0) as slower:
        (slower / "who").write_text("slower")
        with store.new_folder(tmp_path / "model", 0) as faster:
            (faster / "who").write_text("faster")
    assert names_in(tmp_path) == ["model"]
    assert (tmp_path / "model" / "who").read_text() == "faster"


@pytest.mark.parametrize("size", [0, 3, 100, 2000])
def test_a_gguf_file_cut_short_is_refused_and_nothing_is_kept(load, gguf, tmp_path, size):
    gguf.write_bytes(gguf.read_bytes()[:size])
    assert refusal(load, gguf).code == "bad_gguf"
    assert not (tmp_path / "store" / "models").exists()
