"""Replays in a real browser: a recorded run takes as long on the page as it took; one stage's fault stays its own."""

import dataclasses

import pytest
from playwright.sync_api import Page, expect
from shared_pages import SharedPages
from stage_page import mounted, seek, shown
from toy_race import toy_race

from engine import EngineStarted, Event, RoundFinished, Submitted
from lessons.runs import TRACE_FOLDER, mode_of, recorded_run

pytestmark = pytest.mark.browser

NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in TRACE_FOLDER.glob("*.jsonl.gz"))


def own_time(events: list[Event]) -> float:
    """Seconds of the slower racer's clock; without a race, from the first request to the last event."""
    if mode_of(events) == "race":
        return max(event.request_clock for event in events if isinstance(event, RoundFinished))
    return events[-1].clock - next(event.clock for event in events if isinstance(event, Submitted))


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_takes_as_long_as_the_run_did(shared: SharedPages, name: str) -> None:
    page, events = shared.page("bare", lambda page, _: None), recorded_run(name).events  # a fresh document for each
    mounted(page, events, [], mode=mode_of(events))
    assert page.evaluate("player.duration") == pytest.approx(own_time(events), rel=0.01)


def test_the_engine_s_earlier_life_is_no_part_of_a_replay(page: Page) -> None:
    events = toy_race()
    late = [
        dataclasses.replace(event, clock=event.clock + 20) for event in events if not isinstance(event, EngineStarted)
    ]
    mounted(page, [events[0], *late], [])
    assert page.evaluate("player.duration") == pytest.approx(own_time(events), rel=0.01)
    first = next(at for at, event in enumerate(events) if isinstance(event, RoundFinished))
    assert 0 < page.evaluate(f"player.times[{first}]") < 1


def test_a_fault_in_one_stage_stops_no_other(page: Page, watch: object) -> None:
    mounted(page, toy_race(), [])
    page.evaluate("player.subscribe(() => { throw new Error('a stage at fault'); })")
    shown(page, "race")
    seek(page, 0)
    expect(page.locator(".race-token")).to_have_count(0)
    page.evaluate("player.seek(player.events.length)")
    expect(page.locator(".race-vanilla.is-finished")).to_be_visible()
    assert all("a stage at fault" in error for error in watch.errors)
    assert watch.errors
    watch.errors.clear()
