"""Stages: what moves on a page. A gr.HTML whose drawing is one ES module in assets/stages/.

Knows nothing of what is drawn: it hands the module its words and options, and the id of the run to follow. The events
themselves reach the browser over the page's own stream (assets/player.js), never through here.
"""

from abc import ABCMeta
from collections.abc import Mapping
from pathlib import Path

import gradio as gr
from gradio.component_meta import ComponentMeta, updateable

from lessons.words import Words

STAGE_FOLDER = Path(__file__).parent.parent / "assets" / "stages"

# Gradio finds the events of a gr.HTML by the quoted names in this script.
_SCRIPT = """
/* events: 'pick', 'act', 'done', 'commit' */
import(new URL(window.inferencePage.site + 'stage.js', document.baseURI).href)
  .then(({start}) => start(element, props, trigger, watch));
"""


class Quiet(ComponentMeta):
    """Gradio writes a .pyi file beside the module of every new component class; a repository is no place for those."""

    def __new__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, object]):
        if "__init__" in attrs:
            attrs["__init__"] = updateable(attrs["__init__"])
        return ABCMeta.__new__(cls, name, bases, attrs)


class Widget(gr.HTML, metaclass=Quiet):
    """One module of assets/stages/ in a page; its DOM is the module's own, Gradio never redraws it.

    Events for Python, as far as the module triggers them: pick, act, done, commit. Gradio makes the component anew
    (with render=False) whenever an event leaves it as it is. Raises FileNotFoundError where there is no such module.
    """

    def __init__(
        self,
        name: str,
        t: Words,
        words: Mapping[str, str],
        *,
        value: object = None,
        channel: str = "",
        options: Mapping[str, object] | None = None,
        elem_id: str | None = None,
        elem_classes: str | list[str] | None = None,
        min_height: int | None = None,
        visible: bool = True,
        render: bool = True,
    ):
        module = STAGE_FOLDER / f"{name}.js"
        if not module.is_file():
            raise FileNotFoundError(f"there is no stage {name!r}: {module} is missing")
        super().__init__(
            value=value,
            opening=value,  # stays when the value changes
            html_template=f"<div class='stage stage-{name}'></div>",
            js_on_load=_SCRIPT,
            apply_default_css=False,
            elem_id=elem_id,
            elem_classes=elem_classes,
            min_height=min_height,
            visible=visible,
            render=render,
            stage=name,
            has_style=module.with_suffix(".css").is_file(),
            channel=channel,
            lesson=t.lesson,
            words=dict(words),
            options=dict(options or {}),
        )

    def api_info(self) -> dict[str, object]:
        """Any JSON: the shape of the value is the module's affair."""
        return {}

    def get_block_name(self) -> str:
        """The browser shows every widget with Gradio's own HTML component."""
        return "html"


class Stage(Widget):
    """A widget that follows a run: the one that its channel's player shows.

    name: the module assets/stages/NAME.js. run: the id of the run shown at first. channel: all stages of one channel
    share run and cursor; "" is the lesson's own. words: the prefix of the words that go to the module. The value is a
    run id, or {"run": id, "options": {…}}.
    """

    def __init__(
        self,
        name: str,
        t: Words,
        run: str = "",
        *,
        channel: str = "",
        words: str = "stage.",
        options: Mapping[str, object] | None = None,
        elem_id: str | None = None,
        elem_classes: str | list[str] | None = None,
        min_height: int | None = None,
        visible: bool = True,
        render: bool = True,
    ):
        super().__init__(
            name,
            t,
            t.group(words),
            value=run or None,
            channel=channel or t.lesson,
            options=options,
            elem_id=elem_id,
            elem_classes=elem_classes,
            min_height=min_height,
            visible=visible,
            render=render,
        )
