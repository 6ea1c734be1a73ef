"""A toy target and drafters for engine tests: eight tokens, so that every law can be written down and counted.

The weights are random but large, so that its laws are neither flat nor certain.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence as Ids

import numpy as np
import tokenizers
import torch

from engine import Engine, EngineConfig
from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.draft_lm import DraftLm, LmShape
from engine.drafters import Proposal
from engine.drafters.draft_model import DraftModelDrafter, StreamingDraftDrafter
from engine.drafters.eagle import EagleDrafter
from engine.drafters.eagle_tree import EagleTreeDrafter
from engine.drafters.lookup_first import LookupFirstDrafter
from engine.drafters.medusa import MedusaDrafter
from engine.drafters.ngram_table import Contexts, NgramTable, NgramTableDrafter
from engine.drafters.sparse import SparseTarget, TriForceDrafter
from engine.drafters.specinfer import SpecInferDrafter
from engine.drafters.suffix import SuffixDrafter
from engine.head import Head, HeadFile, HeadShape
from engine.medusa import Medusa, MedusaShape
from engine.model import Model
from engine.model_config import ModelConfig
from engine.sampling import sample, uniform
from engine.sequence import Sequence
from engine.tokenizer import Tokenizer
from engine.train.draft_lm import TinyLm
from engine.train.eagle import Aims, EagleHead
from engine.train.loop import Pupil
from engine.train.medusa import MedusaHeads
from engine.train.words import Words
from engine.weights import LoadedModel
from kernels import linear

VOCAB_SIZE = 8


def letter_tokenizer(vocab_size: int = VOCAB_SIZE) -> Tokenizer:
    """Token i is the letter A + i."""
    letters = {chr(ord("A") + i): i for i in range(vocab_size)}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    return Tokenizer(backend, {}, None, ())


def toy_config(**changes: object) -> ModelConfig:
    """Four narrow layers."""
    sizes = {
        "model_type": "llama", "num_layers": 4, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2,
        "num_kv_heads": 1, "head_dim": 8, "vocab_size": VOCAB_SIZE, "context_length": 64, "rms_norm_eps": 1e-5,
        "rope_theta": 1e4,
    }  # fmt: skip
    return ModelConfig(**(sizes | changes))


def toy_model(seed: int = 0, spread: float = 0.35, **changes: object) -> LoadedModel:
    """Random weights; `spread` widens the logits."""
    config = toy_config(**changes)
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * spread

    hidden, heads = config.hidden_size, config.head_dim * config.num_heads
    keys, inner = config.head_dim * config.num_kv_heads, config.intermediate_size
    tensors = {
        "model.embed_tokens.weight": normal(config.vocab_size, hidden),
        "lm_head.weight": normal(config.vocab_size, hidden),
        "model.norm.weight": torch.ones(hidden),
    }
    for layer in range(config.num_layers):
        name = f"model.layers.{layer}."
        tensors |= {
            f"{name}input_layernorm.weight": torch.ones(hidden),
            f"{name}post_attention_layernorm.weight": torch.ones(hidden),
            f"{name}self_attn.q_proj.weight": normal(heads, hidden),
            f"{name}self_attn.k_proj.weight": normal(keys, hidden),
            f"{name}self_attn.v_proj.weight": normal(keys, hidden),
            f"{name}self_attn.o_proj.weight": normal(hidden, heads),
            f"{name}mlp.gate_proj.weight": normal(inner, hidden),
            f"{name}mlp.up_proj.weight": normal(inner, hidden),
            f"{name}mlp.down_proj.weight": normal(hidden, inner),
        }
    return LoadedModel(f"toy-{seed}", config, tensors, letter_tokenizer(config.vocab_size), f"{seed:064x}", None)


class RandomDrafter:
    """An adversary: drafts tokens that have nothing to do with the target, from a flat law."""

    needs_slots = False
    caches: tuple[KVCache, ...] = ()
    features = ()
    num_cached = 0

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        seed, position = sequence.params.seed + 7, len(sequence)
        tokens = [int(VOCAB_SIZE * uniform(seed, position + i, "draft")) for i in range(num_tokens)]
        return Proposal(tuple(tokens), torch.full((num_tokens, VOCAB_SIZE), 1 / VOCAB_SIZE))

    def update(self, sequence: Sequence, num_drafted: int, num_accepted: int) -> None:
        """Learns nothing."""


class RandomTreeDrafter(RandomDrafter):
    """A fixed tree of given (not drawn) tokens: two children, each with two of their own, then a chain."""

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        shape = ((-1, -1, 0, 0, 1, 1, 2, 4) if num_tokens > 2 else (-1, -1, 0, 1))[: 4 * num_tokens]
        depth = [0] * len(shape)
        for node, parent in enumerate(shape):
            depth[node] = 1 + (depth[parent] if parent >= 0 else 0)
        shape = [parent for node, parent in enumerate(shape) if depth[node] <= num_tokens]
        start = int(VOCAB_SIZE * uniform(sequence.params.seed + 9, len(sequence), "draft"))
        tokens = [(start + 3 * node) % VOCAB_SIZE for node in range(len(shape))]  # siblings differ
        return Proposal(tuple(tokens), None, tuple(shape))


class DrawnTreeDrafter(RandomDrafter):
    """Two children below each of two children, drawn one after the other, each row from its own law.

    The laws have a favourite, so that siblings are often equal: `drawn` and `said` must agree for the text to be right.
    """

    def __init__(self, drawn: str, said: str) -> None:
        self._drawn, self._said = drawn, said

    def propose(self, sequence: Sequence, num_tokens: int, table: Ids[int]) -> Proposal:
        parents, tokens = ((-1, -1, 0, 0, 1, 1) if num_tokens > 1 else (-1, -1)), []
        law = torch.tensor([0.8, *[0.2 / (VOCAB_SIZE - 1)] * (VOCAB_SIZE - 1)])
        laws = torch.stack([law.roll(3 * row) for row in range(1 + len(parents))])
        for node, parent in enumerate(parents):
            left = laws[parent + 1].clone()
            if self._drawn == "distinct" and node and parents[node - 1] == parent:
                left[tokens[-1]] = 0.0
            tokens.append(sample(left, uniform(sequence.params.seed, len(sequence), "draft", node)))
        return Proposal(tuple(tokens), laws, parents, self._said)


def toy_engine(loaded: LoadedModel | None = None, **config: object) -> Engine:
    """An engine on the toy model in fp32 with small blocks."""
    settings = {"dtype": "float32", "block_size": 4, "num_blocks": 64, "max_running": 8} | config
    settings = EngineConfig(**settings)

    @functools.cache
    def small() -> tuple[Model, KVCache]:
        model = Model(toy_model(3), "float32", settings.device)
        return model, KVCache(model.config, settings.num_blocks, settings.block_size, "float32", settings.device)

    drafters = {"random": RandomDrafter, "tree": RandomTreeDrafter}
    for drawn, said in itertools.product(("iid", "distinct"), repeat=2):
        name = drawn if drawn == said else f"{drawn} as {said}"
        drafters[name] = functools.partial(DrawnTreeDrafter, drawn, said)
    drafters["small"] = lambda: DraftModelDrafter(*small(), VOCAB_SIZE)
    for name, layers in (("eagle", (4,)), ("eagle3", (1, 2, 4))):
        drafters[name] = functools.partial(lambda layers: EagleDrafter(head(layers)), layers)
    drafters["eagle2"] = lambda: EagleTreeDrafter(head((4,)))
    drafters["unshifted"] = lambda: EagleDrafter(unshifted())
    drafters["medusa"] = lambda: MedusaDrafter(medusa())
    drafters["specinfer"] = lambda: SpecInferDrafter(*lm(), VOCAB_SIZE, settings.num_blocks, (SuffixDrafter(),))
    drafters["lm"] = lambda: DraftModelDrafter(*lm(), VOCAB_SIZE)
    drafters["triforce_lm"] = lambda: TriForceDrafter(engine.model, engine.cache, streaming(), 8)
    behind = functools.partial(toy_table().chain, all_right=0.5)
    drafters["lookup_eagle"] = lambda: LookupFirstDrafter(EagleDrafter(head((1, 2, 4))), 2, behind)
    drafters["ngram_table"] = lambda: NgramTableDrafter(toy_table())

    @functools.cache
    def head(layers: tuple[int, ...]) -> Head:
        return Head(toy_head(engine.model, layers), engine.model, engine.cache)

    @functools.cache
    def unshifted() -> Head:
        file = toy_head(engine.model, (4,))
        file = dataclasses.replace(file, shape=dataclasses.replace(file.shape, is_shifted=False))
        return Head(file, engine.model, engine.cache)

    @functools.cache
    def medusa() -> Medusa:
        return Medusa(file_of(toy_medusa(engine.model), engine.model), engine.model, engine.cache)

    @functools.cache
    def lm() -> tuple[DraftLm, KVCache]:
        model = DraftLm(file_of(toy_lm(engine.model), engine.model), engine.model)
        return model, KVCache(model.config, settings.num_blocks + 16, settings.block_size, "float32", settings.device)

    def streaming() -> StreamingDraftDrafter:
        return StreamingDraftDrafter(*lm(), VOCAB_SIZE, SparseTarget(*lm(), 4).seen)

    engine = Engine(settings, loaded or toy_model(), extra_drafters=drafters)
    return engine


def toy_table(target: str = "0" * 64) -> NgramTable:
    """Some token after every pair whose second is one of the first five, and after each but the last of all tokens."""
    before, last = (ids.ravel() for ids in np.mgrid[:VOCAB_SIZE, :5])
    pairs = (before * 2**32 + last, (3 * before + 5 * last + 1) % VOCAB_SIZE, 0.5 + 0.1 * last)
    ids = np.arange(VOCAB_SIZE - 1)
    singles = (ids, (5 * ids + 2) % VOCAB_SIZE, 1 - 0.1 * ids)
    return NgramTable(target, *(Contexts(k.astype(np.int64), t.astype(np.int32), p.astype(np.float16))
                                for k, t, p in (pairs, singles)))  # fmt: skip


def toy_head(model: Model, layers: tuple[int, ...], num_draft_ids: int = 6) -> HeadFile:
    """A head with random weights that may propose the first six tokens."""
    return file_of(toy_pupil(model, layers, num_draft_ids), model)


def file_of(pupil: Pupil, model: Model) -> HeadFile:
    """What a pupil's file would hold, were it written in fp32."""
    tensors = {name: value.detach() for name, value in pupil.named_parameters()}
    return HeadFile("toy", model.sha256, pupil.shape, tensors | {"draft_ids": pupil.words.draft_ids.int()})


def toy_words(model: Model, num_draft_ids: int = 6) -> Words:
    """The first ids with the target's rows for them."""
    ids = torch.arange(num_draft_ids)
    return Words(model.config.vocab_size, ids, linear.unpack(model.head).cpu()[ids])


def toy_medusa(model: Model) -> MedusaHeads:
    """Three heads with random weights."""
    config = model.config
    shape = MedusaShape(config.hidden_size, 3, config.rms_norm_eps, (config.num_layers,))
    torch.manual_seed(6)
    pupil = MedusaHeads(shape, toy_words(model), _norm(model))
    with torch.no_grad():
        pupil.blocks += 0.3 * torch.randn_like(pupil.blocks)
    return pupil


def toy_lm(model: Model) -> TinyLm:
    """Two layers with random weights."""
    config = model.config
    sizes = (16, config.hidden_size, 2, 2, 1, 8, 24)
    shape = LmShape(*sizes, config.rms_norm_eps, config.rope_theta)
    torch.manual_seed(7)
    return TinyLm(shape, linear.unpack(model.embedding).cpu(), toy_words(model), _norm(model))


def toy_pupil(model: Model, layers: tuple[int, ...], num_draft_ids: int = 6) -> EagleHead:
    """The same head as it stands in training."""
    config = model.config
    sizes = (config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim, 24)
    shape = HeadShape(*sizes, config.rms_norm_eps, config.rope_theta, layers)
    torch.manual_seed(5)
    embedding = linear.unpack(model.embedding).cpu()
    pupil = EagleHead(shape, Aims(), embedding, toy_words(model, num_draft_ids), _norm(model))
    with torch.no_grad():
        for name, value in pupil.named_parameters():
            value += 0.3 * torch.randn_like(value) if name.endswith("norm") else 0.1 * torch.randn_like(value)
    return pupil


def _norm(model: Model) -> torch.Tensor:
    """The target's last norm as training has it: fp32 on the CPU."""
    return model.norm.cpu().float()


def exact_law(engine: Engine, token_ids: Ids[int]) -> torch.Tensor:
    """The toy's own logits after `token_ids`, computed from nothing: (vocab,)."""
    config = engine.model.config
    blocks = -(-len(token_ids) // 4)
    cache = KVCache(config, blocks, 4, "float32")
    return engine.model.forward(Batch.join([Part("prompt", list(token_ids), range(blocks), 0, num_logits=1)]), cache)[0]
