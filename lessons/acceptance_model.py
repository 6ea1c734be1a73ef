"""Laws from a live run: any token of a run on the page lends its p and q to the acceptance lesson.

Knows nothing of rules: it fills the lesson's fields, and the lesson does the rest.
"""

from collections.abc import Sequence

import gradio as gr

from engine import Event, Inspected, Request, SamplingParams, Submitted
from lessons import asking, frame, live
from lessons.acceptance_figures import said
from lessons.acceptance_laws import lumped, overlap_bounds
from lessons.stage import Stage
from lessons.typed_laws import write_law
from lessons.words import Words

PICTURE = "acceptance-picture"  # where the laws that were taken are shown
PROMPT = "The old lighthouse keeper opened the door and saw"
DRAFTER = "layer_skip"
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
TO_PICTURE = """() => {
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  document.querySelector("#%s")?.scrollIntoView({ behavior, block: "start" });
  return [];
}"""


def request(prompt: str, temperature: float, seed: int = 0) -> Request:
    """A short run whose draft is drawn from a law of its own, so that there is a q to look at."""
    params = SamplingParams(max_new_tokens=48, temperature=temperature, seed=seed, draft_length=4)
    return Request(prompt, params, drafter=DRAFTER)


def is_ours(events: Sequence[Event]) -> bool:
    """Whether a run is one of this lesson: one request, drafted by the target's own layers."""
    return [event.drafter for event in events if isinstance(event, Submitted)] == [DRAFTER]


def position_of(run_id: str, place: object) -> Inspected | None:
    """The laws at the place of a run that a reader picked; None where there are none."""
    wanted = getattr(place, "round", None), getattr(place, "position", None)
    inspected = (event for event in live.events(run_id) if isinstance(event, Inspected) and event.q)
    return next((event for event in inspected if (event.round, event.position) == wanted), None)


def panel(t: Words, fields: Sequence[gr.components.Component]) -> dict[str, gr.components.Component]:
    """A run, and its tokens to choose from; returns what the reader sets, under the names that it has in a link.

    fields: p, q, temperature, top-p and the names, which a choice sets.
    """
    frame.prose(t("model.intro"))
    with gr.Row(elem_classes="controls"):
        prompt = gr.Textbox(PROMPT, label=t("model.prompt"), max_lines=2, scale=3)
        heat = frame.Slider(0.2, 2, value=1, step=0.1, label=t("model.temperature"), scale=2)
    with gr.Row():
        with gr.Column(scale=7, min_width=320):
            bar = frame.transport(t, live.replay("acceptance"))
        button = gr.Button(t("model.run"), variant="primary", scale=1, min_width=140, elem_id="acceptance-run")
    picker = Stage("picker", t, live.replay("acceptance"), words="picker.", elem_id="acceptance-picker")
    frame.legend(t)
    frame.downloads(t, bar, is_ours)
    taken = gr.HTML("", apply_default_css=False, elem_id="acceptance-taken")

    def run(prompt: str | None, heat: float | None) -> list[object]:
        return started(t, prompt, heat)

    def take(shown: object, event: gr.EventData) -> list[object]:
        return taken_from(t, frame.run_of(shown), event)

    def finish(shown: object) -> object:
        return finished(t, frame.run_of(shown))

    button.click(run, inputs=[prompt, heat], outputs=[bar, taken], **QUIET)
    bar.done(finish, inputs=[bar], outputs=[taken], **QUIET)
    picked = picker.pick(take, inputs=[bar], outputs=[*fields, taken], **QUIET)
    picked.then(None, js=TO_PICTURE % PICTURE)
    return {"prompt": prompt, "heat": heat}


def started(t: Words, prompt: object, heat: float | None) -> list[object]:
    """Start a run: the transport's new value, and what there is to say; what is no prompt is refused beforehand."""
    heat = 1.0 if heat is None else heat
    return asking.started(t, asking.refusal(t, prompt), lambda: live.run([request(prompt, heat)]))


def finished(t: Words, run_id: str) -> object:
    """Why a run ended by an error; of any other end there is nothing to say, and what was said since then stays."""
    return asking.alert(t, asking.failure(t, run_id)) or gr.skip()


def taken_from(t: Words, run_id: str, place: object) -> list[object]:
    """The fields filled with the laws at that place of a run, and the sentence that says so, or that there are none."""
    found = position_of(run_id, place)
    if found is None:
        asking.warn(t, t("model.gone"))
        return [gr.skip()] * 5 + [said(t, "model.gone")]
    names, p, q = lumped(found, t("model.rest"))
    least, most = overlap_bounds(found)
    sentence = said(t, "model.taken", count=len(names), least=least, most=most)
    return [write_law(p), write_law(q), 1, 1, tuple(names), sentence]
