"""A tiny language model that comes with the program: the target's words in, some of its words out.

Knows nothing of drafting. Input and output are the target's frozen embedding and rows of its output head, projected.
Both products are made once when it is read, so that what runs is an ordinary model of the Llama family whose output has
few rows; and the file holds only what was learned.
"""

from dataclasses import dataclass, replace

import torch

from engine.head import HeadFile, check_target, draft_dtype
from engine.model import Model
from engine.model_config import ModelConfig
from engine.weights import LoadedModel
from kernels import linear

PRODUCTS = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
    "attention_norm": ("input_layernorm",),
    "mlp_norm": ("post_attention_layernorm",),
}


@dataclass(frozen=True, slots=True)
class LmShape:
    """Sizes. `target` is the target's hidden size; `layers` is here so that all files read alike, and is empty."""

    hidden: int
    target: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    inner: int
    eps: float
    rope_theta: float
    layers: tuple[int, ...] = ()

    def sizes(self, name: str) -> tuple[int, ...]:
        """Rows of the parts that are stacked in one tensor of a layer."""
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        rows = {"qkv": (queries, keys, keys), "output": (self.hidden,), "gate_up": (self.inner,) * 2}
        return rows.get(name, (self.hidden,))

    def tensors(self, vocab: int) -> dict[str, tuple[int, ...]]:
        """What the file holds: names and shapes, with `vocab` ids that it may propose."""
        h, queries = self.hidden, self.num_heads * self.head_dim
        inputs = {"qkv": (h,), "output": (queries,), "gate_up": (h,), "down": (self.inner,)}
        layer = {name: (sum(self.sizes(name)), *inputs.get(name, ())) for name in PRODUCTS}
        every = {f"{name}_{index}": shape for index in range(self.num_layers) for name, shape in layer.items()}
        ends = {"project": (h, self.target), "norm": (h,), "return": (self.target, h), "draft_ids": (vocab,)}
        return ends | every


class DraftLm(Model):
    """A model like any other whose logits are over `draft_ids`."""

    def __init__(self, file: HeadFile, target: Model) -> None:
        """Raises EngineError as `engine.head.check_target`."""
        check_target(file, target)
        self.draft_ids = file.tensors["draft_ids"].long()
        loaded = LoadedModel(file.kind, config(file.shape, target), tensors(file, target), None, file.target, None)
        super().__init__(loaded, draft_dtype(target), target.device)


def config(shape: LmShape, target: Model) -> ModelConfig:
    """The target's config with the draft's sizes."""
    sizes = {"num_layers": shape.num_layers, "hidden_size": shape.hidden, "intermediate_size": shape.inner}
    heads = {"num_heads": shape.num_heads, "num_kv_heads": shape.num_kv_heads, "head_dim": shape.head_dim}
    plain = {"qkv_bias": False, "qk_norm": False, "rope_scaling": None, "sliding_window": None, "no_rope_layers": ()}
    own = {"rms_norm_eps": shape.eps, "rope_theta": shape.rope_theta, "tie_embeddings": False}
    return replace(target.config, model_type="llama", **sizes, **heads, **plain, **own)


def tensors(file: HeadFile, target: Model) -> dict[str, torch.Tensor]:
    """Named as a checkpoint of the Llama family names them, fp32."""
    stored = {name: tensor.to(target.device) for name, tensor in file.tensors.items()}
    rows = linear.unpack(target.head)[stored["draft_ids"].long()]
    found = {
        "model.embed_tokens.weight": linear.unpack(target.embedding).float() @ stored["project"].float().T,
        "model.norm.weight": stored["norm"].float(),
        "lm_head.weight": rows.float() @ stored["return"].float(),
    }
    for index in range(file.shape.num_layers):
        for name, parts in PRODUCTS.items():
            pieces = stored[f"{name}_{index}"].float().split(file.shape.sizes(name))
            for part, piece in zip(parts, pieces, strict=True):
                found[f"model.layers.{index}.{part}.weight"] = piece
    return found
