"""The live lab as a whole in a real browser: what is on the first screen, presets, live races, guesses, links."""

import re
from collections.abc import Iterator
from unittest import mock
from urllib.parse import urlencode

import pytest
from fake_engine import FakeEngine
from page_watch import Watch
from playwright.sync_api import Browser, Page, expect
from sample_app import served, wait_for
from shared_pages import SharedPages
from toy_race import Costs, Toy, toy_race
from unhurried import Unhurried
from waits import all_drawn, at_rest, frames, page_fits, toasts_gone

import app
from engine import save_trace
from lessons import live, page, runs, worker
from lessons.live_lab_prompts import PRESETS
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser

T = {language: load("live_lab", language) for language in ("en", "zh")}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an app whose only lesson is the lab; its recorded runs are toys."""
    folder = tmp_path_factory.mktemp("traces")
    for item in PRESETS:
        fast = Costs(draft=0.0002, verify=0.028)
        toy = Toy(seed=len(item.name), costs=Costs() if item is PRESETS[0] else fast, sharpness=0.95)
        save_trace(
            toy_race(toy), folder / ("live_lab.jsonl.gz" if item is PRESETS[0] else f"live_lab.{item.name}.jsonl.gz")
        )
    runs.recorded_run.cache_clear()
    chapters = (("speculation", ("live_lab",)),)
    with mock.patch.object(page, "CHAPTERS", chapters), mock.patch.object(runs, "TRACE_FOLDER", folder):
        application = app.build("fake")
    with mock.patch.object(runs, "TRACE_FOLDER", folder), served(application) as address:
        yield address
    runs.recorded_run.cache_clear()


@pytest.fixture
def no_model() -> None:
    live.start_with(None)


@pytest.fixture
def engine() -> Iterator[list[FakeEngine]]:
    """A made-up engine, 40 ms a step."""
    made: list[FakeEngine] = []

    def make(progress: object) -> FakeEngine:
        made.append(FakeEngine(0.04, num_blocks=256))
        return made[0]

    live.start_with(make)
    wait_for(lambda: live.status().state == "ready")
    yield made
    live.start_with(None)


def opened(page: Page, address: str) -> Page:
    """The page, its recorded run drawn to the end or its stage empty, the tour out of the way and nothing moving."""
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script("localStorage.setItem('inference-reader', JSON.stringify({'live_lab.tour': true}))")
    page.goto(address, wait_until="commit")
    empty = page.locator(".race-outcome", has_text=T["en"]("stage.race.empty"))
    expect(page.locator(".race-vanilla.is-finished").or_(empty).first).to_be_visible()
    all_drawn(page)
    at_rest(page, "live_lab")
    return page


def player(page: Page, expression: str) -> object:
    return page.evaluate(f"window.inferencePage.playerFor('live_lab').{expression}")


def value_of(page: Page, label: str) -> str:
    return page.get_by_label(label, exact=True).first.input_value()


@pytest.mark.parametrize("path", ["/", "/zh/"])
def test_the_race_and_the_button_that_runs_it_are_on_the_first_screen(
    shared: SharedPages, url: str, no_model: None, path: str
) -> None:
    page = shared.page(url + path, opened)
    page.evaluate("scrollTo(0, 0)")
    for part in (
        ".race-vanilla .race-text",
        ".race-speculative .race-text",
        "#lab-run",
        ".transport-bar",
        ".race-outcome",
    ):
        page.wait_for_function("(part) => document.querySelector(part).getBoundingClientRect().bottom <= 900", arg=part)
    tops = "(part) => document.querySelector(part).getBoundingClientRect().top"
    page.wait_for_function(f"() => ({tops})('#lab-run') < ({tops})('.race-lanes')")
    expect(page.locator(".inspector-verdict")).to_be_visible()
    expect(page.locator("h1:visible")).to_have_count(1)


def test_the_chinese_page_speaks_chinese(shared: SharedPages, url: str, no_model: None) -> None:
    page = shared.page(f"{url}/zh/", opened)
    expect(page.locator(".race-vanilla .race-title")).to_have_text("普通解码")
    expect(page.locator(".inspector-verdict")).to_contain_text("被拒")
    expect(page.locator("#lab-sentence")).to_contain_text("投机解码更慢")


SHIFTS = """window.shifts = [];
const name = ({ node, previousRect: from, currentRect: to }) =>
  `${node?.id || node?.className || node?.nodeName} ${from.x}, ${from.y} > ${to.x}, ${to.y}`;
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries()) window.shifts.push([value, ...sources.map(name)]);
}).observe({ type: "layout-shift", buffered: true });"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=str)
def test_little_moves_while_the_page_comes_up(page: Page, url: str, no_model: None, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.add_init_script(SHIFTS)
    opened(page, url)
    expect(page.locator(".chart .plotly")).to_have_count(2)
    frames(page)
    shifts = page.evaluate("shifts")
    assert sum(value for value, *_ in shifts) < 0.2, shifts  # it was above 1 before heights were kept


@pytest.mark.parametrize("path", ["/", "/zh/"])
def test_on_a_phone_both_lanes_are_on_the_first_screen_and_nothing_sticks_out(
    shared: SharedPages, url: str, no_model: None, path: str
) -> None:
    phone = shared.phone(url + path, opened)
    phone.evaluate("scrollTo(0, 0)")
    page_fits(phone)
    for lane in ("vanilla", "speculative"):
        assert phone.locator(f".race-{lane} .race-text .race-token").first.bounding_box()["y"] < 800, lane


@pytest.mark.parametrize("path", ["/", "/zh/"])
def test_on_a_phone_run_is_always_under_the_thumb(shared: SharedPages, url: str, no_model: None, path: str) -> None:
    phone = shared.phone(url + path, opened)
    phone.evaluate("scrollTo(0, 0)")
    for distance in (0, 500, 500):
        phone.evaluate(f"window.scrollBy(0, {distance})")
        box = phone.locator("#lab-run").bounding_box()
        assert 0 < box["y"] < box["y"] + box["height"] <= 844, distance
        assert box["height"] >= 40


def test_on_a_phone_a_touched_token_is_explained_in_view(shared: SharedPages, url: str, no_model: None) -> None:
    phone = shared.phone(f"{url}/", opened)
    phone.locator(".race-speculative .race-token").nth(2).tap()
    expect(phone.locator(".stage-inspector")).to_have_class(re.compile("is-lifted"))
    box = phone.locator(".inspector-verdict").bounding_box()
    assert 0 < box["y"] < box["y"] + box["height"] <= 844
    phone.get_by_role("button", name=T["en"]("stage.inspector.close")).tap()
    expect(phone.locator(".stage-inspector")).not_to_have_class(re.compile("is-lifted"))


SEE_IT_PLAY = """const look = () => {
  window.hasPlayed ||= Boolean(window.inferencePage?.playerFor?.('live_lab').isPlaying);
  if (!window.hasPlayed) requestAnimationFrame(look);
};
look();"""


def test_a_first_visit_plays_the_run_once_under_the_tour(page: Page, url: str, no_model: None) -> None:
    page.add_init_script(SEE_IT_PLAY)
    page.goto(url, wait_until="commit")
    page.wait_for_function("window.hasPlayed")
    expect(page.locator(".race-step")).to_contain_text("of 6")
    expect(page.locator(".race-vanilla.is-finished")).to_be_visible()
    wait_for(lambda: not player(page, "isPlaying"))


def test_without_a_model_running_says_why_not(shared: SharedPages, url: str, no_model: None) -> None:
    page = shared.page(f"{url}/", opened)
    page.locator("#lab-run").click()
    expect(page.locator("#lab-remark")).to_contain_text("started without a model")
    assert player(page, "runId") == "recorded-live_lab"
    toasts_gone(page)


def test_a_preset_shows_its_recorded_run_and_sets_the_controls(page: Page, url: str, no_model: None) -> None:
    opened(page, url)
    page.get_by_label("Copy from the prompt").check(force=True)
    expect(page.locator(".presets-proves")).to_have_text(T["en"]("stage.preset.copy.proves"))
    wait_for(lambda: player(page, "runId") == "recorded-live_lab.copy")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(PRESETS[1].prompt)
    expect(page.locator("#lab-sentence")).to_contain_text("times as fast and saved")
    expect(page.locator("#lab-sentence")).to_contain_text("recorded · a made-up machine, 2026-11-30")


def test_a_live_race_from_an_empty_stage_runs_and_is_reconciled(page: Page, url: str, engine: list) -> None:
    opened(page, f"{url}/?lesson=live_lab&n=24")
    expect(page.locator(".race-outcome")).to_have_text(T["en"]("stage.race.empty"))
    page.locator("#lab-run").click()
    expect(page.locator(".transport-state")).to_have_text("Ran just now on this machine")
    assert player(page, "about.mode") == "race"
    for lane in ("vanilla", "speculative"):
        expect(page.locator(f".race-{lane} .race-token:not([data-index='-1'])")).to_have_count(24)
    expect(page.locator("#lab-sentence")).to_contain_text("measured")
    assert {"vanilla", "speculative"} <= set(engine[0].steps)


def test_stop_gives_the_blocks_back_and_can_be_pressed_twice(page: Page, url: str, unhurried: Unhurried) -> None:
    opened(page, f"{url}/?lesson=live_lab&n=256")
    page.locator("#lab-run").click()
    wait_for(lambda: unhurried.pool.num_used > 0)
    page.get_by_role("button", name="Stop").dblclick()
    expect(page.locator(".transport-state")).to_have_text("Stopped")
    wait_for(lambda: unhurried.pool.num_used == 0)
    expect(page.locator(".race-vanilla .race-count")).to_contain_text("stopped after")


@pytest.mark.parametrize(("path", "language"), [("/", "en"), ("/zh/", "zh")])
def test_an_empty_prompt_gets_a_sentence_and_the_old_run_stays(
    shared: SharedPages, url: str, engine: list, path: str, language: str
) -> None:
    t, page = T[language], shared.page(url + path, opened)
    prompt = page.get_by_label(t("control.prompt"), exact=True)
    before = prompt.input_value()
    prompt.fill("   ")
    page.locator("#lab-run").click()
    expect(page.locator(".toast-body")).to_contain_text(t("remark.empty"))
    expect(page.locator("#lab-remark")).to_contain_text(t("remark.empty"))
    assert player(page, "runId") == "recorded-live_lab"
    prompt.fill(before)
    toasts_gone(page)


def test_a_prompt_of_a_hundred_thousand_characters_is_refused_in_words_and_none_of_it_is_cut(
    page: Page, url: str, engine: list
) -> None:
    opened(page, url)
    box = page.get_by_label("Prompt", exact=True)
    box.press("ControlOrMeta+a")
    page.keyboard.insert_text("word " * 20_000)  # as a paste, it heeds a limit of the field
    with page.expect_response(lambda response: "word word" in (response.request.post_data or "")) as left:
        box.blur()
    left.value.finished()  # leaving the field clears the remark: before the refusal, not after it
    page.locator("#lab-run").click()
    sentence = load(FRAME, "en")("error.prompt_over_limit", largest=worker.MAX_PROMPT_TOKENS)
    expect(page.locator(".toast-body")).to_contain_text(sentence)  # first: it goes by itself
    expect(page.locator("#lab-remark")).to_contain_text(sentence)
    assert len(box.input_value()) == 100_000
    assert player(page, "runId") == "recorded-live_lab"
    assert not live.status().running


def test_markup_in_a_prompt_is_shown_as_text(page: Page, url: str, engine: list) -> None:
    opened(page, f"{url}/?lesson=live_lab&n=2")
    nasty = "<img src=x onerror=alert(1)> <|im_end|> \u202e"
    page.get_by_label("Prompt", exact=True).fill(nasty)
    page.locator("#lab-run").click()
    expect(page.locator(".race-prompt-text")).to_contain_text("<img src=x")
    expect(page.locator(".race-prompt-text")).to_contain_text("⟨U+202E⟩")
    assert page.locator("img[src='x']").count() == 0


# ---- several readers ----------------------------------------------------------------------------------------------


@pytest.fixture
def readers(browser: Browser, watch: Watch, url: str, unhurried: Unhurried) -> Iterator[list[Page]]:
    """Two browsers' pages of the lab, the first about to run for long, the second for a moment."""
    contexts = [browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(2)]
    addresses = (f"{url}/?lesson=live_lab&n=256", f"{url}/?lesson=live_lab&n=8")
    yield [opened(watch.follow(context.new_page()), at) for context, at in zip(contexts, addresses, strict=True)]
    for context in contexts:
        context.close()


def start_and_see(page: Page, engine: FakeEngine) -> str:
    """Start a race, wait until its tokens are on the page; gives its id."""
    page.locator("#lab-run").click()
    wait_for(lambda: player(page, "wasLive") and player(page, "events.length") > 20)
    assert engine.pool.num_used > 0
    return player(page, "runId")


def test_a_second_reader_is_told_the_place_and_runs_when_the_first_has_ended(
    readers: list, unhurried: Unhurried
) -> None:
    first, second = readers
    start_and_see(first, unhurried)
    second.locator("#lab-run").click()
    expect(second.locator(".transport-state")).to_have_text("Waiting for the engine: place 1")
    first.get_by_role("button", name="Stop").click()
    expect(first.locator(".transport-state")).to_have_text("Stopped")
    expect(second.locator(".transport-state")).to_have_text("Ran just now on this machine")
    for lane in ("vanilla", "speculative"):
        expect(second.locator(f".race-{lane} .race-token:not([data-index='-1'])")).to_have_count(8)
    assert player(first, "runId") != player(second, "runId")
    assert unhurried.pool.num_used == 0


def test_a_reader_who_leaves_in_mid_run_makes_room_and_leaves_no_block_behind(
    readers: list, unhurried: Unhurried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "UNREAD_SECONDS", 0.5)
    first, second = readers
    run = live.find(start_and_see(first, unhurried))
    first.context.close()
    wait_for(lambda: not run.readers)
    assert not run.ending
    second.locator("#lab-run").click()
    expect(second.locator(".transport-state")).to_have_text("Ran just now on this machine")
    assert run.ending == "unwatched"
    assert unhurried.pool.num_used == 0
    assert unhurried.is_idle


def test_a_run_that_its_only_reader_left_goes_on_to_its_end(page: Page, url: str, unhurried: Unhurried) -> None:
    opened(page, f"{url}/?lesson=live_lab&n=256")
    run = live.find(start_and_see(page, unhurried))
    page.context.close()
    assert not run.ending
    unhurried.hurry.set()
    wait_for(lambda: bool(run.ending))
    assert run.ending == "finished"
    assert unhurried.pool.num_used == 0


# ---- guesses, links, languages ------------------------------------------------------------------------------------


def test_guesses_stand_in_the_table_of_the_run_that_they_are_about(page: Page, url: str, no_model: None) -> None:
    opened(page, url)
    sliders = page.locator(".predict-box input[type=range]")
    expect(sliders).to_have_count(2)
    for slider in sliders.all():
        slider.press("ArrowRight")
    for _ in range(2):
        page.get_by_role("button", name="Commit to this answer").first.click()
    page.locator("#lab-guessed").click()
    wait_for(lambda: player(page, "runId") == "recorded-live_lab.copy")
    expect(page.locator("table.figures:visible")).to_contain_text("Your guess: acceptance")
    expect(page.locator("table.figures:visible")).to_contain_text("Your guess: speed-up")
    page.get_by_label("Chinese").check(force=True)
    expect(page.locator("table.figures:visible")).not_to_contain_text("Your guess")


def test_a_field_that_is_emptied_or_overtyped_brings_up_no_error(page: Page, url: str, no_model: None) -> None:
    opened(page, url)
    field = page.get_by_label("number input for K, guesses per round")
    for typed in ("", "99", "-4", "3"):
        with page.expect_response("**/run/predict*") as answer:
            field.fill(typed)
        answer.value.finished()
    frames(page)
    expect(page.locator(".toast-body")).to_have_count(0)
    field.press("Tab")
    expect(field).to_have_value("3")


def test_half_a_character_in_the_prompt_does_no_harm(page: Page, url: str, engine: list) -> None:
    opened(page, url)
    page.evaluate("""() => {
      const area = document.querySelector("#lab textarea");
      Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(area, "hello \\ud83d there");
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }""")
    page.click("#lab-break-deep")
    wait_for(lambda: player(page, "runId") not in ("", "recorded-live_lab"))
    expect(page.get_by_label("number input for K, guesses per round")).to_have_value("12")
    first = player(page, "runId")
    page.get_by_label("Prompt", exact=True).fill("The sea is")
    expect(page.locator(".transport-state")).to_have_text("Ran just now on this machine")
    page.locator("#lab-run").click()
    wait_for(lambda: player(page, "runId") != first)


def test_a_link_sets_the_controls(page: Page, url: str, no_model: None) -> None:
    opened(page, f"{url}/?lesson=live_lab&k=7&drafter=ngram&t=0&prompt=Hello")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("Hello")
    expect(page.get_by_label("number input for K, guesses per round")).to_have_value("7")
    expect(page.get_by_label("Drafter")).to_have_value(T["en"]("drafter.ngram"))
    expect(page.locator(".race-outcome")).to_have_text(T["en"]("stage.race.empty"))
    expect(page.locator(".presets-chip input:checked")).to_have_count(0)
    assert player(page, "runId") == ""
    expect(page.locator("#lab-sentence")).to_have_count(0)


def test_a_link_to_a_preset_s_settings_shows_the_preset_s_run(page: Page, url: str, no_model: None) -> None:
    copy = PRESETS[1]
    query = urlencode({"prompt": copy.prompt, "drafter": copy.drafter, "k": copy.draft_length, "t": copy.temperature})
    opened(page, f"{url}/?lesson=live_lab&{query}")
    assert player(page, "runId") == "recorded-live_lab.copy"
    expect(page.get_by_label("Copy from the prompt")).to_be_checked()
    expect(page.locator("#lab-sentence")).to_contain_text("times as fast")


def test_breaking_it_changes_the_settings_and_starts_a_race(page: Page, url: str, engine: list) -> None:
    opened(page, f"{url}/?lesson=live_lab&n=8")
    page.locator("#lab-break-deep").click()
    wait_for(lambda: player(page, "wasLive"))
    expect(page.get_by_label("number input for K, guesses per round")).to_have_value("12")
    expect(page.get_by_label("Drafter")).to_have_value(T["en"]("drafter.early_exit"))
