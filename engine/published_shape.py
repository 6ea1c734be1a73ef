"""What a published EAGLE head must look like to run beside a target: sizes from its config, shapes of its tensors.

Knows nothing of files or of how the head computes. A head that was made for another target is refused here by the
first number that differs.
"""

from dataclasses import dataclass, replace

from engine.errors import EngineError
from engine.model_config import ModelConfig
from engine.published import Published, bad


@dataclass(frozen=True, slots=True)
class PublishedShape:
    """Sizes of one head. `config` is that of its single layer, with the target's vocabulary and context.

    layers: after how many layers the target's hidden states are read. num_draft_ids: words that it may propose.
    """

    layout: str
    config: ModelConfig
    target_hidden: int
    layers: tuple[int, ...]
    num_draft_ids: int

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of what such a head always has."""
        c, layer, is_new = self.config, "layers.0.", self.layout == "eagle3"
        h, inner = c.hidden_size, c.intermediate_size
        queries, keys = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
        read = h * (2 if is_new else 1)  # EAGLE-3's attention reads token and feature side by side
        fused = len(self.layers) * self.target_hidden if is_new else 2 * h
        attention = {"q_proj": (queries, read), "k_proj": (keys, read), "v_proj": (keys, read), "o_proj": (h, queries)}
        found = {f"{layer}self_attn.{name}.weight": size for name, size in attention.items()}
        found |= {f"{layer}mlp.{name}.weight": (inner, h) for name in ("gate_proj", "up_proj")}
        found |= {f"{layer}mlp.down_proj.weight": (h, inner), f"{layer}post_attention_layernorm.weight": (h,)}
        if is_new:
            found |= {f"{layer}{name}.weight": (h,) for name in ("input_layernorm", "hidden_norm")}
            found |= {"norm.weight": (h,), "lm_head.weight": (self.num_draft_ids, h)}
        if c.qk_norm:
            found |= {f"{layer}self_attn.{name}.weight": (c.head_dim,) for name in ("q_norm", "k_norm")}
        return found | {"fc.weight": (h, fused)}


def eagle_shape(published: Published, target: ModelConfig) -> PublishedShape:
    """The head's sizes, checked against the target's and against its own tensors.

    Raises EngineError("other_target") naming the number that differs, ("bad_head") for a tensor that is missing,
    misshapen or unknown, and as ModelConfig.from_dict.
    """
    told = published.config
    if told.get("num_hidden_layers", 1) != 1 or told.get("layernorms") or told.get("use_aux_hidden_state") is False:
        raise bad(published, "it differs from the EAGLE heads that are read here: one layer, features of the target")
    config = _layer_config(told)
    check_size(published, "vocab_size", config.vocab_size, target.vocab_size)
    hidden = config.hidden_size if published.layout == "eagle" else told.get("target_hidden_size") or config.hidden_size
    check_size(published, "hidden_size", hidden, target.hidden_size)
    layers = (target.num_layers,) if published.layout == "eagle" else _layers(published, target)
    reduced = None if published.layout == "eagle" else told.get("draft_vocab_size")
    config = replace(config, context_length=target.context_length)
    shape = PublishedShape(published.layout, config, hidden, layers, reduced or config.vocab_size)
    check_tensors(published, shape.tensors(), _optional(published, shape))
    return shape


def check_size(published: Published, name: str, head: int, target: int) -> None:
    """Raises EngineError("other_target") where the two numbers differ."""
    if head != target:
        owner = f" (it was made for {published.made_for})" if published.made_for else ""
        sentence = f"{published.path} has {name} {head} and the target has {target}; the head fits another model{owner}"
        raise EngineError("other_target", sentence, name=name, head=head, target=target, made_for=published.made_for)


def check_tensors(
    published: Published, wanted: dict[str, tuple[int, ...]], optional: dict[str, tuple[int, ...]]
) -> None:
    """Raises EngineError("bad_head") for the first tensor that is missing, of another shape, or not known."""
    for name, size in (wanted | optional).items():
        tensor = published.tensors.get(name)
        if tensor is None and name in wanted:
            raise bad(published, f"{name} is missing; it should be {size}", tensor=name)
        if tensor is not None and tuple(tensor.shape) != size:
            raise bad(published, f"{name} is {tuple(tensor.shape)} and should be {size}", tensor=name)
    strangers = sorted(published.tensors.keys() - wanted.keys() - optional.keys())
    if strangers:
        raise bad(published, f"{strangers[0]} has no place in the layout {published.layout}", tensor=strangers[0])


def _layer_config(told: dict) -> ModelConfig:
    """Sizes, norm and positions of the layer, read as those of a Llama; biases stand in the file."""
    model_type = "qwen3" if told.get("model_type") == "qwen3" else "llama"
    own = {"model_type": model_type, "num_hidden_layers": 1, "attention_bias": False}
    return ModelConfig.from_dict({"max_position_embeddings": 2048} | told | own)


def _layers(published: Published, target: ModelConfig) -> tuple[int, ...]:
    """Those that the config names, else early, middle and late as both published implementations take them.

    Number i is what goes into layer i, hence what i layers left behind (`set_aux_hidden_state_layers` in vLLM).
    """
    last = target.num_layers
    layers = published.config.get("eagle_aux_hidden_state_layer_ids") or (2, last // 2, last - 3)
    is_list = isinstance(layers, list | tuple) and all(type(layer) is int and 1 <= layer <= last for layer in layers)
    if not is_list or len(set(layers)) != len(layers):
        sentence = f"{published.path} reads hidden states after {layers} layers; the target has {last} layers"
        raise EngineError("other_target", sentence, name="layers", head=str(layers), target=last)
    return tuple(sorted(layers))


def _optional(published: Published, shape: PublishedShape) -> dict[str, tuple[int, ...]]:
    """What may be there and need not: biases, its own copy of the embedding, tables of the reduced vocabulary.

    What the config tells of must be there, and q, k and v have biases together or not at all.
    """
    told, c = published.config, shape.config
    h, queries, keys = c.hidden_size, c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
    biases = {f"layers.0.self_attn.{name}_proj.bias": (size,)
              for name, size in zip("qkvo", (queries, keys, keys, h), strict=True)}  # fmt: skip
    found = biases | {"embed_tokens.weight": (c.vocab_size, h)}
    if shape.layout == "eagle":
        found["fc.bias"] = (h,)
    else:
        found |= {"d2t": (shape.num_draft_ids,), "t2d": (c.vocab_size,)}
        found |= {"input_norm.weight": (len(shape.layers) * shape.target_hidden,)} if told.get("norm_before_fc") else {}
    together = list(biases)[:3]  # one product computes q, k and v
    has_bias = told.get("qkv_bias", told.get("attention_bias")) or any(name in published.tensors for name in together)
    told_of = {"fc.bias": shape.layout == "eagle" and told.get("bias"), "input_norm.weight": told.get("norm_before_fc"),
               "embed_tokens.weight": h != shape.target_hidden, "d2t": shape.num_draft_ids != c.vocab_size,
               **dict.fromkeys(together, has_bias)}  # fmt: skip
    for name, is_told in told_of.items():
        if is_told and name not in published.tensors:
            raise bad(published, f"{name} is missing; the config or the tensors beside it ask for it", tensor=name)
    return found
