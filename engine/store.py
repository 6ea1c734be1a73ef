"""The folder where fetched and converted models are kept: written whole or not at all.

Knows nothing of what is inside. A killed process leaves a hidden folder that is swept later, never half a model.
"""

import errno
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import EngineError

_LEFTOVER_AFTER = 3600.0  # seconds: a hidden folder untouched for so long belongs to nobody
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)  # the last two: a file is in the way
_OTHERWISE = "name another cache folder (--cache, or HF_HOME for models of the hub)"


def default_store() -> Path:
    """The user's cache folder of this platform, for this project."""
    places = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    return Path.home() / places.get(sys.platform, ".cache") / "inference-in-the-open"


@contextmanager
def new_folder(target: Path, num_bytes: int) -> Iterator[Path]:
    """Yields an empty folder that takes the name `target` when all went well, and vanishes when not.

    If another process has made `target` meanwhile, theirs stays. Raises EngineError("disk_full") before anything is
    written when `num_bytes` do not fit, ("store_unwritable") where we may not write.
    """
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent)
        check_room(target.parent, num_bytes)
        building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            yield building
            _take_name(building, target)
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _take_name(building: Path, target: Path) -> None:
    try:
        building.rename(target)
    except OSError:
        if not target.exists():
            raise


def check_room(folder: Path, num_bytes: int) -> None:
    """Raises EngineError("disk_full") if `num_bytes` more do not fit on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise _disk_full(folder, num_bytes, free)


def sweep(folder: Path) -> None:
    """Removes what killed processes left here."""
    for leftover in folder.glob(".*"):
        try:
            is_old = time.time() - leftover.stat().st_mtime > _LEFTOVER_AFTER
        except OSError:  # another process was quicker
            continue
        if is_old and leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Puts the operating system's refusals into sentences."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise _disk_full(folder, 0, 0) from error
        if error.errno in _REFUSED:
            sentence = f"{folder} cannot be written ({error.strerror}); make it writable or {_OTHERWISE}"
            raise EngineError("store_unwritable", sentence, folder=str(folder)) from error
        raise


def _disk_full(folder: Path, needed: int, free: int) -> EngineError:
    amount = f": {needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are free" if needed else ""
    sentence = f"the disk of {folder} is full{amount}; free some space or {_OTHERWISE}"
    return EngineError("disk_full", sentence, folder=str(folder), needed=needed, free=free)
