"""Slow motion while a race goes on: speed, pause, steps and Live move the reader's cursor and leave the run alone."""

from collections.abc import Iterator
from unittest import mock

import pytest
from fake_engine import FakeEngine
from playwright.sync_api import Page, expect
from sample_app import served, wait_for

import app
from lessons import live, page
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser

WORDS = load(FRAME, "en")
STEP = 0.1  # seconds of either racer's clock: twice as long passes for the reader, since the racers take turns


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of an app whose only lesson is the lab."""
    with mock.patch.object(page, "CHAPTERS", (("speculation", ("live_lab",)),)):
        application = app.build("fake")
    with served(application) as address:
        yield address


@pytest.fixture
def lab(page: Page, url: str) -> Iterator[Page]:
    """The lab while its race goes on, for about half a minute; its engine's clock is that on the wall."""
    live.start_with(lambda progress: FakeEngine(STEP))
    wait_for(lambda: live.status().state == "ready")
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script("localStorage.setItem('inference-reader', JSON.stringify({'live_lab.tour': true}))")
    page.goto(f"{url}/?lesson=live_lab&n=256", wait_until="commit")
    expect(page.locator(".race-outcome")).to_have_text(load("live_lab", "en")("stage.race.empty"))
    page.locator("#lab-run").click()
    page.wait_for_function("window.inferencePage.playerFor('live_lab').marks.length > 6")
    assert player(page, "isFollowing")
    yield page
    live.start_with(None)


def player(page: Page, expression: str) -> object:
    return page.evaluate(f"window.inferencePage.playerFor('live_lab').{expression}")


def wait(page: Page, condition: str, arg: object = None) -> None:
    """The player `p` meets the condition, which may use `arg`."""
    page.wait_for_function(f"(arg) => {{ const p = window.inferencePage.playerFor('live_lab'); return {condition}; }}",
                           arg=arg)  # fmt: skip


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=WORDS(f"transport.{name}"), exact=True).click()


def num_drawn(page: Page) -> int:
    """Tokens on both lanes, without those of the prompt."""
    return page.locator(".race-lanes .race-token:not([data-index='-1'])").count()


def is_live(page: Page) -> bool:
    return player(page, "isLive") and not live.find(player(page, "runId")).ending


def test_at_a_tenth_of_the_speed_the_picture_falls_behind_a_run_that_goes_on(lab: Page) -> None:
    lab.get_by_label(WORDS("transport.speed")).select_option("0.1")
    wait(lab, "p.isPlaying && !p.isFollowing && p.speed === 0.1")
    start = player(lab, "cursor")
    wait(lab, "p.events.length > p.cursor && p.cursor > arg", start)
    behind = player(lab, "duration - window.inferencePage.playerFor('live_lab').time")
    wait(lab, "p.duration - p.time > arg + 0.5", behind)
    assert is_live(lab)
    expect(lab.locator(".transport-state")).to_have_text(WORDS("transport.state.live"))
    expect(lab.locator(".transport-follow")).to_be_visible()


def test_at_full_speed_again_the_picture_catches_up_and_follows(lab: Page) -> None:
    press(lab, "pause")
    wait(lab, "p.duration - p.time > 0.3")
    press(lab, "play")
    wait(lab, "p.isFollowing && p.cursor === p.events.length")
    assert is_live(lab)
    expect(lab.locator(".transport-follow")).to_be_hidden()


def test_a_pause_holds_the_picture_and_not_the_run_and_steps_go_one_mark_each_way(lab: Page) -> None:
    press(lab, "pause")
    wait(lab, "!p.isFollowing && !p.isPlaying")
    at, num_events = player(lab, "cursor"), player(lab, "events.length")
    press(lab, "back")
    wait(lab, "p.cursor < arg && p.cursor === p.marks[p.markIndex].cursor", at)
    mark = player(lab, "markIndex")
    wait(lab, "p.events.length > arg + 20 && !p.isDue", num_events)
    drawn = num_drawn(lab)
    assert player(lab, "markIndex") == mark
    press(lab, "back")
    wait(lab, "p.markIndex === arg && !p.isDue", mark - 1)
    assert num_drawn(lab) < drawn
    press(lab, "forward")
    wait(lab, "p.markIndex === arg && !p.isDue", mark)
    assert num_drawn(lab) == drawn
    assert is_live(lab)


def test_live_goes_back_to_the_newest_token_and_follows_to_the_end(lab: Page) -> None:
    press(lab, "pause")
    press(lab, "back")
    drawn = num_drawn(lab)
    press(lab, "follow")
    wait(lab, "p.isFollowing && p.cursor === p.events.length")
    expect(lab.locator(".transport-follow")).to_be_hidden()
    wait_for(lambda: num_drawn(lab) > drawn + 4)
    assert is_live(lab)
    press(lab, "stop")
    expect(lab.locator(".transport-state")).to_have_text(WORDS("transport.state.stopped"))
    assert player(lab, "cursor") == player(lab, "events.length")
