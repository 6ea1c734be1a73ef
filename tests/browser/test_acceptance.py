"""The acceptance lesson in a real browser: the picture adds up, laws can be moved, wrong rules are caught."""

import re
from collections.abc import Iterator
from unittest import mock

import pytest
from page_watch import Watch
from playwright.sync_api import Browser, Locator, Page, expect
from sample_app import served, wait_for
from shared_pages import SharedPages
from toys import toy_engine
from waits import all_drawn, at_rest, page_fits, toasts_gone, uncut

import app
from engine import Inspected, Verified
from lessons import live
from lessons import page as pages
from lessons.derivations import DERIVATIONS
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
P_FIELD = "p, the target's distribution"
Q_FIELD = "q, the draft's distribution"
FIRST_P = "0.5, 0.3, 0.2"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book with this lesson alone, without a model."""
    live.start_with(None)
    with mock.patch.object(pages, "CHAPTERS", (("speculation", ("acceptance",)),)):
        application = app.build("")
        with served(application) as address:
            yield address


@pytest.fixture
def lesson(page: Page, url: str) -> Page:
    """The lesson, ready to be used."""
    return opened(page, url)


@pytest.fixture
def shown(shared: SharedPages, url: str) -> Page:
    """The lesson, opened once for all tests that leave it as they found it."""
    return shared.page(url, opened)


def opened(page: Page, address: str) -> Page:
    page.goto(address, wait_until="commit")
    expect(page.locator(".rules-card")).to_have_count(11)
    expect(page.locator(".picker-text button").first).to_be_attached()
    all_drawn(page)
    at_rest(page, "acceptance")
    return page


def card(page: Page, rule: str) -> Locator:
    return page.locator(f".rules-card[data-rule={rule}]")


def alert(page: Page) -> Locator:
    """What is wrong with the laws; what is wrong with a run is said elsewhere."""
    return page.get_by_role("alert").and_(page.locator(":not(#acceptance-taken *)"))


def type_first_law(page: Page) -> None:
    """Put p back to what the lesson opens with."""
    page.get_by_label(P_FIELD).fill(FIRST_P)
    expect(alert(page)).to_have_count(0)
    expect(page.get_by_label("Example")).to_have_value("Three tokens")


def run_without_a_model(page: Page, prompt: str) -> None:
    """Press Run with a prompt that nothing is wrong with, and wait for the sentence; its toast goes."""
    page.get_by_label("Prompt").fill(prompt)
    page.locator("#acceptance-run").click()
    expect(page.locator("#acceptance-taken [role=alert]")).to_contain_text("without a model")
    toasts_gone(page)


def choose_example(page: Page, name: str, first_entry: str) -> None:
    page.get_by_label("Example").click()
    page.get_by_role("option", name=name).click()
    expect(page.get_by_label(P_FIELD)).to_have_value(re.compile(f"^{re.escape(first_entry)}"))


# ---- the picture --------------------------------------------------------------------------------------------------


def test_question_prediction_and_picture_share_the_first_screen(shown: Page) -> None:
    expect(shown.locator("#acceptance-predict-alpha .predict-question")).to_be_in_viewport()
    expect(shown.locator(".laws-board")).to_be_in_viewport(ratio=0.9)
    assert shown.evaluate("scrollY") == 0


def test_the_picture_does_not_give_the_answer_away_before_the_reader_commits(lesson: Page) -> None:
    expect(lesson.locator(".laws-sentence")).not_to_contain_text(".70")
    expect(lesson.locator(".laws-sum")).to_be_hidden()
    box = lesson.locator("#acceptance-predict-alpha")
    box.get_by_role("slider").fill("0.42")
    box.get_by_role("button").first.click()
    expect(lesson.locator(".laws-sum")).to_be_visible()
    expect(lesson.locator(".laws-sentence")).to_contain_text("Accepted .70 + resampled .30 = p")
    lesson.reload()
    expect(lesson.locator(".laws-sentence")).to_contain_text("Accepted .70 + resampled .30 = p")


def test_accepted_and_resampled_fill_every_column_up_to_p_and_no_further(shown: Page) -> None:
    script = """columns => columns.map(column => {
        const style = name => column.querySelector(name).style;
        const filled = parseFloat(style('.laws-kept').height) + parseFloat(style('.laws-missing').height);
        return filled - parseFloat(style('.laws-handle-p').bottom);
    })"""
    expect(shown.locator(".laws-column")).to_have_count(3)
    assert shown.locator(".laws-column").evaluate_all(script) == pytest.approx([0, 0, 0], abs=1e-6)
    shown.get_by_role("button", name="Show the sum").click()
    expect(shown.locator(".laws-sentence")).to_contain_text("Accepted .70 + resampled .30 = p")


def test_a_knob_moves_with_the_keyboard_the_others_make_room_and_it_keeps_the_focus(lesson: Page) -> None:
    knob = lesson.get_by_role("slider", name="p of A")
    knob.focus()
    for alpha in (0.69, 0.68, 0.67, 0.66, 0.65):  # the server answers whoever pauses, and its answer moves the knob too
        lesson.keyboard.press("ArrowUp")
        expect(card(lesson, "exact")).to_contain_text(f"{alpha:.3f} ·")
    expect(lesson.get_by_label(P_FIELD)).to_have_value("0.55, 0.27, 0.18")
    expect(knob).to_be_focused()
    expect(knob).to_have_attribute("aria-valuenow", "0.550")


def test_a_knob_follows_the_mouse(lesson: Page) -> None:
    knob = lesson.get_by_role("slider", name="q of C")
    knob.hover(position={"x": 30, "y": 12})
    lesson.mouse.down()
    expect(knob).to_be_focused()
    box = knob.bounding_box()
    lesson.mouse.move(box["x"] + 30, box["y"] + 90, steps=5)
    lesson.mouse.up()
    expect(lesson.get_by_label(Q_FIELD)).not_to_have_value("0.2, 0.3, 0.5")
    law = [float(entry) for entry in lesson.get_by_label(Q_FIELD).input_value().split(",")]
    assert sum(law) == pytest.approx(1, abs=2e-3)
    assert law[2] < 0.4


def test_where_draft_and_target_agree_nothing_is_resampled(lesson: Page) -> None:
    choose_example(lesson, "Draft = target", "0.4")
    expect(lesson.locator(".laws-sentence")).to_contain_text("every draft is accepted")
    expect(lesson.get_by_role("button", name="Move the rejected mass")).to_be_disabled()


def test_temperature_and_top_p_apply_to_both_laws_and_lock_the_knobs(lesson: Page) -> None:
    lesson.get_by_label("number input for Temperature, on both").fill("0")
    lesson.keyboard.press("Tab")
    expect(lesson.locator(".laws-sentence")).to_contain_text("Accepted 0 + resampled 1 = p")
    expect(lesson.get_by_role("slider", name="p of A")).to_have_attribute("aria-disabled", "true")


COUNT_PIECES = """board => {
    window.flown = 0;
    new MutationObserver(changes => {
        const added = changes.flatMap(change => [...change.addedNodes]);
        window.flown += added.filter(node => node.matches('.laws-piece')).length;
    }).observe(board, { childList: true });
}"""


def test_the_rejected_mass_flies_and_lands(shown: Page) -> None:
    shown.locator(".laws-board").evaluate(COUNT_PIECES)  # it is there for two seconds only
    shown.get_by_role("button", name="Move the rejected mass").click()
    shown.wait_for_function("flown === 1")
    expect(shown.locator(".laws-piece")).to_have_count(0)
    assert shown.evaluate("flown") == 1


def test_without_motion_there_is_nothing_to_fly(browser: Browser, watch: Watch, url: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    still = opened(watch.follow(context.new_page()), url)
    expect(still.get_by_role("button", name="Move the rejected mass")).to_have_count(0)
    context.close()


# ---- what is typed ------------------------------------------------------------------------------------------------


REFUSED = {
    "0.5, -0.3": "cannot be negative",
    "<img src=x>, 1, 1": "“<img”, which is no number",
    "5 3": "both must name the same tokens",
    "0 0 0": "All entries of p are 0",
    "": "there must be 2 to 8",
}


def test_bad_input_gets_a_sentence_and_the_picture_stays(shown: Page) -> None:
    for text, sentence in REFUSED.items():
        shown.get_by_label(P_FIELD).fill(text)
        expect(alert(shown), f"p = {text!r}").to_contain_text(sentence)
        expect(shown.locator(".laws-column"), f"p = {text!r}").to_have_count(3)
        shown.get_by_label(P_FIELD).fill("50% 30% 20%")
        expect(alert(shown), f"after p = {text!r}").to_have_count(0)
    type_first_law(shown)


def test_what_is_wrong_stands_directly_below_its_field_and_the_field_is_marked(shown: Page) -> None:
    p_field, q_field = shown.get_by_label(P_FIELD), shown.get_by_label(Q_FIELD)
    gap = "(node, field) => node.getBoundingClientRect().top - field.getBoundingClientRect().bottom"
    plain = q_field.evaluate("node => getComputedStyle(node).borderColor")  # p may have the focus from a test before
    for field, other, text in ((p_field, q_field, "x 1 1"), (q_field, p_field, "-1 1 1")):
        before = field.input_value()
        field.fill(text)
        wrong = alert(shown)
        expect(wrong).to_be_visible()
        shown.locator("h1").first.click()  # the field loses the focus, which has a colour of its own
        assert 0 <= wrong.evaluate(gap, field.element_handle()) <= 40
        expect(field).not_to_have_css("border-color", plain)
        expect(other).to_have_css("border-color", plain)
        field.fill(before)
        expect(wrong).to_have_count(0)
        shown.locator("h1").first.click()
        expect(field).to_have_css("border-color", plain)


def test_the_example_is_called_your_own_once_it_was_changed(shown: Page) -> None:
    shown.get_by_label(P_FIELD).fill("6 3 1")
    expect(shown.get_by_label("Example")).to_have_value("Your own")
    type_first_law(shown)


def test_a_link_opens_the_lesson_with_its_laws(page: Page, url: str) -> None:
    opened(page, f"{url}/?lesson=acceptance&p=1%2F4+3%2F4&q=0.5+0.5")
    expect(page.locator(".laws-column")).to_have_count(2)
    expect(card(page, "exact")).to_contain_text("0.750 ·")


# ---- rules --------------------------------------------------------------------------------------------------------


def test_exact_rules_pass_and_the_four_wrong_ones_are_caught(shown: Page) -> None:
    for rule in ("exact", "point_mass", "sampler_match", "multi_draft", "multi_draft_distinct", "top_drafts"):
        expect(card(shown, rule).locator(".rules-verdict")).to_have_text("✓ is p")
    for rule in ("resample_from_p", "absolute_residual", "inverted_ratio", "soft_q_greedy_draft", "typical"):
        expect(card(shown, rule).locator(".rules-verdict")).to_have_text("✗ not p")


def test_few_draws_do_not_show_a_wrong_rule(lesson: Page) -> None:
    choose_example(lesson, "Eight tokens", "0.3")
    expect(card(lesson, "exact")).to_contain_text("0.750 ·")
    lesson.get_by_label("100", exact=True).check()
    expect(card(lesson, "resample_from_p").locator(".rules-verdict")).to_have_text("? not seen yet")
    lesson.get_by_label("100,000", exact=True).check()
    expect(card(lesson, "resample_from_p").locator(".rules-verdict")).to_have_text("✗ not p")


def test_a_card_is_chosen_with_the_keyboard_and_shows_its_tokens(lesson: Page) -> None:
    card(lesson, "inverted_ratio").focus()
    lesson.keyboard.press("Enter")
    expect(card(lesson, "inverted_ratio")).to_have_attribute("aria-pressed", "true")
    explained = lesson.get_by_text("Accepts with min(1, q(x)/p(x))")
    expect(explained).to_be_visible()
    facts = card(lesson, "inverted_ratio").locator("dd").first
    before = facts.inner_text()
    lesson.get_by_role("button", name="Draw again").click()
    expect(facts).not_to_have_text(before)
    expect(explained).to_be_visible()
    expect(card(lesson, "inverted_ratio")).to_have_attribute("aria-pressed", "true")


def test_drawing_again_gives_other_draws_of_the_same_law(lesson: Page) -> None:
    facts = card(lesson, "exact").locator("dd").first
    before = facts.inner_text()
    lesson.get_by_role("button", name="Draw again").click()
    expect(facts).not_to_have_text(before)
    expect(card(lesson, "exact")).to_contain_text("0.700 ·")


def test_the_readers_number_comes_back_beside_the_draws(lesson: Page) -> None:
    box = lesson.locator("#acceptance-predict-alpha")
    box.get_by_role("slider").fill("0.42")
    box.get_by_role("button").first.click()
    expect(lesson.get_by_text("you said 0.42")).to_be_visible()


def test_every_line_is_checked_on_demand(shown: Page) -> None:
    shown.get_by_role("button", name="Check every line now").click()
    table = shown.locator("table.figures").filter(has_text="equalities proved")
    expect(table.locator("tbody tr")).to_have_count(25)
    expect(table).not_to_contain_text("✗")


# ---- the model ----------------------------------------------------------------------------------------------------


def test_any_drafted_token_of_a_run_lends_its_laws(lesson: Page) -> None:
    token = lesson.locator(".picker-text button").first
    token.click()
    expect(token).to_have_attribute("aria-pressed", "true")
    expect(lesson.get_by_text("entries of p and q")).to_be_attached()
    expect(lesson.locator(".laws-column")).to_have_count(8)
    expect(lesson.locator(".laws-name").last).to_have_text("others")
    expect(lesson.get_by_label("Example")).to_have_value("From the model")
    expect(lesson.locator(".laws-board")).to_be_in_viewport()
    choose_example(lesson, "Four tokens, order reversed", "0.4")
    expect(lesson.locator(".laws-column")).to_have_count(4)


def test_the_fields_show_all_eight_entries_of_the_models_laws(lesson: Page) -> None:
    lesson.locator(".picker-text button").first.click()
    expect(lesson.locator(".laws-column")).to_have_count(8)
    for label in (P_FIELD, Q_FIELD):
        expect(lesson.get_by_label(label)).to_have_value(re.compile("^([^,]+, ){7}[^,]+$"))
        cut = lesson.get_by_label(label).evaluate("node => node.scrollWidth - node.clientWidth")
        assert cut <= 0


def test_tokens_of_the_run_look_as_in_the_lab_and_refused_drafts_are_there(shown: Page) -> None:
    resampled = shown.locator(".picker-text .token.fate-resampled").first
    expect(resampled).to_have_css("border-style", "dashed")
    refused = shown.locator(".picker-text .token.fate-rejected.is-rejected").first
    expect(refused).to_have_css("text-decoration-line", "line-through")
    after = refused.locator("xpath=following-sibling::*[1]")
    expect(after).to_have_class(re.compile("fate-resampled|is-unreached"))
    legend = shown.locator("ul.legend .token")
    expect(legend).to_have_text(["target", "accepted", "resampled", "bonus", "rejected"])


def test_an_empty_prompt_is_refused_with_the_lab_s_sentence_here_and_as_a_toast(shown: Page) -> None:
    sentence, prompt = load(FRAME, "en")("error.empty_prompt"), shown.get_by_label("Prompt").input_value()
    for empty in ("", "   "):
        run_without_a_model(shown, prompt)  # another refusal, so that the next one is seen to be new
        shown.get_by_label("Prompt").fill(empty)
        shown.locator("#acceptance-run").click()
        expect(shown.locator(".toast-body"), repr(empty)).to_contain_text(sentence)  # first: it goes by itself
        expect(shown.locator("#acceptance-taken [role=alert]"), repr(empty)).to_have_text(sentence)
        expect(shown.locator(".picker-text button").first).to_be_attached()
        toasts_gone(shown)
    shown.get_by_label("Prompt").fill(prompt)


def test_a_law_that_is_too_long_is_refused_in_words_and_none_of_it_is_cut(shown: Page) -> None:
    field = shown.get_by_label(P_FIELD)
    field.press("ControlOrMeta+a")
    shown.keyboard.insert_text("1, " * 30_000)  # as a paste, it heeds a limit of the field
    expect(alert(shown)).to_contain_text("characters long; 300 are allowed")
    assert len(field.input_value()) > 80_000
    type_first_law(shown)


def test_without_a_model_running_says_why_not_and_the_recorded_run_stays(shown: Page) -> None:
    run_without_a_model(shown, shown.get_by_label("Prompt").input_value())
    expect(shown.locator(".picker-text button").first).to_be_visible()


@pytest.fixture
def toy() -> Iterator[None]:
    """A real engine on a toy model of eight letters, which tells its laws."""
    live.start_with(lambda progress: toy_engine(watch=frozenset({"distributions"})))
    wait_for(lambda: live.status().state == "ready")
    yield
    live.start_with(None)


def test_a_live_run_replaces_the_recorded_one_and_its_drafted_tokens_lend_their_laws(lesson: Page, toy: None) -> None:
    lesson.get_by_label("Prompt").fill("ABCABD")
    lesson.locator("#acceptance-run").click()
    expect(lesson.locator(".transport-state")).to_have_text("Ran just now on this machine")
    at_rest(lesson, "acceptance")
    events = live.events(lesson.evaluate("window.inferencePage.playerFor('acceptance').runId"))
    accepted = [event for event in events if isinstance(event, Verified) and event.num_accepted]
    tokens = lesson.locator(".picker-text button.fate-accepted")
    expect(tokens).to_have_count(sum(event.num_accepted for event in accepted))
    tokens.last.click()
    expect(tokens.last).to_have_attribute("aria-pressed", "true")
    place = accepted[-1].round, accepted[-1].num_accepted - 1
    law = next(event for event in events if isinstance(event, Inspected) and (event.round, event.position) == place)
    expect(lesson.locator("#acceptance-taken")).to_contain_text(f"Taken: {len(law.p)} entries of p and q")
    expect(lesson.get_by_label("Example")).to_have_value("From the model")
    expect(lesson.locator(".laws-column")).to_have_count(len(law.p))
    for label, taken in ((P_FIELD, law.p), (Q_FIELD, law.q)):
        shown = sorted(float(entry) for entry in lesson.get_by_label(label).input_value().split(", "))
        assert shown == pytest.approx(sorted(taken), abs=1e-3)
    alpha = sum(map(min, law.p, law.q))
    expect(card(lesson, "exact")).to_contain_text(f"{alpha:.3f} ·")


# ---- language and phone -------------------------------------------------------------------------------------------


def test_the_chinese_page_speaks_chinese(page: Page, url: str) -> None:
    opened(page, f"{url}/zh/")
    page.get_by_role("button", name="显示总和").click()
    expect(page.locator(".laws-sentence")).to_contain_text("接受 .70 + 重采 .30 = p")
    expect(card(page, "resample_from_p").locator(".rules-verdict")).to_have_text("✗ 不是 p")


def test_it_fits_a_phone_with_eight_tokens(phone: Page, url: str) -> None:
    opened(phone, f"{url}/?lesson=acceptance&p=1+1+1+1+1+1+1+1&q=8+7+6+5+4+3+2+1")
    expect(phone.locator(".laws-column")).to_have_count(8)
    page_fits(phone)
    uncut(phone, ".laws-numbers")


@pytest.mark.parametrize("path", ["", "/zh"])
def test_no_table_and_no_formula_is_cut_on_a_phone(phone: Page, url: str, path: str) -> None:
    opened(phone, f"{url}{path}/")
    expect(phone.locator(".answer-wrong button.label-wrap")).to_be_visible()  # the last of the page
    for fold in phone.locator("button.label-wrap").all():
        fold.click()
    expect(phone.locator(".katex-display")).to_have_count(sum(map(len, DERIVATIONS.values())))
    uncut(phone, ".katex-display")
    uncut(phone, "table.figures")
