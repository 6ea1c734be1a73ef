"""The public face of the engine: everything that a lesson or a notebook may use, and nothing else."""

from engine.accept import accept_chain, accept_greedy, accept_tree, accept_typical
from engine.blocks import BlockPool, Copy
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import EngineError, OutOfBlocks
from engine.events import (
    Drafted,
    Event,
    Finished,
    Inspected,
    RoundFinished,
    Sampled,
    Submitted,
    Verified,
)
from engine.laws import (
    EXACT_RULES,
    LOSSY_RULES,
    RULES,
    WRONG_RULES,
    accept_many,
    acceptance_rate,
    output_law,
    processed_law,
    residual_law,
)
from engine.request import Completion, Request, SamplingParams
from engine.sampling import probabilities
from engine.statistics import chi_square, total_variation
from engine.trace import decode, encode
from engine.trace import fold as fold_trace
from engine.trace import load as load_trace
from engine.trace import parse as parse_trace
from engine.trace import save as save_trace
