"""The trees lesson in a real browser: a pass is stepped through, a tree is built, the browser counts as the engine."""

import json
import random
from collections.abc import Iterator
from unittest import mock

import pytest
from playwright.sync_api import Page, expect
from sample_app import served
from waits import all_drawn, at_rest, page_fits, uncut

import app
from engine import tree_depths, tree_mask, tree_moves
from lessons import live
from lessons import page as pages

pytestmark = pytest.mark.browser
PASS, BUILD = "#trees-pass", "#trees-build"
TWINS = """async (trees) => {
    const tree = await import(new URL(window.inferencePage.site + "tree.js", document.baseURI).href);
    return trees.map((parents) => {
        const path = tree.pathTo(parents, parents.length - 1);
        return { depths: tree.depths(parents), mask: tree.mask(parents), path, moves: tree.moves(path) };
    });
}"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book with this lesson alone, without a model."""
    live.start_with(None)
    with mock.patch.object(pages, "CHAPTERS", (("drafting", ("trees",)),)):
        application = app.build("")
        with served(application) as address:
            yield address


def opened(page: Page, address: str) -> Page:
    page.goto(address, wait_until="commit")
    expect(page.locator(f"{PASS} .tree-chip.is-accepted").first).to_be_visible()
    expect(page.locator(f"{BUILD} .tree-chip")).to_have_count(8)
    all_drawn(page)
    at_rest(page, "trees")
    return page


def test_a_real_pass_is_stepped_through_and_a_row_shows_whom_it_sees(page: Page, url: str) -> None:
    opened(page, url)
    stage = page.locator(PASS)
    told = stage.locator(".tree-told")
    steps = {"grow": "likeliest continuations", "rerank": "compared by value", "keep": "the cache now holds"}
    for step, words in steps.items():
        stage.locator(f"[data-step={step}]").click()
        expect(told).to_contain_text(words)
    stage.locator("[data-step=pass]").click()
    rows = stage.locator(".mask-row")
    last = rows.last
    last.locator(".mask-name").focus()
    expect(stage.locator(".tree-pointed")).to_contain_text("It sees the text")
    seen = last.locator(".mask-cell.is-seen:not(.mask-text)").count()
    expect(stage.locator(".tree-chip.is-seen")).to_have_count(seen)
    before = told.inner_text()
    stage.locator(".tree-round").first.click()
    expect(stage.locator(".tree-round").first).to_have_attribute("aria-pressed", "true")
    expect(told).not_to_have_text(before)


def test_a_tree_is_built_by_hand_and_its_worth_follows_at_once(page: Page, url: str) -> None:
    opened(page, url)
    stage = page.locator(BUILD)
    expected = stage.locator(".bench-facts dd strong").first
    expect(expected).to_have_text("2.59")
    stage.get_by_label("Verify C").check()
    expect(expected).to_have_text("2.69")
    expect(stage.locator(".bench-sizes")).to_contain_text("promise 2.71")
    stage.get_by_role("button", name="Tick the best of this size").click()
    expect(expected).to_have_text("2.71")
    stage.get_by_label("Verify A", exact=True).uncheck()  # its children go, too
    expect(expected).to_have_text("1.57")
    expect(stage.locator(".mask-row")).to_have_count(3)
    stage.locator(".tree-body", has_text="B2").click()
    stage.get_by_role("button", name="+ child").click()
    expect(stage.locator(".tree-chip")).to_have_count(9)
    expect(stage.locator(".mask-row")).to_have_count(5)
    stage.get_by_role("button", name="Take the pass above").click()
    expect(stage.locator(".tree-chip.is-kept")).to_have_count(page.locator(f"{PASS} .mask-row").count() - 1)


def test_the_browser_counts_trees_as_the_engine_does(page: Page, url: str) -> None:
    opened(page, url)
    dice = random.Random(3)
    shapes = [[-1, *(dice.randrange(node) for node in range(1, size))] for size in range(1, 14) for _ in range(3)]
    for parents, found in zip(shapes, page.evaluate(TWINS, shapes), strict=True):
        assert found["depths"] == tree_depths(parents).tolist()
        assert found["mask"] == tree_mask(parents).tolist()
        moved = tree_moves(found["path"])
        assert found["moves"] == [list(pair) for pair in zip(*moved, strict=True)], json.dumps(parents)


def test_it_speaks_chinese_and_fits_a_phone(phone: Page, url: str) -> None:
    opened(phone, f"{url}/zh/")
    phone.locator(f"{PASS} [data-step=keep]").click()
    expect(phone.locator(f"{PASS} .tree-told")).to_contain_text("cache 现有")
    expect(phone.locator(".katex-display")).to_have_count(8)
    page_fits(phone)
    uncut(phone, ".katex-display")
    phone.locator("#trees-run").click()
    expect(phone.locator("#trees-told [role=alert]")).to_be_visible()
