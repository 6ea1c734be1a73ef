"""What works together: each drafter against each other part of the engine, and the reason where it does not.

Knows nothing of how anything is done; it is plain data. A test runs every cell that says "runs".
"""

from dataclasses import dataclass

from engine.drafters import NAMES
from engine.errors import EngineError

RUNS = ("batching", "prefix_cache", "chunked_prefill", "parallel_samples", "temperature", "penalties", "float16_cache",
        "int8_weights")  # fmt: skip
NOT_YET = {"other_device": "never_run_there", "quantised_cache": "no_quantised_cache",
           "cache_policy": "no_cache_policy"}  # fmt: skip
PARTNERS = (*RUNS, *NOT_YET)


@dataclass(frozen=True, slots=True)
class Cell:
    """One drafter with one partner. status: "runs", or "not_yet" (nothing to run, or nowhere to run it).

    reason: "" where it runs, else what is missing.
    """

    partner: str
    status: str
    reason: str = ""


def composition(drafter: str) -> tuple[Cell, ...]:
    """One cell for each of PARTNERS, in that order. What a drafter's name says after a colon makes no difference.

    batching: several requests in one pass. prefix_cache: a prompt whose blocks are found. chunked_prefill: a prompt cut
    over several passes. parallel_samples: n > 1. penalties: each drafted row has a history of its own. float16_cache
    and int8_weights: how both are stored. other_device: the engine on a GPU. quantised_cache: keys and values
    in fewer than 16 bits. cache_policy: keys and values that are dropped. Raises EngineError("unknown_drafter").
    """
    kind = drafter.partition(":")[0]
    if kind not in NAMES:
        raise EngineError("unknown_drafter", f"there is no drafter {drafter!r:.80}", name=drafter)
    runs = [Cell(partner, "runs") for partner in RUNS]
    return (*runs, *(Cell(partner, "not_yet", reason) for partner, reason in NOT_YET.items()))
