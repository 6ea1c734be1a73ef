"""The app as a reader starts it, without a model: up soon, and its cold first page soon shows a recorded run."""

import subprocess
import time
from collections.abc import Iterator

import pytest
from app_process import PAGE_WITHIN, start, up
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def process() -> Iterator[subprocess.Popen]:
    """The app, ended afterwards whatever happened."""
    started = start()
    yield started
    started.kill()
    started.communicate(timeout=20)


def test_the_app_is_up_soon_and_its_cold_first_page_shows_a_recorded_run_without_a_model(
    page: Page, process: subprocess.Popen
) -> None:
    address = up(process, time.monotonic())
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    expect(page.locator(".transport-state:visible").first).to_contain_text("Recorded on")
    expect(page.locator(".stage:visible").first).not_to_be_empty()
    took = time.monotonic() - began
    assert took < PAGE_WITHIN, f"a recorded run is on screen after {took:.1f} s"
