"""Answers of the server that come late: they move no control, and take away no sentence that came after them."""

import threading
from collections.abc import Callable, Iterator
from unittest import mock
from urllib.parse import urlsplit

import pytest
import stage_page
from playwright.sync_api import Page, Route, expect
from sample_app import served, wait_for
from toy_race import toy_race
from unhurried import Unhurried
from waits import all_drawn, at_rest, frames, timers

import app
from lessons import acceptance, acceptance_controls, live, live_lab, worker
from lessons import page as pages
from lessons.live_lab_prompts import FIRST
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
LAB, RULES, SAID = load("live_lab", "en"), load("acceptance", "en"), load(FRAME, "en")
TOO_LONG = "word " * 20_000
PRESS = "(knob, keys) => keys.forEach((key) => knob.dispatchEvent(new KeyboardEvent('keydown', { key })))"  # at once


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of a page with two lessons, the lab and the acceptance rule, without a model."""
    live.start_with(None)
    with mock.patch.object(pages, "CHAPTERS", (("speculation", ("live_lab", "acceptance")),)):
        application = app.build("")
        with served(application) as address:
            yield address


def opened(page: Page, url: str, lesson: str, query: str = "") -> Page:
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script("localStorage.setItem('inference-reader', JSON.stringify({'live_lab.tour': true}))")
    page.goto(f"{url}/?lesson={lesson}{query}", wait_until="commit")
    expect(page.locator(".stage:visible").first).to_be_attached()
    all_drawn(page)
    at_rest(page, lesson)
    return page


class Held:
    """Calls of a function that wait until they are let go, as in a server that is slow; `begun` counts them."""

    def __init__(self, function: Callable) -> None:
        self.begun = 0
        self._function = function
        self._free = threading.Semaphore(0)

    def __call__(self, *values: object) -> object:
        self.begun += 1
        assert self._free.acquire(timeout=90)
        return self._function(*values)

    def let_go(self, count: int = 1) -> None:
        self._free.release(count)


# ---- the lab's refusals -------------------------------------------------------------------------------------------


def test_a_refusal_stays_until_what_was_refused_is_changed(page: Page, url: str) -> None:
    """Its prompt is too long: neither a remark that comes late nor another setting takes the sentence away."""
    opened(page, url, "live_lab")
    prompt, sentence = page.get_by_label("Prompt", exact=True).first, page.locator("#lab-remark [role=alert]")
    drafts = page.get_by_label(f"number input for {LAB('control.k')}")
    with mock.patch.object(live_lab, "remarks", Held(live_lab.remarks)) as held:
        drafts.fill("0")
        wait_for(lambda: held.begun > 0)
        prompt.fill(TOO_LONG)
        page.locator("#lab-run").click()
        expect(sentence).to_have_text(SAID("error.prompt_over_limit", largest=worker.MAX_PROMPT_TOKENS))
        held.let_go(9)
        expect(page.locator("#lab-remark")).to_contain_text(LAB("remark.no_drafts"))
    expect(sentence).to_be_visible()
    expect(page.locator("#lab-remark .careful")).to_be_hidden()
    drafts.fill("99")
    drafts.press("Tab")
    expect(drafts).to_have_value("16")
    expect(page.locator("#lab-remark")).not_to_contain_text(LAB("remark.no_drafts"))
    expect(sentence).to_be_visible()
    prompt.press("a")
    expect(sentence).to_have_count(0)


def test_a_refusal_that_no_setting_cures_stays_until_the_next_run(page: Page, url: str, unhurried: Unhurried) -> None:
    opened(page, url, "live_lab")
    sentence = page.locator("#lab-remark [role=alert]")
    live.start_with(None)
    page.locator("#lab-break-deep").click()
    expect(sentence).to_contain_text("started without a model")
    drafts = page.get_by_label(f"number input for {LAB('control.k')}")
    expect(drafts).to_have_value("12")
    page.get_by_label("Prompt", exact=True).first.press("a")
    drafts.fill("0")
    expect(page.locator("#lab-remark")).to_contain_text(LAB("remark.no_drafts"))
    expect(sentence).to_be_visible()
    live.start_with(lambda progress: unhurried)
    wait_for(lambda: live.status().state == "ready")
    page.locator("#lab-run").click()
    expect(sentence).to_have_count(0)


# ---- the acceptance lesson's controls -----------------------------------------------------------------------------


def test_a_knob_stays_where_it_was_moved_while_the_server_answers_older_moves(page: Page, url: str) -> None:
    opened(page, url, "acceptance")
    knob, card = page.get_by_role("slider", name="p of A"), page.locator(".rules-card[data-rule=exact]")
    field = page.get_by_label(RULES("control.p"))
    with mock.patch.object(acceptance_controls, "setting_of", Held(acceptance_controls.setting_of)) as held:
        knob.focus()
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        wait_for(lambda: held.begun > 0)
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        held.let_go()
        expect(card).to_contain_text("0.680 ·")  # the answer to two presses is on the page
        frames(page)
        assert knob.get_attribute("aria-valuenow") == "0.550"
        held.let_go(9)
        expect(card).to_contain_text("0.650 ·")
    expect(knob).to_have_attribute("aria-valuenow", "0.550")
    expect(knob).to_be_focused()
    expect(field).to_have_value("0.55, 0.27, 0.18")


def test_a_knob_moved_there_and_back_draws_no_card_anew_and_the_next_move_does(page: Page, url: str) -> None:
    opened(page, url, "acceptance")
    knob, card = page.get_by_role("slider", name="p of A"), page.locator(".rules-card[data-rule=exact]")
    with (
        mock.patch.object(acceptance, "reconciled", wraps=acceptance.reconciled) as drawn,
        mock.patch.object(acceptance_controls, "setting_of", wraps=acceptance_controls.setting_of) as answered,
    ):
        knob.evaluate(PRESS, ["ArrowRight", "ArrowLeft"])
        wait_for(lambda: answered.called)
        timers(page, 1500)
        knob.press("ArrowRight")
        expect(card).to_contain_text("0.690 ·")
    expect(knob).to_have_attribute("aria-valuenow", "0.510")
    assert drawn.call_count == 1


def test_a_prediction_answered_late_undoes_no_move_that_was_made_meanwhile(page: Page, url: str) -> None:
    opened(page, url, "acceptance")
    knob, card = page.get_by_role("slider", name="p of A"), page.locator(".rules-card[data-rule=exact]")
    box = page.locator("#acceptance-predict-alpha")
    with mock.patch.object(acceptance, "reconciled", Held(acceptance.reconciled)) as held:
        box.get_by_role("slider").fill("0.42")
        box.get_by_role("button").first.click()
        wait_for(lambda: held.begun == 1)
        knob.press("ArrowRight")
        wait_for(lambda: held.begun == 2)
        held.let_go(9)
        expect(card).to_contain_text("0.690 ·")
    timers(page, 1500)
    expect(knob).to_have_attribute("aria-valuenow", "0.510")
    expect(page.locator(".laws-sentence")).to_contain_text("Accepted .69 + resampled .31 = p")


def test_a_law_typed_right_after_a_knob_was_moved_is_the_one_that_counts(page: Page, url: str) -> None:
    opened(page, url, "acceptance")
    knob, field = page.get_by_role("slider", name="p of A"), page.get_by_label(RULES("control.p"))
    knob.press("ArrowUp")
    field.click()
    field.fill("6 3 1")
    expect(page.locator(".rules-card[data-rule=exact]")).to_contain_text("0.600 ·")
    timers(page, 1500)
    expect(field).to_have_value("6 3 1")
    expect(knob).to_have_attribute("aria-valuenow", "0.600")


def test_a_slider_moved_right_after_an_example_was_chosen_keeps_its_value(page: Page, url: str) -> None:
    opened(page, url, "acceptance")
    heat = page.get_by_label(f"number input for {RULES('control.temperature')}")
    page.route("**/queue/join*", late)
    page.get_by_label(RULES("control.example")).click()
    page.get_by_role("option", name=RULES("example.eight")).click()
    heat.fill("2")
    expect(page.locator(".laws-column")).to_have_count(8)
    expect(page.get_by_role("slider", name="p of A")).to_have_attribute("aria-disabled", "true")
    timers(page, 1500)
    expect(heat).to_have_value("2")


# ---- tabs and stages ----------------------------------------------------------------------------------------------


def test_the_lab_behind_a_link_to_another_lesson_s_settings_has_its_own(page: Page, url: str) -> None:
    opened(page, url, "acceptance", "&p=1%2F4+3%2F4&q=0.5+0.5&t=0.5&k=7&prompt=Hello")
    expect(page.locator(".laws-column")).to_have_count(2)
    page.get_by_role("tab", name=LAB("tab")).click()
    expect(page).to_have_url(f"{url}/?lesson=live_lab")
    expect(page.locator(".race-vanilla.is-finished")).to_be_visible()
    at_rest(page, "live_lab")
    expect(page.get_by_label("Prompt", exact=True).first).to_have_value(FIRST.prompt)
    for key, value in (("k", FIRST.draft_length), ("t", FIRST.temperature)):
        field = page.get_by_label(f"number input for {LAB(f'control.{key}')}", exact=True)
        expect(field.first).to_have_value(f"{value:g}")
    expect(page.locator(".presets-chip input").first).to_be_checked()
    page.get_by_role("tab", name=RULES("tab")).click()
    wait_for(lambda: "p=1%2F4" in page.url and "prompt=Hello" in page.url)
    expect(page.locator(".laws-column")).to_have_count(2)


def late(route: Route) -> None:
    """Let a request through a second later."""
    route.request.frame.page.wait_for_timeout(1000)
    route.continue_()


def test_a_bare_page_has_its_stages_styles_before_anything_is_measured(page: Page) -> None:
    serve = stage_page._serve

    def serve_styles_late(route: Route) -> None:
        if urlsplit(route.request.url).path.startswith("/stages/") and route.request.resource_type == "stylesheet":
            page.wait_for_timeout(1000)
        serve(route)

    with mock.patch.object(stage_page, "_serve", serve_styles_late):
        stage_page.mounted(page, toy_race(), ["race", "inspector"])
    loaded = page.evaluate("[...document.styleSheets].map((sheet) => new URL(sheet.href).pathname)")
    assert {"/stages/race.css", "/stages/inspector.css"} <= set(loaded)
