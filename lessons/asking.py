"""What a reader asks of the engine: whether it can be asked, and the sentence for a run that was refused or failed.

Knows nothing of what a lesson asks for. Sentences are safe HTML in the reader's language.
"""

from collections.abc import Callable

import gradio as gr

from engine import EngineError
from lessons import frame, live
from lessons.words import Words


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
        refusal = frame.error(t, problem)
    return [gr.skip(), alert(t, refusal)]


def failure(t: Words, run_id: str) -> str:
    """Why a run ended by an error; nothing where it did not."""
    run = live.find(run_id)
    return frame.error(t, run.problem) if run is not None and run.problem is not None else ""


def alert(t: Words, sentence: str) -> str:
    """What is wrong, as a remark and as a toast; nothing for none."""
    if sentence:
        warn(t, sentence)
    return frame.said(sentence, "wrong")


def warn(t: Words, sentence: str) -> None:
    """Show a sentence as a toast, wherever on the page the reader is."""
    gr.Warning(sentence, title=t.frame("error.title"))
