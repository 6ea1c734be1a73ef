"""What was measured beforehand and ships with the program: the benches' results and the cards of trained drafters.

Knows nothing of how either was made; a record that is not there, or cannot be read, is None.
"""

import json
from pathlib import Path

from engine.head import SHIPPED

RESULTS = Path(__file__).parent / "bench" / "results"


def bench_record(name: str) -> dict[str, object] | None:
    """What `python -m engine.bench NAME` wrote, as it was kept in engine/bench/results; None where it was not kept."""
    return _read(RESULTS, name)


def drafter_card(name: str) -> dict[str, object] | None:
    """The card of a trained drafter: how it was trained and its held-out acceptance; None where it does not ship."""
    return _read(SHIPPED, name) if (SHIPPED / f"{name}.safetensors").is_file() else None


def _read(folder: Path, name: str) -> dict[str, object] | None:
    found = {path.stem: path for path in folder.glob("*.json")}  # a name is looked up, never made into a path
    if name not in found:
        return None
    try:
        record = json.loads(found[name].read_text(encoding="utf-8"))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
