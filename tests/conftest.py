"""Fixtures that many tests share: tiny models on disk, and the real SmolLM2-135M."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores; threads that wait for each other lose most
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from tiny_models import transformers_model
from tiny_tokenizers import save_byte_level

from engine import weights
from engine.weights import LoadedModel


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What goes to one worker: each file, so that its fixtures are made once, and all browser tests, one by one."""
    for item in items:
        is_browser = item.path.parent.name == "browser"
        if item.path.stem != "test_exactness":  # long, and its tests share little
            item.add_marker(pytest.mark.xdist_group("browser" if is_browser else item.path.stem))


@pytest.fixture
def tiny_model(tmp_path: Path) -> Callable[..., Path]:
    """`tiny_model(architecture, **sizes)`: a folder with a random model of that architecture and a real tokenizer.

    Architectures are those of tiny_models.py; the vocabulary has 320 tokens, padded to 352.
    """

    def make(architecture: str, **sizes: object) -> Path:
        folder = tmp_path / architecture
        transformers_model(architecture, **{"vocab_size": 352, **sizes}).save_pretrained(folder)
        return save_byte_level(folder)

    return make


@pytest.fixture(scope="session")
def smollm2() -> LoadedModel:
    """The default model, from the store or fetched once. Tests that use it carry the marker `model`."""
    return weights.load("smollm2-135m")
