"""Fixtures that many tests share: tiny models on disk, and the real SmolLM2-135M."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores; threads that wait for each other lose most
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from tiny_models import transformers_model
from tiny_tokenizers import save_byte_level

from engine import weights
from engine.weights import LoadedModel


class ByFile(LoadScopeScheduling):
    """Which worker gets what: a file whole, so that its fixtures are made once."""

    def _split_scope(self, nodeid: str) -> str:
        """What goes to one worker together with the test of that name."""
        return nodeid if "test_exactness" in nodeid else nodeid.split("::", 1)[0]  # these are long and share little


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    """Asked by xdist where tests run in several processes."""
    return ByFile(config, log)


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
