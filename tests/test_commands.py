"""The commands of engine.bench, engine.train and lessons.live: what cannot be is refused in one sentence, with 2."""

from pathlib import Path

import pytest

from engine import EngineError
from engine.bench.__main__ import main as bench
from engine.commands import dispatch
from engine.train.__main__ import main as train
from lessons import live

BAD_OPTIONS = [
    ("kernels", "--repeats", "0"), ("kernels", "--context", "-5"), ("kernels", "--threads", "-1"),
    ("blocks", "--calls", "0"), ("blocks", "--repeats", "0"), ("blocks", "--repeats", "many"),
    ("start", "--repeats", "0"), ("drafters", "--repeats", "0"), ("drafters", "--num-new", "0"),
    ("gpu", "--repeats", "0"), ("gpu", "--tokens", "0"), ("gpu", "--context", "-1"),
    ("peers", "--repeats", "0"), ("peers", "--num-new", "1"), ("peers", "--only", "("),
    ("peers", "--gguf", "nowhere.gguf"),
]  # fmt: skip


@pytest.mark.parametrize("words", BAD_OPTIONS, ids=" ".join)
def test_an_option_that_cannot_be_is_refused_by_name_before_anything_is_measured(
    words: tuple[str, ...], capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as end:
        bench(list(words))
    _, option, value = words
    assert end.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert option in last
    assert value in last


@pytest.mark.parametrize("value", ["1", "7", "1_000"])
def test_options_that_can_be_are_taken(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.blocks.SIZES", (1_000,))
    assert bench(["blocks", "--calls", "100", "--repeats", value]) == 0


REFUSED = [
    (bench, ["drafters", "--dtype", "float99"]),
    (bench, ["gpu", "--device", "cpu", "--dtypes", "float32,float99"]),
    (bench, ["gpu", "--device", "junk"]),
    (bench, ["gpu", "--device", "cpu", "--model", "no such model"]),
    (bench, ["start", "--model", "no such model"]),
    (train, ["data", "--model", "no such model"]),
    (train, ["eagle", "--answers", "no such file"]),
]


@pytest.mark.parametrize(("main", "words"), REFUSED, ids=lambda value: str(getattr(value, "__module__", value)))
def test_what_the_engine_refuses_is_a_sentence_and_not_a_traceback(
    main: object, words: list[str], capsys: pytest.CaptureFixture
) -> None:
    assert main(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert words[-1].split(",")[-1] in lines[0]


def test_a_pattern_that_nobody_is_called_by_is_refused_and_names_everybody(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.bench import peers

    class Nothing:
        folder = Path()

    for name in ("Engine", "load", "transformers_model"):
        monkeypatch.setattr(peers, name, lambda *_: Nothing())
    assert bench(["peers", "--only", "zzz"]) == 2
    said = capsys.readouterr().err
    assert "'zzz'" in said
    assert "ours float16 ngram 5" in said


def test_other_errors_keep_their_traceback() -> None:
    def run(name: str, options: list[str]) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dispatch("package", {"one": "does it"}, ["one"], run)


# ---- recording ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nosuch", "live_lab.nosuch", "../x", "", "paging.", "demo"])
def test_a_demo_that_is_none_is_refused_with_the_names_of_those_that_are(
    name: str, capsys: pytest.CaptureFixture
) -> None:
    assert live.main(["record", name]) == 2
    said = capsys.readouterr().err
    assert repr(name) in said
    assert "live_lab.copy" in said


@pytest.mark.parametrize("words", [[], ["record"], ["play", "paging"], ["record", "paging", "model", "more"]])
def test_a_wrong_call_tells_the_right_one(words: list[str], capsys: pytest.CaptureFixture) -> None:
    assert live.main(words) == 2
    assert "python -m lessons.live record NAME" in capsys.readouterr().err


def test_an_unknown_model_cannot_record(capsys: pytest.CaptureFixture) -> None:
    assert live.main(["record", "paging", "no such model"]) == 2
    assert "no such model" in capsys.readouterr().err


# ---- the drafter that the app starts with -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["magic", "NGRAM", "magic:3", ":3"])
def test_an_unknown_drafter_is_refused_with_the_names_of_those_that_are(name: str) -> None:
    with pytest.raises(EngineError, match="layer_skip") as refusal:
        live.configure({"drafter": name})
    assert refusal.value.code == "unknown_drafter"
    assert repr(name) in str(refusal.value)


@pytest.mark.parametrize("name", [None, "", "none", "ngram", "layer_skip:3,7", "early_exit:20"])
def test_a_known_drafter_is_taken_with_what_stands_behind_its_colon(name: str | None) -> None:
    assert live.configure({"drafter": name}).drafter == name
