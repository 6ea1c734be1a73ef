"""Runs saved on a lesson's page and opened there again in a real browser; one of another lesson is refused in words."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from playwright.sync_api import Page, expect
from sample_app import served
from waits import all_drawn, at_rest

import app
from lessons import live
from lessons import page as pages
from lessons.runs import TRACE_FOLDER
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
LESSONS = ("drafters", "trees", "jacobi", "long_context")
RUN = "(channel) => window.inferencePage.playerFor(channel).runId"
IS_OPENED = "([channel, first]) => ![first, ''].includes(window.inferencePage.playerFor(channel).runId)"


@pytest.fixture
def url(lesson: str) -> Iterator[str]:
    """Address of the book with this lesson alone, without a model."""
    live.start_with(None)
    with mock.patch.object(pages, "CHAPTERS", (("drafting", (lesson,)),)), served(app.build("")) as address:
        yield address


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_run_is_saved_and_opened_again_and_one_of_another_lesson_is_refused(
    page: Page, url: str, tmp_path: Path, lesson: str
) -> None:
    page.goto(url, wait_until="commit")
    all_drawn(page)
    at_rest(page, lesson)
    chooser = page.locator("input[type=file]")
    chooser.set_input_files(TRACE_FOLDER / "paging.jsonl.gz")
    expect(page.get_by_text(load(FRAME, "en")("error.other_lesson"))).to_be_visible()
    assert page.evaluate(RUN, lesson) == f"recorded-{lesson}"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download this run").click()
    saved = tmp_path / "run.jsonl.gz"
    download.value.save_as(saved)
    chooser.set_input_files(saved)
    page.wait_for_function(IS_OPENED, arg=[lesson, f"recorded-{lesson}"])
    at_rest(page, lesson)
    opened = live.find(page.evaluate(RUN, lesson))
    assert opened.is_recorded
    assert opened.events == live.events(f"recorded-{lesson}")
