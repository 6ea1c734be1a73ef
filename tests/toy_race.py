"""A toy race: vanilla against speculative on a made-up model, reported in the engine's own events.

Knows nothing of the engine's code: laws, coins, blocks and clocks are its own, so that what is drawn from a run can be
tested without one. The target follows a script; the draft blurs the target's law; the acceptance rule is the exact one.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from toy_language import PIECES, Law, draft_law, draw, residual_of, target_law

from engine import events as told
from engine.events import Event

BLOCK = 16
PROMPT = ("<|im_start|>", "user", "\n", "Why", " is", " the", " sky", " blue", "?", "<|im_end|>", "\n")


@dataclass
class Costs:
    """Seconds of the toy's clock."""

    plain: float = 0.025
    draft: float = 0.021  # one drafted token
    verify: float = 0.032  # one pass over K + 1 rows
    prefill: float = 0.110


@dataclass
class Toy:
    """What to race. `sharpness` of the draft: 1 is the target itself, 0 knows nothing."""

    seed: int = 0
    num_tokens: int = 64
    draft_length: int = 4
    temperature: float = 0.8
    sharpness: float = 0.7
    drafter: str = "layer_skip"
    is_point_mass: bool = False
    costs: Costs = field(default_factory=Costs)


@dataclass
class Racer:
    """One of the two requests while it runs."""

    id: str
    draft_length: int
    coins: random.Random
    tokens: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    clock: float = 0.0
    round: int = 0
    is_done: bool = False


def toy_race(toy: Toy | None = None) -> list[Event]:
    """All events of one race, the racer with less of its own clock going next."""
    toy = toy or Toy()
    vanilla = Racer("vanilla", 0, random.Random(f"{toy.seed} vanilla"))
    speculative = Racer("speculative", toy.draft_length, random.Random(f"{toy.seed} speculative"))
    race = Race(toy)
    events = [race.started(), race.submitted(vanilla), race.submitted(speculative)]
    racers = [vanilla, speculative]
    while any(not racer.is_done for racer in racers):
        racer = min((racer for racer in racers if not racer.is_done), key=lambda racer: racer.clock)
        events += race.advance(racer)
    return events


class Race:
    """The toy's engine."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.step = 0
        self.clock = 0.0
        self.next_block = 0

    def started(self) -> Event:
        """What ran, and on what."""
        return told.EngineStarted(
            **self._now(), model="toy", weights_sha256="0" * 64, dtype="float16", cache_dtype="float16", device="cpu",
            device_name="a made-up machine", threads=2, block_size=BLOCK, num_blocks=512, context_length=8192,
            recorded="2026-11-30", versions=(("engine", "0.1.0"),),
        )  # fmt: skip

    def submitted(self, racer: Racer) -> Event:
        """The request as the engine would report it."""
        toy = self.toy
        return told.Submitted(
            **self._now(), request_id=racer.id, prompt_ids=tuple(range(900, 900 + len(PROMPT))), pieces=PROMPT,
            drafter=toy.drafter if racer.draft_length else "", draft_length=racer.draft_length,
            draft_temperature=0.0 if toy.is_point_mass else None, temperature=toy.temperature, top_p=1.0, top_k=0,
            min_p=0.0, rule="exact", seed=toy.seed, max_new_tokens=toy.num_tokens, parent="", fork_at=0,
        )  # fmt: skip

    def advance(self, racer: Racer) -> Iterator[Event]:
        """The prompt, or one round; and the end, when it is reached."""
        self.step += 1
        if not racer.tokens:
            yield told.Admitted(**self._now(), request_id=racer.id)
            yield from self._resize(racer, len(PROMPT))
            yield from self._prefill(racer)
        else:
            yield from self._round(racer)
        if len(racer.tokens) >= self.toy.num_tokens:
            racer.is_done = True
            yield from self._resize(racer, 0)
            text = "".join(PIECES[token] for token in racer.tokens)
            yield told.Finished(
                **self._now(), request_id=racer.id, text=text, finish_reason="length", message="",
                num_tokens=len(racer.tokens),
            )  # fmt: skip

    # ---- one step ---------------------------------------------------------------------------------------------

    def _prefill(self, racer: Racer) -> Iterator[Event]:
        self._spend(racer, self.toy.costs.prefill)
        yield told.Prefilled(**self._now(), request_id=racer.id, start=0, num_tokens=len(PROMPT), num_reused=0)
        yield self._forwarded(racer, len(PROMPT), 0, self.toy.costs.prefill)
        yield from self._outcome(racer, [], [], self._target_law(racer.tokens))
        yield self._bill(racer, 0.0, self.toy.costs.prefill)

    def _round(self, racer: Racer) -> Iterator[Event]:
        costs = self.toy.costs
        length = min(racer.draft_length, self.toy.num_tokens - len(racer.tokens) - 1)
        drafts, draft_laws = self._draft(racer, length)
        racer.round += 1
        yield from self._resize(racer, len(PROMPT) + len(racer.tokens) + length)
        forward = (costs.verify if length else costs.plain) * (0.95 + 0.1 * racer.coins.random())
        self._spend(racer, costs.draft * length)
        if length:
            yield self._drafted(racer, drafts, draft_laws, costs.draft * length)
        self._spend(racer, forward)
        yield self._forwarded(racer, 0, length + 1, forward)
        yield from self._verify(racer, drafts, draft_laws)
        yield from self._resize(racer, len(PROMPT) + len(racer.tokens) - 1)
        yield self._bill(racer, costs.draft * length, forward)

    def _draft(self, racer: Racer, length: int) -> tuple[list[int], list[Law]]:
        drafts, laws = [], []
        for _ in range(length):
            law = self._draft_law([*racer.tokens, *drafts])
            laws.append(law)
            drafts.append(draw(law, racer.coins))
        return drafts, laws

    def _verify(self, racer: Racer, drafts: list[int], draft_laws: list[Law]) -> Iterator[Event]:
        """The exact rule: accept while u·q < p, then the residual; p itself after the last draft."""
        prefixes = [[*racer.tokens, *drafts[:index]] for index in range(len(drafts) + 1)]
        laws = [self._target_law(prefix) for prefix in prefixes]
        coins: list[float | None] = [None] * len(drafts)
        verdicts, num_accepted = ["unreached"] * len(drafts), 0
        for index, token in enumerate(drafts):
            p, q = laws[index].get(token, 0.0), draft_laws[index][token]
            coins[index] = None if self._is_greedy else racer.coins.random()
            is_accepted = p == 1.0 if self._is_greedy else coins[index] * q < p
            verdicts[index] = "accepted" if is_accepted else "rejected"
            if not is_accepted:
                break
            num_accepted += 1
        is_rejected = num_accepted < len(drafts)
        residual = residual_of(laws[num_accepted], draft_laws[num_accepted]) if is_rejected else None
        if drafts:
            yield self._verified(racer, drafts, laws, draft_laws, coins, verdicts)
        law = laws[num_accepted]
        yield from self._outcome(racer, drafts[:num_accepted], draft_laws, law, residual, bool(drafts), laws)

    def _outcome(self, racer, accepted, draft_laws, law, residual=None, is_speculative=False, laws=None):
        """The tokens of the round, then the laws that they came from."""
        fate = "target" if not is_speculative else "bonus" if residual is None else "resampled"
        token = draw(residual or law, racer.coins)
        laws = laws or [law]
        for depth, (new, kind) in enumerate([*((item, "accepted") for item in accepted), (token, fate)]):
            piece, p = PIECES[new], laws[depth].get(new, 0.0)
            yield told.Sampled(
                **self._now(), request_id=racer.id, round=racer.round, index=len(racer.tokens), token_id=new,
                piece="" if piece.startswith("⟨") else piece, label=piece, fate=kind, p=p, p_model=p,
            )  # fmt: skip
            racer.tokens.append(new)
        for position, used in enumerate(laws[: len(accepted) + 1]):
            drafted = draft_laws[position] if position < len(draft_laws) else {}
            is_last = position == len(accepted)
            yield self._inspected(racer, position, used, drafted, residual or {} if is_last else {})

    # ---- laws ---------------------------------------------------------------------------------------------------

    @property
    def _is_greedy(self) -> bool:
        return self.toy.temperature == 0

    def _target_law(self, prefix: list[int]) -> Law:
        return target_law(self.toy.seed, prefix, self._is_greedy)

    def _draft_law(self, prefix: list[int]) -> Law:
        is_one_hot = self.toy.is_point_mass or self._is_greedy
        return draft_law(self.toy.seed, prefix, self._target_law(prefix), self.toy.sharpness, is_one_hot)

    # ---- records ------------------------------------------------------------------------------------------------

    def _now(self) -> dict[str, float]:
        return {"step": self.step, "clock": round(self.clock, 9)}

    def _spend(self, racer: Racer, seconds: float) -> None:
        self.clock += seconds
        racer.clock += seconds

    def _forwarded(self, racer: Racer, prompt_rows: int, rows: int, seconds: float) -> Event:
        return told.Forwarded(
            **self._now(), request_ids=(racer.id,), num_prompt_rows=prompt_rows, num_generated_rows=rows,
            seconds=seconds,
        )  # fmt: skip

    def _drafted(self, racer: Racer, drafts: list[int], laws: list[Law], seconds: float) -> Event:
        return told.Drafted(
            **self._now(), request_id=racer.id, round=racer.round, drafter=self.toy.drafter, token_ids=tuple(drafts),
            pieces=tuple(PIECES[token] for token in drafts), parents=tuple(range(-1, len(drafts) - 1)),
            q=tuple(law[token] for law, token in zip(laws, drafts, strict=True)),
            is_point_mass=self.toy.is_point_mass or self._is_greedy, found_at=-1, seconds=seconds,
        )  # fmt: skip

    def _verified(self, racer, drafts, laws, draft_laws, coins, verdicts) -> Event:
        p = tuple(law.get(token, 0.0) for law, token in zip(laws, drafts, strict=False))
        return told.Verified(
            **self._now(), request_id=racer.id, round=racer.round, rule="greedy" if self._is_greedy else "exact",
            token_ids=tuple(drafts), p=p, p_model=p,
            q=tuple(law[token] for law, token in zip(draft_laws, drafts, strict=True)), u=tuple(coins),
            verdicts=tuple(verdicts), num_accepted=verdicts.count("accepted"), num_rows=1 + len(drafts),
        )  # fmt: skip

    def _inspected(self, racer: Racer, position: int, p: Law, q: Law, residual: Law) -> Event:
        tokens = tuple(sorted(p | q, key=lambda token: -max(p.get(token, 0.0), q.get(token, 0.0))))
        row = {name: tuple(law.get(token, 0.0) for token in tokens) for name, law in (("p", p), ("q", q))}
        has_law = q and not self.toy.is_point_mass and not self._is_greedy
        return told.Inspected(
            **self._now(), request_id=racer.id, round=racer.round, position=position, token_ids=tokens,
            pieces=tuple(PIECES[token] for token in tokens), p_model=row["p"], p=row["p"],
            q=row["q"] if has_law else (),
            residual=tuple(residual.get(token, 0.0) for token in tokens) if residual else (),
        )  # fmt: skip

    def _bill(self, racer: Racer, draft: float, forward: float) -> Event:
        accept, other = 0.0004, 0.0006
        self._spend(racer, accept + other)
        cached = len(PROMPT) + len(racer.tokens) - 1
        return told.RoundFinished(
            **self._now(), request_id=racer.id, round=racer.round, seconds_draft=draft, seconds_forward=forward,
            seconds_accept=accept, seconds_other=other, request_clock=racer.clock, num_cached=cached,
            num_draft_cached=max(0, cached - 1) if racer.draft_length else 0,
        )  # fmt: skip

    def _resize(self, racer: Racer, num_tokens: int) -> Iterator[Event]:
        wanted = -(-num_tokens // BLOCK)
        while len(racer.table) < wanted:
            racer.table.append(self.next_block)
            self.next_block += 1
            index = len(racer.table) - 1
            yield told.BlockTaken(**self._now(), request_id=racer.id, index=index, block=racer.table[-1])
            if index:
                yield told.BlockFilled(
                    **self._now(), request_id=racer.id, index=index - 1, block=racer.table[index - 1]
                )  # fmt: skip
        while len(racer.table) > wanted:
            block, index = racer.table.pop(), len(racer.table)
            yield told.BlockFreed(**self._now(), request_id=racer.id, index=index, block=block, ref_count=0)


TOYS = {
    "sampled": Toy(seed=3),
    "greedy": Toy(seed=4, temperature=0.0),
    "lookup": Toy(seed=4, is_point_mass=True, drafter="ngram", costs=Costs(draft=0.0002)),
    "wide": Toy(seed=5, draft_length=16, num_tokens=40),
}


def of(events: list[Event], kind: type[Event], name: str = "speculative") -> list:
    """The events of one kind of one request."""
    return [event for event in events if isinstance(event, kind) and event.request_id == name]
