"""The Jacobi lesson in a real browser: the grid hides its end, the window moves, the pool fills, the page fits."""

from collections.abc import Iterator
from unittest import mock

import pytest
from playwright.sync_api import Page, expect
from sample_app import served
from stage_page import mounted, seek
from waits import all_drawn, page_fits, uncut

import app
from engine import load_trace
from lessons import jacobi_figures, live
from lessons import page as pages
from lessons.jacobi_proof import LINES
from lessons.jacobi_runs import JACOBI, LOOKAHEAD
from lessons.runs import TRACE_FOLDER

pytestmark = pytest.mark.browser
EVENTS = load_trace(TRACE_FOLDER / "jacobi.jsonl.gz")
LANES = jacobi_figures.lanes_of(EVENTS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book with this lesson alone, without a model."""
    live.start_with(None)
    with mock.patch.object(pages, "CHAPTERS", (("speculation", ("jacobi",)),)):
        application = app.build("")
        with served(application) as address:
            yield address


def test_the_grid_hides_its_end_until_the_reader_commits_and_running_says_why_not(page: Page, url: str) -> None:
    page.goto(url, wait_until="commit")
    rows = page.locator(".iterations-grid tbody tr")
    expect(rows).to_have_count(4)
    box = page.locator("#jacobi-predict-iterations")
    box.get_by_role("slider").fill("12")
    box.get_by_role("button").first.click()
    expect(rows).to_have_count(1 + LANES[JACOBI].num_passes + 1)  # the prompt's pass, and the plain text below
    expect(page.locator(".iterations-sentence")).to_contain_text("wrote the same tokens")
    expect(page.get_by_text("you said 12")).to_be_attached()
    page.locator("#jacobi-run").click()
    expect(page.locator("#jacobi-remark [role=alert]")).to_contain_text("without a model")


def test_every_moment_of_the_run_is_drawn_and_the_staircase_only_grows(page: Page) -> None:
    mounted(page, EVENTS, ["iterations", "window"], lesson="jacobi", mode="in_turn")
    marks = page.evaluate("player.marks.map((mark) => mark.cursor)")
    rows, heights = page.locator(".iterations-grid tbody tr:not(.iterations-check)"), []
    for cursor in [0, *marks[::6]]:
        seek(page, cursor)
        heights.append(rows.count())
        text = page.locator("main").inner_text()
        assert "{{" not in text
        assert "undefined" not in text
    assert heights == sorted(heights)
    assert heights[0] == 0


def test_a_pass_shows_its_window_its_mask_and_its_pool(page: Page) -> None:
    mounted(page, EVENTS, ["window"], lesson="jacobi", mode="in_turn")
    bars = page.locator(".window-strip button")
    expect(bars).to_have_count(1 + LANES[LOOKAHEAD].num_passes)
    bars.nth(8).click()
    expect(bars.nth(8)).to_have_attribute("aria-current", "step")
    width, levels, _ = LANES[LOOKAHEAD].sizes
    expect(page.locator(".window-grid .window-guess")).to_have_count(width * (levels - 1))
    expect(page.locator(".window-gram .window-favourite")).to_have_count(levels)
    rows = LANES[LOOKAHEAD].rows[7]
    lowest = "all => Math.max(...all.map((one) => Number(one.getAttribute('y'))))"
    assert page.locator(".pass-mask rect:not(.pass-mask-frame)").evaluate_all(lowest) == rows - 1
    before = page.locator(".window-pool li").count()
    assert 0 < before <= 24
    bars.nth(4).click()
    expect(bars.nth(4)).to_have_attribute("aria-current", "step")
    assert page.locator(".window-pool li").count() < before


def test_the_chinese_page_fits_a_phone(phone: Page, url: str) -> None:
    phone.goto(f"{url}/zh/", wait_until="commit")
    expect(phone.locator(".window-panel").first).to_be_attached()
    expect(phone.locator(".iterations-grid tbody tr").first).to_be_attached()
    expect(phone.locator(".katex-display")).to_have_count(len(LINES))
    all_drawn(phone)
    page_fits(phone)
    uncut(phone, ".katex-display")
    assert "{{" not in phone.locator("body").inner_text()
