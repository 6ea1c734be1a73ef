"""The pool in the reader's hands: buttons that do one operation on a small pool of blocks, and its refusals in words.

Knows nothing of how a pool works, nor of the runs on the rest of the page.
"""

from collections.abc import Sequence

import gradio as gr

from engine import BlockPool
from lessons import frame
from lessons import paging_pool as pool
from lessons.paging_figures import badge_words
from lessons.stage import Widget
from lessons.words import Words

FIRST_OPERATIONS: tuple[pool.Operation, ...] = (("new", "", 6), ("fork", "A", 0), ("append", "A", 1), ("new", "", 9))
BUTTONS = (*pool.KINDS, "fill", "reset")
NEED_BLOCKS = ("append", "fork", "free")  # these act on a sequence that holds blocks
LONGEST_NAME = 20  # characters of a name that are said again; a browser can send any
# One at a time: two buttons that both read the operations before either has written them would lose one.
IN_TURN = {"show_progress": "hidden", "api_visibility": "private", "concurrency_id": "bench", "concurrency_limit": 1}


def panel(t: Words) -> None:
    """A pool in the reader's hands, with the refusal."""
    frame.prose(t("bench.intro", blocks=pool.NUM_BLOCKS, size=pool.BLOCK_SIZE))
    first = pool.play(FIRST_OPERATIONS)
    done = gr.State(list(FIRST_OPERATIONS))
    with gr.Row(elem_classes=["wide", "controls"]):
        sequence = frame.Dropdown(first.sequences, value="A", label=t("bench.sequence"), filterable=False)
        tokens = frame.Slider(1, 16, 5, step=1, label=t("bench.tokens"))
    with gr.Row(elem_classes=["wide", "quiet-buttons"]):
        buttons = {kind: gr.Button(t(f"bench.{kind}"), size="sm", elem_id=f"paging-{kind}") for kind in BUTTONS}
    remark = gr.HTML(frame.said(t("bench.start")), apply_default_css=False, elem_id="paging-bench-remark")
    options = badge_words(t) | {"badge": "measured"}
    shown = Widget("blocks", t, t.group("stage."), value=first.as_value(), options=options, elem_id="paging-bench",
                   elem_classes="wide")  # fmt: skip
    for kind, button in buttons.items():

        def act(operations: list, name: str | None, count: float, kind: str = kind) -> list[object]:
            return acted(t, operations, (kind, name or "", int(count)))

        button.click(act, [done, sequence, tokens], [done, sequence, shown, remark], **IN_TURN)
    frame.source(t, BlockPool)


def acted(t: Words, operations: Sequence[pool.Operation], operation: pool.Operation) -> list[object]:
    """One more operation on the pool: what was done, the sequences there are, the picture, and what to say."""
    wanted, before = [*operations, operation], pool.play(operations)
    if operation[0] in NEED_BLOCKS and operation[1] not in before.sequences:
        return _shown(operations, before, "", frame.said(_missing(t, operation[1]), "wrong"))
    if operation[0] == "fill":
        wanted = pool.fill_up(operations, operation[2])
    elif operation[0] == "reset" or len(wanted) > pool.MOST_OPERATIONS:
        wanted = []
    bench = pool.play(wanted)
    if bench.refusal is None:
        remark = frame.said(t("bench.done", free=bench.pool.num_free, used=bench.pool.num_used))
    else:
        wanted = wanted[:-1]
        refused = t("bench.refusal", kind=type(bench.refusal).__name__, **bench.refusal.values)
        remark = frame.said(f"{refused} {t('bench.refused', used=bench.pool.num_used)}", "wrong")
    return _shown(wanted, bench, operation[1], remark)


def _shown(operations: Sequence[pool.Operation], bench: pool.Bench, chosen: str, remark: str) -> list[object]:
    names = bench.sequences
    chosen = chosen if chosen in names else names[-1] if names else None
    return [list(operations), gr.Dropdown(choices=names, value=chosen), bench.as_value(), remark]


def _missing(t: Words, name: str) -> str:
    """Why nothing was done: the sequence went away between the choice and the click, or none was chosen."""
    return t("bench.gone", name=frame.safe(name[:LONGEST_NAME])) if name else t("bench.none")
