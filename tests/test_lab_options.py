"""What the command line adds to the lab: drafters to choose from, and the one that its controls begin with."""

from collections.abc import Iterator

import gradio as gr
import pytest

import app
from engine import EngineError
from lessons import live
from lessons.live_lab_controls import DRAFTERS, linked, place, settings_in
from lessons.live_lab_prompts import FIRST
from lessons.page import blocks, pages
from lessons.words import LANGUAGES, load

OWN = {"draft_model": "--draft-model", "published": "--published-head"}
Controls = dict[str, gr.components.Component]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    live.settle({})


def started(*arguments: str) -> None:
    live.settle(app.engine_settings(app.options(["--model", "none", *arguments], {})))


def controls(*arguments: str, language: str = "en") -> Controls:
    started(*arguments)
    with gr.Blocks():
        return linked(place(load("live_lab", language)))


def names(dropdown: gr.components.Component) -> list[str]:
    return [value for _, value in dropdown.choices]


def test_without_options_the_lab_offers_what_is_shipped_and_begins_with_its_recorded_run() -> None:
    drafter = controls()["drafter"]
    assert names(drafter) == list(DRAFTERS)
    assert drafter.value == FIRST.drafter


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("name", "option"), OWN.items())
def test_a_drafter_that_needs_the_reader_s_files_is_offered_in_words_where_the_app_has_them(
    name: str, option: str, language: str
) -> None:
    drafter = controls(option, "/some/folder", language=language)["drafter"]
    assert names(drafter) == [*DRAFTERS, name]
    label = {value: label for label, value in drafter.choices}[name]
    assert label != name
    assert option in label
    assert "/some/folder" not in label
    assert f"stage.drafter.{name}" in load("live_lab", language)


@pytest.mark.parametrize(("name", "option"), OWN.items())
def test_a_link_or_a_request_names_it_only_where_it_is_offered(name: str, option: str) -> None:
    given, bare = controls(option, "/some/folder"), controls()
    query = {"drafter": name}
    assert settings_in(query, list(given.values())).drafter == name
    assert settings_in(query, list(bare.values())).drafter == FIRST.drafter
    assert given["drafter"].preprocess(name) == name
    for typed in (name, "/some/folder"):
        with pytest.raises(gr.Error):
            bare["drafter"].preprocess(typed)
    with pytest.raises(gr.Error):
        given["drafter"].preprocess("/some/folder")


@pytest.mark.parametrize("name", ["eagle3:lookup", "ngram"])
def test_the_controls_begin_with_the_drafter_of_the_command_line_and_a_link_overrides_it(name: str) -> None:
    found = controls("--drafter", name)
    assert found["drafter"].value == name
    assert settings_in({"k": "7"}, list(found.values())).drafter == name
    assert settings_in({"drafter": "suffix"}, list(found.values())).drafter == "suffix"


@pytest.mark.parametrize("name", ["none", "draft_model", "published", "lookahead:5,4,3"])
def test_a_drafter_that_is_not_offered_is_not_preselected(name: str) -> None:
    assert controls("--drafter", name)["drafter"].value == FIRST.drafter


def test_a_drafter_of_the_reader_s_own_can_be_preselected() -> None:
    assert controls("--drafter", "published", "--published-head", "/some/head")["drafter"].value == "published"


def test_a_mistake_leaves_what_was_settled() -> None:
    started("--drafter", "ngram")
    with pytest.raises(EngineError):
        started("--drafter", "magic")
    assert live.drafting().drafter == "ngram"


def test_the_built_page_has_them_with_the_options_and_not_without() -> None:
    lab = next(page for page in pages() if "live_lab" in page.lessons)

    def built() -> gr.Dropdown:
        label = load("live_lab", lab.language)("control.drafter")
        items = blocks(lab).blocks.values()
        return next(item for item in items if isinstance(item, gr.Dropdown) and item.label == label)

    assert not set(OWN) & set(names(built()))
    started("--draft-model", "/some/model", "--published-head", "/some/head", "--drafter", "draft_model")
    assert set(OWN) <= set(names(built()))
    assert built().value == "draft_model"
