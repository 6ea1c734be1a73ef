"""Who steps next within one run: all together, one after the other, or a fair race.

Knows nothing of threads and pages: it drives an engine and appends what happened to a run.
"""

import math
from collections.abc import Iterator, Sequence

from engine import Engine, EngineError, Event, Finished, Request, RoundFinished, Sampled, Submitted
from lessons.runs import Run

MAX_FORKS = 16


class Turns:
    """Drives the requests of one run, one engine step at a time. longest_prompt: in tokens, for runs of readers."""

    def __init__(self, engine: Engine, run: Run, longest_prompt: float = math.inf):
        self._engine = engine
        self._run = run
        self._longest_prompt = longest_prompt
        self._clocks: dict[str, float] = {}  # seconds of its own that each active request has used
        self._lengths: dict[str, int] = {}  # tokens of each request, prompt and output
        self._ended: set[str] = set()
        self._forks = list(run.forks)
        self._afterwards: Iterator[Event] | None = None

    def start(self) -> None:
        """Hand the requests to the engine. Raises EngineError with the first that is refused; none is left behind."""
        self._run.append([self._engine.started()])
        try:
            for request in self._run.requests:
                self._engine.add(request)
                self._clocks[request.id] = 0.0
        except EngineError:
            self.abort()
            raise

    def step(self) -> bool:
        """One step of whoever is next; False when the run is over. Raises EngineError where the run cannot go on."""
        if self._run.is_stopping:
            self.abort()
            return False
        if not self._clocks:
            return self._go_on_after()
        news = self._engine.step(only=self._next())
        if not news:  # blocked on its own: let the engine see all of them, so that it can give one up
            news = self._engine.step()
        self._note(news)
        self._check_prompts(news)
        self._fork()
        return bool(self._clocks or self._run.after)

    def _go_on_after(self) -> bool:
        """One more event of what the run finds out once its requests are done; False when there is no more."""
        if self._afterwards is None:
            self._afterwards = self._run.after(self._engine, tuple(self._run.events)) if self._run.after else iter(())
        news = next(self._afterwards, None)
        self._run.append([] if news is None else [news])
        return news is not None

    def abort(self) -> None:
        """End every request of the run; their blocks are free afterwards."""
        for request_id in list(self._clocks):
            self._engine.abort(request_id)
        self._note(self._engine.step())

    def _next(self) -> str | None:
        """The request that steps alone: the first one, or in a race the one that has used the least time of its own."""
        if self._run.mode == "together":
            return None
        order = list(self._clocks)
        return min(order, key=self._clocks.get) if self._run.mode == "race" else order[0]

    def _note(self, news: list[Event]) -> None:
        self._run.append(news)
        for event in news:
            match event:
                case Submitted():
                    self._clocks.setdefault(event.request_id, 0.0)
                    self._lengths[event.request_id] = max(len(event.prompt_ids), event.fork_at)
                case Sampled():
                    self._lengths[event.request_id] += 1
                case RoundFinished() if event.request_id in self._clocks:
                    self._clocks[event.request_id] = event.request_clock
                case Finished():
                    self._clocks.pop(event.request_id, None)
                    self._ended.add(event.request_id)

    def _check_prompts(self, news: list[Event]) -> None:
        for event in news:
            if isinstance(event, Submitted) and len(event.prompt_ids) > self._longest_prompt:
                raise over_limit(self._longest_prompt)

    def _fork(self) -> None:
        """Fork whoever is long enough by now. A fork waits for its parent to be born: that may be a fork as well."""
        for request_id, at in list(self._forks):
            if request_id in self._ended:  # it never was that long: there is nothing left to share
                self._forks.remove((request_id, at))
            elif request_id in self._lengths and self._lengths[request_id] >= at:
                self._try_to_fork(request_id, at)

    def _try_to_fork(self, request_id: str, at: int) -> None:
        try:
            child = self._engine.fork(request_id, at)
        except EngineError as refusal:
            if refusal.code == "not_running":  # its prompt is still being computed: after another step, then
                return
            raise
        self._forks.remove((request_id, at))
        self._clocks.setdefault(child, 0.0)


def check(requests: Sequence[Request], mode: str, forks: Sequence[tuple[str, int]]) -> None:
    """Refuse what cannot be run: EngineError("bad_parameter" or "too_many_forks"), before anything has changed."""
    for request in requests:
        if mode != "together" and request.n != 1:
            sentence = f"n is {request.n}; requests that take turns have one sample each"
            raise EngineError("bad_parameter", sentence, name="n", value=request.n)
    if len(forks) > MAX_FORKS:
        sentence = f"{len(forks)} forks; a run has at most {MAX_FORKS}"
        raise EngineError("too_many_forks", sentence, value=len(forks), largest=MAX_FORKS)
    for request_id, at in forks:
        if not isinstance(request_id, str) or not isinstance(at, int):
            sentence = f"a fork is {(request_id, at)!r:.80}; it must be a request's id and a number of tokens"
            raise EngineError("bad_parameter", sentence, name="forks", value=at)


def over_limit(largest: float) -> EngineError:
    """The refusal of a prompt that is longer than a run of a reader may have."""
    return EngineError("prompt_over_limit", f"the prompt has more than {largest} tokens", largest=largest)
