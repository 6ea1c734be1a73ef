"""Tiny random models of every architecture, as `transformers` builds them and as our loader would hand them over.

Their weights are large enough that attention, norms and biases all matter; they speak no language.
"""

from pathlib import Path

import torch
import transformers

from engine.model_config import ModelConfig
from engine.weights import LoadedModel

VOCAB_SIZE = 97
SIZES = {
    "vocab_size": VOCAB_SIZE, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 4,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
ARCHITECTURES: dict[str, tuple[str, dict]] = {  # our name → transformers' config class and what differs from SIZES
    "llama2-mha": ("LlamaConfig", {"num_key_value_heads": 6}),
    "llama2-mqa": ("LlamaConfig", {"num_key_value_heads": 1}),
    "llama3-scaled": ("LlamaConfig", {"rope_parameters": LLAMA3_ROPE}),
    "llama-linear": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}},
    ),
    "smollm2-tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "smollm3-nope": ("SmolLM3Config", {"no_rope_layers": [1, 1, 0, 1]}),
    "mistral-full": ("MistralConfig", {"sliding_window": None}),
    "mistral-window": ("MistralConfig", {"sliding_window": 7}),
    "qwen2-bias": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3-norms": ("Qwen3Config", {"head_dim": 16}),
}


def transformers_model(name: str, **sizes: object) -> transformers.PreTrainedModel:
    """The independent implementation, all parameters random; `sizes` override the architecture's."""
    kind, changes = ARCHITECTURES[name]
    config = getattr(transformers, kind)(**{**SIZES, **changes, **sizes})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.3 if parameter.dim() == 2 else 1.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return model


def loaded_from(model: transformers.PreTrainedModel) -> LoadedModel:
    """The same weights as our loader would give them; such a model has no tokenizer."""
    config = ModelConfig.from_dict(model.config.to_dict())
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    return LoadedModel("tiny", config, tensors, tokenizer=None, sha256="0" * 64, folder=Path())


def random_ids(num_tokens: int, seed: int = 0) -> list[int]:
    """Token ids without meaning."""
    return torch.randint(3, VOCAB_SIZE, (num_tokens,), generator=torch.Generator().manual_seed(seed)).tolist()
