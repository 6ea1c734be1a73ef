"""The live lab's stages in a real browser, from made-up runs: nothing lost, nothing invented, nothing executed."""

import dataclasses

import pytest
from odd_races import NONSENSE, spoilt
from playwright.sync_api import Page, expect
from shared_pages import SharedPages
from stage_page import mounted, seek
from toy_language import PIECES, STRANGE
from toy_race import TOYS, of, toy_race

from engine import Drafted, Event, Sampled, Submitted, Verified, fold
from lessons.words import load

pytestmark = pytest.mark.browser

LANES = ("vanilla", "speculative")
ALL = ("race", "inspector", "ribbon", "caches", "ledger")
T = load("live_lab", "en")


@pytest.fixture(params=TOYS)
def events(request: pytest.FixtureRequest) -> list[Event]:
    return toy_race(TOYS[request.param])


@pytest.fixture(params=TOYS)
def race(request: pytest.FixtureRequest, shared: SharedPages) -> tuple[Page, list[Event]]:
    """A page with a race at its end, opened once for all tests that only look at it, and the race's events."""
    events = toy_race(TOYS[request.param])

    def opened(page: Page, name: str) -> None:
        page.emulate_media(reduced_motion="reduce")  # then the tour stands still
        mounted(page, events, ["race"])

    return shared.page(request.param, opened), events


# ---- the race ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", LANES)
def test_every_output_token_is_there_once_with_its_fate(race: tuple[Page, list[Event]], lane: str) -> None:
    page, events = race
    shown = page.evaluate(
        """(lane) => [...document.querySelectorAll(`.race-${lane} .race-token:not([data-index="-1"])`)].map((node) =>
             [Number(node.dataset.index), [...node.classList].find((name) => name.startsWith("fate-"))])""",
        lane,
    )
    assert shown == [[event.index, f"fate-{event.fate}"] for event in of(events, Sampled, lane)]


def test_every_draft_that_died_is_a_ghost_where_it_died(race: tuple[Page, list[Event]]) -> None:
    page, events = race
    ghosts = page.evaluate(
        """[...document.querySelectorAll(".race-ghost")].map((node) => [Number(node.dataset.round),
             Number(node.dataset.draft), [...node.classList].find((name) => name.startsWith("is-")),
             Number(node.parentNode.querySelector(".fate-resampled")?.dataset.round)])"""
    )
    expected = [
        [event.round, at, f"is-{verdict}", event.round]
        for event in of(events, Verified)
        for verdict_wanted in ("rejected", "unreached")
        for at, verdict in enumerate(event.verdicts)
        if verdict == verdict_wanted
    ]
    assert ghosts == expected


@pytest.mark.parametrize("lane", LANES)
def test_without_ghosts_and_glyphs_a_lane_reads_as_the_text(race: tuple[Page, list[Event]], lane: str) -> None:
    page, events = race
    read = page.evaluate(
        """(lane) => {
             const copy = document.querySelector(`.race-${lane} .race-text`).cloneNode(true);
             copy.querySelectorAll(".race-ghost, .glyph").forEach((node) => node.remove());
             return copy.textContent;
           }""",
        lane,
    )
    text = "".join(event.label for event in of(events, Sampled, lane))
    assert read == text.replace("\t", "").replace("\u202e", "")  # both have a glyph in their place


def test_html_of_a_model_or_a_reader_is_text_and_nothing_else(page: Page) -> None:
    nasty = "<img src=x onerror=document.title='hacked'><script>document.title='hacked'</script>"

    def spoiled(event: Event) -> Event:
        names = {field.name for field in dataclasses.fields(event)}
        changes = {"piece": nasty, "label": nasty} if "piece" in names else {}
        if "pieces" in names:
            changes["pieces"] = (nasty,) * len(event.pieces)
        return dataclasses.replace(event, **changes)

    mounted(page, [spoiled(event) for event in toy_race()], ALL)
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "stages"
    assert nasty in page.locator(".race-vanilla .race-token").first.text_content()
    assert nasty in page.locator(".inspector-token").text_content()


def test_what_cannot_be_seen_has_a_glyph(page: Page) -> None:
    shown = page.evaluate(
        """async (texts) => {
             const { spell } = await import(`${location.origin}/glyphs.js`);
             return texts.map((text) => spell(text).map((run) => run.text).join(""));
           }""",
        ["a\nb", "\t", "  ", " the", "\u202e", "\u0000", "\u200b", "⟨F0⟩", "天", "👩\u200d🚀"],
    ) if mounted(page, toy_race(), []) else []  # fmt: skip
    assert shown == ["a↵b", "⇥", "␣␣", " the", "⟨U+202E⟩", "␀", "⟨U+200B⟩", "⟨F0⟩", "天", "👩\u200d🚀"]
    assert set(STRANGE) < set(PIECES)


def test_a_draft_waits_until_it_is_verified(page: Page) -> None:
    events = toy_race(TOYS["sampled"])
    mounted(page, events, ["race"])
    at = next(i for i, event in enumerate(events) if isinstance(event, Drafted) and event.round == 3)
    seek(page, at + 1)
    waiting = page.locator(".race-pending")
    expect(waiting).to_have_count(len(events[at].token_ids))
    assert [text.strip() for text in waiting.all_text_contents()] == [piece.strip() for piece in events[at].pieces]
    seek(page, len(events))
    expect(waiting).to_have_count(0)


def test_going_back_and_forth_draws_what_a_fresh_page_draws(page: Page, events: list[Event]) -> None:
    """The picture at a cursor depends on the cursor alone: scrubbing equals the fold."""
    mounted(page, events, ["race", "ribbon", "caches", "ledger"])
    page.evaluate("window.drawn = () => [...document.querySelectorAll('.race-text')].map((node) => node.innerHTML)")
    cursors = [*range(0, len(events) + 1, 37), len(events)]
    forward = []
    for cursor in cursors:
        seek(page, cursor)
        forward.append(page.evaluate("drawn()"))
    for cursor, picture in reversed(list(zip(cursors, forward, strict=True))):
        seek(page, cursor)
        assert page.evaluate("drawn()") == picture, cursor
        state = fold(events[:cursor])
        for lane in LANES:
            tokens = state.requests[lane].tokens if lane in state.requests else ()
            shown = page.locator(f".race-{lane} .race-token:not([data-index='-1'])")
            assert shown.count() == len(tokens), (cursor, lane)


def test_new_tokens_are_appended_and_old_ones_left_alone(page: Page) -> None:
    events = toy_race(TOYS["sampled"])
    mounted(page, events, ["race"])
    seek(page, len(events) // 2)
    page.evaluate("document.querySelectorAll('.race-round').forEach((node, at) => { node.dataset.mark = at; })")
    marked = page.locator(".race-round[data-mark]").count()
    seek(page, len(events))
    assert page.locator(".race-round[data-mark]").count() >= marked - 1  # the round in progress may be drawn anew
    assert page.locator(".race-round").count() > marked


def test_ghosts_can_be_hidden(page: Page) -> None:
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-ghost").first).to_be_visible()
    switch = page.get_by_role("switch", name=T("stage.race.ghosts"))
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    expect(page.locator(".race-ghost").first).to_be_hidden()
    switch.click()
    expect(page.locator(".race-ghost").first).to_be_visible()


def test_the_prompt_is_there_before_its_first_token(page: Page) -> None:
    mounted(page, toy_race(), ["race"])
    seek(page, 0)
    expect(page.locator(".race-prompt-text")).to_contain_text("Why is the sky blue?")
    expect(page.locator(".race-how").first).to_have_text(T("stage.race.how.vanilla"))
    assert page.locator(".race-token").count() == 0


def test_all_of_a_prompt_is_offered_only_where_some_is_hidden(page: Page) -> None:
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-more")).to_be_hidden()
    long = [
        dataclasses.replace(event, pieces=event.pieces * 60) if isinstance(event, Submitted) else event
        for event in toy_race()
    ]
    mounted(page, long, ["race"])
    page.locator(".race-more").click()
    expect(page.locator(".race-more")).to_have_text(T("stage.race.prompt.less"))
    assert page.locator(".race-prompt-text").text_content().count("sky") == 60


def test_over_the_columns_stands_what_the_race_comes_to_and_which_term_lost_it(page: Page) -> None:
    mounted(page, toy_race(TOYS["greedy"]), ["race"])
    outcome = page.locator(".race-outcome")
    expect(outcome).to_contain_text("drafting loses it")
    assert outcome.bounding_box()["y"] < page.locator(".race-lanes").bounding_box()["y"]
    seek(page, 0)
    expect(outcome).to_have_text("")
    mounted(page, toy_race(TOYS["lookup"]), ["race"])
    expect(outcome).to_contain_text("tokens a round")


@pytest.mark.parametrize("change", NONSENSE, ids=str)
def test_a_file_full_of_nonsense_breaks_no_stage_and_is_said_to_be_one(page: Page, change: dict) -> None:
    mounted(page, spoilt(toy_race(), change), ALL)
    expect(page.locator(".race-outcome")).to_have_text(T("stage.race.nothing"))
    expect(page.locator(".race-vanilla .race-count")).to_contain_text("64 tokens")
    expect(page.locator(".ledger-speedup .ledger-big")).to_have_text("–")
    page.locator(".race-vanilla .race-token").nth(9).click()
    expect(page.locator(".inspector-verdict")).to_be_visible()


def test_arrow_keys_go_from_token_to_token_and_tab_finds_one_per_lane(page: Page) -> None:
    mounted(page, toy_race(), ["race", "inspector"])
    assert page.locator(".race-text [tabindex='0']").count() == 2
    first = page.locator(".race-speculative .race-token").first
    first.focus()
    for key, at in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1), ("Home", 0)):
        page.keyboard.press(key)
        token = page.locator(".race-speculative .race-token").nth(at)
        expect(token).to_be_focused()
        expect(token).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(first).not_to_be_focused()
    below = "first => document.activeElement.getBoundingClientRect().top - first.getBoundingClientRect().top"
    assert first.evaluate(below) > 10


def test_another_run_starts_from_nothing(page: Page) -> None:
    first, second = toy_race(TOYS["sampled"]), toy_race(TOYS["greedy"])
    mounted(page, first, ALL)
    picked = page.locator(".race-ghost").first
    picked.click()
    mounted(page, second, ALL)
    assert page.locator(".race-speculative .race-token:not([data-index='-1'])").count() == len(of(second, Sampled))
    assert len(of(second, Submitted)) == 1
