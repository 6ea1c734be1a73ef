"""The run of the trees lesson: what is asked of the engine, and what its events say about rounds and layouts.

Knows nothing of pages but the sentence for a prompt that is none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine import (
    Engine,
    Event,
    LaidOut,
    Request,
    RoundFinished,
    Sampled,
    SamplingParams,
    Submitted,
    TreeGrown,
    Verified,
    compare_layouts,
)  # fmt: skip
from lessons import asking, live
from lessons.words import Words

PROMPT = "Write a Python function that checks whether a number is prime."
DRAFTER = "eagle2"
DEEPEST = 6
NUM_TOKENS = 48


def request(prompt: str) -> Request:
    """A greedy answer drafted by EAGLE-2's trees: then plain decoding gives the same text, token for token."""
    params = SamplingParams(max_new_tokens=NUM_TOKENS, temperature=0.0, draft_length=DEEPEST)
    return Request(prompt, params, drafter=DRAFTER, prompt_format="chat")


def recorded(engine: Engine, prompt: str) -> Iterator[Event]:
    """The run, and afterwards its first trees laid on their rows in every way."""
    events = []
    for event in engine.run([request(prompt)]):
        events.append(event)
        yield event
    yield from compare_layouts(engine, events)


def is_ours(events: Sequence[Event]) -> bool:
    """Whether a run is one of this lesson: one request, drafted by EAGLE-2."""
    return [event.drafter for event in events if isinstance(event, Submitted)] == [DRAFTER]


def started(t: Words, prompt: object) -> list[object]:
    """Start a run: the transport's new value, and what there is to say."""
    refusal = asking.refusal(t, prompt)
    return asking.started(t, refusal, lambda: live.run([request(prompt)], after=compare_layouts))


def finished(t: Words, run_id: str) -> str:
    """What there is to say when a run is over: why it failed, or that it grew no tree; nothing where all went well."""
    failure = asking.failure(t, run_id)
    return asking.alert(t, failure or ("" if rounds_of(live.events(run_id)) else t("run.treeless")))


# ---- what the events say ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeRound:
    """One round with a tree. values: of all grown nodes, falling; kept: the verified ones' values, in row order.

    accepted: whether each verified draft was accepted, in row order; num_tokens: what the round added to the text.
    """

    values: tuple[float, ...]
    kept: tuple[float, ...]
    accepted: tuple[bool, ...]
    num_tokens: int
    seconds_forward: float
    seconds_draft: float

    @property
    def expected(self) -> float:
        """The tokens that the drafter's confidences promise: 1 + Σ V over the verified nodes."""
        return 1 + sum(self.kept)


def rounds_of(events: Sequence[Event]) -> list[TreeRound]:
    """The rounds of a run that had a tree and were finished, and whose drafts are the tree's chosen nodes."""
    grown = {event.round: event for event in events if isinstance(event, TreeGrown)}
    verified = {event.round: event for event in events if isinstance(event, Verified)}
    bills = {event.round: event for event in events if isinstance(event, RoundFinished)}
    tokens = [event.round for event in events if isinstance(event, Sampled)]
    whole = [
        number for number, tree in grown.items()
        if number in bills and number in tokens and number in verified
        and len(verified[number].verdicts) == len(tree.ranked)
    ]  # fmt: skip
    return [
        TreeRound(
            values=tuple(sorted(grown[number].values, reverse=True)),
            kept=tuple(grown[number].values[node] for node in sorted(grown[number].ranked)),
            accepted=tuple(verdict == "accepted" for verdict in verified[number].verdicts),
            num_tokens=tokens.count(number),
            seconds_forward=bills[number].seconds_forward,
            seconds_draft=bills[number].seconds_draft,
        )
        for number in whole
    ]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to lay trees on rows, over all trees of a run on which it was tried, against decoding each path alone."""

    way: str
    num_trees: int
    num_rows: int  # below the roots
    num_changed: int  # rows that prefer another token
    largest_error: float  # of a logit
    typical_error: float  # median over the rows of a row's largest error
    num_other: int  # trees after which another text comes out
    first_other: LaidOut | None


def layouts_of(events: Sequence[Event], ways: Sequence[str]) -> list[Layout]:
    """What each way did; empty for a run in which none was tried."""
    found = [event for event in events if isinstance(event, LaidOut)]
    return [_layout(way, [event for event in found if event.way == way]) for way in ways if found]


def _layout(way: str, trees: Sequence[LaidOut]) -> Layout:
    errors = sorted(error for tree in trees for error in tree.errors[1:])
    changed = [a != b for tree in trees for a, b in zip(tree.favourite_ids[1:], tree.plain_ids[1:], strict=True)]
    others = [tree for tree in trees if outcome(tree, "favourite") != outcome(tree, "plain")]
    middle = errors[len(errors) // 2] if errors else 0.0
    return Layout(
        way=way,
        num_trees=len(trees),
        num_rows=len(changed),
        num_changed=sum(changed),
        largest_error=max(errors, default=0.0),
        typical_error=middle,
        num_other=len(others),
        first_other=next(iter(others), None),
    )


def outcome(tree: LaidOut, by: str) -> tuple[str, ...]:
    """The tokens that a pass adds, by the logits of the layout ("favourite") or of decoding alone ("plain")."""
    path, pieces = (tree.path, tree.favourite_pieces) if by == "favourite" else (tree.plain_path, tree.plain_pieces)
    return (*(tree.pieces[node] for node in path[1:]), pieces[path[-1]])
