"""The runs of the zoo: which drafters there are and what each needs, and the requests of its four experiments.

Knows nothing of pages, nor of how anything is drafted. In a run the requests take the engine one after the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine import Engine, Event, Inspected, Request, SamplingParams, Submitted, TreeGrown, drafter_card
from lessons.runs import Run
from lessons.turns import Turns

PLAIN = "plain"
MODE = "in_turn"
PROMPT = "Write a Python class for a stack with push, pop and peek, and show how it is used."


@dataclass(frozen=True, slots=True)
class Kind:
    """A drafter of the zoo: its family, how many tokens deep it drafts here, and the trained file that it needs."""

    family: str
    draft_length: int
    weights: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it can run: it needs no file, or the file ships."""
        return not self.weights or drafter_card(self.weights) is not None


ZOO = {  # by the engine's names
    "ngram": Kind("lookup", 5),
    "suffix": Kind("lookup", 5),
    "ngram_table": Kind("lookup", 5, "ngram_table"),
    "layer_skip": Kind("self", 4),
    "early_exit": Kind("self", 4),
    "draft_lm": Kind("model", 3, "draft_lm"),
    "specinfer": Kind("model", 3, "draft_lm"),
    "medusa": Kind("head", 4, "medusa"),
    "eagle": Kind("head", 3, "eagle"),
    "eagle2": Kind("head", 4, "eagle"),
    "eagle3": Kind("head", 4, "eagle3"),
    "eagle3:lookup": Kind("head", 5, "eagle3"),
    "eagle_unshifted": Kind("head", 3, "eagle_unshifted"),
    "lookahead": Kind("jacobi", 3),
    "jacobi": Kind("jacobi", 4),
    "magicdec:32": Kind("self", 3),
    "triforce:32": Kind("self", 3),
}
OPTIONAL = ("early_exit", "eagle_unshifted", "magicdec:32", "triforce:32")  # they run when asked for
DEEP = ("layer_skip", "eagle")
DEPTHS = (1, 2, 4, 8)
HOT = (("ngram", False), ("layer_skip", False), ("layer_skip", True), ("eagle", False), ("eagle", True))
TEMPERATURES = (0.0, 0.6, 1.2)
JUDGED = ("medusa", "draft_lm")  # drafts that are chosen, and drafts that are drawn
RULES = ("exact", "typical")
WARM = 0.7  # where the reader sets no temperature: greedily every rule is the same


@dataclass(frozen=True, slots=True)
class Settings:
    """What the reader sets, in the order of the controls on the page."""

    prompt: str = PROMPT
    drafters: tuple[str, ...] = ()
    temperature: float = 0.0
    length: int = 64  # of a sweep's requests half as much: there are many; of those that compare rules twice as much


def here() -> tuple[str, ...]:
    """The drafters that can run with what ships."""
    return tuple(name for name, kind in ZOO.items() if kind.is_here)


def usual() -> tuple[str, ...]:
    """Those that run unless the reader chooses others."""
    return tuple(name for name in here() if name not in OPTIONAL)


def missing() -> tuple[str, ...]:
    """Those whose trained weights do not ship."""
    return tuple(name for name, kind in ZOO.items() if not kind.is_here)


# ---- requests -----------------------------------------------------------------------------------------------------


def zoo_requests(settings: Settings) -> list[Request]:
    """Plain decoding, then each drafter once, all on the same prompt. Raises EngineError for a value that cannot be."""
    params = SamplingParams(max_new_tokens=settings.length, temperature=settings.temperature, seed=1)
    names = [name for name in settings.drafters if name in ZOO]
    return [_plain(settings.prompt, params), *(
        _request(settings.prompt, replace(params, draft_length=ZOO[name].draft_length), name, name) for name in names
    )]  # fmt: skip


def deep_requests(settings: Settings) -> list[Request]:
    """The same two drafters, each deeper and deeper."""
    params = SamplingParams(max_new_tokens=settings.length // 2, seed=1)
    pairs = [(name, depth) for name in DEEP if ZOO[name].is_here for depth in DEPTHS]
    return [_plain(settings.prompt, params), *(
        _request(settings.prompt, replace(params, draft_length=depth), name, f"{name} K={depth}")
        for name, depth in pairs
    )]  # fmt: skip


def hot_requests(settings: Settings) -> list[Request]:
    """Hotter and hotter, the draft drawn from its own law or, where `HOT` says so, greedy: then its q is one-hot."""
    asked = [(*who, heat) for who in HOT if ZOO[who[0]].is_here for heat in TEMPERATURES]
    length = settings.length // 2
    requests = [_plain(settings.prompt, SamplingParams(length, seed=1))]
    for name, is_greedy, heat in asked:
        drafts_at = 0.0 if is_greedy else None
        params = SamplingParams(length, heat, seed=1, draft_length=4, draft_temperature=drafts_at)
        label = f"{name} T={heat:g}{' greedy' if is_greedy else ''}"
        requests.append(_request(settings.prompt, params, name, label))
    return requests


def typical_requests(settings: Settings) -> list[Request]:
    """The same drafters under the exact rule and under Medusa's typical one, drawn at the reader's temperature."""
    params = SamplingParams(2 * settings.length, settings.temperature or WARM, seed=1)
    asked = [(name, rule) for name in JUDGED if ZOO[name].is_here for rule in RULES]
    return [_plain(settings.prompt, params), *(
        _request(settings.prompt, replace(params, draft_length=ZOO[name].draft_length, rule=rule), name,
                 f"{name} {rule}")
        for name, rule in asked
    )]  # fmt: skip


def is_ours(events: Sequence[Event]) -> bool:
    """Whether a run can be one of these experiments: a plain request, and others that are named after their drafter."""
    asked = {event.request_id: event for event in events if isinstance(event, Submitted)}
    return PLAIN in asked and all(
        name == PLAIN or name.partition(" ")[0] == event.drafter for name, event in asked.items()
    )


def _plain(prompt: str, params: SamplingParams) -> Request:
    return _request(prompt, replace(params, draft_length=0), None, PLAIN)


def _request(prompt: str, params: SamplingParams, drafter: str | None, name: str) -> Request:
    return Request(prompt, params, drafter, cache_salt=name, id=name, prompt_format="chat")


# ---- recording ----------------------------------------------------------------------------------------------------


def recorded(engine: Engine, requests: Sequence[Request]) -> Iterator[Event]:
    """The events of these requests, one after the other, without distributions and discarded nodes: none is shown here.

    A first request that is not kept warms the engine up, and reads what the drafters need.
    """
    for request in requests:
        engine.generate([1, 2, 3], replace(request.params, max_new_tokens=8), drafter=request.drafter)
    run = Run(requests, MODE)
    turns = Turns(engine, run)
    turns.start()
    while turns.step():
        pass
    yield from (event for event in run.events if not isinstance(event, Inspected | TreeGrown))
