"""Every lesson's page: it is built in both languages and stays small, since a browser draws each component."""

from importlib import import_module

import gradio as gr
import pytest

from lessons.page import blocks, pages
from lessons.words import LANGUAGES, load

MOST = {"acceptance": 75, "drafters": 44, "jacobi": 43, "long_context": 50, "trees": 44}  # Gradio's own forms included


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
