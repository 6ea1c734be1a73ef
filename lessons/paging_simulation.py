"""One request mix, four ways to hand out cache memory: how much of it holds tokens? A simulation, no model.

Knows nothing of pages or figures. The three contiguous ways are those of the vLLM paper's comparison (Kwon et al. 2023,
§6.1: Orca with buddy allocation, reserving the maximum, the next power of two, or the true length); the fourth takes
blocks as it needs them. Request lengths are drawn like ShareGPT's (mean 161 in, 338 out; ibid. figure 11).
"""

import bisect
from dataclasses import dataclass

import numpy as np

POLICIES = ("max", "pow2", "oracle", "paged")
CAPACITY = 15_728  # token slots: 12 GiB at 800 KiB per token, OPT-13B on a 40 GB card (table 1)
LONGEST = 2048
BLOCK_SIZE = 16
MEAN_PROMPT, MEAN_OUTPUT = 161.31, 337.99


@dataclass(frozen=True, slots=True)
class Shares:
    """Mean shares of the memory over time; the four sum to 1. `num_running`: mean requests at once."""

    tokens: float  # slots that hold a token's key and value
    reserved: float  # will hold one later
    internal: float  # handed out and never used
    external: float  # free, but no request fits
    num_running: float


class Buddies:
    """Contiguous memory in pieces of powers of two; a free piece splits, two free halves join (Knuth, vol. 1, §2.5)."""

    def __init__(self, capacity: int, smallest: int) -> None:
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


def draw_lengths(num_requests: int, seed: int = 0) -> np.ndarray:
    """(num_requests, 2) prompt and output lengths: log-normal with ShareGPT's means, cut to the longest sequence."""
    generator = np.random.default_rng(seed)
    spread = 1.1  # log standard deviation: many short, few long, as in figure 11
    means = np.log([MEAN_PROMPT, MEAN_OUTPUT]) - spread**2 / 2
    lengths = np.exp(generator.normal(means, spread, (num_requests, 2))).astype(int)
    lengths = np.clip(lengths, 4, LONGEST - 4)
    lengths[:, 1] = np.minimum(lengths[:, 1], LONGEST - lengths[:, 0])
    return lengths


def simulate(policy: str, lengths: np.ndarray, capacity: int = CAPACITY, num_steps: int = 4000) -> Shares:
    """Runs the mix first come, first served: each step gives every running request a token, then admits who fits.

    The first quarter is left out of the means, while the memory fills.
    """
    return _simulate_paged(lengths, capacity, num_steps) if policy == "paged" else _simulate_contiguous(
        policy, lengths, capacity, num_steps
    )


def _reservation(policy: str, prompt: int, output: int) -> int:
    if policy == "max":
        return LONGEST
    if policy == "pow2":
        return min(LONGEST, prompt + (1 << (output - 1).bit_length()))
    return prompt + output


def _simulate_contiguous(policy: str, lengths: np.ndarray, capacity: int, num_steps: int) -> Shares:
    memory = Buddies(capacity, BLOCK_SIZE)
    running: list[list[int]] = []  # [tokens now, tokens at the end, start, size]
    waiting, samples = 0, []
    for step in range(num_steps):
        for item in running:
            item[0] += 1
        for item in [item for item in running if item[0] >= item[1]]:
            memory.give_back(item[2], item[3])
            running.remove(item)
        while True:
            prompt, output = map(int, lengths[waiting % len(lengths)])
            piece = memory.take(_reservation(policy, prompt, output))
            if piece is None:
                break
            running.append([prompt, prompt + output, *piece])
            waiting += 1
        if step >= num_steps // 4:
            held, final = sum(item[0] for item in running), sum(item[1] for item in running)
            taken = sum(item[3] for item in running)
            samples.append((held, final - held, taken - final, capacity - taken, len(running) * capacity))
    return Shares(*(np.mean(samples, axis=0) / capacity))


def _simulate_paged(lengths: np.ndarray, capacity: int, num_steps: int) -> Shares:
    """Blocks as needed; when they run out the last to come gives all of its own back and will start anew."""
    num_blocks = capacity // BLOCK_SIZE
    running: list[list[int]] = []  # [tokens now, tokens at the end, index of the request]
    queue: list[int] = []
    fresh, samples = 0, []
    for step in range(num_steps):
        for item in running:
            item[0] += 1
        running = [item for item in running if item[0] < item[1]]
        while _blocks(running) > num_blocks:
            queue.insert(0, running.pop()[2])
        while True:
            index = queue[0] if queue else fresh
            prompt, output = map(int, lengths[index % len(lengths)])
            newcomer = [prompt, prompt + output, index]
            if _blocks([*running, newcomer]) + len(running) > num_blocks:  # a block in hand for each: fewer preemptions
                break
            running.append(newcomer)
            if queue:
                queue.pop(0)
            else:
                fresh += 1
        if step >= num_steps // 4:
            held, taken = sum(item[0] for item in running), _blocks(running) * BLOCK_SIZE
            samples.append((held, 0, taken - held, capacity - taken, len(running) * capacity))
    return Shares(*(np.mean(samples, axis=0) / capacity))


def _blocks(running: list[list[int]]) -> int:
    return sum(-(-item[0] // BLOCK_SIZE) for item in running)
