"""Runs saved on a lesson's page and opened there again in a real browser; one of another lesson is refused in words."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest
from playwright.sync_api import Page, expect
from sample_app import served
from waits import all_drawn, at_rest, frames

import app
from engine import Drafted, Event, Submitted, Verified, save_trace
from lessons import live
from lessons import page as pages
from lessons.runs import TRACE_FOLDER
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
LESSONS = ("acceptance", "drafters", "trees", "jacobi", "long_context")
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


def without(kind: type) -> Callable[[Sequence[Event]], list[Event]]:
    """The run without its events of that kind."""
    return lambda events: [event for event in events if not isinstance(event, kind)]


def asked(kind: str, **changes: object) -> Callable[[Sequence[Event]], list[Event]]:
    """The run as if the request of that kind of drafter had been another one."""
    return lambda events: [
        dataclasses.replace(event, **changes)
        if isinstance(event, Submitted) and event.drafter.partition(":")[0] == kind else event for event in events
    ]  # fmt: skip


ODD = [
    ("trees", without(Verified)), ("trees", lambda events: without(Drafted)(without(Verified)(events))),
    ("jacobi", asked("lookahead", drafter="lookahead:0,0,0")),
    ("jacobi", asked("lookahead", drafter="lookahead:999,999,999")),
    ("jacobi", asked("jacobi", max_new_tokens=10**6)),
]  # fmt: skip


@pytest.mark.parametrize(("lesson", "change"), ODD)
def test_a_run_that_lacks_a_part_or_names_odd_sizes_is_drawn_as_far_as_it_goes(
    page: Page, url: str, tmp_path: Path, lesson: str, change: Callable[[Sequence[Event]], list[Event]]
) -> None:
    """The page's watcher fails the test for any error in the browser."""
    page.goto(url, wait_until="commit")
    all_drawn(page)
    at_rest(page, lesson)
    path = tmp_path / "odd.jsonl.gz"
    save_trace(change(live.events(f"recorded-{lesson}")), path)
    page.locator("input[type=file]").set_input_files(path)
    page.wait_for_function(IS_OPENED, arg=[lesson, f"recorded-{lesson}"])
    at_rest(page, lesson)
    frames(page)
