"""The public face of the engine: everything that a lesson or a notebook may use, and nothing else."""

# ruff: noqa: F401
from engine.accept import (
    DraftTree,
    Trial,
    Verdict,
    accept_chain,
    accept_greedy,
    accept_sampler_match,
    accept_tree,
    accept_typical,
    typical_threshold,
)  # fmt: skip
from engine.accounting import (
    RoundCosts,
    SpeedupAccount,
    attention_intensity,
    blocks_needed,
    break_even_context,
    decode_floor_seconds,
    expected_accepted,
    expected_tokens,
    expected_tokens_by_position,
    explain_speedup,
    flops_per_token,
    kv_bytes_per_token,
    matmul_intensity,
    mla_bytes_per_token,
    model_bytes,
    num_parameters,
    operations_factor,
    optimal_draft_length,
    paging_waste,
    prefill_flops,
    reservation_waste,
    reusable_tokens,
    ridge,
    sparse_tokens,
    speedup,
    speedup_with_verify,
    tokens_distribution,
    utilisation,
)  # fmt: skip
from engine.blocks import BlockPool, Copy
from engine.composition_table import Cell, composition
from engine.config import EngineConfig
from engine.drafters.worth import MEASURED_ON as PASS_TIMES_MEASURED_ON
from engine.drafters.worth import time_of_pass
from engine.engine import Engine
from engine.errors import EngineError, OutOfBlocks
from engine.events import (
    EVENT_TYPES,
    Admitted,
    BlockCopied,
    BlockEvicted,
    BlockFilled,
    BlockFreed,
    BlockHashed,
    BlockHit,
    BlockShared,
    BlockTaken,
    Drafted,
    EngineStarted,
    Event,
    Finished,
    Forwarded,
    Inspected,
    LaidOut,
    Preempted,
    Prefilled,
    Probed,
    RoundFinished,
    Sampled,
    Submitted,
    TreeGrown,
    Verified,
    Viewed,
)  # fmt: skip
from engine.laws import (
    EXACT_RULES,
    LOSSY_RULES,
    WRONG_RULES,
    Draws,
    accept_many,
    acceptance_rate,
    output_law,
    processed_law,
    residual_law,
)  # fmt: skip
from engine.layouts import WAYS as TREE_LAYOUTS
from engine.layouts import compare_layouts
from engine.layouts import lay as lay_tree
from engine.records import bench_record, drafter_card
from engine.request import Completion, Request, SamplingParams
from engine.sampling import draft_params, greedy_tokens, probabilities, sample, uniform
from engine.state import State
from engine.statistics import ChiSquare, chi_square, total_variation
from engine.trace import decode, encode, fold
from engine.trace import load as load_trace
from engine.trace import parse as parse_trace
from engine.trace import save as save_trace
from engine.tree import depths as tree_depths
from engine.tree import mask as tree_mask
from engine.tree import moves as tree_moves
from engine.tree import with_root
from engine.weights import ALLOWED as ALLOWED_MODELS
from engine.weights import LoadedModel
from engine.weights import load as load_model
