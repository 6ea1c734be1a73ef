"""What a reader operates on every page: the predict box, the transport bar, permalinks, downloads; and error sentences.

Knows nothing of what is predicted or shown. Lessons reach all of it through lessons/frame.py.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence

import gradio as gr
from gradio.components import Component
from gradio.context import Context

from engine import EngineError, Event
from lessons import live
from lessons.stage import Quiet, Widget
from lessons.words import Words, fill, placeholders, safe

LARGEST_LINKED = 2**53  # beyond, JavaScript's numbers are not exact
MAX_UPLOAD = 16 * 2**20  # bytes of a file that is opened
MAX_LINKED_CHARS = 1000  # a longer prompt rides in the downloaded run instead
RUN = "run"  # the name of a run in an address


# ---- errors -------------------------------------------------------------------------------------------------------


def error(t: Words, exception: Exception) -> str:
    """As `sentence`, for HTML and Markdown."""
    return _said(t, exception, safe)


def sentence(t: Words, exception: Exception) -> str:
    """What an error says in the reader's language, by its code; a general sentence where the code has no words."""
    return _said(t, exception, str)


def _said(t: Words, exception: Exception, escaped: Callable[[str], str]) -> str:
    code = getattr(exception, "code", "other")
    sentences = t.frame_group("error.")
    text = sentences.get(code, sentences["other"])
    values = {"code": code} | getattr(exception, "values", {})
    names = {name.strip("{}").split(":")[0] for name in placeholders(text)}
    known = {name: values.get(name, "?") for name in names}
    return fill(text, {name: escaped(value) if isinstance(value, str) else value for name, value in known.items()})


# ---- events -------------------------------------------------------------------------------------------------------


def heard(event: gr.EventData, name: str) -> object:
    """What a stage sent under that name; None where it sent nothing, for a browser can send anything."""
    return event._data.get(name) if isinstance(event._data, dict) else None


# ---- numbers ------------------------------------------------------------------------------------------------------


class Slider(gr.Slider, metaclass=Quiet):
    """Gradio's slider; while somebody types in its field (empty, out of range), the nearest value counts."""

    def preprocess(self, payload: float | None) -> float:
        """A number of the slider's range, whatever the field holds."""
        if not isinstance(payload, int | float) or math.isnan(payload):
            payload = self.value
        return super().preprocess(min(max(payload, self.minimum), self.maximum))

    def get_block_name(self) -> str:
        """The browser shows it with Gradio's own slider."""
        return "slider"


# ---- choices ------------------------------------------------------------------------------------------------------


class Dropdown(gr.Dropdown, metaclass=Quiet):
    """Gradio's dropdown where the choices come and go; a choice that is gone reaches the handler, which says so."""

    def preprocess(self, payload: object) -> str | None:
        """The text that the page sent, whether or not it can still be chosen; None for anything else."""
        return payload if isinstance(payload, str) else None

    def get_block_name(self) -> str:
        """The browser shows it with Gradio's own dropdown."""
        return "dropdown"


# ---- predictions --------------------------------------------------------------------------------------------------


class Predict(Widget):
    """A question that the reader commits to before the run; None until then, afterwards the answer.

    Answers are kept in the reader's browser under "LESSON.KEY". Event: commit.
    """

    def __init__(self, t: Words, key: str, options: Mapping[str, object], render: bool = True):
        words = t.group(f"{key}.") | {f"frame.{k}": v for k, v in t.frame_group("predict.").items()}
        super().__init__(
            "predict", t, words, options={**options, "key": f"{t.lesson}.{key}"}, elem_id=_id(t, key), render=render
        )


def predict(t: Words, key: str, choices: tuple[str, ...] = ("a", "b", "c")) -> Predict:
    """One of several answers. Words: KEY.question, KEY.choice.a, …, and if wanted KEY.after, shown once committed."""
    missing = [choice for choice in choices if f"{key}.choice.{choice}" not in t]
    if missing:
        raise KeyError(f"{t.lesson}.md has no words for {key}.choice.{missing[0]}")
    return Predict(t, key, {"choices": list(choices)})


def predict_number(t: Words, key: str, scale: tuple[float, float, float], unit: str = "") -> Predict:
    """A number on a scale of (smallest, largest, step). Words: KEY.question and if wanted KEY.after."""
    minimum, maximum, step = scale
    return Predict(t, key, {"minimum": minimum, "maximum": maximum, "step": step, "unit": unit})


def _id(t: Words, key: str) -> str:
    return f"{t.lesson}-{key}".replace(".", "-").replace("_", "-")


# ---- runs ---------------------------------------------------------------------------------------------------------


def transport(t: Words, run: str = "", channel: str = "", *, autoplay: bool = False) -> Widget:
    """The bar that moves through a run: play, pause, step, seek, speed, stop. Its value is the run's id.

    Event done: a run that was started after the page opened has ended, or one that the address asked for again.
    Stopping is wired here already, and so is what the address asks for.
    """
    words = t.frame_group("transport.")
    options = {"autoplay": autoplay}
    bar = Widget("transport", t, words, value=run or None, channel=channel or t.lesson, options=options)
    bar.act(_stop, outputs=None, show_progress="hidden", queue=False, api_visibility="private")
    if channel in ("", t.lesson):
        _resume(t, bar)
    return bar


def _resume(t: Words, bar: Widget) -> None:
    """After a reload or in the other language the run of before is on the page while it is kept, else the first one.

    The bar asks for it once it is on the page: Gradio breaks a widget that a load event reaches in a tab still closed.
    """
    first = bar.value.get("run") if isinstance(bar.value, dict) else bar.value

    def resumed(event: gr.EventData) -> object:
        run_id = heard(event, "run")
        if isinstance(run_id, str) and live.find(run_id):
            return run_id
        return gr.skip() if heard(event, "isLinked") else {"run": first or ""}

    bar.pick(resumed, outputs=[bar], show_progress="hidden", queue=False, api_visibility="private")


def linked_run(t: Words, query: Mapping[str, str]) -> str:
    """The run that an address names; "" where it names none, or one that is not kept."""
    run_id = query.get(RUN, "") if query.get("lesson") == t.lesson else ""
    return run_id if live.find(run_id) else ""


def _stop(event: gr.EventData) -> None:
    run_id = heard(event, "run")
    if isinstance(run_id, str):
        live.stop(run_id)


def run_of(value: object) -> str:
    """The id in a transport bar's value, "" where there is none."""
    return str((value.get("run") if isinstance(value, dict) else value) or "")


def downloads(t: Words, bar: Widget, fits: Callable[[Sequence[Event]], bool] = bool) -> None:
    """Buttons that download the run shown by a transport bar, and that open such a file again.

    fits: whether the page can show a run; one of another lesson is refused in words.
    """
    with gr.Row(elem_classes="quiet-buttons"):
        save = gr.Button(t.frame("downloads.save"), size="sm")
        opener = gr.UploadButton(t.frame("downloads.open"), size="sm", type="filepath")  # of any type: we refuse
    _limit_uploads(t)
    save.click(None, inputs=[bar], js="(run) => { window.inferencePage.download(run); return []; }")

    def open_run(path: str | None) -> object:
        try:
            return live.open_file(path, fits) if path else gr.skip()
        except EngineError as problem:
            gr.Warning(error(t, problem), title=t.frame("error.title"))
            return gr.skip()

    opener.upload(open_run, inputs=[opener], outputs=[bar], show_progress="hidden", api_visibility="private")


_UPLOADS = "(await import(new URL(window.inferencePage.site + 'uploads.js', document.baseURI).href))"


def _limit_uploads(t: Words) -> None:
    """The browser refuses too large a file unsent: Gradio would refuse it as well, but in English on every page."""
    largest = EngineError("too_large", "the file is too large", megabytes=MAX_UPLOAD // 2**20)
    script = f"async () => {{ {_UPLOADS}.limitUploads({MAX_UPLOAD}, {json.dumps(sentence(t, largest))}); return []; }}"
    Context.root_block.load(None, js=script, show_progress="hidden", api_visibility="private")


# ---- permalinks ---------------------------------------------------------------------------------------------------


def permalink(t: Words, components: Mapping[str, Component]) -> None:
    """A button that copies a link to these settings; opening the link sets them again.

    Only settings that differ from their first value ride in the link, texts up to 1,000 characters. The page's own
    address follows the settings, so that a reload and the other language have them too, there texts of any length.
    """
    names = list(components)
    spec = {"lesson": t.lesson, "names": names, "defaults": [c.value for c in components.values()],
            "longest": MAX_LINKED_CHARS, "copied": t.frame("permalink.copied"), "long": t.frame("permalink.long"),
            "manual": t.frame("permalink.manual")}  # fmt: skip
    with gr.Row(elem_classes="quiet-buttons"):
        button = gr.Button(t.frame("permalink.copy"), size="sm")
    script = f"(...values) => {{ window.inferencePage.copyLink({json.dumps(spec)}, values); return []; }}"
    button.click(None, inputs=list(components.values()), js=script)
    _follow(spec, components)

    def restore(request: gr.Request) -> object:
        query = dict(request.query_params)
        wanted = query.get("lesson") == t.lesson
        values = [linked_value(c, query.get(name)) if wanted else gr.skip() for name, c in components.items()]
        return values if len(values) > 1 else values[0]  # Gradio takes a list for one component as its value

    Context.root_block.load(
        restore, outputs=list(components.values()), show_progress="hidden", queue=False, api_visibility="private"
    )


_ADDRESS = "(await import(new URL(window.inferencePage.site + 'address.js', document.baseURI).href))"


def _follow(spec: Mapping[str, object], components: Mapping[str, Component]) -> None:
    """The address follows the settings; texts too long for it come back from where the tab keeps them."""
    every, said = list(components.values()), json.dumps(spec)
    keep = f"async (...values) => {{ {_ADDRESS}.keepSettings({said}, values); return []; }}"
    gr.on([c.change for c in every], None, inputs=every, js=keep, show_progress="hidden", api_visibility="private")
    texts = {name: component for name, component in components.items() if isinstance(component, gr.Textbox)}
    if texts:
        fetch = f"async (...values) => {_ADDRESS}.keptTexts({said}, {json.dumps(list(texts))}, values)"
        boxes = list(texts.values())
        Context.root_block.load(
            None, inputs=boxes, outputs=boxes, js=fetch, show_progress="hidden", api_visibility="private"
        )


def linked_value(component: Component, text: str | None) -> object:
    """The value that a link's text gives a component; gr.skip() where it gives none that the component could have."""
    try:
        value = None if text is None else _parse(component, text)
    except ValueError:
        value = None
    return gr.skip() if value is None else value


def _parse(component: Component, text: str) -> object:
    if isinstance(component, gr.Slider | gr.Number):
        number = float(text)
        smallest = -math.inf if component.minimum is None else component.minimum
        largest = math.inf if component.maximum is None else component.maximum
        is_whole = number.is_integer() or component.step != 1
        if not (abs(number) <= LARGEST_LINKED and smallest <= number <= largest and is_whole):
            return None
        return int(number) if number.is_integer() else number
    if isinstance(component, gr.Checkbox):
        return {"true": True, "false": False}.get(text)
    if isinstance(component, gr.Dropdown | gr.Radio):
        return next((value for _, value in component.choices if str(value) == text), None)
    return text[:MAX_LINKED_CHARS]
