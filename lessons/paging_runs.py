"""The runs of the paging page: how one is started, or run again with a fork, and what is said of it once it is over.

Knows nothing of the page's layout, nor of how the engine shares blocks.
"""

from collections.abc import Sequence

from engine import Request, Submitted
from lessons import asking, frame, live
from lessons import paging_figures as figures
from lessons import paging_scenarios as scenarios
from lessons.paging_scenarios import FIRST, PRESETS, Settings
from lessons.runs import origin
from lessons.words import Words

Fork = tuple[str, int]  # a request, and how many tokens it has when it is forked


def recording(name: str) -> str:
    """The id of a preset's recorded run."""
    return live.replay("paging" if name == FIRST else f"paging.{name}")


# ---- starting one -------------------------------------------------------------------------------------------------


def settings_of(values: Sequence[object]) -> Settings:
    """What the controls say, numbers as Python's own; one that was emptied is as at first."""
    prompt, second, *numbers = values
    first = PRESETS[FIRST]
    usual = (first.num_samples, first.length, first.temperature, 0)
    samples, length, temperature, seed = (usual[at] if one is None else one for at, one in enumerate(numbers))
    return Settings(prompt, second or "", int(samples), int(length), float(temperature), int(seed))


def started(t: Words, values: Sequence[object]) -> list[object]:
    """Start a run: the transport's new value, and what there is to say. A prompt that is none is refused beforehand."""
    prompt, second, *numbers = values
    if second is None or (isinstance(second, str) and not second.strip()):
        second = ""
    refusal = asking.refusal(t, prompt) or (asking.refusal(t, second) if second != "" else "")

    def start() -> str:
        settings = settings_of([prompt, second, *numbers])
        return live.run(scenarios.requests_of(settings), scenarios.mode_of(settings))

    return asking.started(t, refusal, start)


def forked(t: Words, run_id: str, fork: Fork) -> list[object]:
    """Run again what the run on the page asked for, and one fork more; as `started`."""
    asked = asked_by(run_id)

    def start() -> str:
        requests, mode, forks = asked
        return live.run(requests, mode, [*forks, fork])

    return asking.started(t, "" if asked else t("fork.unknown"), start)


def asked_by(run_id: str) -> tuple[list[Request], str, list[Fork]] | None:
    """Requests, mode and forks of a run; None for one that came from a file, or is no longer kept."""
    run = live.find(run_id)
    if run is not None and run.requests:
        return list(run.requests), run.mode, list(run.forks)
    preset = next((name for name in PRESETS if recording(name) == run_id), None)
    if preset is None:
        return None
    settings = PRESETS[preset]
    forks = [("A", scenarios.FORKED_AT)] if preset == "fork" else []
    return scenarios.requests_of(settings), scenarios.mode_of(settings), forks


# ---- when it is over ----------------------------------------------------------------------------------------------


def remark(t: Words, run_id: str) -> str:
    """What went otherwise than the reader asked: the error that ended a run, or a fork that never began."""
    missed = [t("fork.missed", id=frame.safe(name), at=at) for name, at in missed_forks(run_id)]
    return asking.alert(t, asking.failure(t, run_id)) or frame.said(" ".join(missed), "careful")


def missed_forks(run_id: str) -> list[Fork]:
    """The forks that were asked for and never began, though nobody stopped the run."""
    run = live.find(run_id)
    if run is None or run.ending == "stopped":
        return []
    begun = [(one.parent, one.fork_at) for one in live.events(run_id) if isinstance(one, Submitted)]
    return [fork for fork in run.forks if fork not in begun]


def reconciled(t: Words, run_id: str) -> str:
    """The table of a run: predicted by the formulas against what the engine reported."""
    events = live.events(run_id)
    facts = figures.facts_of(events)
    if facts is None:
        return frame.said(t("reconcile.nothing"))
    kind = "recorded" if live.find(run_id).is_recorded else "measured"
    note = f"<p class='prose-text size-note'>{frame.badge(t, kind, origin(events))}</p>"
    return note + frame.reconcile(t, figures.run_rows(t, facts, kind))
