"""Tiny heads in the layouts that others publish, and what their code computes: whole sequences at once, nothing cached.

Knows nothing of the engine's readers. `expected` is written from eagle/model/cnets1.py and cnets.py (SafeAILab/EAGLE),
models/eagle3/model_definitions.py (vllm-project/speculators) and medusa/model/medusa_model.py (FasterDecoding/Medusa);
the target's hidden states come from `transformers`.
"""

import json
import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from tests.published_target import Target

SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1,
         "num_hidden_layers": 1, "vocab_size": 8, "rms_norm_eps": 1e-5, "hidden_act": "silu"}  # fmt: skip
WORDS = (0, 1, 2, 4, 5, 7)  # what a reduced vocabulary keeps of eight
KINDS = ("eagle", "eagle-qwen2", "eagle3", "eagle3-whole",
         "speculators-eagle", "speculators-eagle3", "speculators-qwen3")  # fmt: skip


class Recipe:
    """One head: its config as it is written, its tensors by the names of its layout, and in which file they lie."""

    def __init__(self, kind: str, seed: int = 0) -> None:
        self.kind = kind
        self.is_new = "eagle3" in kind or "qwen3" in kind
        self._generator = torch.Generator().manual_seed(seed)
        config = dict(SIZES) | ({"rope_theta": 300.0} if kind != "eagle" else {})
        tensors = self._layer() | self._ends()
        if kind == "eagle-qwen2":
            config |= {"bias": False, "qkv_bias": True}
            del tensors["fc.bias"], tensors["embed_tokens.weight"]
        if kind == "eagle3":
            config |= {"draft_vocab_size": len(WORDS)}
        if kind == "eagle3-whole":
            config |= {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 6, 3]}}
        self.file = "model.safetensors" if kind.startswith("speculators") else "pytorch_model.bin"
        self.written, self.tensors = config, self._named(tensors)
        if kind.startswith("speculators"):
            self.written = self._nested(config)

    def save(self, folder: Path) -> Path:
        """Writes config.json and the tensors."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.written), encoding="utf-8")
        if self.file.endswith(".safetensors"):
            save_file({name: value.contiguous() for name, value in self.tensors.items()}, folder / self.file)
        else:
            torch.save(self.tensors, folder / self.file)
        return folder

    def _normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator) * 0.4

    def _layer(self) -> dict[str, torch.Tensor]:
        read = 32 if self.is_new else 16
        shapes = {"self_attn.q_proj": (16, read), "self_attn.k_proj": (8, read), "self_attn.v_proj": (8, read),
                  "self_attn.o_proj": (16, 16), "mlp.gate_proj": (24, 16), "mlp.up_proj": (24, 16),
                  "mlp.down_proj": (16, 24)}  # fmt: skip
        found = {f"{name}.weight": self._normal(*shape) for name, shape in shapes.items()}
        norms = ["post_attention_layernorm", *(["input_layernorm", "hidden_norm"] if self.is_new else [])]
        found |= {f"{name}.weight": 1 + self._normal(16) for name in norms}
        if self.kind == "eagle-qwen2":
            found |= {
                f"self_attn.{part}_proj.bias": self._normal(size) for part, size in zip("qkv", (16, 8, 8), strict=True)
            }
        if self.kind == "speculators-qwen3":
            found |= {f"self_attn.{part}_norm.weight": 1 + self._normal(8) for part in "qk"}
        return {f"layers.0.{name}": value for name, value in found.items()}

    def _ends(self) -> dict[str, torch.Tensor]:
        if not self.is_new:
            return {
                "fc.weight": self._normal(16, 32),
                "fc.bias": self._normal(16),
                "embed_tokens.weight": self._normal(8, 16),
            }
        found = {"fc.weight": self._normal(16, 48), "norm.weight": 1 + self._normal(16)}
        if self.kind == "eagle3-whole":
            return found | {"lm_head.weight": self._normal(8, 16), "embed_tokens.weight": self._normal(8, 16)}
        offsets = torch.tensor([word - number for number, word in enumerate(WORDS)])
        kept = torch.tensor([word in WORDS for word in range(8)])
        found |= {"lm_head.weight": self._normal(len(WORDS), 16), "d2t": offsets, "t2d": kept}
        return found | ({"input_norm.weight": 1 + self._normal(48)} if self.kind == "speculators-qwen3" else {})

    def _named(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """By the names of the layout's own code."""
        new = {"eagle3": {"layers.0.": "midlayer."}, "eagle3-whole": {"layers.0.": "midlayer."},
               "speculators-eagle": {"layers.0.": "transformer.", "fc.": "fusion_fc."}}.get(self.kind, {})  # fmt: skip
        named = {}
        for name, value in tensors.items():
            first = next((part for part in new if name.startswith(part)), "")
            named[new.get(first, "") + name.removeprefix(first)] = value
        return named | ({"verifier_norm.weight": torch.ones(16)} if self.kind == "speculators-eagle3" else {})

    def _nested(self, config: dict) -> dict:
        """As `speculators` writes it."""
        layer = config | {
            "model_type": "qwen3" if "qwen3" in self.kind else "llama",
            "head_dim": 8,
            "attention_bias": False,
        }
        verifier = {"verifier": {"name_or_path": "acme/verifier", "architectures": ["LlamaForCausalLM"]}}
        own = {"transformer_layer_config": layer, "speculators_config": verifier | {"algorithm": "eagle"}}
        if not self.is_new:
            return own | {"speculators_model_type": "eagle", "fusion_bias": True, "layernorms": False}
        own |= {"speculators_model_type": "eagle3", "draft_vocab_size": len(WORDS), "target_hidden_size": None}
        own |= {
            "norm_before_residual": self.kind == "speculators-eagle3",
            "norm_before_fc": self.kind == "speculators-qwen3",
        }
        return own | {"eagle_aux_hidden_state_layer_ids": None}

    # ---- the published arithmetic -------------------------------------------------------------------------------

    @property
    def layers(self) -> tuple[int, ...]:
        """Whose inputs an eight-layer target hands over."""
        return (1, 3, 6) if self.kind == "eagle3-whole" else (2, 4, 5)

    def expected(self, target: Target, token_ids: list[int], drafts: list[int]) -> torch.Tensor:
        """Logits (target's vocabulary) of what follows `token_ids` and then `drafts`, of which no feature is known."""
        tensors = self._plain()
        hidden = target.hidden(token_ids)
        embedding = tensors.get("embed_tokens.weight", target.loaded.tensors["model.embed_tokens.weight"])
        felt = torch.cat([hidden[i] for i in self.layers], 1) if self.is_new else hidden[-1]
        felt = felt[: len(token_ids) - 1]
        if "input_norm.weight" in tensors:
            felt = rms(felt, tensors["input_norm.weight"])
        felt = felt @ tensors["fc.weight"].T if self.is_new else felt
        ids = [*token_ids[1:], *drafts]
        while True:
            out = self._run(tensors, embedding[torch.tensor(ids[: len(felt)])], felt)
            if len(felt) == len(ids):
                return self._words(tensors, target, out[-1])
            felt = torch.cat((felt, out[-1:]))

    def _plain(self) -> dict[str, torch.Tensor]:
        names = {"midlayer.": "layers.0.", "transformer.": "layers.0.", "fusion_fc.": "fc."}
        plain = {}
        for name, value in self.tensors.items():
            first = next((part for part in names if name.startswith(part)), "")
            plain[names.get(first, "") + name.removeprefix(first)] = value
        return plain

    def _run(self, tensors: dict, tokens: torch.Tensor, felt: torch.Tensor) -> torch.Tensor:
        weight = {name.removeprefix("layers.0."): value for name, value in tensors.items()}
        if self.is_new:
            normed = rms(felt, weight["hidden_norm.weight"])
            residual = normed if self.written.get("norm_before_residual") else felt
            read = torch.cat((rms(tokens, weight["input_layernorm.weight"]), normed), 1)
        else:
            read = residual = torch.cat((tokens, felt), 1) @ tensors["fc.weight"].T + tensors.get(
                "fc.bias", torch.zeros(16)
            )
        x = residual + self._attend(weight, read) @ weight["self_attn.o_proj.weight"].T
        normed = rms(x, weight["post_attention_layernorm.weight"])
        gate, up = normed @ weight["mlp.gate_proj.weight"].T, normed @ weight["mlp.up_proj.weight"].T
        return x + (F.silu(gate) * up) @ weight["mlp.down_proj.weight"].T

    def _attend(self, weight: dict, read: torch.Tensor) -> torch.Tensor:
        rows = len(read)
        nothing = torch.zeros(())
        q, k, v = (
            read @ weight[f"self_attn.{part}_proj.weight"].T + weight.get(f"self_attn.{part}_proj.bias", nothing)
            for part in "qkv"
        )
        q, k, v = q.view(rows, 2, 8), k.view(rows, 1, 8), v.view(rows, 1, 8)
        if "self_attn.q_norm.weight" in weight:
            q, k = rms(q, weight["self_attn.q_norm.weight"]), rms(k, weight["self_attn.k_norm.weight"])
        q, k = turned(q, self._theta), turned(k, self._theta)
        scores = torch.einsum("ahd,bd->hab", q, k[:, 0]) / math.sqrt(8)
        scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), -math.inf)
        return torch.einsum("hab,bd->ahd", scores.softmax(-1), v[:, 0]).reshape(rows, 16)

    @property
    def _theta(self) -> float:
        return self.written.get("transformer_layer_config", self.written).get("rope_theta", 10000.0)

    def _words(self, tensors: dict, target: Target, x: torch.Tensor) -> torch.Tensor:
        if not self.is_new:
            return target.loaded.tensors["lm_head.weight"] @ x
        logits = tensors["lm_head.weight"] @ rms(x, tensors["norm.weight"])
        words = torch.full((8,), -math.inf)
        words[torch.arange(len(logits)) + tensors.get("d2t", 0)] = logits
        return words


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMSNorm over the last dimension."""
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def turned(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x (rows, heads, 8), row i turned as position i."""
    angles = torch.arange(len(x))[:, None] * theta ** (-torch.arange(4) / 4)
    cos, sin = torch.cat((angles, angles), 1).cos()[:, None], torch.cat((angles, angles), 1).sin()[:, None]
    return x * cos + torch.cat((-x[..., 4:], x[..., :4]), -1) * sin


class MedusaRecipe:
    """Three heads of two blocks; "medusa-legacy" has no words of its own. The config tells of fewer heads."""

    def __init__(self, kind: str, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator) * 0.4

        self.has_words = kind == "medusa"
        self.written = {"medusa_num_heads": 2, "medusa_num_layers": 2, "base_model_name_or_path": "acme/base"}
        self.tensors = {}
        for head in range(3):
            for block in range(2):
                self.tensors[f"{head}.{block}.linear.weight"] = normal(16, 16)
                self.tensors[f"{head}.{block}.linear.bias"] = normal(16)
            if self.has_words:
                self.tensors[f"{head}.2.weight"] = normal(8, 16)

    def save(self, folder: Path) -> Path:
        """As FasterDecoding stores it, or with the prefix and the file that others load."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.written), encoding="utf-8")
        if self.has_words:
            torch.save(self.tensors, folder / "medusa_lm_head.pt")
        else:
            prefixed = {f"medusa_head.{name}": value for name, value in self.tensors.items()}
            save_file(prefixed, folder / "medusa_lm_head.safetensors")
        return folder

    def expected(self, target: Target, token_ids: list[int], path: list[int]) -> torch.Tensor:
        """Logits of the head that guesses the place after `path`; the words on it play no part."""
        head, x = len(path), target.hidden(token_ids[:-1])[-1][-1]
        for block in range(2):
            weight, bias = (self.tensors[f"{head}.{block}.linear.{part}"] for part in ("weight", "bias"))
            x = x + F.silu(weight @ x + bias)
        return self.tensors.get(f"{head}.2.weight", target.loaded.tensors["lm_head.weight"]) @ x
