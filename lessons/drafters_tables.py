"""Tables of the zoo: predicted against measured, the bench's record by category of prompts, and what works together.

Knows nothing of the page's layout.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from engine import Event, bench_record, composition, drafter_card, expected_tokens
from lessons import frame
from lessons.drafters_account import Entry, entries
from lessons.drafters_figures import name_of
from lessons.drafters_runs import ZOO
from lessons.runs import origin
from lessons.words import Words

RECORD = "drafters"
MARKS = {"runs": "✓", "not_yet": "–"}

# ---- a run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guesses:
    """What the reader said before the run: the fastest drafter and the one with the most tokens per pass."""

    fastest: str | None = None
    longest: str | None = None


def reconciled(t: Words, events: Sequence[Event], kind: str, guesses: Guesses) -> str:
    """τ, the speed-up were drafting free, against the measured one; the reader's guesses first."""
    found = [entry for entry in entries(events) if entry.alpha is not None]
    if not found:
        return frame.said(escape(t("reconcile.nothing")))
    rows = []
    for entry in found:
        name = name_of(t, entry.drafter) + (f" · {t('rules.lossy')}" if entry.is_lossy else "")
        one = expected_tokens(entry.alpha, entry.draft_length)
        note = t("reconcile.tau.note", one=one, alpha=entry.alpha, k=entry.draft_length, expected=entry.expected)
        if entry.speed_up is None:
            rows.append(frame.Row(t("reconcile.tau", name=name), one, entry.tau, "", "theory", kind, note))
        else:
            note = f"{t('reconcile.speed.note', cost=entry.round_cost)} {note}"
            label = t("reconcile.speed", name=name)
            rows.append(frame.Row(label, entry.tau, entry.speed_up, "×", "theory", kind, note))
    return guessed(t, found, guesses) + frame.reconcile(t, rows) + _origin(t, events, kind)


def guessed(t: Words, found: Sequence[Entry], guesses: Guesses) -> str:
    """The reader's two answers against the run's; nothing before both are given."""
    timed = [entry for entry in found if entry.speed_up is not None]
    if not timed or guesses.fastest not in ZOO or guesses.longest not in ZOO:
        return ""
    values = {
        "fastest": name_of(t, guesses.fastest), "longest": name_of(t, guesses.longest),
        "first": name_of(t, max(timed, key=lambda entry: entry.speed_up).drafter),
        "most": name_of(t, max(timed, key=lambda entry: entry.tau).drafter),
    }  # fmt: skip
    return frame.said(escape(t("reconcile.guessed", **values)))


def _origin(t: Words, events: Sequence[Event], kind: str) -> str:
    return f"<p class='prose-text size-note'>{frame.badge(t, kind, origin(events))}</p>"


# ---- the bench's record ---------------------------------------------------------------------------------------------


def record_table(t: Words, record: Mapping[str, object] | None) -> str:
    """Speed-up (and τ) of every drafter on every category of prompts, as measured beforehand; a sentence without it."""
    found = (record or {}).get("drafters")
    if not isinstance(found, Mapping) or not found:
        return frame.said(re.sub("`([^`]+)`", r"<code>\1</code>", escape(t("record.none"))))
    categories = [name for name in next(iter(found.values())) if name != "overall"]
    heads = [t("record.drafter"), t("record.overall"), *(t(f"record.{name}") for name in categories)]
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    ordered = sorted(found.items(), key=lambda item: -item[1]["overall"])
    body = "".join(_record_row(t, name, kinds, categories) for name, kinds in ordered)
    where = f"{record['cpu']}, {record['dtype']}, {record['date']}"
    badge = frame.badge(t, "recorded", where)
    note = t("record.note", repeats=record["repeats"], tokens=record["new_tokens"], heat=record["temperature"])
    others = trained_anew(record)
    if others:
        note += " " + t("record.anew", names=" · ".join(name_of(t, name) for name in others))
    table = f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{table}<p class='prose-text size-note'>{escape(note)} {badge}</p>"


def trained_anew(record: Mapping[str, object]) -> list[str]:
    """The drafters of a record of which a file that ships is another than the one that was measured."""
    return [
        name for name, digests in record.get("weights_sha256", {}).items()
        if any((drafter_card(file) or {}).get("file_sha256") != digest for file, digest in digests.items())
    ]  # fmt: skip


def _record_row(t: Words, name: str, kinds: Mapping[str, object], categories: Sequence[str]) -> str:
    drafter, _, length = name.partition(" ")
    cells = "".join(
        f"<td class='num'>{kinds[category]['speed_up']:.2f}×<div class='note'>τ {kinds[category]['tau']:.2f}</div></td>"
        for category in categories
    )
    label = f"{escape(name_of(t, drafter))}<div class='note'>{escape(length)}</div>"
    return f"<tr><th scope='row'>{label}</th><td class='num'><b>{kinds['overall']:.2f}×</b></td>{cells}</tr>"


def shipped(t: Words) -> str:
    """What was measured beforehand, and what each drafter works together with, each under its heading."""
    bench = f"<h3 class='zoo-heading'>{escape(t('record.title'))}</h3>{record_table(t, bench_record(RECORD))}"
    return f"{bench}<h3 class='zoo-heading'>{escape(t('together.title'))}</h3>{together_table(t)}"


# ---- who goes with whom ---------------------------------------------------------------------------------------------


def together_table(t: Words) -> str:
    """A drafter a row, a part of the engine a column: ✓ runs, – not there yet; the reasons stand below.

    Tests of the engine run every ✓.
    """
    rows = {name: composition(name) for name in ZOO}
    partners = [cell.partner for cell in next(iter(rows.values()))]
    head = "".join(f"<th scope='col'>{escape(t(f'together.{name}'))}</th>" for name in ("drafter", *partners))
    body, reasons = "", {}
    for name, cells in rows.items():
        body += f"<tr><th scope='row'>{escape(name_of(t, name))}</th>"
        for cell in cells:
            reason = t(f"together.reason.{cell.reason}") if cell.reason else ""
            reasons.setdefault((cell.status, cell.reason), reason)
            body += f"<td title='{escape(reason)}'>{MARKS[cell.status]}</td>"
        body += "</tr>"
    said = " ".join(f"{MARKS[status]} {reason}" for (status, _), reason in reasons.items() if reason)
    table = f"<table class='figures'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{table}<p class='prose-text size-note'>✓ {escape(t('together.runs'))} {escape(said)}</p>"
