"""The runs of the paging lesson: what is asked of the engine, and when.

Knows nothing of blocks: sharing, copying and finding again are the engine's doing.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine import Engine, EngineConfig, Event, Inspected, Request, Sampled, SamplingParams, Submitted

TABLE = "Explain in one sentence, to a child, what a page table is for."
GUIDE = (
    "You are the guide of a small museum of computing. Answer in one short sentence, kindly, and never invent a date. "
    "The museum is open from ten to six, closed on Mondays, and free for children. "
)
SPEECH = "Four score and seven years ago our"  # the prompts of figures 6 and 7 of the vLLM paper
TALE = "It was the best of times"
MOST_SAMPLES = 6
LONGEST_OUTPUT = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """What a reader sets. `second` is a prompt that follows the first with a common beginning, "" for none."""

    prompt: str
    second: str
    num_samples: int
    length: int
    temperature: float
    seed: int


PRESETS = {
    "parallel": Settings(TABLE, "", 4, 28, 0.9, 2),
    "fork": Settings("Write two short sentences about the sea.", "", 1, 40, 0.8, 1),
    "prefix": Settings(GUIDE + "When do you open?", GUIDE + "What does my daughter pay?", 1, 20, 0.0, 0),
}
FIRST = "parallel"
FORKED_AT = 58  # tokens of the recorded fork: in the middle of its fourth block


def requests_of(settings: Settings) -> list[Request]:
    """The requests of a run, named A and B. Samples of A share its prompt; B comes when A is done."""
    params = SamplingParams(settings.length, settings.temperature, seed=settings.seed, draft_length=0)
    first = Request(
        settings.prompt, params, n=1 if settings.second else settings.num_samples, prompt_format="chat", id="A"
    )
    return [first, Request(settings.second, params, prompt_format="chat", id="B")] if settings.second else [first]


def mode_of(settings: Settings) -> str:
    """Two prompts run one after the other: what the first leaves behind is what the second finds."""
    return "in_turn" if settings.second else "together"


# ---- recorded runs ------------------------------------------------------------------------------------------------


def recorded(engine: Engine, settings: Settings, fork_at: int = 0) -> Iterator[Event]:
    """The events of a run, large facts left out; `fork_at` forks A as soon as it has so many tokens."""
    requests = requests_of(settings)
    yield from drive(engine, [(number * LONGEST_OUTPUT, request) for number, request in enumerate(requests)], fork_at)


def drive(engine: Engine, arrivals: Sequence[tuple[int, Request]], fork_at: int = 0) -> Iterator[Event]:
    """Steps an engine until all are done, adding each request at its step, or as soon as nothing else runs."""
    yield engine.started()
    waiting, num_steps, length = list(arrivals), 0, 0
    while waiting or not engine.is_idle:
        while waiting and (waiting[0][0] <= num_steps or engine.is_idle):
            engine.add(waiting.pop(0)[1])
        for event in engine.step():
            length += _growth(event)
            if not isinstance(event, Inspected):
                yield event
        if fork_at and length >= fork_at:
            engine.fork("A", fork_at)
            fork_at = 0
        num_steps += 1


def _growth(event: Event) -> int:
    """Tokens that an event adds to request A."""
    match event:
        case Submitted(request_id="A"):
            return len(event.prompt_ids)
        case Sampled(request_id="A"):
            return 1
    return 0


def paper_engine(config: EngineConfig) -> Engine:
    """An engine with the pool of the paper's figures: nine blocks of four slots."""
    return Engine(dataclasses.replace(config, block_size=4, num_blocks=9, drafter=None))


def paper_requests(seed: int = 8) -> list[tuple[int, Request]]:
    """Figures 6-8: one prompt sampled twice, and a second prompt a step later."""
    speech = SamplingParams(6, 0.6, seed=seed, draft_length=0, ignore_eos=True)
    tale = SamplingParams(8, 0.0, draft_length=0, ignore_eos=True)
    return [(0, Request(SPEECH, speech, n=2, id="A")), (2, Request(TALE, tale, id="B"))]
