"""The made-up engine against the real one: it tells of a race in the same kinds of events, and in all the lab needs.

Most tests of the pages run on the made-up engine; what they show would say little if the two spoke differently.
"""

import re
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from engine import Event, Sampled, Verified
from engine import events as told
from lessons.live_lab_race import Settings, raced
from tests.toys import toy_engine

ROOT = Path(__file__).parent.parent
NAMES = {kind.__name__ for kind in vars(told).values() if isinstance(kind, type) and issubclass(kind, Event)}
SCRIPTS = ("player", "race_lane", "account", "verdict", "weights", "stages/race", "stages/ribbon", "stages/inspector",
           "stages/ledger", "stages/caches")  # fmt: skip
# What the lab's stages read from the folded state without naming the event that put it there.
FOLDED = {"Admitted", "Prefilled", "BlockTaken", "BlockFreed"}
ONLY_REAL = {"Forwarded", "Inspected"}  # passes and laws: the made-up engine has neither, so a lane counts 0 passes


@pytest.fixture(scope="module")
def real() -> list[Event]:
    engine = toy_engine(watch=frozenset({"distributions"}))
    return list(raced(engine, Settings("ABCABDABC", "ngram", 3, 0.0, length=24, is_chat=False)))


@pytest.fixture(scope="module")
def fake() -> list[Event]:
    return list(raced(FakeEngine(), Settings("The capital of France is", "ngram", 3, 0.0, length=24)))


def kinds(events: list[Event]) -> set[str]:
    return {type(event).__name__ for event in events}


def named_by_the_lab() -> set[str]:
    """The kinds that the lab's own code names, in Python and in the browser."""
    files = [*(ROOT / "lessons").glob("live_lab*.py"), *(ROOT / "assets" / f"{name}.js" for name in SCRIPTS)]
    words = {word for file in files for word in re.findall(r"\b[A-Z][A-Za-z]+\b", file.read_text())}
    return words & NAMES


def test_what_the_made_up_engine_tells_of_a_race_the_real_one_tells_too(real, fake) -> None:
    assert kinds(fake) <= kinds(real)


def test_no_kind_that_the_lab_relies_on_is_missing(real, fake) -> None:
    relied_on = (named_by_the_lab() - {"Event"}) | FOLDED
    assert {"EngineStarted", "Submitted", "Drafted", "Verified", "Sampled", "RoundFinished", "Finished"} <= relied_on
    assert relied_on - kinds(fake) - ONLY_REAL == set()
    assert (relied_on | ONLY_REAL) - kinds(real) == set()


def test_both_call_fates_and_verdicts_by_the_same_names(real, fake) -> None:
    for events in (real, fake):
        assert {e.fate for e in events if isinstance(e, Sampled)} <= {"target", "accepted", "resampled", "bonus"}
        verdicts = {verdict for e in events if isinstance(e, Verified) for verdict in e.verdicts}
        assert verdicts <= {"accepted", "rejected", "unreached"}
        assert "accepted" in verdicts
