"""The paging lesson in a real browser: tables point at blocks, copies are seen, forks run, the pool refuses."""

import re
from collections.abc import Iterator
from unittest import mock

import pytest
from fake_engine import FakeEngine
from playwright.sync_api import Locator, Page, expect
from sample_app import served

import app
from lessons import live
from lessons import page as pages

pytestmark = pytest.mark.browser
PAPER = "#paging-paper"
LAB = "#paging-blocks"
BENCH = "#paging-bench"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book with this lesson alone, and an engine that makes up its tokens."""
    with mock.patch.object(pages, "CHAPTERS", (("memory", ("paging",)),)):
        application = app.build("")
        live.start_with(lambda progress: FakeEngine())
        with served(application) as address:
            yield address
    live.start_with(None)


def opened(page: Page, address: str) -> Page:
    page.goto(address, wait_until="commit")
    for stage in (PAPER, LAB):
        expect(page.locator(f"{stage} .blocks-tile.was-copied").first).to_be_visible()
    expect(page.locator(f"{BENCH} .blocks-tile")).to_have_count(12)
    return page


@pytest.fixture
def lesson(page: Page, url: str) -> Page:
    """The lesson, ready to be used."""
    return opened(page, url)


def tile(page: Page, stage: str, block: int) -> Locator:
    return page.locator(f"{stage} .blocks-tile[data-block='{block}']")


# ---- the picture --------------------------------------------------------------------------------------------------


def test_the_paper_s_example_opens_at_its_copy_with_the_counts_of_figure_8(lesson: Page) -> None:
    expect(lesson.locator(f"{PAPER} .blocks-tile")).to_have_count(9)
    expect(tile(lesson, PAPER, 0).locator(".blocks-refs")).to_have_text("×2")
    expect(tile(lesson, PAPER, 1)).to_contain_text("copied")
    expect(tile(lesson, PAPER, 2)).to_contain_text("copy of 1")
    expect(tile(lesson, PAPER, 0)).to_contain_text("Four")
    expect(lesson.locator(f"{PAPER} .blocks-story li").first).to_contain_text("3 slots are copied to block 2")


def test_an_entry_of_a_table_lights_its_block_and_every_entry_that_names_it(lesson: Page) -> None:
    entries = lesson.locator(f"{LAB} .blocks-entry")
    entries.first.focus()
    block = int(entries.first.get_attribute("data-block"))
    expect(tile(lesson, LAB, block)).to_have_class(re.compile("is-picked"))
    expect(lesson.locator(f"{LAB} .blocks-entry.is-picked")).to_have_count(4)
    entries.first.blur()
    expect(lesson.locator(f"{LAB} .blocks-tile.is-picked")).to_have_count(0)


def test_a_token_tells_its_address_and_arrows_go_on(lesson: Page) -> None:
    token = lesson.locator(f"{PAPER} .blocks-tokens .token[data-position='5']")
    token.click()
    said = lesson.locator(f"{PAPER} .blocks-address")
    expect(said).to_contain_text("5 ÷ 4 = 1, remainder 1")
    expect(lesson.locator(f"{PAPER} .blocks-slot.is-picked")).to_have_text("ago")
    lesson.keyboard.press("ArrowLeft")
    expect(said).to_contain_text("4 ÷ 4 = 1, remainder 0")


def test_every_step_is_drawn_with_the_blocks_that_its_tables_name(lesson: Page) -> None:
    slider = lesson.get_by_label("Step of the run").first
    for step in range(int(slider.get_attribute("max")) + 1):
        slider.evaluate("(node, value) => { node.value = value; node.dispatchEvent(new Event('input')); }", step)
        lesson.wait_for_function(
            """([stage, step]) => document.querySelectorAll('.transport-slider')[0].value === String(step)
               && new Set([...document.querySelectorAll(`${stage} .blocks-entry`)].map((one) => one.dataset.block)).size
               === document.querySelectorAll(`${stage} .blocks-tile.is-used`).length""",
            arg=[PAPER, step],
        )
        text = lesson.locator(PAPER).inner_text()
        assert "{{" not in text
        assert "undefined" not in text


def test_after_the_end_freed_blocks_with_a_hash_are_told_from_free_ones(lesson: Page) -> None:
    lesson.locator(f"{PAPER} .blocks-moment.is-finished").last.click()
    expect(lesson.locator(f"{PAPER} .blocks-tile.is-used")).to_have_count(0)
    cached = lesson.locator(f"{PAPER} .blocks-tile.is-cached")
    expect(cached.first).to_contain_text("can be found")
    expect(cached.first.locator(".blocks-hash")).to_have_text(re.compile("^#[0-9a-f]{4}$"))
    expect(lesson.locator(f"{PAPER} .blocks-tile.is-free").first).to_contain_text("free")


# ---- runs and the pool --------------------------------------------------------------------------------------------


def test_a_preset_brings_its_recorded_run_and_its_settings(lesson: Page) -> None:
    lesson.get_by_label("Two prompts that begin alike").check()
    expect(lesson.get_by_label("Prompt B")).to_have_value(re.compile("museum"))
    expect(lesson.locator(f"{LAB} .blocks-tile.was-hit").first).to_contain_text("found")
    expect(lesson.locator(f"{LAB} .blocks-story .is-reused")).to_contain_text("were in the cache")


def test_a_live_run_is_followed_and_can_be_forked_at_a_token(lesson: Page) -> None:
    lesson.locator("#paging-run").click()
    expect(lesson.locator(f"{LAB} .badge-measured")).to_be_visible()
    finished = lesson.locator(f"{LAB} .blocks-moment.is-finished")
    expect(finished.last).to_be_visible()
    tokens = lesson.locator(f"{LAB} .blocks-tokens .token.blocks-new")
    tokens.nth(3).click()
    lesson.locator(f"{LAB} .blocks-fork").click()
    expect(lesson.locator(f"{LAB} .blocks-card")).to_have_count(2)
    expect(lesson.locator(f"{LAB} .blocks-name").nth(1)).to_contain_text("A/")


def test_the_pool_refuses_in_words_and_goes_on_after_a_free(lesson: Page) -> None:
    lesson.locator("#paging-fill").click()
    refusal = lesson.locator("#paging-bench-remark [role=alert]")
    expect(refusal).to_contain_text("OutOfBlocks: 2 blocks are needed and 0 are free")
    expect(lesson.locator(f"{BENCH} .blocks-tile.is-used")).to_have_count(12)
    lesson.locator("#paging-free").click()
    expect(refusal).to_have_count(0)
    expect(lesson.locator(f"{BENCH} .blocks-tile.is-used")).not_to_have_count(12)


def test_the_floor_is_innocent_at_whole_blocks_only(lesson: Page) -> None:
    expect(lesson.locator("#paging-prefix .slots-cell.is-garbage")).to_have_count(2)
    lesson.get_by_label("number input for Tokens shared").fill("8")
    lesson.keyboard.press("Tab")
    expect(lesson.locator("#paging-prefix .slots-cell.is-garbage")).to_have_count(0)


@pytest.mark.parametrize("path", ["", "/zh"])
def test_the_page_fits_a_phone(phone: Page, url: str, path: str) -> None:
    opened(phone, f"{url}{path}/")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert "{{" not in phone.locator("body").inner_text()
