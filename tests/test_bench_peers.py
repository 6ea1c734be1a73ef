"""The comparison with others: whose weights are as wide as ours, and who is in the committed record."""

import json
import statistics
from pathlib import Path

import pytest

from engine.bench.peers import width_of

ROOT = Path(__file__).parent.parent
RECORD = json.loads((ROOT / "engine/bench/results/peers.json").read_text())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("transformers fp32 prompt lookup 5", "float32"),
        ("transformers bf16 early exit 15", "float16"),
        ("llama.cpp SmolLM2-135M-Instruct-F16", "float16"),
        ("llama.cpp smollm2-135m.q8_0 lookup 5", "int8"),
        ("ours int8 ngram 5", "int8"),
        ("llama.cpp Q4_1", ""),
    ],
)
def test_everybody_is_held_against_the_floor_of_weights_as_wide(name, dtype):
    assert width_of(name) == dtype


def test_the_readme_s_shares_of_the_floor_are_those_of_the_record():
    rates, floors = RECORD["tokens_per_second"]["whole call"], RECORD["tokens_per_second_at_the_floor"]
    readme = (ROOT / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith("| ") and line.endswith(" % |")]
    shares = [int(line.split("|")[-2].split()[0]) for line in rows]
    plain = [name for name in rates if "lookup" not in name and "ngram" not in name]
    found = {name: 100 * statistics.median(rates[name]["chat"]) / floors[width_of(name)] for name in plain}
    order = ["transformers fp32", "llama.cpp F16", "llama.cpp Q8_0", "ours float32", "ours float16", "ours int8"]
    assert shares == [round(found[name]) for name in order]
