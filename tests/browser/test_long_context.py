"""The long-context lesson in a real browser: strips show what drafts saw, blocks tell their text, theory answers."""

from collections.abc import Iterator
from unittest import mock

import pytest
from fake_engine import FakeEngine
from playwright.sync_api import Page, expect
from sample_app import served
from stage_page import mounted, seek
from toys import toy_engine
from waits import all_drawn, at_rest, page_fits

import app
from engine import Request, SamplingParams, Viewed
from lessons import live, long_context_runs
from lessons import page as pages
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
PROMPT = [1, 2, 3, 1, 2] * 6
KINDS = ("sinks", "retrieved", "recent")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book with this lesson alone, and an engine that makes up its tokens."""
    with mock.patch.object(pages, "CHAPTERS", (("self_speculation", ("long_context",)),)):
        application = app.build("")
        live.start_with(lambda progress: FakeEngine())
        with served(application) as address:
            yield address
    live.start_with(None)


def opened(page: Page, address: str) -> None:
    """The lesson, ready to be used."""
    page.goto(address, wait_until="commit")
    all_drawn(page)
    at_rest(page, "long_context")


def test_each_strip_shows_the_blocks_that_its_draft_saw_and_a_block_tells_what_it_holds(page: Page) -> None:
    params = SamplingParams(10, draft_length=3, ignore_eos=True)
    names = {"plain": "none", "magicdec": "magicdec:8", "triforce": "triforce:8"}
    asked = [Request(PROMPT, params, drafter, id=name) for name, drafter in names.items()]
    events = list(long_context_runs.recorded(toy_engine(), asked, "race"))
    mounted(page, events, ["sparse"], lesson="long_context")
    first = next(at for at, one in enumerate(events) if isinstance(one, Viewed) and one.request_id == "triforce")
    for cursor in (first + 1, len(events)):
        seek(page, cursor)
        for name in ("magicdec", "triforce"):
            last = [one for one in events[:cursor] if isinstance(one, Viewed) and one.request_id == name][-1:]
            for kind, view in ((kind, view) for view in last for kind in KINDS):
                expect(page.locator(f"[data-request={name}] .sparse-block.is-{kind}")).to_have_count(
                    len(getattr(view, kind))
                )
    hidden = page.locator("[data-request=magicdec] .sparse-block.is-hidden").first
    hidden.hover()
    expect(page.locator(".sparse-told")).to_contain_text("hidden from the draft: CBCD")
    page.locator("[data-request=magicdec] .sparse-strip").press("ArrowLeft")
    expect(page.locator(".sparse-told")).to_contain_text("Block 0, tokens 0–3")


def test_the_theory_answers_the_guess_and_the_batch(page: Page, url: str) -> None:
    opened(page, url)
    expect(page.locator("#long-context-predict-from .predict-question")).to_be_in_viewport()
    table = page.locator("table.figures", has_text="Fits into 80 GB")
    expect(table).to_contain_text("3,400")
    page.get_by_label("Model", exact=True).click()
    page.get_by_role("option", name="Qwen2.5-7B").click()
    expect(table).to_contain_text("6,200")


def test_an_empty_prompt_is_refused_in_words(page: Page, url: str) -> None:
    opened(page, url)
    page.get_by_label("Text to continue").fill(" ")
    page.locator("#long-context-run").click()
    expect(page.locator("#long-context-remark [role=alert]")).to_have_text(load(FRAME, "en")("error.empty_prompt"))


def test_nothing_scrolls_sideways_on_a_phone(phone: Page, url: str) -> None:
    opened(phone, f"{url}/zh/")
    expect(phone.locator("#long-context-run")).to_be_visible()
    page_fits(phone)
