"""Laws from a live run: any token of a run on the page lends its p and q to the acceptance lesson.

Knows nothing of rules: it fills the lesson's fields, and the lesson does the rest.
"""

from collections.abc import Sequence
from html import escape

import gradio as gr

from engine import EngineError, Inspected, Request, SamplingParams
from lessons import frame, live
from lessons.acceptance_figures import alert, said
from lessons.acceptance_laws import lumped, overlap_bounds
from lessons.stage import Stage
from lessons.typed_laws import write_law
from lessons.words import Words

PICTURE = "acceptance-picture"  # where the laws that were taken are shown
PROMPT = "The old lighthouse keeper opened the door and saw"
QUIET = {"show_progress": "hidden", "api_visibility": "private"}


def request(prompt: str, temperature: float, seed: int = 0) -> Request:
    """A short run whose draft is drawn from a law of its own, so that there is a q to look at."""
    params = SamplingParams(max_new_tokens=48, temperature=temperature, seed=seed, draft_length=4)
    return Request(prompt, params, drafter="layer_skip")


def position_of(run_id: str, place: object) -> Inspected | None:
    """The laws at the place of a run that a reader picked; None where there are none."""
    wanted = getattr(place, "round", None), getattr(place, "position", None)
    inspected = (event for event in live.events(run_id) if isinstance(event, Inspected) and event.q)
    return next((event for event in inspected if (event.round, event.position) == wanted), None)


def panel(t: Words, fields: Sequence[gr.components.Component]) -> None:
    """A run, and its tokens to choose from; fields: p, q, temperature, top-p and the names, which a choice sets."""
    frame.prose(t("model.intro"))
    with gr.Row(elem_classes="controls"):
        prompt = gr.Textbox(PROMPT, label=t("model.prompt"), max_length=1000, max_lines=2, scale=2)
        heat = gr.Slider(0.2, 2, value=1, step=0.1, label=t("model.temperature"))
        button = gr.Button(t("model.run"), variant="primary")
    bar = frame.transport(t, live.replay("acceptance"))
    picker = Stage("picker", t, live.replay("acceptance"), words="picker.")
    taken = gr.HTML("", apply_default_css=False)

    def run(prompt: str, heat: float, shown: str) -> tuple[str, str]:
        try:
            return live.run([request(prompt, heat)]), ""
        except EngineError as problem:
            return shown, alert(frame.error(t, problem))

    def take(run_id: str, event: gr.EventData) -> list[object]:
        found = position_of(run_id, event)
        if found is None:
            return [gr.skip()] * 5 + [said(t, "model.gone")]
        names, p, q = lumped(found, t("model.rest"))
        link = f" <a href='#{PICTURE}'>{escape(t('model.show'))}</a></p>"
        least, most = overlap_bounds(found)
        values = {"count": len(names), "least": least, "most": most}
        sentence = said(t, "model.taken", **values).removesuffix("</p>") + link
        return [write_law(p), write_law(q), 1, 1, tuple(names), sentence]

    button.click(run, inputs=[prompt, heat, bar], outputs=[bar, taken], **QUIET)
    picker.pick(take, inputs=[bar], outputs=[*fields, taken], **QUIET)
