"""The frame in a real browser: pages, player, live runs, predictions, links, downloads, themes, phones."""

import dataclasses
import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_engine import FakeEngine
from page_watch import Watch
from playwright.sync_api import Browser, Locator, Page, expect
from sample_app import sample_book, served, wait_for
from shared_pages import NARROW, WIDE, SharedPages
from starlette.types import ASGIApp
from unhurried import Unhurried
from waits import at_rest, frames, page_fits, uncut

from engine import EngineError, Event, Request, SamplingParams
from lessons import controls, live

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    """The sample book."""
    with sample_book(tmp_path_factory.mktemp("traces")) as application:
        yield application


@pytest.fixture(scope="module")
def url(application: ASGIApp) -> Iterator[str]:
    """Address of the sample book."""
    with served(application) as address:
        yield address


@pytest.fixture
def is_cut(application: ASGIApp, url: str) -> Iterator[threading.Event]:
    """While it is set, the server ends its streams."""
    before, event = application.state.is_closing, threading.Event()
    application.state.is_closing = event.is_set
    yield event
    application.state.is_closing = before


@pytest.fixture
def no_model() -> None:
    """The app without a model."""
    live.start_with(None)


@pytest.fixture
def engine() -> Iterator[None]:
    """A made-up engine, 20 ms a step."""
    live.start_with(lambda progress: FakeEngine(0.02))
    wait_for(lambda: live.status().state == "ready")
    yield
    live.start_with(None)


class OtherEngine(FakeEngine):
    """As the made-up engine, with weights of its own."""

    def started(self) -> Event:
        return dataclasses.replace(super().started(), model=f"/models/{'other' * 20}", weights_sha256="d0" * 32)


def opened(page: Page, address: str) -> Locator:
    """Open a page and give the transport bar of its lesson once a run is on screen."""
    page.goto(address, wait_until="commit")
    bar = bar_of(page)
    expect(bar.locator(".transport-where")).to_contain_text("85")  # the recorded run has 85 steps
    return bar


def bar_of(page: Page) -> Locator:
    return page.locator(".transport-bar:visible")


@pytest.fixture
def shown(shared: SharedPages, url: str, no_model: None) -> Page:
    """The first page without a model, opened once for all tests that leave it as they found it."""
    return shared.page(f"{url}/", opened)


@pytest.fixture
def scrubbed(shown: Page) -> Iterator[Page]:
    """As `shown`; afterwards the run is back at its end, and as fast as it was."""
    yield shown
    bar_of(shown).get_by_label("Speed").select_option("1")
    shown.evaluate("() => { const p = window.inferencePage.playerFor('sample'); p.pause(); p.seek(p.events.length); }")
    expect(bar_of(shown).locator(".transport-where")).to_have_text("step 85 of 85")


def player(page: Page, expression: str, channel: str = "sample") -> object:
    """A property of the page's player."""
    return page.evaluate(f"window.inferencePage.playerFor('{channel}').{expression}")


def press_run(page: Page) -> None:
    """Start a run and wait until the page shows it: before that the button ignores another click."""
    before = player(page, "runId")
    page.get_by_role("button", name="Run", exact=True).click()
    wait_for(lambda: player(page, "runId") != before)


# ---- pages --------------------------------------------------------------------------------------------------------


def test_a_page_opens_on_a_recorded_run_without_a_model(shown: Page) -> None:
    expect(bar_of(shown).locator(".transport-state")).to_have_text("Recorded on a made-up machine, 2026-11-29")
    expect(shown.locator("h1:visible")).to_have_count(1)
    expect(shown.locator("#engine")).to_contain_text("Recorded runs only")
    expect(shown).to_have_title("Speculation · Inference in the open")


def test_without_a_model_running_says_why_not(shown: Page) -> None:
    shown.get_by_role("button", name="Run", exact=True).click()
    expect(shown.locator("#sample-problem")).to_contain_text("started without a model")


def test_chapters_and_languages_are_links_that_keep_the_settings(page: Page, url: str, no_model: None) -> None:
    opened(page, f"{url}/?lesson=sample&tokens=40")
    page.get_by_role("link", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page.locator(".transport-bar:visible .transport-state")).to_contain_text("录制于")
    expect(page).to_have_url(f"{url}/zh/?lesson=sample&tokens=40")
    page.get_by_role("link", name="显存与缓存").click()
    expect(page.locator("h1:visible")).to_have_count(1)
    expect(page).to_have_url(f"{url}/zh/memory/")


def test_the_theme_is_the_systems_until_the_reader_chooses(page: Page, url: str, no_model: None) -> None:
    page.emulate_media(color_scheme="dark")
    opened(page, url)
    expect(page.locator("body")).to_have_class("dark")
    page.locator("#theme-switch").click()
    expect(page.locator("body")).not_to_have_class("dark")
    page.reload()
    expect(page.locator(".transport-bar:visible")).to_be_visible()
    expect(page.locator("html")).not_to_have_class("dark")
    expect(page.locator("body")).not_to_have_class("dark")


def test_the_lesson_in_the_address_is_open_and_follows_the_tabs(page: Page, url: str, no_model: None) -> None:
    page.goto(f"{url}/?lesson=second", wait_until="commit")
    expect(page.locator("#tab-second-button")).to_have_attribute("aria-selected", "true")
    page.locator("#tab-sample-button").click()
    page.wait_for_url(f"{url}/?lesson=sample")


RECORDED = {"/": "Recorded on a made-up machine, 2026-11-29", "/zh/": "录制于 a made-up machine，2026-11-29"}
WEIGHTS = f"fake 00000000…; the engine here runs {'other' * 8}… d0d0d0d0…"
OTHER = {"/": f", with other weights: {WEIGHTS}", "/zh/": "，所用权重不同：录制时是 fake 00000000…，这里的引擎是 other"}


@pytest.mark.parametrize("path", RECORDED)
def test_a_run_recorded_with_other_weights_than_the_engines_says_so_once_they_are_known(
    page: Page, url: str, path: str
) -> None:
    is_loaded = threading.Event()
    live.start_with(lambda progress: OtherEngine() if is_loaded.wait(180) else None)
    state = opened(page, url + path).locator(".transport-state")
    expect(state).to_have_text(RECORDED[path])
    is_loaded.set()
    expect(state).to_contain_text(RECORDED[path] + OTHER[path])
    live.start_with(None)


def loading(fraction: float, until: threading.Event) -> Callable[[Callable[[float, str], None]], FakeEngine]:
    """Makes an engine that is so far until the event is set."""

    def make(progress: Callable[[float, str], None]) -> FakeEngine:
        progress(fraction, "converting")
        until.wait(180)
        return FakeEngine()

    return make


def refused(progress: object) -> FakeEngine:
    """Makes no engine."""
    raise EngineError("store_unwritable", "the folder cannot be written", folder="/models")


def test_the_header_says_how_far_the_model_is_and_nothing_is_said_of_weights_that_a_run_was_recorded_with(
    page: Page, url: str
) -> None:
    is_seen = threading.Event()
    live.start_with(loading(0.42, is_seen))
    bar = opened(page, url)
    expect(page.locator("#engine")).to_contain_text("42 %")
    is_seen.set()
    expect(page.locator("#engine")).to_contain_text("fake is ready")
    expect(bar.locator(".transport-state")).to_have_text(RECORDED["/"])
    live.start_with(None)


SIZES = pytest.mark.parametrize("window", [WIDE, NARROW], ids=["wide", "narrow"])
FILLED = """() => {
  const dot = document.querySelector(".engine-dot"), style = getComputedStyle(dot);
  return [dot.offsetWidth, parseFloat(style.backgroundSize) / 100];
}"""


@SIZES
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_progress_bar_shows_how_far_the_model_is_and_the_header_does_not_jump_when_it_is_ready(
    browser: Browser, watch: Watch, url: str, window: dict[str, object], scheme: str
) -> None:
    is_seen = threading.Event()
    live.start_with(loading(0.42, is_seen))
    page = watch.follow(browser.new_context(**window, color_scheme=scheme).new_page())
    page.goto(url, wait_until="commit")
    bar, header = page.get_by_role("progressbar", name="Loading the model"), page.locator(".site-header")
    expect(bar).to_have_attribute("aria-valuenow", "42")
    width, filled = page.evaluate(FILLED)
    assert width >= 40
    assert filled == pytest.approx(0.42)
    uncut(page, ".engine-text")
    page_fits(page)
    height = header.bounding_box()["height"]
    is_seen.set()
    expect(page.locator("#engine")).to_contain_text("fake is ready")
    expect(bar).to_have_count(0)
    assert header.bounding_box()["height"] == height
    watch.leave(page)
    live.start_with(None)


@SIZES
@pytest.mark.parametrize("path", ["/", "/zh/"])
def test_why_the_model_could_not_be_loaded_can_be_read_in_full(
    browser: Browser, watch: Watch, url: str, window: dict[str, object], path: str
) -> None:
    live.start_with(refused)
    page = watch.follow(browser.new_context(**window).new_page())
    page.goto(url + path, wait_until="commit")
    expect(page.locator("#engine")).to_contain_text("HF_HOME")
    uncut(page, ".engine-text")
    shown = page.locator(".engine-text").bounding_box()
    assert 0 <= shown["x"] <= shown["x"] + shown["width"] <= page.viewport_size["width"]
    page_fits(page)
    watch.leave(page)
    live.start_with(None)


# ---- the player ---------------------------------------------------------------------------------------------------


def test_arrow_keys_and_buttons_step_through_a_run(scrubbed: Page) -> None:
    bar = bar_of(scrubbed)
    where = bar.locator(".transport-where")
    scrubbed.locator("h1:visible").click()
    scrubbed.keyboard.press("ArrowLeft")
    expect(where).to_have_text("step 84 of 85")
    bar.get_by_role("button", name="One step back").click()
    expect(where).to_have_text("step 83 of 85")
    scrubbed.keyboard.press("ArrowRight")
    expect(where).to_have_text("step 84 of 85")
    scrubbed.get_by_label("Prompt").press("ArrowLeft")
    expect(where).to_have_text("step 84 of 85")
    bar.locator(".transport-slider").fill("3")
    expect(where).to_have_text("step 3 of 85")


def test_going_back_gives_the_state_as_it_was(scrubbed: Page) -> None:
    state = """(cursor) => {
        const p = window.inferencePage.playerFor('sample');
        p.seek(cursor);
        return JSON.stringify(p.state);
    }"""
    for cursor in (327, 40, 200, 199, 0, 327):
        fresh = scrubbed.evaluate(
            """async (cursor) => {
                const p = window.inferencePage.playerFor('sample');
                const fold = await import(new URL(window.inferencePage.site + 'fold.js', document.baseURI).href);
                return JSON.stringify(fold.fold(p.events, cursor));
            }""",
            min(cursor, player(scrubbed, "events.length")),
        )
        assert scrubbed.evaluate(state, cursor) == fresh


def test_a_race_is_replayed_with_both_at_their_own_pace(shown: Page) -> None:
    """Both used the engine by turns, so the replay lasts as long as the longer of the two, not as their sum."""
    clocks = json.loads(
        shown.evaluate(
            """JSON.stringify(Object.fromEntries(window.inferencePage.playerFor('sample').events
               .filter((e) => e.type === 'RoundFinished').map((e) => [e.request_id, e.request_clock])))"""
        )
    )
    assert player(shown, "duration") == pytest.approx(max(clocks.values()), rel=0.05)


SEE_IT_BEGIN = """() => {
    const frame = () => requestAnimationFrame((now) => { window.began = now; });  // the player's own first frame
    document.addEventListener('click', frame, { capture: true, once: true });
}"""
MOVED = """() => {
    const p = window.inferencePage.playerFor('sample');
    if (p.time <= 0.01) return null;
    const found = [p.time, (performance.now() - window.began) / 1000];
    p.speed = 1e-4;  // so that Pause finds it under way, however late it comes
    return found;
}"""


def test_play_moves_through_the_run_and_slow_motion_is_slower(scrubbed: Page) -> None:
    bar = bar_of(scrubbed)
    bar.get_by_label("Speed").select_option("0.1")
    scrubbed.evaluate(SEE_IT_BEGIN)
    bar.get_by_role("button", name="Play").click()
    shown, took = scrubbed.wait_for_function(MOVED).json_value()
    assert 0.01 < shown <= 0.1 * took
    bar.get_by_role("button", name="Pause").click()
    scrubbed.evaluate("window.inferencePage.playerFor('sample').speed = 0.1")
    here = player(scrubbed, "cursor")
    frames(scrubbed, 20)
    assert player(scrubbed, "cursor") == here
    bar.get_by_label("Speed").select_option("2")
    bar.get_by_role("button", name="Play").click()
    expect(bar.locator(".transport-where")).to_have_text("step 85 of 85")


# ---- live runs ----------------------------------------------------------------------------------------------------


def test_a_live_run_comes_to_the_page_and_python_hears_when_it_is_done(page: Page, url: str, engine: None) -> None:
    bar = opened(page, url)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(bar.locator(".transport-state")).to_have_text("Ran just now on this machine")
    number = player(page, "events.length")
    expect(page.locator("#sample-done")).to_have_text(f"{number} events")
    assert player(page, "cursor") == number
    assert player(page, "about.mode") == "race"


def test_stop_ends_a_run(page: Page, url: str, unhurried: Unhurried) -> None:
    bar = opened(page, f"{url}/?lesson=sample&tokens=400")
    page.get_by_role("button", name="Run", exact=True).click()
    stop = bar.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    wait_for(lambda: len(live.events(player(page, "runId"))) > 10)
    stop.click()
    expect(bar.locator(".transport-state")).to_have_text("Stopped")
    expect(stop).to_be_hidden()


def test_a_second_run_sees_its_place_in_the_queue(page: Page, url: str, unhurried: Unhurried) -> None:
    bar = opened(page, f"{url}/?lesson=sample&tokens=400")
    press_run(page)
    wait_for(lambda: bool(live.status().running))
    first = live.status().running
    page.get_by_role("button", name="Run", exact=True).click()
    expect(bar.locator(".transport-state")).to_have_text("Waiting for the engine: place 1")
    live.stop(first)
    expect(bar.locator(".transport-state")).to_contain_text("Live")
    live.stop(player(page, "runId"))


def test_a_run_that_failed_says_why_in_the_pages_language(page: Page, url: str, engine: None) -> None:
    bar = opened(page, f"{url}/zh/?lesson=sample")
    page.get_by_label("Prompt").fill("")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(bar.locator(".transport-state")).to_have_text("提示词为空，请至少输入一个字符。")


def test_a_run_that_another_of_the_page_put_aside_is_watched_and_resumes(
    page: Page, url: str, unhurried: Unhurried
) -> None:
    opened(page, f"{url}/?lesson=sample&tokens=400")
    page.get_by_role("button", name="Run", exact=True).click()
    wait_for(lambda: player(page, "wasLive") and player(page, "events.length") > 20)
    first = live.find(player(page, "runId"))
    second = live.find(live.run([Request("a b c", SamplingParams(max_new_tokens=5), id="one")]))
    page.evaluate(f"window.inferencePage.playerFor('other').load('{second.id}')")
    wait_for(lambda: bool(second.readers) and second.readers == first.readers)  # one stream watches both
    unhurried.hurry.set()
    wait_for(lambda: player(page, "isComplete"))
    wait_for(lambda: player(page, "isComplete", "other"))
    assert (first.ending, second.ending) == ("finished", "finished")
    assert player(page, "events.length") == len(first.events)


def test_a_page_may_have_three_runs_waiting(page: Page, url: str, unhurried: Unhurried) -> None:
    opened(page, f"{url}/?lesson=sample&tokens=400")
    run = page.get_by_role("button", name="Run", exact=True)
    press_run(page)
    wait_for(lambda: bool(live.status().running))
    for number in range(1, 4):
        press_run(page)
        assert live.status().waiting == number
    run.click()
    expect(page.locator("#sample-problem")).to_contain_text("3 of your runs are waiting already")


def test_a_lost_connection_resumes_without_a_gap(
    page: Page, url: str, unhurried: Unhurried, is_cut: threading.Event
) -> None:
    bar = opened(page, f"{url}/?lesson=sample&tokens=400&drafter=")
    page.get_by_role("button", name="Run", exact=True).click()
    wait_for(lambda: player(page, "wasLive") and player(page, "events.length") > 20)
    page.context.set_offline(True)  # no connection can be made; the one there is is ended by the server
    is_cut.set()
    expect(bar.locator(".transport-state")).to_have_text("Connection lost; trying again")
    is_cut.clear()
    page.context.set_offline(False)
    unhurried.hurry.set()
    expect(bar.locator(".transport-state")).to_have_text("Ran just now on this machine")
    run_id = player(page, "runId")
    assert player(page, "events.length") == len(live.events(run_id))
    clocks = player(page, "events.map((event) => event.clock)")
    assert clocks == sorted(clocks)


def test_an_unknown_run_says_so_on_the_page(page: Page, watch: Watch, url: str, no_model: None) -> None:
    bar = opened(page, url)
    page.evaluate("window.inferencePage.playerFor('sample').load('forgotten')")
    expect(bar.locator(".transport-state")).to_contain_text("no longer kept")
    watch.forgive("404")


# ---- the reader ---------------------------------------------------------------------------------------------------


def test_predictions_are_kept_and_can_be_changed_and_a_number_is_predicted_with_the_keyboard(
    page: Page, url: str, no_model: None
) -> None:
    opened(page, url)
    box, number = (page.locator(".predict-box:visible").nth(at) for at in range(2))
    expect(box.get_by_role("button", name="Commit")).to_be_disabled()
    box.get_by_label("Between 1 and 5").check()
    box.get_by_role("button", name="Commit").click()
    expect(box.locator(".predict-yours")).to_contain_text("Between 1 and 5")
    expect(number.locator("output")).to_have_text("?")
    number.get_by_role("slider").press("ArrowRight")
    expect(number.locator("output")).to_have_text("55 %")
    number.get_by_role("button", name="Commit").click()
    expect(number.locator(".predict-yours")).to_contain_text("55 %")
    page.reload()
    expect(box.locator(".predict-yours")).to_contain_text("Between 1 and 5")
    expect(number.locator(".predict-yours")).to_contain_text("55 %")
    box.get_by_role("button", name="Change it").click()
    expect(box.get_by_label("Between 1 and 5")).to_be_checked()


@pytest.mark.parametrize(
    ("query", "prompt", "tokens"),
    [
        ("tokens=40&prompt=hello+world", "hello world", "40"),
        ("tokens=9999&prompt=%3Cimg+src%3Dx%3E", "<img src=x>", "24"),
        ("tokens=x&drafter=evil", "The capital of France is", "24"),
    ],
)
def test_a_link_sets_what_it_may_set(
    page: Page, url: str, no_model: None, query: str, prompt: str, tokens: str
) -> None:
    opened(page, f"{url}/?lesson=sample&{query}")
    expect(page.get_by_label("Prompt")).to_have_value(prompt)
    expect(page.get_by_label("number input for Tokens")).to_have_value(tokens)


def test_a_copied_link_holds_what_differs(shown: Page, url: str) -> None:
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    prompt = shown.get_by_label("Prompt")
    before = prompt.input_value()
    prompt.fill("a & b")
    shown.get_by_role("button", name="Copy a link").click()
    expect(shown.locator("#toast")).to_have_text("Link copied")
    assert shown.evaluate("navigator.clipboard.readText()") == f"{url}/?lesson=sample&prompt=a+%26+b"
    prompt.fill(before)
    shown.wait_for_url(lambda address: "prompt" not in address)


def retold(page: Page, way: str) -> None:
    """Bring the page up anew, by one of three ways; there is a way back from the other language."""
    before = page.evaluate("performance.timeOrigin")
    if way == "reload":
        page.reload(wait_until="commit")
    elif way == "language":
        page.get_by_role("link", name="中文").click()
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    else:
        page.go_back(wait_until="commit")
        expect(page.locator("html")).to_have_attribute("lang", "en")
    wait_for(lambda: page.evaluate("performance.timeOrigin") != before)


LONG = "word " * 300  # more than fits a link


def type_settings(page: Page, prompt: str, tokens: str) -> None:
    """What a reader types and chooses."""
    page.get_by_label("Prompt").fill(prompt)
    page.get_by_label("number input for Tokens").fill(tokens)
    page.get_by_label("number input for Tokens").press("Tab")


@pytest.mark.parametrize("prompt", ["a & b", LONG], ids=["short", "long"])
def test_what_the_reader_typed_and_chose_survives(page: Page, url: str, no_model: None, prompt: str) -> None:
    opened(page, url)
    other = f"{prompt}!"
    for way, typed, tokens in (("reload", prompt, "31"), ("language", other, "32"), ("back", other, "32")):
        if way != "back":
            type_settings(page, typed, tokens)
        if way == "reload":
            page.wait_for_url("**tokens=31**")
        retold(page, way)
        expect(page.get_by_label("Prompt"), way).to_have_value(typed)
        expect(page.get_by_label("number input for Tokens"), way).to_have_value(tokens)
        assert len(page.url) < 200, way


def test_a_run_that_goes_on_is_on_the_page_again_and_ends_there(page: Page, url: str, unhurried: Unhurried) -> None:
    opened(page, f"{url}/?lesson=sample&tokens=400")
    for ways in (("reload",), ("language", "back"), ("language",)):
        unhurried.hurry.clear()
        press_run(page)
        run_id = player(page, "runId")
        wait_for(lambda: player(page, "events.length") > 20)
        for way in ways:
            retold(page, way)
        run = live.find(run_id)
        assert not run.ending, ways
        unhurried.hurry.set()
        at_rest(page, "sample")
        assert player(page, "runId") == run_id, ways
        assert (run.ending, player(page, "events.length")) == ("finished", len(run.events)), ways
        expect(page.locator("#sample-done"), str(ways)).to_have_text(f"{len(run.events)} events")


NO_RUNS = ("forgotten", "recorded-nothing", "../../healthz", "<img src=x>", "%F0%9F%98%80", "a" * 4000)
NO_TEXTS = ("null", "5", "[]", '{"sample":5}', '{"sample":{"prompt":5}}', "junk")


@pytest.mark.parametrize(("run_id", "kept"), list(zip(NO_RUNS, NO_TEXTS, strict=True)))
def test_a_run_in_the_address_that_is_none_and_what_another_page_left_in_the_tab_do_no_harm(
    page: Page, url: str, no_model: None, run_id: str, kept: str
) -> None:
    page.add_init_script(f"sessionStorage.setItem('inference-texts', '{kept}')")
    opened(page, f"{url}/?lesson=sample&tokens=31&here=prompt,tokens,__proto__&run={run_id}")
    assert player(page, "runId") == "recorded-sample"
    expect(page.get_by_label("number input for Tokens")).to_have_value("31")
    expect(page.get_by_label("Prompt")).to_have_value("The capital of France is")
    page.wait_for_url(f"{url}/?lesson=sample&tokens=31")


def test_a_copied_link_holds_no_run(page: Page, url: str, engine: None) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, f"{url}/?lesson=sample&tokens=4")
    press_run(page)
    expect(page).to_have_url(re.compile(re.escape(player(page, "runId"))))
    page.get_by_role("button", name="Copy a link").click()
    expect(page.locator("#toast")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{url}/?lesson=sample&tokens=4"


def test_a_run_is_downloaded_and_opened_again(page: Page, url: str, no_model: None, tmp_path: Path) -> None:
    bar = opened(page, url)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download this run").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    page.locator("input[type=file]").set_input_files(path)
    wait_for(lambda: player(page, "runId") != "recorded-sample")
    expect(bar.locator(".transport-where")).to_have_text("step 85 of 85")


@pytest.mark.parametrize(
    ("path", "name", "sentence"),
    [
        ("/", "junk.jsonl.gz", "This file is no run that can be opened here"),
        ("/zh/", "photo.png", "这个文件不是可以打开的运行记录"),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_a_sentence(
    shared: SharedPages, url: str, no_model: None, tmp_path: Path, path: str, name: str, sentence: str
) -> None:
    page = shared.page(f"{url}{path}", opened)
    file = tmp_path / name
    file.write_bytes(b"junk")
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_text(sentence)).to_be_visible()
    assert player(page, "runId") == "recorded-sample"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("/", "The file is too large: at most 16 MB can be opened."), ("/zh/", "文件太大：最多能打开 16 MB。")],
)
def test_too_large_a_file_is_refused_unsent_in_the_pages_language_and_a_smaller_one_is_taken(
    page: Page, url: str, no_model: None, tmp_path: Path, path: str, sentence: str
) -> None:
    sent = []
    page.on(
        "request",
        lambda request: sent.append(request.url) if request.method == "POST" and "/upload" in request.url else None,
    )
    opened(page, url + path)
    page.wait_for_function("window.inferencePage.largestUpload")
    file = tmp_path / "run.jsonl.gz"
    file.write_bytes(bytes(controls.MAX_UPLOAD + 1))
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator("#toast")).to_have_text(sentence)
    expect(page.locator(".toast-body")).to_have_count(0)  # Gradio's own, in English
    assert not sent
    file.write_bytes(gzip.compress(b""))
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator(".toast-body")).to_have_count(1)
    assert sent
    assert player(page, "runId") == "recorded-sample"


@pytest.mark.parametrize(("path", "language", "more"), [("/", "en", "More lessons"), ("/zh/", "zh-CN", "更多课程")])
def test_gradios_own_words_are_in_the_pages_language(
    shared: SharedPages, url: str, no_model: None, path: str, language: str, more: str
) -> None:
    page = shared.page(f"{url}{path}", opened)
    assert page.evaluate("navigator.language") == language
    expect(page.locator(f"button[aria-label='{more}']")).to_have_count(1)
    expect(page.locator("button[aria-label='More tabs']")).to_have_count(0)


# ---- layout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/zh/", "/memory/"])
def test_a_phone_shows_the_page_without_sideways_scrolling(phone: Page, url: str, no_model: None, path: str) -> None:
    phone.goto(f"{url}{path}", wait_until="commit")
    expect(phone.locator(".transport-bar:visible")).to_be_visible()
    expect(phone.locator(".chart .plotly:visible").first).to_be_visible()
    page_fits(phone)


def test_focus_is_visible_and_the_skip_link_comes_first(page: Page, url: str, no_model: None) -> None:
    opened(page, url)
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).not_to_be_focused()
    expect(page.locator(":focus")).to_have_css("outline-style", "solid")


def test_code_formulas_and_interview_answers_are_on_the_page(shown: Page) -> None:
    expect(shown.locator(".derivation .katex-display")).to_have_count(2)
    shown.get_by_role("button", name="BlockPool.append").click()
    expect(shown.locator(".code-view.prose:visible")).to_contain_text("def append")
    shown.get_by_role("button", name="In thirty seconds").click()
    expect(shown.get_by_text("Yes, by rejection sampling.")).to_be_visible()
    expect(shown.locator("table.figures")).to_contain_text("a<b")


def test_a_chart_links_to_no_other_site(shown: Page, url: str) -> None:
    shown.locator(".chart .plotly").first.hover()
    expect(shown.locator(".chart .modebar-btn").first).to_be_visible()
    hosts = shown.locator("a[href]").evaluate_all("links => links.map(link => new URL(link.href, location).host)")
    assert set(hosts) == {url.removeprefix("http://")}
