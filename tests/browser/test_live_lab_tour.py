"""The live lab's legend in a real browser: a tour that waits for tokens and steps aside for the reader; a spotlight."""

import pytest
from playwright.sync_api import Page, expect
from stage_page import mounted, seek, shown
from toy_race import TOYS, toy_race
from waits import timers

pytestmark = pytest.mark.browser

BEGUN = 900  # milliseconds after which it would have begun
LEAVE = ("document.querySelector('.race-token').click()", "race.dispatchEvent(new Event('interrupt'))")


def test_the_tour_runs_once_and_can_be_dismissed(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")  # then it goes on by the reader's click only
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-step")).to_have_text("1 of 6")
    page.get_by_role("button", name="next").click()
    page.get_by_role("button", name="next").click()
    expect(page.locator("#race")).to_have_attribute("data-spotlight", "accepted")
    page.get_by_role("button", name="skip the tour").click()
    expect(page.locator(".race-tour")).to_be_hidden()
    mounted(page, toy_race(), ["race"])
    timers(page, BEGUN)
    expect(page.locator(".race-tour")).to_be_hidden()
    page.get_by_role("button", name="tour", exact=True).click()
    expect(page.locator(".race-tour")).to_be_visible()


def test_the_tour_waits_for_tokens(page: Page) -> None:
    mounted(page, toy_race(), [])
    page.evaluate("player.seek(0)")
    shown(page, "race")
    timers(page, BEGUN)
    expect(page.locator(".race-tour")).to_be_hidden()
    seek(page, 200)
    expect(page.locator(".race-tour")).to_be_visible()


@pytest.mark.parametrize("act", LEAVE)
def test_a_reader_who_turns_to_something_else_ends_the_tour(page: Page, act: str) -> None:
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-tour")).to_be_visible()
    page.evaluate(act)
    expect(page.locator(".race-tour")).to_be_hidden()


def test_a_spotlight_dims_all_other_fates(page: Page) -> None:
    mounted(page, toy_race(TOYS["sampled"]), ["race"])
    page.get_by_role("button", name="bonus").click()
    expect(page.locator(".race-text .fate-accepted").first).to_have_css("opacity", "0.55")
    expect(page.locator(".race-text .fate-bonus").first).to_have_css("opacity", "1")
