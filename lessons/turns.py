"""Who steps next within one run: all together, one after the other, or a fair race.

Knows nothing of threads and pages: it drives an engine and appends what happened to a run.
"""

from engine import Engine, EngineError, Event, Finished, Request, RoundFinished, Sampled, Submitted
from lessons.runs import Run


class Turns:
    """Drives the requests of one run, one engine step at a time."""

    def __init__(self, engine: Engine, run: Run):
        self._engine = engine
        self._run = run
        self._clocks: dict[str, float] = {}  # seconds of its own that each active request has used
        self._lengths: dict[str, int] = {}  # tokens of each active request, prompt and output
        self._forks = list(run.forks)

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
        """One step of whoever is next; False when the run is over."""
        if self._run.is_stopping:
            self.abort()
            return False
        news = self._engine.step(only=self._next())
        if not news:  # blocked on its own: let the engine see all of them, so that it can give one up
            news = self._engine.step()
        self._note(news)
        self._fork()
        return bool(self._clocks)

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
                    self._lengths[event.request_id] = len(event.prompt_ids)
                case Sampled():
                    self._lengths[event.request_id] += 1
                case RoundFinished() if event.request_id in self._clocks:
                    self._clocks[event.request_id] = event.request_clock
                case Finished():
                    self._clocks.pop(event.request_id, None)

    def _fork(self) -> None:
        for request_id, at in list(self._forks):
            if request_id not in self._clocks:  # it ended before it was that long: there is nothing left to share
                self._forks.remove((request_id, at))
            elif self._lengths.get(request_id, 0) >= at:
                self._forks.remove((request_id, at))
                child = self._engine.fork(request_id, at)
                self._clocks.setdefault(child, 0.0)


def check(requests: tuple[Request, ...], mode: str) -> None:
    """Refuse what cannot take turns: EngineError("bad_parameter") for parallel samples outside "together"."""
    for request in requests:
        if mode != "together" and request.n != 1:
            sentence = f"n is {request.n}; requests that take turns have one sample each"
            raise EngineError("bad_parameter", sentence, name="n", value=request.n)
