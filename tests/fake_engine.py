"""A small engine without a model: it makes up tokens, keeps real blocks, and reports events as the real one does.

Knows nothing of probabilities; it is fast, and each step takes as long as it is told to.
"""

import time

from engine import (
    Admitted,
    BlockPool,
    Drafted,
    EngineError,
    EngineStarted,
    Event,
    Finished,
    Prefilled,
    Request,
    RoundFinished,
    Sampled,
    Submitted,
    Verified,
)

WORDS = (
    " the",
    " cache",
    " is",
    " cut",
    " into",
    " blocks",
    ",",
    " and",
    " a",
    " table",
    " says",
    " where",
    "\n",
    " each",
    " lies",
    ".",
)


class FakeEngine:
    """Takes requests with a text prompt; a request with a drafter gets up to three tokens a round, others one."""

    def __init__(self, seconds: float = 0.0, slow_to_load: float = 0.0, num_blocks: int = 256, block_size: int = 4):
        time.sleep(slow_to_load)
        self._seconds = seconds
        self._num = {"step": 0}
        self._clock = 0.0
        self._events: list[Event] = []
        self._requests: dict[str, dict] = {}
        self.pool = BlockPool(num_blocks, block_size, True, self._report)
        self.steps: list[str | None] = []

    def _report(self, kind: type[Event], **fields: object) -> None:
        self._events.append(kind(step=self._num["step"], clock=self._clock, **fields))

    def started(self) -> Event:
        return EngineStarted(
            step=self._num["step"], clock=self._clock, model="fake", weights_sha256="0" * 64, dtype="float32",
            cache_dtype="float32", device="cpu", device_name="a made-up machine", threads=1,
            block_size=self.pool.block_size, num_blocks=self.pool.num_blocks, context_length=2048,
            recorded="2026-11-29T00:00:00", versions=(("fake", "1"),),
        )  # fmt: skip

    def add(self, request: Request) -> str:
        if not request.prompt:
            raise EngineError("empty_prompt", "the prompt is empty")
        prompt = tuple(range(len(request.prompt.split())))
        self._requests[request.id] = {"request": request, "tokens": len(prompt), "prompt": len(prompt), "round": 0,
                                      "out": 0, "clock": 0.0, "is_new": True, "text": ""}  # fmt: skip
        self._submitted(request.id, request, prompt, tuple(f" {word}" for word in request.prompt.split()), "", 0)
        return request.id

    def _submitted(self, name: str, request: Request, prompt: tuple, pieces: tuple, parent: str, at: int) -> None:
        p = request.params
        self._report(
            Submitted, request_id=name, prompt_ids=prompt, pieces=pieces, drafter=request.drafter or "",
            draft_length=p.draft_length, draft_temperature=p.draft_temperature, temperature=p.temperature,
            top_p=p.top_p, top_k=p.top_k, min_p=p.min_p, rule=p.rule, seed=p.seed, max_new_tokens=p.max_new_tokens,
            parent=parent, fork_at=at,
        )  # fmt: skip

    def fork(self, request_id: str, at: int) -> str:
        child = f"{request_id}/{len(self._requests)}"
        parent = self._requests[request_id]
        self._requests[child] = parent | {
            "tokens": at,
            "round": 0,
            "clock": 0.0,
            "text": "",
            "out": at - parent["prompt"],
        }
        self._submitted(child, parent["request"], tuple(range(at)), (" x",) * at, request_id, at)
        self.pool.fork(request_id, child, at)
        return child

    def abort(self, request_id: str) -> bool:
        if request_id not in self._requests:
            return False
        self._finish(request_id, "abort")
        return True

    @property
    def is_idle(self) -> bool:
        return not self._requests

    def stats(self) -> dict[str, int]:
        return {"blocks_free": self.pool.num_free, "blocks_used": self.pool.num_used, "running": len(self._requests)}

    def step(self, only: str | None = None) -> list[Event]:
        self.steps.append(only)
        self._num["step"] += 1
        for name in [only] if only else list(self._requests):
            time.sleep(self._seconds)
            self._clock += self._seconds or 0.01
            self._round(name)
        events, self._events = self._events, []
        return events

    def _round(self, name: str) -> None:
        item = self._requests[name]
        item["clock"] += self._seconds or 0.01
        if item["is_new"]:
            item["is_new"] = False
            self._report(Admitted, request_id=name)
            self.pool.allocate(name, item["tokens"])
            self._report(Prefilled, request_id=name, start=0, num_tokens=item["tokens"], num_reused=0)
            self._sample(name, "target")
        else:
            item["round"] += 1
            self._draft_and_verify(name) if item["request"].drafter else self._sample(name, "target")
        spent = self._seconds or 0.01
        self._report(
            RoundFinished, request_id=name, round=item["round"], seconds_draft=0.0, seconds_forward=spent,
            seconds_accept=0.0, seconds_other=0.0, request_clock=item["clock"], num_cached=item["tokens"] - 1,
            num_draft_cached=0,
        )  # fmt: skip
        if item["out"] >= item["request"].params.max_new_tokens:
            self._finish(name, "length")

    def _draft_and_verify(self, name: str) -> None:
        item = self._requests[name]
        left = item["request"].params.max_new_tokens - item["out"] - 1
        num, accepted = min(3, left), item["round"] % 4
        accepted = min(accepted, num)
        ids = tuple((item["out"] + i) % len(WORDS) for i in range(num))
        law = (0.5,) * num
        if num:
            self._report(
                Drafted, request_id=name, round=item["round"], drafter=item["request"].drafter, token_ids=ids,
                pieces=tuple(WORDS[i] for i in ids), parents=tuple(range(-1, num - 1)), q=law, is_point_mass=False,
                found_at=-1, seconds=0.0,
            )  # fmt: skip
            verdicts = (
                ("accepted",) * accepted + ("rejected",) * (accepted < num) + ("unreached",) * (num - accepted - 1)
            )
            self._report(
                Verified, request_id=name, round=item["round"], rule="exact", token_ids=ids, p=law, p_model=law, q=law,
                u=law, verdicts=verdicts[:num], num_accepted=accepted, num_rows=num + 1,
            )  # fmt: skip
        for _ in range(accepted):
            self._sample(name, "accepted")
        self._sample(name, "bonus" if accepted == num else "resampled")

    def _sample(self, name: str, fate: str) -> None:
        item = self._requests[name]
        token = item["out"] % len(WORDS)
        self.pool.append(name)
        self._report(
            Sampled, request_id=name, round=item["round"], index=item["out"], token_id=token, piece=WORDS[token],
            label=WORDS[token], fate=fate, p=0.5, p_model=0.5,
        )  # fmt: skip
        item["out"] += 1
        item["tokens"] += 1
        item["text"] += WORDS[token]

    def _finish(self, name: str, reason: str) -> None:
        item = self._requests.pop(name)
        if name in self.pool:
            self.pool.free(name)
        self._report(
            Finished, request_id=name, text=item["text"], finish_reason=reason, message="", num_tokens=item["out"]
        )
