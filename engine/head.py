"""A trained EAGLE head: one decoder layer that guesses the target's next hidden state, and a small vocabulary.

Knows nothing of sequences, drafts or trees: rows go in, with what the target felt one token earlier, and guesses come
out. Its words and the end of it are the target's own: the embedding, and those rows of the output head that it may
propose (a product over all 49,152 would cost three times the rest).
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import functional as F

from engine.cache import KVCache
from engine.errors import EngineError
from engine.features import FeatureCache
from engine.model import Model
from kernels import draft_head, linear, rms_norm
from kernels.draft_head import DraftHead
from kernels.layer import LayerWeights, Rows
from kernels.memory import Slab

SCRATCH = 64  # slots beyond the pool's
SHIPPED = Path(__file__).parent.parent / "assets" / "drafters"


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a head. num_heads to head_dim, eps and rope_theta are the target's; `inner` is its own.

    layers: after how many layers the target's hidden states are read; several are mixed into one (EAGLE-3). is_shifted:
    whether a row holds the token after the feature (EAGLE's fig. 5) or, for the ablation, the feature's own.
    """

    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    inner: int
    eps: float
    rope_theta: float
    layers: tuple[int, ...]
    is_shifted: bool = True

    def tensors(self, vocab: int) -> dict[str, tuple[int, ...]]:
        """What the file of such a head holds: names and shapes, with `vocab` ids that it may propose."""
        h, queries, keys = self.hidden, self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        mixed = {"mix": (h, len(self.layers) * h)} if len(self.layers) > 1 else {}
        norms = dict.fromkeys(("token_norm", "feature_norm", "attention_norm", "mlp_norm", "norm"), (h,))
        products = {"fuse": (h, 2 * h), "qkv": (queries + 2 * keys, h), "output": (h, queries)}
        return (
            mixed | norms | products | {"gate_up": (2 * self.inner, h), "down": (h, self.inner), "draft_ids": (vocab,)}
        )


@dataclass(frozen=True, slots=True, eq=False)
class HeadFile:
    """What a file holds: whose head it is, its sizes (of the kind's own type) and its tensors (fp16; ids int32)."""

    kind: str
    target: str  # SHA-256 of the weights that it was trained on
    shape: Any
    tensors: dict[str, Tensor]


def read(path: Path, shape_type: type = HeadShape) -> HeadFile:
    """Reads a file that `engine.train` wrote, its sizes as `shape_type`. Raises EngineError("bad_head") saying why."""
    try:
        with safe_open(path, framework="pt") as stored:
            about = json.loads((stored.metadata() or {})["head"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        shape = shape_type(**{**about["shape"], "layers": tuple(about["shape"]["layers"])})
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        wanted = shape.tensors(len(tensors["draft_ids"]))
        if found != wanted:
            wrong = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
            raise ValueError(f"{wrong[0]} is {found.get(wrong[0])} and should be {wanted.get(wrong[0])}")
        return HeadFile(about["kind"], about["target"], shape, tensors)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise EngineError("bad_head", f"{path} holds no head: {error}", path=str(path)) from error


def check_target(file: HeadFile, model: Model) -> None:
    """Raises EngineError("other_weights" or "bad_head") where they do not belong together."""
    if file.target != model.sha256:
        sentence = f"the head {file.kind} belongs to weights {file.target[:12]}; {model.name} has {model.sha256[:12]}"
        raise EngineError("other_weights", sentence, drafter=file.kind, target=model.name)
    if not all(1 <= number <= model.config.num_layers for number in file.shape.layers):
        sentence = f"the head {file.kind} reads after layers {file.shape.layers}; there are {model.config.num_layers}"
        raise EngineError("bad_head", sentence, drafter=file.kind)


def draft_dtype(model: Model) -> str:
    """How a draft's weights are kept: rounding them changes what is proposed, never what comes out.

    Without a kernel for it int8 is unpacked for each product; so beside a GPU's target they are kept as it computes.
    """
    if model.device.type != "cpu":
        return str(model.norm.dtype).removeprefix("torch.")
    return "float32" if model.dtype == "float32" else "int8"


class Head:
    """The head's weights beside its target's; one cache of keys and values and one of features serve all requests.

    What is asked for by position or slot may lie on the CPU, and logits come back to it, whatever device computes.
    """

    def __init__(self, file: HeadFile, model: Model, cache: KVCache) -> None:
        """`cache` is the target's: block numbers and dtype are shared. Raises EngineError as `check_target`."""
        check_target(file, model)
        self.shape, self._model = file.shape, model
        self.lag = 0 if file.shape.is_shifted else 1
        one_layer = dataclasses.replace(model.config, num_layers=1)
        dtype = str(cache.keys[0].dtype).removeprefix("torch.")
        num_scratch = -(-SCRATCH // cache.block_size)
        self.cache = KVCache(one_layer, cache.num_blocks + num_scratch, cache.block_size, dtype, model.device)
        self.scratch = range(cache.num_slots, cache.num_slots + SCRATCH)  # slots for the nodes of a tree that grows
        place = (cache.num_slots, cache.block_size, dtype, model.device)
        self.features = FeatureCache(self.shape.layers, self.shape.hidden, *place)
        self.draft_ids, self.vocab_size = file.tensors["draft_ids"].long(), model.config.vocab_size
        integers = {"dtype": torch.int32, "device": model.device}
        longest = model.config.context_length
        self._lengths = torch.arange(1, 1 + longest, **integers)  # of what the row at each position sees
        self._zeros, self._nothing = torch.zeros(longest, **integers), torch.empty(longest, 0, **integers)
        slab, kept = Slab(), draft_dtype(model)

        def matrix(name: str) -> linear.Packed:
            return linear.pack(file.tensors[name].to(model.device).float(), kept, slab)

        def vector(name: str) -> Tensor:
            return file.tensors[name].to(model.device, model.norm.dtype)

        self._mix = matrix("mix") if "mix" in file.tensors else None
        self._ones = torch.ones_like(model.norm)
        sizes = (self.shape.num_heads, self.shape.num_kv_heads, self.shape.head_dim, self.shape.eps)
        before = (vector("attention_norm"), matrix("qkv"), None, None, None)
        fuse = matrix("fuse")
        one = LayerWeights(*sizes, *before, matrix("output"), vector("mlp_norm"), matrix("gate_up"), matrix("down"))
        words = linear.pack(linear.unpack(model.head)[self.draft_ids.to(model.device)], kept, slab)
        norms = (vector(name) for name in ("token_norm", "feature_norm", "norm"))
        self._weights = DraftHead(model.embedding, fuse, words, *norms, one)

    def given(self, slots: list[int]) -> Tensor:
        """What the target felt at the tokens of these slots: (slots, hidden)."""
        felt = self.features.read(slots, self._ones.dtype)
        if self._mix is None:
            return felt
        h, eps = self.shape.hidden, self.shape.eps
        apart = rms_norm.run(felt.view(-1, h), self._ones, eps)  # layers differ in scale by a hundred
        return linear.run(apart.view(len(slots), -1), self._mix)

    def guess(self, felt: Tensor, token_ids: list[int], rows: Rows, num_told: int) -> tuple[Tensor, Tensor]:
        """felt (rows, hidden), one token before each row → of the last `num_told` rows the hidden states, guessed, and
        the logits of the draft's own words (num_told, len(draft_ids)), fp32.

        token_ids: what each row holds, the token `lag` rows before it; −1 where there is none.
        """
        ids = torch.tensor(token_ids, device=self._model.device)
        return draft_head.run(felt, ids, self._weights, rows, self.cache.keys[0], self.cache.values[0], num_told)

    def rows(self, first: int, table: Tensor, slots: list[int]) -> Rows:
        """Where rows of one sequence stand, each seeing all before it: a chain from position `first` on."""
        count, last = len(slots), first + len(slots)
        where = torch.tensor(slots, dtype=torch.int32, device=self._model.device)
        seen = (table, self.cache.block_size, self._zeros[:count], self._lengths[first:last], self._nothing[:count])
        return Rows(self._model.angles(slice(first, last)), where, *seen)

    def tree_rows(self, position: int, table: Tensor, num_seen: int, slots: Tensor, paths: Tensor) -> Rows:
        """Rows of one level of a tree, all at `position`, each seeing the first `num_seen` tokens and its own path.

        slots (rows,), where they are written. paths (rows, depth): slots of each row's ancestors and its own, int32.
        """
        count = len(slots)
        prefix = torch.full((count,), num_seen, dtype=torch.int32)
        seen = (table, self.cache.block_size, self._zeros[:count], prefix, paths)
        return Rows(self._model.angles(torch.full((count,), position)), slots, *seen)


def pad_first(felt: Tensor) -> Tensor:
    """Before the first token nothing was felt: a row of zeros in front."""
    return F.pad(felt, (0, 0, 1, 0))
