"""A browser and pages for tests: every page fails its test on a request to another machine and on any page error."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))  # the helpers beside the other tests

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OURS = ("127.0.0.1", "localhost", "")

expect.set_options(timeout=40_000)  # machines that build are slow


@pytest.fixture(scope="module")  # while Playwright is open its event loop counts as running, which others must not see
def browser() -> Iterator[Browser]:
    """Headless Chromium: the one on the PATH, or else Playwright's own."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=arguments)
        yield opened
        opened.close()


class Watch:
    """What went wrong on the pages of a test. A test may clear `errors` that it caused on purpose."""

    def __init__(self) -> None:
        self.foreign: list[str] = []
        self.errors: list[str] = []

    def follow(self, page: Page) -> Page:
        """Notice everything about a page."""
        page.on("request", lambda request: self._note(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self._hear(line.type, line.text))
        return page

    def _note(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in OURS:
            self.foreign.append(url)

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text and "ERR_" not in text:
            self.errors.append(text)


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fails the test afterwards if a page asked another machine for anything, or had an error."""
    watch = Watch()
    yield watch
    assert not watch.foreign, f"requests to other machines: {watch.foreign}"
    assert not watch.errors, f"errors on the page: {watch.errors}"


@pytest.fixture
def page(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A fresh page, 1440 pixels wide."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield watch.follow(context.new_page())
    context.close()


@pytest.fixture
def phone(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A fresh page, 390 pixels wide."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    yield watch.follow(context.new_page())
    context.close()
