"""A browser and pages for tests: every page fails its test on a request to another machine and on any page error."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))  # the helpers beside the other tests

from page_watch import PATIENCE, Watch  # noqa: E402
from sample_app import wait_for  # noqa: E402
from shared_pages import NARROW, WIDE, SharedPages  # noqa: E402
from unhurried import Unhurried  # noqa: E402

from lessons import live  # noqa: E402

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")  # while Playwright is open its event loop counts as running, which others must not see
def browser() -> Iterator[Browser]:
    """Headless Chromium: the one on the PATH, or else Playwright's own."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fails the test afterwards if a page asked another machine for anything, or had an error."""
    watch = Watch()
    yield watch
    watch.check()


@pytest.fixture
def page(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A fresh page, 1440 pixels wide."""
    opened = watch.follow(browser.new_context(**WIDE).new_page())
    yield opened
    watch.leave(opened)


@pytest.fixture
def phone(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A fresh page, 390 pixels wide."""
    opened = watch.follow(browser.new_context(**NARROW).new_page())
    yield opened
    watch.leave(opened)


@pytest.fixture(scope="module")
def pages_of_module(browser: Browser) -> Iterator[SharedPages]:
    """The pages that tests of a module share."""
    pages = SharedPages(browser)
    yield pages
    pages.close()


@pytest.fixture
def shared(pages_of_module: SharedPages) -> Iterator[SharedPages]:
    """The pages that tests of a module share; fails the test afterwards as `watch` does."""
    yield pages_of_module
    pages_of_module.watch.check()


@pytest.fixture
def unhurried() -> Iterator[Unhurried]:
    """A made-up engine whose runs of 256 tokens go on for a minute, or until it is told to hurry."""
    made = Unhurried()
    live.start_with(lambda progress: made)
    wait_for(lambda: live.status().state == "ready")
    yield made
    live.start_with(None)
