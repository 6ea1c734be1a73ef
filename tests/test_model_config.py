"""config.json as `transformers` writes it, in the words of the engine; what cannot be computed is refused."""

import json

import pytest
import transformers

from engine.errors import EngineError
from engine.model_config import ModelConfig, token_ids

LLAMA3 = {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip


def written(kind: str, **changes: object) -> dict:
    """What this version of transformers writes into config.json."""
    return json.loads(getattr(transformers, f"{kind}Config")(**changes).to_json_string(use_diff=False))


def smallest(**changes: object) -> dict:
    """A config.json with nothing that has a default."""
    sizes = {"num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
    return {"model_type": "llama", "vocab_size": 96, "max_position_embeddings": 64, **sizes, **changes}


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Qwen2", "Qwen3", "SmolLM3"])
def test_sizes_are_those_of_transformers_with_every_default(kind):
    peer = getattr(transformers, f"{kind}Config")()
    config = ModelConfig.from_dict(written(kind))
    heads = (config.num_layers, config.num_heads, config.num_kv_heads)
    assert heads == (peer.num_hidden_layers, peer.num_attention_heads, peer.num_key_value_heads)
    assert (config.hidden_size, config.intermediate_size) == (peer.hidden_size, peer.intermediate_size)
    assert config.head_dim == (getattr(peer, "head_dim", None) or peer.hidden_size // peer.num_attention_heads)
    assert (config.vocab_size, config.context_length) == (peer.vocab_size, peer.max_position_embeddings)
    assert config.rope_theta == peer.rope_parameters["rope_theta"]
    assert config.tie_embeddings == peer.tie_word_embeddings
    assert config.sliding_window == peer.sliding_window if kind == "Mistral" else config.sliding_window is None
    assert config.eos_token_ids == token_ids(peer.eos_token_id)


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Qwen2", "Qwen3", "SmolLM3"])
def test_what_a_config_leaves_out_means_what_it_means_to_transformers(kind):
    named = {"vocab_size", "max_position_embeddings", "num_hidden_layers", "hidden_size", "intermediate_size"}
    named |= {"model_type", "num_attention_heads", "bos_token_id", "eos_token_id"}
    short = {name: content for name, content in written(kind).items() if name in named}
    assert ModelConfig.from_dict(short) == ModelConfig.from_dict(written(kind))


def test_each_family_has_its_own_switches():
    assert ModelConfig.from_dict(written("Qwen2")).qkv_bias
    assert ModelConfig.from_dict(written("Qwen3")).qk_norm
    llama = ModelConfig.from_dict(written("Llama"))
    assert not llama.qkv_bias
    assert not llama.qk_norm
    assert ModelConfig.from_dict(written("SmolLM3", num_hidden_layers=9)).no_rope_layers == (3, 7)
    listed = written("SmolLM3", num_hidden_layers=3, no_rope_layers=[0, 1, 0])
    assert ModelConfig.from_dict(listed).no_rope_layers == (0, 2)


def test_rope_is_read_in_the_old_form_and_in_the_new():
    expected = {"rope_type": "llama3", **LLAMA3}
    new = smallest(rope_parameters={"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3})
    old = smallest(rope_theta=5e5, rope_scaling={"rope_type": "llama3", **LLAMA3})
    older = smallest(rope_theta=5e5, rope_scaling={"type": "linear", "factor": 4.0})
    for config in (new, old):
        assert ModelConfig.from_dict(config).rope_scaling == expected
        assert ModelConfig.from_dict(config).rope_theta == 5e5
    assert ModelConfig.from_dict(older).rope_scaling == {"rope_type": "linear", "factor": 4.0}
    assert ModelConfig.from_dict(smallest(rope_scaling=None)).rope_scaling is None


def test_one_window_for_all_layers_is_kept_and_a_mixture_refused():
    everywhere = written("Qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=0)
    assert ModelConfig.from_dict(everywhere).sliding_window == 64
    nowhere = written("Qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=99)
    assert ModelConfig.from_dict(nowhere).sliding_window is None
    with pytest.raises(EngineError, match="some layers slide"):
        ModelConfig.from_dict(written("Qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=3))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'"),
        ({"model_type": None}, "model_type is None"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"quantization_config": {"bits": 4}}, "stored quantised"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "'dynamic'"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
    ],
)
def test_what_the_engine_does_not_compute_is_refused_by_name(changes, sentence):
    with pytest.raises(EngineError, match=sentence) as caught:
        ModelConfig.from_dict(smallest(**changes))
    assert caught.value.code == "unsupported_model"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vocab_size": None}, "vocab_size is None"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"hidden_size": "32"}, "hidden_size is '32'"),
        ({"num_attention_heads": 4, "num_key_value_heads": 3}, "4 query heads cannot share 3"),
        ({"head_dim": 7}, "head_dim is 7"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "lacks low_freq_factor"),
        ({"model_type": "smollm3", "no_rope_layers": [1]}, "no_rope_layers has 1 entries for 2 layers"),
        ({"num_hidden_layers": 10**9}, "num_layers is 1000000000"),
        ({"eos_token_id": "x"}, "eos_token_id is 'x'"),
        ({"eos_token_id": -1}, "eos_token_id is -1"),
        ({"eos_token_id": [2, None]}, "eos_token_id is"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'"),
        ({"rope_theta": 0}, "rope_theta is 0"),
        ({"rope_theta": "x"}, "rope_theta is 'x'"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"model_type": "mistral", "sliding_window": "x"}, "sliding_window is 'x'"),
    ],
)
def test_a_broken_config_is_refused_by_the_value_that_is_wrong(changes, sentence):
    with pytest.raises(EngineError, match=sentence) as caught:
        ModelConfig.from_dict(smallest(**changes))
    assert caught.value.code == "bad_model_config"


def test_end_tokens_may_be_none_one_or_several():
    assert [token_ids(ends) for ends in (None, 0, [1, 2])] == [(), (0,), (1, 2)]
