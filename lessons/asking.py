"""What a reader asks of the engine: whether it can be asked, and the sentence for a run that was refused or failed.

Knows nothing of what a lesson asks for. Sentences are safe HTML in the reader's language.
"""

from collections.abc import Callable
from html import escape

import gradio as gr

from engine import EngineError
from lessons import frame, live
from lessons.words import Words

PROMPT = ("empty_prompt", "bad_prompt", "prompt_too_long", "prompt_over_limit")  # codes that blame it alone
DRAFTER = (
    "unknown_drafter", "bad_layers", "no_draft_model", "other_tokenizer", "no_head", "bad_head", "other_weights",
    "no_published_head", "unknown_head", "other_target", "drafter_failed",
)  # fmt: skip


def refusal(t: Words, prompt: object) -> str:
    """Why a prompt is none, found before anything runs; nothing where it is one. `live.run` knows what is too long."""
    if prompt is None or (isinstance(prompt, str) and not prompt.strip()):
        return frame.error(t, EngineError("empty_prompt", "the prompt is empty"))
    if not isinstance(prompt, str):
        return frame.error(t, EngineError("bad_prompt", "the prompt is no text"))
    return ""


def started(t: Words, refusal: str, start: Callable[[], str]) -> list[object]:
    """Start a run that nothing speaks against: the transport's new value (none for a refusal), and what to say."""
    try:
        if not refusal:
            return [start(), ""]
    except EngineError as problem:
        return [gr.skip(), alert(t, frame.error(t, problem), subject(problem))]
    return [gr.skip(), alert(t, refusal)]


def failure(t: Words, run_id: str) -> str:
    """Why a run ended by an error; nothing where it did not."""
    run = live.find(run_id)
    return frame.error(t, run.problem) if run is not None and run.problem is not None else ""


def subject(problem: EngineError) -> str:
    """The settings that were refused, by the engine's names for them; "" where no setting is to blame."""
    blamed = dict.fromkeys(PROMPT, "prompt") | dict.fromkeys(DRAFTER, "drafter")
    blamed |= {"never_fits": "prompt max_new_tokens", "bad_parameter": str(problem.values.get("name", ""))}
    return blamed.get(problem.code, "")


def alert(t: Words, sentence: str, of: str = "") -> str:
    """What is wrong, as a remark and as a toast; nothing for none. of: see `subject`."""
    if sentence:
        warn(t, sentence)
    return wrong(sentence, of)


def wrong(sentence: str, of: str = "") -> str:
    """As `alert`, the remark alone; the page can read from it which settings are meant."""
    said = frame.said(sentence, "wrong")
    return f"<div data-of='{escape(of)}'>{said}</div>" if said and of else said


def warn(t: Words, sentence: str) -> None:
    """Show a sentence as a toast, wherever on the page the reader is."""
    gr.Warning(sentence, title=t.frame("error.title"))
