"""The footer in a real browser: the reader's answers are saved as a file and come back from it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from sample_app import sample_book, served
from waits import page_fits

from lessons import live
from lessons.words import FRAME, load

pytestmark = pytest.mark.browser
ANSWER = "Between 1 and 5"
STATE = "localStorage.getItem('inference-reader')"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the sample book, without a model."""
    live.start_with(None)
    with sample_book(tmp_path_factory.mktemp("traces")) as application, served(application) as address:
        yield address


def answered(page: Page, address: str) -> Locator:
    """A page on which a question has been answered, and the box of that question."""
    page.goto(address, wait_until="commit")
    box = page.locator(".predict-box:visible").first
    box.get_by_label(ANSWER).check()
    box.locator(".predict-commit").click()
    expect(box.locator(".predict-yours")).to_contain_text(ANSWER)
    return box


def test_answers_are_saved_and_loaded_again_with_the_keyboard(page: Page, url: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    page.on("filechooser", lambda chooser: chooser.set_files(path))  # long before it is needed: see it, or it is lost
    box = answered(page, url)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save my answers").press("Enter")
    assert download.value.suggested_filename == "inference-answers.json"
    download.value.save_as(path)
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(box.locator(".predict-commit")).to_be_disabled()
    page.get_by_role("button", name="Save my answers").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Load my answers")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_have_text("Your answers are loaded.")
    expect(box.locator(".predict-yours")).to_contain_text(ANSWER)
    page.reload()
    expect(box.locator(".predict-yours")).to_contain_text(ANSWER)
    expect(page.locator("#toast")).to_have_text("")


BROKEN = {
    "junk": b"junk", "bytes": b"\xff\xfe\x00", "empty": b"", "list": b"[]", "number": b"5", "null": b"null",
    "another": b'{"name": "package", "version": "1"}', "list inside": b'{"inference-reader": []}',
    "odd predictions": b'{"inference-reader": {"predictions": [1]}}',
    "no predictions": b'{"inference-reader":{"predictions":null}}',
    "too large": b" " * 2**20 + b'{"inference-reader": {}}',
}  # fmt: skip


@pytest.mark.parametrize(("path", "language"), [("/", "en"), ("/zh/", "zh")])
def test_a_file_without_answers_gets_a_sentence_and_changes_nothing(
    page: Page, url: str, tmp_path: Path, path: str, language: str
) -> None:
    file = tmp_path / "answers.json"
    page.on("filechooser", lambda chooser: chooser.set_files(file))
    answered(page, url + path)
    before, toast = page.evaluate(STATE), page.locator("#toast")
    for name, data in BROKEN.items():
        file.write_bytes(data)
        toast.evaluate("node => { node.textContent = ''; }")
        page.locator("#answers-load").click()
        expect(toast, name).to_have_text(load(FRAME, language)("footer.answers.broken"))
        assert page.evaluate(STATE) == before
    assert json.loads(before)["predictions"]


@pytest.mark.parametrize(
    "kept", ['{"predictions":null}', '{"predictions":[1]}', '{"predictions":5}', "null", "[]", "5"]
)
def test_what_another_program_left_under_the_key_does_no_harm(page: Page, url: str, kept: str) -> None:
    page.add_init_script(
        f"localStorage.getItem('inference-reader') ?? localStorage.setItem('inference-reader', '{kept}')"
    )
    answered(page, url)
    assert list(json.loads(page.evaluate(STATE))["predictions"].values()) == ["b"]


@pytest.mark.parametrize("path", ["/", "/zh/memory/"])
def test_the_footer_stands_below_the_lessons_and_fits_a_phone(phone: Page, url: str, path: str) -> None:
    phone.goto(url + path, wait_until="commit")
    expect(phone.locator(".transport-bar:visible")).to_be_visible()
    distance = """() => document.querySelector(".site-footer").getBoundingClientRect().top
        - document.querySelector("gradio-app").getBoundingClientRect().bottom"""
    assert phone.evaluate(distance) >= 0
    buttons = phone.locator(".site-footer button")
    expect(buttons).to_have_count(2)
    for button in buttons.all():
        assert button.bounding_box()["height"] >= 40
    page_fits(phone)
