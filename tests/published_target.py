"""A toy target and its twin in `transformers`, which tells the hidden states that published heads read.

Knows nothing of heads.
"""

import torch
import transformers

from engine.weights import LoadedModel


class Target:
    """A toy target, and its twin in `transformers` that tells its hidden states."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded, c = loaded, loaded.config
        sizes = {"vocab_size": c.vocab_size, "hidden_size": c.hidden_size, "intermediate_size": c.intermediate_size,
                 "num_hidden_layers": c.num_layers, "num_attention_heads": c.num_heads, "head_dim": c.head_dim,
                 "num_key_value_heads": c.num_kv_heads, "rms_norm_eps": c.rms_norm_eps}  # fmt: skip
        rope = {"rope_type": "default", "rope_theta": c.rope_theta}
        self._twin = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, rope_parameters=rope)).eval()
        self._twin.load_state_dict(loaded.tensors)
        self._told: dict[tuple[int, ...], list[torch.Tensor]] = {}

    def hidden(self, token_ids: list[int]) -> list[torch.Tensor]:
        """(tokens, hidden) before each layer, and last what the final norm makes of what the last layer leaves."""
        key = tuple(token_ids)
        if key not in self._told:
            with torch.no_grad():
                told = self._twin.model(torch.tensor([token_ids]), output_hidden_states=True)
            self._told[key] = [states[0] for states in told.hidden_states]
        return self._told[key]
