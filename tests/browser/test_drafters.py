"""The drafter zoo in a real browser: two rankings, what each drafter reads, the arithmetic of Python, a phone."""

import dataclasses
from collections.abc import Iterator
from unittest import mock

import pytest
from fake_engine import FakeEngine
from playwright.sync_api import Page, expect
from sample_app import served
from stage_page import mounted
from toys import toy_engine
from waits import all_drawn, page_fits

import app
from engine import Drafted, Request, SamplingParams, Submitted, Viewed
from lessons import drafters, live
from lessons import drafters_account as account
from lessons import drafters_runs as runs
from lessons import page as pages
from lessons.words import load

pytestmark = pytest.mark.browser
ZOO, INPUTS = "#drafters-zoo", "#drafters-inputs"
ENTRIES = """async () => {
  const { entriesOf } = await import(`${location.origin}/zoo_account.js`);
  return entriesOf(player.state);
}"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book with this lesson alone, and an engine that makes up its tokens."""
    with mock.patch.object(pages, "CHAPTERS", (("drafting", ("drafters",)),)):
        application = app.build("")
        live.start_with(lambda progress: FakeEngine())
        with served(application) as address:
            yield address
    live.start_with(None)


def test_browser_and_python_compute_the_same_rows_and_cards_show_what_is_read(page: Page) -> None:
    events = live.events(drafters.recording("zoo"))
    options = drafters.options_of(load("drafters", "en")) | {"veil": []}
    mounted(page, events, ["zoo", "inputs"], options={"zoo": options, "inputs": options}, lesson="drafters")
    names = {"speedUp": "speed_up", "roundCost": "round_cost", "draftCost": "draft_cost", "isSame": "is_same",
             "isLossy": "is_lossy", "rule": "rule", "tau": "tau", "alpha": "alpha", "name": "name"}  # fmt: skip
    rows, entries = page.evaluate(ENTRIES), account.entries(events)
    for row, entry in zip(rows, entries, strict=True):
        for theirs, mine in names.items():
            value = getattr(entry, mine)
            assert row[theirs] == (pytest.approx(value) if isinstance(value, float) else value)
    order = [row["name"] for row in sorted(rows, key=lambda row: -row["tau"])]
    page.locator("[data-sort=tau]").click()
    expect(page.locator(".zoo-table tr[data-name]").first).to_have_attribute("data-name", order[0])
    card = page.locator(".inputs-card[data-drafter=eagle]")
    expect(card.locator(".inputs-state.is-true")).to_have_count(1)
    expect(card.locator(".inputs-token.is-read")).to_have_count(1)
    expect(page.locator(".inputs-card[data-drafter=layer_skip] .inputs-cache")).to_be_visible()


def test_numbers_stay_covered_until_both_predictions_are_made(page: Page, url: str) -> None:
    page.goto(url, wait_until="commit")
    cover = page.locator(f"{ZOO} .zoo-cover")
    expect(cover).to_be_visible()
    expect(page.locator(f"{ZOO} .zoo-table")).to_be_hidden()
    for name in ("fastest", "longest"):
        box = page.locator(f"#drafters-predict-{name}")
        box.get_by_role("radio").first.check()
        box.locator(".predict-commit").click()
    expect(cover).to_be_hidden()
    expect(page.locator(f"{ZOO} .zoo-verdict")).to_contain_text("Most tokens per pass")


def test_a_live_run_fills_the_table_and_no_drafter_is_answered_in_words(page: Page, url: str) -> None:
    page.goto(url, wait_until="commit")
    expect(page.locator(f"{INPUTS} .inputs-card").first).to_be_attached()
    page.locator("#drafters-run").click()
    expect(page.locator(f"{ZOO} .badge-measured")).to_be_visible()
    expect(page.locator(f"{ZOO} tr[data-name=layer_skip]")).to_be_visible()
    expect(page.locator(".table-scroll > table.figures .badge-measured").first).to_be_attached()  # its end was heard
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.locator("#drafters-run").click()
    expect(page.locator("#drafters-remark [role=alert]")).to_have_text(load("drafters", "en")("remark.none"))


def test_both_rules_run_side_by_side_and_the_lossy_one_is_named_in_every_table(page: Page, url: str) -> None:
    t = load("drafters", "en")
    page.goto(url, wait_until="commit")
    rules = page.locator("table.figures", has_text=t("rules.expected"))
    expect(rules.locator("b", has_text=t("rules.lossy"))).to_have_count(2)
    expect(page.locator(".callout.careful", has_text="the exact rule would have refused")).to_be_attached()
    page.get_by_label(t("experiment.typical")).check()
    lossy = page.locator(f"{ZOO} tr[data-name='medusa typical']")
    expect(lossy).to_contain_text(t("stage.lossy"))
    expect(lossy.locator(".is-wrong")).to_contain_text(t("stage.lossy.text"))
    expect(page.locator(f"{ZOO} tr[data-name='medusa exact']")).to_contain_text(t("stage.exact"))
    page.locator("#drafters-run").click()
    expect(page.locator(f"{ZOO} .badge-measured")).to_be_visible()
    expect(page.locator(f"{ZOO} tr[data-name='draft_lm typical'] .is-wrong")).to_be_visible()
    expect(page.locator(".table-scroll", has=rules).locator(".badge-measured")).to_be_attached()  # its end was heard


def test_a_card_shows_the_blocks_that_a_sparse_draft_sees_and_a_copy_before_a_head(page: Page) -> None:
    prompt = [1, 2, 3, 1, 2] * 6
    params = SamplingParams(16, draft_length=3, ignore_eos=True)
    names = {"magicdec:8": "magicdec:8", "triforce:8": "triforce:8", "lookup_eagle": "eagle3:lookup"}  # the toy's first
    asked = [Request(prompt, params, name, id=name) for name in names]
    events = [
        dataclasses.replace(event, drafter=names[event.drafter]) if isinstance(event, Submitted) else event
        for event in runs.recorded(toy_engine(), asked)
    ]
    options = drafters.options_of(load("drafters", "en")) | {"veil": []}
    mounted(page, events, ["inputs"], options={"inputs": options}, lesson="drafters")
    for name in ("magicdec:8", "triforce:8"):
        card = page.locator(f".inputs-card[data-drafter='{name}']")
        expect(card.locator(".inputs-block.is-seen").first).to_be_visible()
        expect(card.locator(".inputs-block:not(.is-seen)").first).to_be_visible()
    card = page.locator(".inputs-card[data-drafter='eagle3:lookup']")
    expect(card.locator("h4")).to_have_text("Lookup, EAGLE-3 + table")
    copied = next(one.round for one in events if isinstance(one, Drafted) and one.found_at >= 1)
    page.locator(".inputs-slider").fill(str(copied))
    expect(card.locator(".inputs-said")).to_contain_text("it copies what followed there")
    expect(card.locator(".inputs-state")).to_have_count(0)


def test_behind_a_lookup_dots_stand_only_where_the_head_read_states_and_none_under_drafts_of_the_table(
    page: Page,
) -> None:
    request = Request([1, 2, 3, 4, 5, 6], SamplingParams(16, draft_length=4, ignore_eos=True), "eagle", id="made-up")
    made = list(runs.recorded(toy_engine(), [request]))
    longest = max(len(event.token_ids) for event in made if isinstance(event, Drafted))
    assert longest > 2
    options = drafters.options_of(load("drafters", "en")) | {"veil": []}
    for name, num_guessed, said in (
        ("eagle3:lookup", 0, "A table of counted n-grams"),
        ("eagle3:chain", longest - 1, "goes on from its own state"),
    ):
        events = [dataclasses.replace(one, drafter=name) if isinstance(one, Submitted) else one for one in made]
        mounted(page, events, ["inputs"], options={"inputs": options}, lesson="drafters")
        round_shown = next(one.round for one in made if isinstance(one, Drafted) and len(one.token_ids) == longest)
        page.locator(".inputs-slider").fill(str(round_shown))
        card = page.locator(f".inputs-card[data-drafter='{name}']")
        expect(card.locator(".inputs-draft")).to_have_count(longest)
        expect(card.locator(".inputs-state.is-true")).to_have_count(3)
        expect(card.locator(".inputs-state.is-guess")).to_have_count(num_guessed)
        expect(card.locator(".inputs-said")).to_contain_text(said)


def test_of_a_long_cache_the_first_and_the_last_blocks_are_drawn(page: Page) -> None:
    request = Request([1, 2, 3] * 8, SamplingParams(8, draft_length=3, ignore_eos=True), "magicdec:8", id="magicdec:8")
    seen = {"num_blocks": 500, "sinks": (0,), "retrieved": (), "recent": (497, 498, 499)}
    events = [
        dataclasses.replace(event, **seen) if isinstance(event, Viewed) else event
        for event in runs.recorded(toy_engine(), [request])
    ]
    options = drafters.options_of(load("drafters", "en")) | {"veil": []}
    mounted(page, events, ["inputs"], options={"inputs": options}, lesson="drafters")
    blocks = page.locator(".inputs-block")
    expect(page.locator(".inputs-gap")).to_have_text("…")
    expect(page.locator(".inputs-block.is-seen")).to_have_count(4)
    drawn = blocks.evaluate_all("all => all.map((one) => one.classList.contains('is-seen'))")
    assert len(drawn) <= 40
    assert [at for at, is_seen in enumerate(drawn) if is_seen] == [0, *range(len(drawn) - 3, len(drawn))]
    expect(page.locator(".inputs-elsewhere")).to_contain_text("4 of 500 blocks")


def test_the_chinese_page_fits_a_phone(phone: Page, url: str) -> None:
    phone.goto(f"{url}/zh/", wait_until="commit")
    phone.locator(f"{ZOO} .zoo-cover button").click()
    expect(phone.locator(f"{ZOO} .zoo-scatter")).to_be_visible()
    expect(phone.locator(f"{INPUTS} .inputs-card").first).to_be_attached()
    all_drawn(phone)
    page_fits(phone)
    text = phone.locator("body").inner_text()
    assert "{{" not in text
    assert "undefined" not in text
