"""The paging lesson in a real browser: tables point at blocks, copies are seen, forks run, the pool refuses."""

import json
import re
import time
from collections.abc import Iterator
from unittest import mock

import pytest
from fake_engine import FakeEngine
from playwright.sync_api import Locator, Page, Route, expect
from sample_app import served
from shared_pages import SharedPages
from stage_page import mounted
from toys import toy_engine
from waits import all_drawn, at_rest, page_fits, toasts_gone, uncut

import app
from engine import Preempted, Request, SamplingParams, encode
from lessons import live, paging_scenarios
from lessons import page as pages
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
PAPER = "#paging-paper"
LAB = "#paging-blocks"
BENCH = "#paging-bench"
EMPTY = load(FRAME, "en")("error.empty_prompt")
TOO_LONG = load(FRAME, "en")("error.prompt_over_limit", largest=2048)


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
    all_drawn(page)
    for channel in ("paging.paper", "paging"):
        at_rest(page, channel)
    return page


@pytest.fixture
def lesson(page: Page, url: str) -> Page:
    """The lesson, ready to be used."""
    return opened(page, url)


@pytest.fixture
def shown(shared: SharedPages, url: str) -> Page:
    """The lesson, opened once for all tests that leave it as they found it."""
    return shared.page(url, opened)


@pytest.fixture
def scrubbed(shown: Page) -> Iterator[Page]:
    """As `shown`; afterwards the paper's run is put back to where it stood."""
    player = "window.inferencePage.playerFor('paging.paper')"
    cursor = shown.evaluate(f"{player}.cursor")
    yield shown
    shown.evaluate(f"{player}.seek({cursor})")


def run_live(page: Page) -> None:
    """Press Run and wait until the run is whole on the page."""
    page.locator("#paging-run").click()
    expect(page.locator(f"{LAB} .badge-measured")).to_be_visible()
    at_rest(page, "paging")


def tile(page: Page, stage: str, block: int) -> Locator:
    return page.locator(f"{stage} .blocks-tile[data-block='{block}']")


# ---- the picture --------------------------------------------------------------------------------------------------


def test_question_prediction_and_picture_share_the_first_screen(shown: Page) -> None:
    expect(shown.locator("#paging-predict-reserved .predict-question")).to_be_in_viewport()
    expect(shown.locator(f"{PAPER} .blocks-tile").first).to_be_in_viewport(ratio=1)
    assert shown.evaluate("scrollY") == 0


def test_the_paper_s_example_opens_at_its_copy_with_the_counts_of_figure_8(shown: Page) -> None:
    expect(shown.locator(f"{PAPER} .blocks-tile")).to_have_count(9)
    expect(tile(shown, PAPER, 0).locator(".blocks-refs")).to_have_text("×2")
    expect(tile(shown, PAPER, 1)).to_contain_text("copied")
    expect(tile(shown, PAPER, 2)).to_contain_text("copy of 1")
    expect(tile(shown, PAPER, 0)).to_contain_text("Four")
    expect(shown.locator(f"{PAPER} .blocks-story li").first).to_contain_text("Slots copied to block 2: 3")


def test_an_entry_of_a_table_lights_its_block_and_every_entry_that_names_it(shown: Page) -> None:
    entries = shown.locator(f"{LAB} .blocks-entry")
    entries.first.focus()
    block = int(entries.first.get_attribute("data-block"))
    expect(tile(shown, LAB, block)).to_have_class(re.compile("is-picked"))
    expect(shown.locator(f"{LAB} .blocks-entry.is-picked")).to_have_count(4)
    entries.first.blur()
    expect(shown.locator(f"{LAB} .blocks-tile.is-picked")).to_have_count(0)


def test_a_token_tells_its_address_and_arrows_go_on(shown: Page) -> None:
    token = shown.locator(f"{PAPER} .blocks-tokens .token[data-position='5']")
    token.click()
    said = shown.locator(f"{PAPER} .blocks-address")
    expect(said).to_contain_text("5 ÷ 4 = 1, remainder 1")
    expect(shown.locator(f"{PAPER} .blocks-slot.is-picked")).to_have_text("ago")
    shown.keyboard.press("ArrowLeft")
    expect(said).to_contain_text("4 ÷ 4 = 1, remainder 0")


def test_every_step_is_drawn_with_the_blocks_that_its_tables_name(scrubbed: Page) -> None:
    slider = scrubbed.get_by_label("Step of the run").first
    for step in range(int(slider.get_attribute("max")) + 1):
        slider.evaluate("(node, value) => { node.value = value; node.dispatchEvent(new Event('input')); }", step)
        scrubbed.wait_for_function(
            """([stage, step]) => document.querySelector('.transport-where').textContent.startsWith(`step ${step} of `)
               && new Set([...document.querySelectorAll(`${stage} .blocks-entry`)].map((one) => one.dataset.block)).size
               === document.querySelectorAll(`${stage} .blocks-tile.is-used`).length""",
            arg=[PAPER, step],
        )
        text = scrubbed.locator(PAPER).inner_text()
        assert "{{" not in text
        assert "undefined" not in text


def test_after_the_end_freed_blocks_with_a_hash_are_told_from_free_ones(scrubbed: Page) -> None:
    scrubbed.locator(f"{PAPER} .blocks-moment.is-finished").last.click()
    expect(scrubbed.locator(f"{PAPER} .blocks-tile.is-used")).to_have_count(0)
    cached = scrubbed.locator(f"{PAPER} .blocks-tile.is-cached")
    expect(cached.first).to_contain_text("findable")
    expect(cached.first.locator(".blocks-hash")).to_have_text(re.compile("^#[0-9a-f]{4}$"))
    expect(scrubbed.locator(f"{PAPER} .blocks-tile.is-free").first).to_contain_text("free")


# ---- runs and the pool --------------------------------------------------------------------------------------------


def test_a_preset_brings_its_recorded_run_and_its_settings(lesson: Page) -> None:
    lesson.get_by_label("Two prompts that begin alike").check()
    expect(lesson.get_by_label("Prompt B")).to_have_value(re.compile("museum"))
    expect(lesson.locator(f"{LAB} .blocks-tile.was-hit").first).to_contain_text("found")
    expect(lesson.locator(f"{LAB} .blocks-story .is-reused")).to_contain_text("found in the cache")


def test_a_live_run_is_followed_and_can_be_forked_at_a_token(lesson: Page) -> None:
    run_live(lesson)
    expect(lesson.locator(f"{LAB} .blocks-moment.is-finished").last).to_be_visible()
    lesson.get_by_label("Prompt A").fill("changed after the run was started")
    tokens = f"{LAB} .blocks-tokens .token"
    for number, token in enumerate((f"{tokens}.blocks-new", f"{tokens}.fate-prompt"), start=2):
        lesson.locator(token).nth(3).click()
        lesson.locator(f"{LAB} .blocks-fork").click()
        expect(lesson.locator(f"{LAB} .blocks-card")).to_have_count(number)
        at_rest(lesson, "paging")
        expect(lesson.locator(f"{LAB} .blocks-name").nth(number - 1)).to_contain_text("A/")
    expect(lesson.locator(f"{LAB} .blocks-rows")).not_to_contain_text("changed")


def test_where_no_fork_can_start_the_button_is_there_and_says_why(lesson: Page) -> None:
    run_live(lesson)
    expect(lesson.locator(f"{LAB} .blocks-moment.is-finished").last).to_be_visible()
    button, cost = lesson.locator(f"{LAB} .blocks-fork"), lesson.locator(f"{LAB} .blocks-cost")
    expect(button).to_be_hidden()
    made = lesson.locator(f"{LAB} .blocks-tokens .token.blocks-new")
    made.last.click()
    expect(button).to_be_disabled()
    expect(cost).to_have_text("A fork starts after any token but the last, which is not computed yet.")
    lesson.locator(f"{LAB} .blocks-tokens .token.fate-prompt").nth(6).click()
    expect(button).to_be_enabled()
    expect(cost).to_contain_text("Copies 2 of 4 slots")
    for at in range(4):  # four tokens in a row: one of them is the first of its block, one the last
        made.nth(at).click()
        expect(button).to_be_enabled()
        slot = int(made.nth(at).get_attribute("data-position")) % 4
        expect(cost).to_contain_text(f"Copies {slot} of 4 slots" if slot else "Copies nothing")


def test_the_cost_that_the_button_names_is_the_copy_that_the_engine_makes(page: Page) -> None:
    """Blocks of four and a prompt of five: a fork at eight tokens is one after the last token of a block."""
    for at, slots in ((3, 2), (8, 3), (9, 0)):
        request = Request([1, 2, 3, 4, 5], SamplingParams(12, ignore_eos=True), id="A")
        events = list(paging_scenarios.drive(toy_engine(), [(0, request)], fork_at=at))
        mounted(page, events, ["blocks"], options={"blocks": {"can_fork": True}}, lesson="paging")
        page.locator(f".blocks-tokens .token[data-position='{at - 1}']").click()
        expect(page.locator(".blocks-cost")).to_contain_text(f"Copies {slots} of 4" if slots else "Copies nothing")
        copied = page.locator(".blocks-moment.is-copied")
        expect(copied).to_have_count(1 if slots else 0)
        if slots:
            copied.click()
            expect(page.locator(".blocks-story .is-copied")).to_contain_text(f": {slots}.")


def test_a_preempted_request_is_told_and_waits(page: Page) -> None:
    """Three requests of up to seven blocks in a pool of eight: the last to come has to go."""
    params = SamplingParams(24, ignore_eos=True)
    asked = [(0, Request([number, 2, 3], params, id=name)) for number, name in enumerate("ABC")]
    events = list(paging_scenarios.drive(toy_engine(num_blocks=8, prefix_caching=False), asked))
    assert any(isinstance(event, Preempted) for event in events)
    mounted(page, events, ["blocks"], lesson="paging")
    page.locator(".blocks-moment.is-preempted").first.click()
    expect(page.locator(".blocks-story .is-preempted").first).to_contain_text("is preempted")
    expect(page.locator(".blocks-card.is-over").first).to_contain_text("waiting for blocks")


def test_steps_are_counted_from_the_beginning_of_the_run_while_it_goes_on_and_afterwards(page: Page) -> None:
    """An engine that has run before counts on; a step that has not ended yet has no mark in the transport."""
    engine = toy_engine()
    list(engine.run([Request([1, 2, 3], SamplingParams(30, ignore_eos=True))]))
    events = list(paging_scenarios.drive(engine, [(0, Request([4, 5], SamplingParams(6, ignore_eos=True), id="B"))]))
    assert events[-1].step > 30
    mounted(page, events, ["blocks"], lesson="paging")
    title = page.locator(".blocks-told .blocks-title")
    marks = page.evaluate("player.marks.length")
    expect(title).to_have_text(f"In step {marks}")
    page.evaluate("""async (events) => {
        player.clear();
        player.runId = "goes-on";
        player.hear("about", { id: "goes-on", mode: "together", recorded: false });
        player.take(events);
        await settled();
    }""", json.loads(json.dumps([encode(event) for event in events])))  # fmt: skip
    expect(title).to_have_text(f"In step {marks}")


def test_an_empty_prompt_is_refused_with_the_lab_s_sentence_here_and_as_a_toast(shown: Page) -> None:
    prompt, remark = shown.get_by_label("Prompt A"), shown.locator("#paging-remark [role=alert]")
    before = prompt.input_value()
    for text, sentence in (("", EMPTY), ("word " * 20_000, TOO_LONG), ("   ", EMPTY)):  # each is seen to be new
        prompt.fill(text)
        shown.locator("#paging-run").click()
        expect(shown.locator(".toast-body"), repr(text[:5])).to_contain_text(sentence)  # first: it goes by itself
        expect(remark, repr(text[:5])).to_have_text(sentence)
        expect(shown.locator(f"{LAB} .blocks-tile.was-copied").first).to_be_visible()
        toasts_gone(shown)
    prompt.fill(before)


def test_the_pool_refuses_in_words_and_goes_on_after_a_free(lesson: Page) -> None:
    lesson.locator("#paging-fill").click()
    refusal = lesson.locator("#paging-bench-remark [role=alert]")
    expect(refusal).to_contain_text("OutOfBlocks: needed 2, free 0")
    expect(lesson.locator(f"{BENCH} .blocks-tile.is-used")).to_have_count(12)
    lesson.locator("#paging-free").click()
    expect(refusal).to_have_count(0)
    expect(lesson.locator(f"{BENCH} .blocks-tile.is-used")).not_to_have_count(12)


def click_at_once(lesson: Page, *names: str) -> None:
    """Click all before any is answered. They reach the server in that order: connections may overtake each other."""
    sent: list[Route] = []
    lesson.route("**/queue/join*", lambda route: sent.append(route))
    clicks = "names => { for (const name of names) document.querySelector(`#paging-${name}`).click(); }"
    lesson.evaluate(clicks, list(names))
    deadline = time.monotonic() + 90
    while len(sent) < len(names) and time.monotonic() < deadline:
        lesson.wait_for_timeout(20)
    assert len(sent) == len(names)
    for route in sent:
        route.fulfill(response=route.fetch())
    lesson.unroute("**/queue/join*")


def test_clicks_faster_than_the_server_are_all_done_in_their_order(lesson: Page) -> None:
    click_at_once(lesson, "append", "fork", "new")
    expect(lesson.locator(f"{BENCH} .blocks-card")).to_have_count(5)
    lesson.get_by_label("Sequence", exact=True).click()
    choices = [re.compile(f"{name}$") for name in ("A", "A/1", "B", "A/2", "C")]
    expect(lesson.get_by_role("listbox").get_by_role("option")).to_have_text(choices)


def test_a_click_on_a_sequence_that_the_click_before_freed_is_answered_in_words(lesson: Page) -> None:
    click_at_once(lesson, "free", "append")
    expect(lesson.locator("#paging-bench-remark [role=alert]")).to_have_text(
        load("paging", "en")("bench.gone", name="A")
    )
    expect(lesson.locator(".toast-body")).to_have_count(0)


def test_the_floor_is_innocent_at_whole_blocks_only(shown: Page) -> None:
    expect(shown.locator("#paging-prefix .slots-cell.is-garbage")).to_have_count(2)
    shared = shown.get_by_label("number input for Tokens shared")
    for number, count in (("8", 0), (shared.input_value(), 2)):
        shared.fill(number)
        shown.keyboard.press("Tab")
        expect(shown.locator("#paging-prefix .slots-cell.is-garbage")).to_have_count(count)


def test_a_prompt_of_a_hundred_thousand_characters_is_refused_in_words_and_none_of_it_is_cut(shown: Page) -> None:
    remark = shown.locator("#paging-remark [role=alert]")
    before = {label: shown.get_by_label(label).input_value() for label in ("Prompt B", "Prompt A")}
    for label in before:
        box = shown.get_by_label(label)
        box.press("ControlOrMeta+a")
        shown.keyboard.insert_text("word " * 20_000)  # as a paste, it heeds a limit of the field
        assert len(box.input_value()) == 100_000
        shown.locator("#paging-run").click()
        expect(remark, label).to_have_text(TOO_LONG)
        box.fill("a b")
        shown.get_by_label("Prompt A").fill(" ")  # another refusal, so that the next one is seen to be new
        shown.locator("#paging-run").click()
        expect(remark).to_have_text(EMPTY)
        shown.get_by_label("Prompt A").fill("a b")
    for label, prompt in before.items():
        shown.get_by_label(label).fill(prompt)
    toasts_gone(shown)


def test_numbers_that_an_answer_cites_wear_the_badge_of_their_source(shown: Page) -> None:
    for answer, count in (("In thirty seconds", 1), ("In two minutes", 2), ("What they ask next", 2),
                          ("The common wrong answer", 1)):  # fmt: skip
        fold = shown.locator(".answer", has=shown.get_by_role("button", name=answer))
        fold.get_by_role("button", name=answer).click()
        badges = fold.locator(".badge-cited")
        expect(badges).to_have_text(["cited · Kwon et al. 2023"] * count)
        expect(badges.first).to_be_visible()


@pytest.mark.parametrize("path", ["", "/zh"])
def test_the_page_fits_a_phone(phone: Page, url: str, path: str) -> None:
    opened(phone, f"{url}{path}/")
    page_fits(phone)
    uncut(phone, ".katex-display")
    assert "{{" not in phone.locator("body").inner_text()
