"""Turns what happened in a round into events, after the clock has stopped.

Knows nothing of how it was computed; probabilities that are shown but were not needed are computed here.
"""

import dataclasses
import datetime
import importlib.metadata
import platform
from collections.abc import Sequence as Ids
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from engine.batch import ROLES
from engine.drafters.drafter import Proposal
from engine.events import (
    Drafted,
    EngineStarted,
    Event,
    Forwarded,
    Inspected,
    Prefilled,
    Probed,
    RoundFinished,
    Sampled,
    Submitted,
    TreeGrown,
    Verified,
    Viewed,
)  # fmt: skip
from engine.rounds import Round
from engine.sequence import Sequence
from engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from engine.engine import Engine

TOP = 10  # entries of each law that are shown


class Reporter:
    """Collects events; `step` and `clock` (seconds of compute) are set by the engine as it goes."""

    def __init__(self, tokenizer: Tokenizer, is_watching: bool) -> None:
        self.step = 0
        self.clock = 0.0
        self._tokenizer = tokenizer
        self._is_watching = is_watching
        self._events: list[Event] = []

    def add(self, event_type: type[Event], **fields: object) -> None:
        """Stamps and keeps one event."""
        self._events.append(event_type(step=self.step, clock=self.clock, **fields))

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def submitted(self, sequence: Sequence, parent: Sequence | None) -> None:
        """A sequence came into being; `parent` is the one it was forked from."""
        params = sequence.params
        same = ("draft_length", "draft_temperature", "temperature", "top_p", "top_k", "min_p", "rule", "seed")
        self.add(
            Submitted,
            request_id=sequence.id,
            prompt_ids=tuple(sequence.token_ids[: sequence.num_prompt]),
            pieces=self._labels(sequence.token_ids[: sequence.num_prompt]),
            drafter=sequence.drafter_name,
            max_new_tokens=sequence.max_new_tokens,
            parent="" if parent is None else parent.id,
            fork_at=0 if parent is None else len(sequence),
            **{name: getattr(params, name) for name in same},
        )

    def forwarded(self, rounds: list[Round], seconds: float) -> None:
        """One pass is over."""
        parts = {id(item.part): item.part for item in rounds}.values()  # parallel samples share their prompt's rows
        rows = {role: sum(len(part.token_ids) for part in parts if part.role == role) for role in ROLES}
        self.add(
            Forwarded,
            request_ids=tuple(item.sequence.id for item in rounds if not item.is_sample),
            num_prompt_rows=rows["prompt"],
            num_generated_rows=rows["generated"],
            seconds=seconds,
        )

    def round(self, item: Round, seconds_forward: float, seconds_other: float) -> bool:
        """Everything about one sequence's share of a step; returns whether its text stops here."""
        sequence, is_stopped = item.sequence, False
        if item.part.role == "prompt" and not item.is_sample:
            self.add(
                Prefilled,
                request_id=sequence.id,
                start=item.part.context,
                num_tokens=len(item.part.token_ids),
                num_reused=sequence.num_reused,
            )
        if item.proposal.candidates is not None:
            self._grown(item)
        if item.proposal.view is not None:
            self._viewed(item)
        if item.proposal.token_ids:
            self._drafted(item)
        if item.outcome is not None:
            if item.proposal.token_ids:
                self._verified(item)
            if item.proposal.probe_ids:
                self._probed(item)
            self._inspected(item)
            is_stopped = self._sampled(item)
        self.add(
            RoundFinished,
            request_id=sequence.id,
            round=sequence.round,
            seconds_draft=item.seconds_draft,
            seconds_forward=seconds_forward,
            seconds_accept=item.seconds_accept,
            seconds_other=seconds_other,
            request_clock=sequence.clock,
            num_cached=sequence.num_cached,
            num_draft_cached=0 if sequence.drafter is None else sequence.drafter.num_cached,
        )
        return is_stopped

    def _grown(self, item: Round) -> None:
        grown = item.proposal.candidates
        place = {"request_id": item.sequence.id, "round": item.sequence.round}
        self.add(TreeGrown, **place, pieces=self._labels(grown.token_ids), **dataclasses.asdict(grown))

    def _viewed(self, item: Round) -> None:
        place = {"request_id": item.sequence.id, "round": item.sequence.round}
        self.add(Viewed, **place, **dataclasses.asdict(item.proposal.view))

    def _drafted(self, item: Round) -> None:
        proposal = item.proposal
        drafts = proposal.token_ids
        self.add(
            Drafted,
            request_id=item.sequence.id,
            round=item.sequence.round,
            drafter=item.sequence.drafter_name,
            token_ids=drafts,
            pieces=self._labels(drafts),
            parents=tuple(range(-1, len(drafts) - 1)) if proposal.parents is None else proposal.parents,
            q=_draft_entries(proposal),
            is_point_mass=proposal.laws is None,
            found_at=proposal.found_at,
            seconds=item.seconds_draft,
        )

    def _verified(self, item: Round) -> None:
        proposal, outcome, logits = item.proposal, item.outcome, item.logits
        drafts = proposal.token_ids
        trials = {trial.node: trial for trial in outcome.trials}
        rows = [_row(proposal, node) for node in range(len(drafts))]
        if outcome.laws is None:
            p = [float(outcome.winners[row] == token) for row, token in zip(rows, drafts, strict=True)]
        else:
            p = outcome.laws[rows, drafts].tolist()
        for node, trial in trials.items():
            p[node] = trial.p
        verdicts = ["rejected" if node in trials else "unreached" for node in range(len(drafts))]
        for node in outcome.path:
            verdicts[node] = "accepted"
        self.add(
            Verified,
            request_id=item.sequence.id,
            round=item.sequence.round,
            rule="greedy" if item.sequence.params.is_greedy else item.sequence.params.rule,
            token_ids=drafts,
            p=tuple(p),
            p_model=tuple(torch.softmax(logits, -1)[rows, drafts].tolist()) if self._is_watching else (),
            q=_draft_entries(proposal),
            u=tuple(trials[node].u if node in trials else None for node in range(len(drafts))),
            verdicts=tuple(verdicts),
            num_accepted=len(outcome.path),
            num_rows=1 + len(proposal.row_ids),
        )

    def _probed(self, item: Round) -> None:
        probes = item.proposal.probe_ids
        favourites = tuple(item.logits[-len(probes) :].argmax(-1).tolist())
        self.add(
            Probed,
            request_id=item.sequence.id,
            round=item.sequence.round,
            token_ids=probes,
            pieces=self._labels(probes),
            parents=item.proposal.probe_parents,
            favourite_ids=favourites,
            favourite_pieces=self._labels(favourites),
            caught=item.caught,
        )

    def _sampled(self, item: Round) -> bool:
        """One event for each token that is part of the text; cuts the sequence where its text stops."""
        sequence, outcome = item.sequence, item.outcome
        first = sequence.num_output - item.num_new
        pieces, is_stopped = sequence.writer.write(sequence.token_ids[sequence.num_prompt + first :])
        del sequence.token_ids[sequence.num_prompt + first + len(pieces) :]
        for depth, (piece, row) in enumerate(zip(pieces, _path_rows(item), strict=False)):
            token = outcome.tokens[depth]
            self.add(
                Sampled,
                request_id=sequence.id,
                round=sequence.round,
                index=first + depth,
                token_id=token,
                piece=piece,
                label=self._tokenizer.label(token),
                fate=outcome.fates[depth],
                p=1.0 if outcome.laws is None else float(outcome.laws[row, token]),
                p_model=float(torch.softmax(item.logits[row], -1)[token]) if self._is_watching else None,
            )
        return is_stopped

    def _inspected(self, item: Round) -> None:
        """The largest entries of every law on the accepted path, where distributions are watched."""
        outcome = item.outcome
        for position, row in enumerate(_path_rows(item) if self._is_watching else ()):
            model = torch.softmax(item.logits[row], -1)
            draft = _draft_law(item.proposal, row)
            winner = outcome.tokens[position]
            residual = outcome.residual if position == len(outcome.path) else None
            laws = (model, None if outcome.laws is None else outcome.laws[row], draft, residual)
            tokens = [
                token for law in laws if law is not None for token in law.topk(min(TOP, len(law))).indices.tolist()
            ]
            tokens += [trial.token for trial in outcome.trials if _row(item.proposal, trial.node) == row] + [winner]
            tokens = list(dict.fromkeys(tokens))
            self.add(
                Inspected,
                request_id=item.sequence.id,
                round=item.sequence.round,
                position=position,
                token_ids=tuple(tokens),
                pieces=self._labels(tokens),
                p_model=_entries(model, tokens),
                p=tuple(float(token == winner) for token in tokens)
                if outcome.laws is None
                else _entries(outcome.laws[row], tokens),
                q=_entries(draft, tokens),
                residual=_entries(residual, tokens),
            )

    def _labels(self, token_ids: Ids[int]) -> tuple[str, ...]:
        return tuple(map(self._tokenizer.label, token_ids))


def _row(proposal: Proposal, node: int) -> int:
    """The row of the pass whose law node `node` was drawn against: its parent's."""
    return node if proposal.parents is None else proposal.parents[node] + 1


def _path_rows(item: Round) -> list[int]:
    """Row i of these gave the law of the round's token i: the root's, then the accepted nodes'."""
    return [0, *(node + 1 for node in item.outcome.path)]


def _draft_law(proposal: Proposal, row: int) -> torch.Tensor | None:
    """The law that the (first) draft after this row was drawn from, None where it was chosen, or there is none."""
    if proposal.laws is not None and proposal.children == "each":
        row = next((node for node, parent in enumerate(proposal.parents) if parent + 1 == row), len(proposal.laws))
    return proposal.laws[row] if proposal.laws is not None and row < len(proposal.laws) else None


def _draft_entries(proposal: Proposal) -> tuple[float, ...]:
    """q of each drafted token, 1 where the draft was certain."""
    if proposal.laws is None:
        return (1.0,) * len(proposal.token_ids)
    is_own = proposal.children == "each"
    rows = [node if is_own else _row(proposal, node) for node in range(len(proposal.token_ids))]
    return tuple(float(proposal.laws[row, token]) for row, token in zip(rows, proposal.token_ids, strict=True))


def _entries(law: torch.Tensor | None, tokens: list[int]) -> tuple[float, ...]:
    return () if law is None else tuple(law[tokens].tolist())


def describe(engine: "Engine") -> EngineStarted:
    """What runs, on what, and when."""
    config, model = engine.config, engine.model
    is_cuda = model.device.type == "cuda"
    return EngineStarted(
        step=0,
        clock=0.0,
        model=model.name,
        weights_sha256=model.sha256,
        dtype=model.dtype,
        cache_dtype=config.resolved_cache_dtype,
        device=str(model.device),
        device_name=torch.cuda.get_device_name() if is_cuda else cpu_name(),
        threads=torch.get_num_threads(),
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        context_length=model.config.context_length,
        recorded=datetime.date.today().isoformat(),
        versions=(("python", platform.python_version()), ("torch", importlib.metadata.version("torch"))),
    )


def cpu_name() -> str:
    """The processor's name as well as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
