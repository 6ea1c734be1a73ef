"""One request mix, four ways to hand out cache memory: how much of it holds tokens? A simulation, no model.

Knows nothing of pages or figures. The three contiguous ways are those of the vLLM paper's comparison (Kwon et al. 2023,
§6.1: Orca with buddy allocation, reserving the maximum, the next power of two, or the true length); the fourth takes
blocks as it needs them. Request lengths are drawn like ShareGPT's (mean 161 in, 338 out before they are cut to whole
tokens and to 2,048 in all; ibid. figure 11).
"""

import bisect
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

POLICIES = ("max", "pow2", "oracle", "paged")
CAPACITY = 15_728  # token slots: 12 GiB at 800 KiB per token, OPT-13B on a 40 GB card (table 1)
LONGEST = 2048
BLOCK_SIZE = 16
MEAN_PROMPT, MEAN_OUTPUT = 161.31, 337.99
SPREAD = 1.1  # log standard deviation: many short, few long, as in figure 11
NUM_REQUESTS = 2000
NUM_STEPS = 4000


@dataclass(frozen=True, slots=True)
class Shares:
    """Mean shares of the memory over time; the first four sum to 1. `num_running`: mean requests at once."""

    tokens: float  # slots that hold a token's key and value
    reserved: float  # will hold one later
    internal: float  # handed out and never used
    external: float  # free, but no request fits
    num_running: float


@dataclass(slots=True, eq=False)
class Job:
    """A request that runs: its tokens now, its tokens at the end, and the piece of memory it was given, if one."""

    number: int
    held: int
    final: int
    start: int = 0
    size: int = 0


class Memory(Protocol):
    """What a policy answers: who may run, who must go, and how the memory is split at this moment."""

    def admit(self, job: Job, running: list[Job]) -> bool: ...
    def leave(self, job: Job) -> None: ...
    def evict(self, running: list[Job]) -> list[Job]: ...
    def split(self, running: list[Job]) -> tuple[int, int, int, int]: ...


# ---- the request mix ----------------------------------------------------------------------------------------------


def draw_lengths(num_requests: int = NUM_REQUESTS, seed: int = 0) -> np.ndarray:
    """(num_requests, 2) prompt and output lengths: log-normal with ShareGPT's means, then cut, which lowers these."""
    generator = np.random.default_rng(seed)
    means = np.log([MEAN_PROMPT, MEAN_OUTPUT]) - SPREAD**2 / 2
    lengths = np.exp(generator.normal(means, SPREAD, (num_requests, 2))).astype(int)
    lengths = np.clip(lengths, 4, LONGEST - 4)
    lengths[:, 1] = np.minimum(lengths[:, 1], LONGEST - lengths[:, 0])
    return lengths


@cache
def mean_lengths(num_seeds: int = 21) -> tuple[float, float]:
    """Mean prompt and output length over the first mixes, as cut: whole tokens, LONGEST in all."""
    means = np.mean([draw_lengths(seed=seed).mean(axis=0) for seed in range(num_seeds)], axis=0)
    return float(means[0]), float(means[1])


def simulate(policy: str, lengths: np.ndarray, block_size: int = BLOCK_SIZE, num_steps: int = NUM_STEPS) -> Shares:
    """Runs the mix first come, first served: each step gives every running request a token, then admits who fits.

    The first quarter is left out of the means, while the memory fills. `block_size` matters to "paged" alone.
    """
    memory = Blocks(CAPACITY, block_size) if policy == "paged" else Pieces(CAPACITY, policy)
    running: list[Job] = []
    returned: list[Job] = []  # evicted, to go on before anyone else starts
    num_seen, samples = 0, []
    for step in range(num_steps):
        running = _advance(memory, running)
        returned = memory.evict(running) + returned
        while True:
            job = returned[0] if returned else _job(num_seen, lengths)
            if not memory.admit(job, running):
                break
            running.append(job)
            num_seen += not returned
            returned = returned[1:]
        if step >= num_steps // 4:
            samples.append((*memory.split(running), len(running) * CAPACITY))
    return Shares(*(float(mean) for mean in np.mean(samples, axis=0) / CAPACITY))


def _job(number: int, lengths: np.ndarray) -> Job:
    prompt, output = map(int, lengths[number % len(lengths)])
    return Job(number, prompt, prompt + output)


def _advance(memory: Memory, running: list[Job]) -> list[Job]:
    """One more token each; who has all of them leaves."""
    for job in running:
        job.held += 1
    for job in running:
        if job.held >= job.final:
            memory.leave(job)
    return [job for job in running if job.held < job.final]


# ---- contiguous ---------------------------------------------------------------------------------------------------


class Buddies:
    """Contiguous memory in pieces of powers of two; a free piece splits, two free halves join (Knuth, vol. 1, §2.5)."""

    def __init__(self, capacity: int, smallest: int):
        self._smallest = smallest
        self._free: dict[int, list[int]] = {}
        start = 0
        while capacity - start >= smallest:  # the largest aligned pieces that fit
            size = 1 << ((capacity - start).bit_length() - 1)
            self._free.setdefault(size, []).append(start)
            start += size

    def take(self, num_slots: int) -> tuple[int, int] | None:
        """(start, size) of a piece of at least `num_slots`, or None."""
        size = max(self._smallest, 1 << (num_slots - 1).bit_length())
        found = min((s for s, starts in self._free.items() if s >= size and starts), default=None)
        if found is None:
            return None
        start = self._free[found].pop(0)
        while found > size:
            found //= 2
            bisect.insort(self._free.setdefault(found, []), start + found)
        return start, size

    def give_back(self, start: int, size: int) -> None:
        """Frees a piece and joins it with its buddy as long as that is free too."""
        while (start ^ size) in self._free.get(size, []):
            self._free[size].remove(start ^ size)
            start, size = min(start, start ^ size), size * 2
        bisect.insort(self._free.setdefault(size, []), start)


class Pieces:
    """One contiguous piece per request, taken when it starts: policy "max", "pow2" or "oracle"."""

    def __init__(self, capacity: int, policy: str):
        self._capacity = capacity
        self._policy = policy
        self._memory = Buddies(capacity, BLOCK_SIZE)

    def admit(self, job: Job, running: list[Job]) -> bool:
        """Whether a piece was found."""
        piece = self._memory.take(self._wanted(job))
        if piece is not None:
            job.start, job.size = piece
        return piece is not None

    def _wanted(self, job: Job) -> int:
        """Only the oracle knows how long the output will be; "pow2" guesses at most twice too much."""
        output = job.final - job.held
        guess = {"max": LONGEST, "pow2": job.held + (1 << (output - 1).bit_length()), "oracle": job.final}
        return min(LONGEST, guess[self._policy])

    def leave(self, job: Job) -> None:
        """Gives the piece back."""
        self._memory.give_back(job.start, job.size)

    def evict(self, running: list[Job]) -> list[Job]:
        """Nobody: what was reserved is theirs."""
        return []

    def split(self, running: list[Job]) -> tuple[int, int, int, int]:
        """Slots that hold a token, are reserved, are never used, are free."""
        held, final, taken = (sum(getattr(job, name) for job in running) for name in ("held", "final", "size"))
        return held, final - held, taken - final, self._capacity - taken


# ---- paged --------------------------------------------------------------------------------------------------------


class Blocks:
    """Blocks as they are needed; when they run out the last to come gives all of its own back and waits."""

    def __init__(self, capacity: int, block_size: int):
        self._capacity = capacity
        self._block_size = block_size
        self._num_blocks = capacity // block_size

    def admit(self, job: Job, running: list[Job]) -> bool:
        """Whether its blocks are free, and one for each of the others besides: fewer have to wait later."""
        return self._taken(running) + self._needed(job) + len(running) <= self._num_blocks

    def leave(self, job: Job) -> None:
        """Nothing to do: what is taken follows from who runs."""

    def evict(self, running: list[Job]) -> list[Job]:
        """Takes the latest out of `running` until the rest fits; their tokens are computed anew when they return."""
        evicted = []
        while self._taken(running) > self._num_blocks:
            evicted.insert(0, running.pop())
        return evicted

    def split(self, running: list[Job]) -> tuple[int, int, int, int]:
        """As in `Pieces`; nothing is reserved."""
        held, taken = sum(job.held for job in running), self._taken(running) * self._block_size
        return held, 0, taken - held, self._capacity - taken

    def _taken(self, running: list[Job]) -> int:
        return sum(self._needed(job) for job in running)

    def _needed(self, job: Job) -> int:
        return -(-job.held // self._block_size)
