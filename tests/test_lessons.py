"""Every lesson's page: it is built in both languages and stays small, since a browser draws each component."""

from importlib import import_module

import gradio as gr
import pytest

from lessons import live
from lessons.page import blocks, pages
from lessons.runs import TRACE_FOLDER
from lessons.words import LANGUAGES, load

MOST = {  # Gradio's own forms included
    "acceptance": 74, "drafters": 50, "jacobi": 45, "live_lab": 64, "long_context": 49, "paging": 83, "trees": 39,
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", MOST)
def test_the_page_is_built_in_both_languages_and_stays_small(name, language):
    with gr.Blocks() as page:
        import_module(f"lessons.{name}").build(load(name, language))
    layout = (gr.Row, gr.Column, gr.Accordion, gr.Group, gr.Blocks)
    assert sum(not isinstance(block, layout) for block in page.blocks.values()) <= MOST[name]


@pytest.mark.parametrize("page", [page for page in pages() if page.language == "en"], ids=lambda page: page.chapter)
def test_no_chapter_has_more_components_than_gradio_draws_in_good_time(page):
    """PLATFORM.md advises 150 or so; layout counts. A chapter that nears the limit becomes two."""
    assert len(blocks(page).blocks) <= 200


@pytest.mark.parametrize("name", ["acceptance", "drafters", "jacobi", "long_context", "trees"])
def test_of_all_recorded_runs_a_lesson_opens_its_own_and_no_other(name):
    homes = {"trees": "lessons.trees_run", "acceptance": "lessons.acceptance_model"}
    module = import_module(homes.get(name, f"lessons.{name}_runs"))
    recorded = [path.name.removesuffix(".jsonl.gz") for path in TRACE_FOLDER.glob("*.jsonl.gz")]
    opened = {one for one in recorded if module.is_ours(live.events(live.replay(one)))}
    assert opened == {one for one in recorded if one.partition(".")[0] == name}
