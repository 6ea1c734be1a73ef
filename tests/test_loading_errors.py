"""A model that could not be loaded: the header's sentence says what to do next, in both languages."""

import re
from pathlib import Path

import pytest

import app
from lessons.words import FRAME, load

ENGINE = Path(app.__file__).parent / "engine"
READERS = ("gguf", "gguf_model", "gguf_tokenizer", "checkpoint", "model_config", "tokenizer")
LOADING = ("fetch", "weights", "store", *READERS)
REQUESTS = {"bad_prompt", "bad_token"}  # codes of the tokenizer that a request meets, not a model
ADVICE = {  # what stands after the semicolon, or a part of it
    "download_failed": ("check the connection and start the app again", "请检查网络后重新启动"),
    "no_pip": ("python -m ensurepip", "python -m ensurepip"),
    "wrong_hash": ("start the app again", "请重新启动"),
    "disk_full": ("--cache", "--cache"),
    "store_unwritable": ("--cache", "--cache"),
    "model_not_found": ("check the name or path after --model", "请检查 --model 后面"),
    "model_gated": ("set HF_TOKEN", "设置 HF_TOKEN"),
    "missing_weights": ("download the model again", "请重新下载模型"),
    "bad_weights": ("download the model again", "请重新下载模型"),
    "bad_gguf": ("download it again", "请重新下载"),
    "unsupported_gguf": ("or the model's folder with .safetensors files", "带 .safetensors 文件的模型目录"),
    "unsupported_model": ("another --model", "请用 --model 换一个模型"),
    "bad_model_config": ("download the model again", "请重新下载模型"),
    "missing_tokenizer": ("take a copy that holds one", "请换一份带 tokenizer 的"),
    "bad_tokenizer": ("download the model again", "请重新下载模型"),
    "unsupported_tokenizer": ("take the model's folder with its tokenizer.json", "请改用带 tokenizer.json 的模型目录"),
    "pickle_refused": ("take safetensors", "请改用 safetensors"),
}


def test_every_code_of_loading_is_among_those_whose_advice_is_known() -> None:
    text = "".join((ENGINE / f"{name}.py").read_text(encoding="utf-8") for name in LOADING)
    assert set(re.findall(r'EngineError\(\s*"([a-z_]+)"[,)]', text)) - REQUESTS == ADVICE.keys()


@pytest.mark.parametrize("code", ADVICE)
@pytest.mark.parametrize("language", [0, 1], ids=["en", "zh"])
def test_the_sentence_says_what_to_do_next(code: str, language: int) -> None:
    said = load(FRAME, ("en", "zh")[language])(f"error.{code}")
    what, advice = re.split("[;,；，]", said, maxsplit=1)
    assert ADVICE[code][language] in advice
    assert ADVICE[code][language] not in what


def test_options_that_sentences_name_exist(capsys: pytest.CaptureFixture) -> None:
    """So that nobody is sent to an option that is none."""
    with pytest.raises(SystemExit):
        app.options(["--help"], {})
    there = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    for language in ("en", "zh"):
        named = set(re.findall(r"--[a-z-]+", " ".join(load(FRAME, language).group("error.").values())))
        assert {"--cache", "--model"} <= named <= there
    assert set(re.findall(r"--[a-z-]+", (ENGINE / "store.py").read_text(encoding="utf-8"))) == {"--cache"}
