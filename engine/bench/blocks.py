"""How fast the block pool is: appends a second, for pools of a thousand to a million blocks.

Knows nothing of models: no tensor is touched.
"""

import argparse
import statistics
import time

from engine.blocks import BlockPool
from engine.commands import at_least

SIZES = (1_000, 10_000, 100_000, 1_000_000)
NUM_SEQUENCES = 64
BLOCK_SIZE = 16


def appends_per_second(num_blocks: int, num_calls: int) -> float:
    """Calls of `append(seq)` a second, one token each, taking turns over 64 sequences in a pool of `num_blocks`.

    The pool has been used before: its blocks come back in random-like order. Sequences that fill the pool are freed
    outside the clock, which is this process's own: other programs on the machine do not count.
    """
    pool = BlockPool(num_blocks, BLOCK_SIZE)
    names = [f"s{index}" for index in range(NUM_SEQUENCES)]
    _wear(pool)
    longest = num_blocks * BLOCK_SIZE // NUM_SEQUENCES - BLOCK_SIZE  # tokens a sequence may have
    seconds, done = 0.0, 0
    while done < num_calls:
        for name in names:
            pool.allocate(name, 1)
        turns = min(longest, -(-(num_calls - done) // NUM_SEQUENCES))
        append = pool.append
        begin = time.process_time()
        for _ in range(turns):
            for name in names:
                append(name)
        seconds += time.process_time() - begin
        done += turns * NUM_SEQUENCES
        for name in names:
            pool.free(name)
    return done / seconds


def _wear(pool: BlockPool) -> None:
    """Take every block and give them back in an order that jumps through the memory."""
    for index in range(pool.num_blocks):
        pool.allocate(str(index), 1)
    step = 7_919  # prime, so every block is met once
    for index in range(pool.num_blocks):
        pool.free(str(index * step % pool.num_blocks))


def main(arguments: list[str]) -> int:
    """Print one line per pool size: the median and the range of the repeats."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench blocks", description=__doc__)
    parser.add_argument("--calls", type=at_least(1), default=500_000)
    parser.add_argument("--repeats", type=at_least(1), default=3)
    options = parser.parse_args(arguments)
    print(f"append(seq), {NUM_SEQUENCES} sequences, block size {BLOCK_SIZE}, {options.calls:,} calls")
    for size in SIZES:
        rates = [appends_per_second(size, options.calls) for _ in range(options.repeats)]
        middle = statistics.median(rates)
        print(f"{size:>9,} blocks  {middle:>10,.0f} calls/s  ({min(rates):,.0f} … {max(rates):,.0f})", flush=True)
    return 0
