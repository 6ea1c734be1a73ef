"""What a pass costs: passes of known shapes are timed, and a line in bytes, rows and tokens seen is fitted to them.

Knows nothing of drafters but the sparse view that they draft through. What follows from the fit is theory.
"""

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine import Engine
from engine.accounting import blocks_needed, break_even_context, sparse_tokens
from engine.batch import Batch, Part
from engine.drafters.sparse import SINKS, WINDOW, SparseTarget

# ---- timed passes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """A pass: `num_rows` rows for each of `batch` sequences, each row seeing about `seen` tokens of `context`."""

    context: int
    batch: int
    num_rows: int
    seen: int


def shapes(contexts: Sequence[int], batches: Sequence[int], draft_length: int, block_size: int) -> Iterator[Shape]:
    """Plain steps, verify passes, and draft steps of one sequence through the sparse view."""
    for context, batch in itertools.product(contexts, batches):
        for num_rows in (1, 2, 1 + draft_length):
            yield Shape(context, batch, num_rows, context)
    for context in contexts:
        yield Shape(context, 1, 1, sparse_tokens(context, SINKS, WINDOW, block_size))


def time_passes(engine: Engine, wanted: Sequence[Shape], repeats: int) -> list[float]:
    """Median seconds of each pass, interleaved. Overwrites what the cache holds; the values do not matter."""
    seconds: list[list[float]] = [[] for _ in wanted]
    batches = [_batch_of(engine, shape) for shape in wanted]
    for _ in range(repeats + 1):
        for taken, batch in zip(seconds, batches, strict=True):
            start = time.perf_counter()
            engine.model.forward(batch, engine.cache)
            engine.model.wait()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken[1:]) for taken in seconds]  # the first warms up


def _batch_of(engine: Engine, shape: Shape) -> Batch:
    size = blocks_needed(shape.context + shape.num_rows, engine.config.block_size)
    view = SparseTarget(engine.model, engine.cache, WINDOW).seen(shape.context, 1)
    seen = None if shape.seen == shape.context else view
    context = shape.context - (seen is not None)
    tables = [range(index * size, (index + 1) * size) for index in range(shape.batch)]
    return Batch.join([Part("generated", [1] * shape.num_rows, table, context, blocks_seen=seen) for table in tables])


# ---- theory ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """t = bytes of weights, keys and values · seconds_per_byte + rows · (seconds_per_row + seen · seconds_per_seen)."""

    seconds_per_byte: float
    seconds_per_row: float
    seconds_per_seen: float
    weight_bytes: float
    token_bytes: float

    def line(self, batch: int, num_rows: int) -> tuple[float, float]:
        """Seconds of a pass at context 0, and seconds more per token of each sequence's context."""
        rows = batch * num_rows
        fixed = self.seconds_per_byte * self.weight_bytes + rows * self.seconds_per_row
        return fixed, batch * self.seconds_per_byte * self.token_bytes + rows * self.seconds_per_seen

    def seconds(self, shape: Shape) -> float:
        """Seconds of a pass of that shape."""
        fixed, per_token = self.line(shape.batch, shape.num_rows)
        return fixed + per_token * shape.seen

    def pays_from(self, batch: int, draft_length: int, tau: float, tokens: int, together: int) -> float:
        """The context from which rounds win. A draft step sees `tokens` tokens and serves `together` sequences."""
        fixed, per_token = self.line(together, 1)
        verify = self.line(batch, 1 + draft_length)
        spent = draft_length * batch / together * (fixed + per_token * tokens) + verify[0], verify[1]
        return max(float(tokens), break_even_context(self.line(batch, 1), spent, tau))


def fitted(wanted: Sequence[Shape], seconds: Sequence[float], weight_bytes: float, token_bytes: float) -> Costs:
    """Least squares of relative errors; a coefficient that would be negative is 0."""
    columns = np.array([[weight_bytes + token_bytes * s.batch * s.seen, s.batch * s.num_rows,
                         s.batch * s.num_rows * s.seen] for s in wanted])  # fmt: skip
    scaled, used, found = columns / np.array(seconds)[:, None], [0, 1, 2], np.zeros(3)
    while used:
        unit = np.abs(scaled[:, used]).max(0)  # bytes and rows differ by nine orders of magnitude
        values = np.linalg.lstsq(scaled[:, used] / unit, np.ones(len(wanted)), rcond=None)[0] / unit
        if values.min() >= 0:
            found[used] = values
            break
        used.pop(int(values.argmin()))
    return Costs(*found.tolist(), weight_bytes, token_bytes)
