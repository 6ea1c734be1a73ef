"""The frame that all lessons share: headings, prose, badges, tables, derivations, source views, interview cards.

Knows nothing of what a lesson teaches. Helpers that return `str` give safe HTML; the others place components where
they are called. What the reader can operate is in lessons/controls.py, and can be had from here too.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import ModuleType

import gradio as gr

from lessons.controls import (
    Dropdown,
    Predict,
    Slider,
    downloads,
    error,
    heard,
    permalink,
    predict,
    predict_number,
    run_of,
    sentence,
    transport,
)  # fmt: skip
from lessons.words import Words, safe

__all__ = [
    "BADGES", "BEATS", "FATES", "Dropdown", "Line", "Predict", "Row", "Slider", "badge", "beat", "callout",
    "derivation", "downloads", "error", "heard", "interview", "legend", "number", "opening", "permalink", "predict",
    "predict_number", "prose", "question", "reconcile", "run_of", "safe", "said", "sentence", "source", "table",
    "title", "transport",
]  # fmt: skip

BEATS = ("question", "predict", "run", "derive", "reconcile", "break", "interview")
BADGES = ("measured", "recorded", "simulated", "theory", "cited")
CALLOUTS = ("note", "careful", "wrong", "right")
FATES = ("target", "accepted", "resampled", "bonus", "rejected")
LATEX = [{"left": "$$", "right": "$$", "display": True}, {"left": "$", "right": "$", "display": False}]
PROJECT = Path(__file__).parent.parent


# ---- text ---------------------------------------------------------------------------------------------------------


def prose(text: str, size: str = "text") -> gr.Markdown:
    """Markdown with formulas in $ and $$; size "note" is small print."""
    return gr.Markdown(text, latex_delimiters=LATEX, elem_classes=["prose-text", f"size-{size}"], container=False)


def opening(t: Words) -> None:
    """The lesson's title, its two or three sentences, and the interview question that it answers."""
    title(t)
    question(t)


def title(t: Words) -> None:
    """The lesson's title and its two or three sentences: for a lesson that puts something else before the question."""
    gr.HTML(f"<h1 class='lesson-title'>{escape(t('title'))}</h1>", apply_default_css=False)
    gr.Markdown(t("standfirst"), latex_delimiters=LATEX, elem_classes=["prose-text", "standfirst"], container=False)


def question(t: Words) -> None:
    """The interview question that the lesson answers."""
    text = f"<span class='label'>{escape(t.frame('opening.question'))}</span>\n\n{t('question')}"
    gr.Markdown(text, latex_delimiters=LATEX, elem_classes=["prose-text", "callout", "question"], container=False)


def beat(t: Words, name: str, title: str = "") -> gr.HTML:
    """The heading of one beat; its label is the frame's, its title the lesson's."""
    if name not in BEATS:
        raise ValueError(f"{name!r} is not a beat; the beats are {', '.join(BEATS)}")
    label = escape(t.frame(f"beat.{name}"))
    inner = f"<span class='label'>{label}</span><h2>{escape(title)}</h2>" if title else f"<h2>{label}</h2>"
    return gr.HTML(f"<div class='beat' id='beat-{t.lesson}-{name}'>{inner}</div>", apply_default_css=False)


def callout(text: str, kind: str = "note") -> gr.Markdown:
    """A boxed remark; kind: note, careful, wrong or right."""
    if kind not in CALLOUTS:
        raise ValueError(f"{kind!r} is not a callout; there are {', '.join(CALLOUTS)}")
    return gr.Markdown(text, latex_delimiters=LATEX, elem_classes=["prose-text", "callout", kind], container=False)


def said(html: str, kind: str = "note") -> str:
    """A boxed remark as HTML; nothing for none. `html` is safe already: our own words, or what `error` made."""
    role = "alert" if kind == "wrong" else "status"
    return f"<p class='callout {kind}' role='{role}'>{html}</p>" if html else ""


# ---- numbers ------------------------------------------------------------------------------------------------------


def badge(t: Words, kind: str, text: str = "") -> str:
    """Where a number comes from; text names the device, the date or the source."""
    if kind not in BADGES:
        raise ValueError(f"{kind!r} is not a badge; there are {', '.join(BADGES)}")
    label = t.frame(f"badge.{kind}") + (f" · {text}" if text else "")
    return f'<span class="badge badge-{kind}" title="{escape(t.frame(f"badge.{kind}.title"))}">{escape(label)}</span>'


def number(t: Words, text: str, kind: str, source: str = "") -> str:
    """A number with its badge."""
    return f'<span class="number">{escape(text)} {badge(t, kind, source)}</span>'


@dataclass(frozen=True)
class Row:
    """One quantity of a reconciliation. A value is a number, a text, or None where there is none yet."""

    label: str
    predicted: float | str | None
    measured: float | str | None
    unit: str = ""
    predicted_kind: str = "theory"
    measured_kind: str = "measured"
    note: str = ""


def reconcile(t: Words, rows: Sequence[Row]) -> str:
    """Predicted against measured, with the ratio of the two where both are numbers."""
    names = ("quantity", "predicted", "measured", "ratio")
    head = "".join(f"<th scope='col'>{escape(t.frame(f'reconcile.{name}'))}</th>" for name in names)
    body = "".join(_reconcile_row(t, row) for row in rows)
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _reconcile_row(t: Words, row: Row) -> str:
    cells = (
        _value(t, row.predicted, row.unit, row.predicted_kind),
        _value(t, row.measured, row.unit, row.measured_kind),
    )
    ratio = "–"
    if isinstance(row.predicted, int | float) and isinstance(row.measured, int | float) and row.predicted:
        ratio = f"{row.measured / row.predicted:.2f}×"
    note = f"<div class='note'>{escape(row.note)}</div>" if row.note else ""
    label = f"<th scope='row'>{escape(row.label)}{note}</th>"
    return f"<tr>{label}<td>{cells[0]}</td><td>{cells[1]}</td><td class='num'>{ratio}</td></tr>"


def _value(t: Words, value: float | str | None, unit: str, kind: str) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
    spaced = unit if unit in ("", "×") else f" {unit}"
    return f"<span class='num'>{escape(text)}{escape(spaced)}</span> {badge(t, kind)}"


def table(html: str = "") -> gr.HTML:
    """The place of a table that `reconcile` made or will make."""
    return gr.HTML(html, apply_default_css=False, elem_classes="table-scroll")


# ---- derivations, code, interview ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of a derivation: the formula, why it holds, and what a machine checked about it ("" if nothing)."""

    latex: str
    why: str
    check: str = ""


def derivation(t: Words, lines: Sequence[Line]) -> gr.Markdown:
    """A derivation, one formula a line, each with its reason and, where checked, a tick that says how."""
    checked = escape(t.frame("derivation.checked"))
    parts = []
    for line in lines:
        tick = f' <span class="tick">✓ {checked}: {escape(line.check)}</span>' if line.check else ""
        parts.append(f"{line.why}{tick}\n\n$$\n{line.latex}\n$$")
    text = "\n\n".join(parts)
    return gr.Markdown(text, latex_delimiters=LATEX, elem_classes=["prose-text", "derivation"], container=False)


def source(t: Words, *objects: Callable | type | ModuleType) -> None:
    """The running code of functions, classes or modules, folded away under its file and line."""
    for item in objects:
        with gr.Accordion(_source_label(t, item), open=False, elem_classes="source"):
            text = inspect.getsource(item).rstrip()
            gr.Markdown(f"~~~~~python\n{text}\n~~~~~", elem_classes="code-view", container=False)


def _source_label(t: Words, item: Callable | type | ModuleType) -> str:
    path = Path(inspect.getsourcefile(item)).relative_to(PROJECT)
    if isinstance(item, ModuleType):
        return t.frame("source.file", path=path.as_posix())
    line = inspect.getsourcelines(item)[1]
    return t.frame("source.part", name=item.__qualname__, path=path.as_posix(), line=line)


def interview(t: Words, key: str = "interview", source: str = "") -> None:
    """The interview card: the question open to see, the answers in half a minute and in two folded away.

    source: the work that is named, as a badge, wherever an answer has {{source}}.
    """
    cited = {"source": badge(t, "cited", source)}
    gr.Markdown(t(f"{key}.question"), latex_delimiters=LATEX, elem_classes=["prose-text", "callout", "question"])
    for part in ("short", "long", "follow_ups", "wrong"):
        with gr.Accordion(t.frame(f"interview.{part}"), open=False, elem_classes=["answer", f"answer-{part}"]):
            is_cited = "{{source}}" in t.pieces[f"{key}.{part}"]
            prose(t(f"{key}.{part}", **(cited if is_cited else {})))


def legend(t: Words, kinds: Sequence[str] = FATES) -> gr.HTML:
    """What the colours and shapes of tokens mean."""
    items = "".join(
        f"<li><span class='token fate-{kind}'>{escape(t.frame(f'fate.{kind}'))}</span>"
        f"<span class='meaning'>{escape(t.frame(f'fate.{kind}.meaning'))}</span></li>"
        for kind in kinds
    )
    return gr.HTML(f"<ul class='legend'>{items}</ul>", apply_default_css=False)
