"""Numbers and charts of the paging lesson: what a run wasted, copied and shared, and the four ways to hand out memory.

Knows nothing of the page: events and simulations in, rows and figures out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape

import plotly.graph_objects as go

from engine import (
    BlockCopied,
    BlockFreed,
    BlockHit,
    BlockShared,
    BlockTaken,
    EngineStarted,
    Event,
    Prefilled,
    RoundFinished,
    Submitted,
    reusable_tokens,
)
from lessons import frame, plots
from lessons import paging_exhibits as exhibits
from lessons.paging_simulation import POLICIES, Shares, draw_lengths, simulate
from lessons.words import Words

PAPER_SHARES = {"max": 0.204, "pow2": 0.268, "oracle": 0.382, "paged": 0.963}  # Kwon et al. 2023, figure 2
PAPER_RUNNING = {"max": 7.00, "pow2": 9.81, "oracle": 13.62, "paged": 30.42}  # figure 13, ShareGPT
LEGIBLE = {"minsize": 11, "mode": "hide"}
PERCENT = "%{y:.1f} %"
PARTS = {"tokens": (plots.GOOD, ""), "reserved": (plots.ACCENT, "/"), "internal": (plots.BAD, "x"),
         "external": (plots.NEUTRAL, ".")}  # fmt: skip

# ---- words and badges ---------------------------------------------------------------------------------------------


def badge_words(t: Words) -> dict[str, object]:
    """The badges of a stage, in the reader's language."""
    return {"badges": {kind: t.frame(f"badge.{kind}") for kind in ("measured", "recorded", "simulated")}}


# ---- a run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run did to its blocks. Predictions follow from the prompts and the fork points alone."""

    block_size: int
    mean_empty: float  # slots of a sequence's last block without a token, mean over its steps
    most_empty: int
    copies: int
    copies_predicted: int
    reused: int
    reused_predicted: int
    peak_blocks: int
    peak_entries: int


def facts_of(events: Sequence[Event]) -> Facts | None:
    """The facts of a run, None while nothing has been computed."""
    started = next((event for event in events if isinstance(event, EngineStarted)), None)
    lengths = [event.num_cached for event in events if isinstance(event, RoundFinished)]
    if started is None or not lengths:
        return None
    size = started.block_size
    empty = [-length % size for length in lengths]
    peak_blocks, peak_entries = _peak(events)
    return Facts(
        block_size=size,
        mean_empty=sum(empty) / len(empty),
        most_empty=max(empty),
        copies=sum(isinstance(event, BlockCopied) for event in events),
        copies_predicted=sum(bool(shared % size) for shared in _shared(events)),
        reused=max((event.num_reused for event in events if isinstance(event, Prefilled)), default=0),
        reused_predicted=_reusable(events, size),
        peak_blocks=peak_blocks,
        peak_entries=peak_entries,
    )


def _peak(events: Sequence[Event]) -> tuple[int, int]:
    """(distinct blocks, table entries) at the moment with the most entries."""
    blocks = entries = 0
    peak = (0, 0)
    for event in events:
        match event:
            case BlockTaken() | BlockHit():
                blocks, entries = blocks + 1, entries + 1
            case BlockShared():
                entries += 1
            case BlockCopied():
                blocks += 1
            case BlockFreed():
                blocks, entries = blocks - (event.ref_count == 0), entries - 1
        peak = max(peak, (entries, blocks))
    return peak[1], peak[0]


def _shared(events: Sequence[Event]) -> list[int]:
    """For each sample or fork the tokens whose keys and values it shares: a fork computes the last one's itself."""
    children = [event for event in events if isinstance(event, Submitted) and event.parent]
    return [event.fork_at - event.request_id.startswith(f"{event.parent}/") for event in children]


def _reusable(events: Sequence[Event], size: int) -> int:
    """What the second of two prompts can find of the first: whole blocks of the common beginning."""
    prompts = [event.prompt_ids for event in events if isinstance(event, Submitted) and not event.parent]
    if len(prompts) < 2:
        return 0
    first, second = prompts[:2]
    same = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first))
    return reusable_tokens(same, len(second), size)


def run_rows(t: Words, facts: Facts, kind: str) -> list[frame.Row]:
    """A run: predicted by the formulas above, and as it came."""
    rows = [
        frame.Row(t("row.mean_empty"), (facts.block_size - 1) / 2, facts.mean_empty, t("unit.slots")),
        frame.Row(t("row.most_empty"), f"≤ {facts.block_size - 1}", facts.most_empty, t("unit.slots")),
        frame.Row(t("row.copies"), facts.copies_predicted, facts.copies),
        frame.Row(t("row.reused"), facts.reused_predicted, facts.reused, t("unit.tokens")),
        frame.Row(t("row.peak"), facts.peak_entries, facts.peak_blocks, t("unit.blocks"), note=t("row.peak.note")),
    ]
    return [_of_kind(row, kind) for row in rows]


def _of_kind(row: frame.Row, kind: str) -> frame.Row:
    return frame.Row(row.label, row.predicted, row.measured, row.unit, "theory", kind, row.note)


# ---- a request mix ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def results(block_size: int = 16, seed: int = 0) -> dict[str, Shares]:
    """The four policies on one request mix."""
    lengths = draw_lengths(seed=seed)
    return {policy: simulate(policy, lengths, block_size) for policy in POLICIES}


def fragmentation_plot(t: Words, found: dict[str, Shares]) -> go.Figure:
    """Stacked bars, one per policy: what the memory holds; a diamond where the paper's measurement lies."""
    chart = plots.figure(y=t("chart.share"), height=460)
    names = [t(f"policy.{policy}") for policy in found]
    for part, (color, shape) in PARTS.items():
        shares = [100 * getattr(found[policy], part) for policy in found]
        texts = [f"{share:.1f} %" if share >= 4 else "" for share in shares]
        pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.4, "size": 6}
        inside = {
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "textfont": {"color": "#101114"},
        }
        marker = {"color": color, "pattern": pattern}
        chart.add_bar(
            x=names, y=shares, name=t(f"part.{part}"), text=texts, marker=marker, hovertemplate=PERCENT, **inside
        )
    paper = [100 * PAPER_SHARES[policy] for policy in found]
    diamond = {"symbol": "diamond", "size": 13, "color": "#ffffff", "line": {"color": "#101114", "width": 2}}
    chart.add_scatter(x=names, y=paper, mode="markers", name=t("chart.paper"), marker=diamond, hovertemplate=PERCENT)
    return chart.update_layout(barmode="stack", yaxis={"range": [0, 101], "ticksuffix": " %"}, uniformtext=LEGIBLE)


def mix_table(t: Words, found: dict[str, Shares], guesses: dict[str, float | None]) -> str:
    """The paper's numbers beside the simulation's; the reader's guesses stand below what they are about."""
    cited, simulated = frame.badge(t, "cited"), frame.badge(t, "simulated")
    heads = (
        escape(t.frame("reconcile.quantity")),
        f"{escape(t('mix.paper'))} {cited}",
        f"{escape(t('mix.simulation'))} {simulated}",
        escape(t("mix.ratio")),
    )
    rows = []
    for policy, shares in found.items():
        label = t("row.share", policy=t(f"policy.{policy}"))
        rows.append(_mix_row(label, 100 * PAPER_SHARES[policy], 100 * shares.tokens, "\u202f%"))
    for policy, shares in found.items():
        label, guess = t("row.running", policy=t(f"policy.{policy}")), guesses.get(policy)
        note = t("row.guess", value=guess) if isinstance(guess, int | float) else ""
        rows.append(_mix_row(label, PAPER_RUNNING[policy], shares.num_running, "", note))
    head = "".join(f"<th scope='col'>{text}</th>" for text in heads)
    return f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _mix_row(label: str, paper: float, simulation: float, unit: str, note: str = "") -> str:
    cells = (f"{paper:.3g}{unit}", f"{simulation:.3g}{unit}", f"{simulation / paper:.2f}×")
    below = f"<div class='note'>{escape(note)}</div>" if note else ""
    row = "".join(f"<td class='num'>{cell}</td>" for cell in cells)
    return f"<tr><th scope='row'>{escape(label)}{below}</th>{row}</tr>"


# ---- broken rules -------------------------------------------------------------------------------------------------


def prefix_rows(t: Words, num_tokens: int) -> dict[str, object]:
    """What a child reads back when it shares so many tokens, by the wrong and the right rule."""
    rows = []
    for share in (exhibits.share_floor, exhibits.share_and_copy):
        slots = exhibits.read_after_sharing(share, num_tokens)
        num_garbage = sum(map(math.isnan, slots))
        note = t("broken.garbage", count=num_garbage) if num_garbage else t("broken.fine")
        cells = [_cell(value, "garbage" if math.isnan(value) else "good") for value in slots]
        rows.append(
            {"label": share.__name__, "cells": cells, "verdict": "wrong" if num_garbage else "right", "note": note}
        )
    return {"rows": rows}


def layer_rows(t: Words, num_layers: int) -> dict[str, object]:
    """The caches of all layers after three tokens, by the wrong and the right rule."""
    rows = []
    tokens = exhibits.keys(3, num_layers)
    for append in (exhibits.append_in_every_layer, exhibits.append_then_advance):
        caches, length = append(tokens)
        verdict = "right" if length == len(tokens) else "wrong"
        wrong = t("broken.length", length=length, tokens=len(tokens))
        said_of = t("broken.fine") if verdict == "right" else wrong
        for layer, cache in enumerate(caches):
            cells = [_cell(key, _kind(key, at < length)) for at, key in enumerate(cache)]
            note = said_of if layer == 0 else ""
            label = f"{append.__name__}, {t('broken.layer', layer=layer)}"
            rows.append({"label": label, "cells": cells, "verdict": verdict, "note": note})
    return {"rows": rows}


def _kind(key: float, is_read: bool) -> str:
    """A slot that attention reads without a key in it is garbage: its score is 0, and its weight is not."""
    if not is_read:
        return "empty"
    return "good" if key else "garbage"


def _cell(value: float, kind: str) -> dict[str, str]:
    return {"text": "nan" if math.isnan(value) else f"{value:g}" if kind != "empty" else "·", "kind": kind}
