"""Where models come from: each source gives the same model, and each way to fail says what to do and leaves no mess."""

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_models import transformers_model

from engine import weights
from engine.errors import EngineError


@pytest.fixture
def load(tmp_path):
    """weights.load with a store of the test's own."""
    return lambda name, progress=None: weights.load(str(name), progress, store=tmp_path / "store")


def refusal(load, name) -> EngineError:
    with pytest.raises(EngineError) as caught:
        load(name)
    return caught.value


# ---- folders ------------------------------------------------------------------------------------------------------


def test_a_folder_gives_the_weights_that_transformers_saved(tiny_model, load):
    folder = tiny_model("qwen2-bias")
    loaded = load(folder)
    expected = transformers_model("qwen2-bias", vocab_size=352).state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.tensors.items())
    assert loaded.name == str(folder)
    assert loaded.config.eos_token_ids == loaded.tokenizer.eos_ids == (2,)
    assert loaded.folder == folder


def test_shards_give_the_same_model_and_digest_as_one_file(tiny_model, load, tmp_path):
    folder = tiny_model("qwen3-norms")
    whole = load(folder)
    sharded = tmp_path / "sharded"
    shutil.copytree(folder, sharded)
    (sharded / "model.safetensors").unlink()
    tensors = load_file(folder / "model.safetensors")
    halves = {"a.safetensors": sorted(tensors)[::2], "b.safetensors": sorted(tensors)[1::2]}
    for file, names in halves.items():
        save_file({name: tensors[name] for name in names}, sharded / file)
    index = {"weight_map": {name: file for file, names in halves.items() for name in names}}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load(sharded).sha256 == whole.sha256
    (sharded / "b.safetensors").unlink()
    assert refusal(load, sharded).code == "missing_weights"
    assert (sharded / "../qwen3-norms/model.safetensors").is_file()
    index["weight_map"] = dict.fromkeys(tensors, "../qwen3-norms/model.safetensors")  # never out of the folder
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    assert refusal(load, sharded).code == "missing_weights"


def test_half_precision_weights_stay_as_stored_and_have_a_digest_of_their_own(tiny_model, load):
    folder = tiny_model("llama2-mha")
    full = load(folder).sha256
    for kind in (torch.bfloat16, torch.float16):
        file = folder / "model.safetensors"
        save_file({name: tensor.to(kind) for name, tensor in load_file(file).items()}, file)
        loaded = load(folder)
        assert {tensor.dtype for tensor in loaded.tensors.values()} == {kind}
        assert loaded.sha256 != full


def test_the_digest_is_remembered_until_a_file_changes(tiny_model, load, tmp_path):
    folder = tiny_model("llama2-mha")
    first = load(folder).sha256
    (note,) = (tmp_path / "store" / "digests").iterdir()
    note.write_text("remembered")
    assert load(folder).sha256 == "remembered"
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"] + 1
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).sha256 not in (first, "remembered")


def test_end_tokens_are_gathered_from_all_files_that_name_some(tiny_model, load):
    folder = tiny_model("smollm2-tied")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 2, 9]}))
    assert load(folder).config.eos_token_ids == (2, 7, 9)


def test_needless_entries_of_old_checkpoints_are_dropped(tiny_model, load):
    folder = tiny_model("smollm2-tied")
    tensors = load_file(folder / "model.safetensors")
    expected = load(folder).sha256
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).sha256 == expected


# ---- folders that are not right -----------------------------------------------------------------------------------


def test_a_pickle_is_refused_unopened(tiny_model, load):
    folder = tiny_model("llama2-mha")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    error = refusal(load, folder)
    assert error.code == "pickle_refused"
    assert "save_pretrained" in str(error)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("config.json", "model_not_found"),
        ("model.safetensors", "missing_weights"),
        ("tokenizer.json", "missing_tokenizer"),
    ],
)
def test_a_folder_that_lacks_a_file_is_refused_by_name(tiny_model, load, file, code):
    folder = tiny_model("llama2-mha")
    (folder / file).unlink()
    error = refusal(load, folder)
    assert error.code == code
    assert file in str(error)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_weights_cut_short_are_refused_with_a_sentence(tiny_model, load, share):
    path = tiny_model("llama2-mha") / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    error = refusal(load, path.parent)
    assert error.code == "bad_weights"
    assert "download it again" in str(error)


@pytest.mark.parametrize(
    ("file", "content", "code"),
    [
        ("config.json", "{", "bad_model_config"),
        ("config.json", "[]", "bad_model_config"),
        ("config.json", '{"model_type": "mamba"}', "unsupported_model"),
        ("tokenizer.json", "{", "bad_tokenizer"),
        ("tokenizer_config.json", "{", "bad_tokenizer"),
        ("tokenizer_config.json", "[]", "bad_tokenizer"),
        ("tokenizer_config.json", "null", "bad_tokenizer"),
        ("tokenizer_config.json", '{"eos_token": 5}', "bad_tokenizer"),
        ("tokenizer_config.json", '{"bos_token": []}', "bad_tokenizer"),
        ("tokenizer_config.json", '{"chat_template": 7}', "bad_chat_template"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tiny_model, load, file, content, code):
    folder = tiny_model("llama2-mha")
    (folder / file).write_text(content)
    assert refusal(load, folder).code == code


def test_weights_that_contradict_the_config_are_refused_by_name(tiny_model, load):
    folder = tiny_model("llama2-mha")
    tensors = load_file(folder / "model.safetensors")
    for change, code in (
        ({"model.norm.weight": torch.ones(7)}, "bad_weights"),
        ({"model.layers.0.self_attn.q_norm.weight": torch.ones(8)}, "unsupported_model"),
        ({"model.norm.weight": torch.ones(48, dtype=torch.int8)}, "unsupported_model"),
    ):
        save_file({**tensors, **change}, folder / "model.safetensors")
        error = refusal(load, folder)
        assert error.code == code
        assert next(iter(change)) in str(error)
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert "missing" in str(refusal(load, folder))


def test_a_model_smaller_than_its_tokenizer_is_refused(tiny_model, load):
    assert refusal(load, tiny_model("llama2-mha", vocab_size=319)).code == "bad_tokenizer"


@pytest.mark.parametrize(
    "name", ["", "nonsense", "./nowhere", "nowhere.gguf", "/nowhere/at/all", "a/b/c", "weights.bin"]
)
def test_a_name_that_means_nothing_is_refused_with_what_would_be_right(load, name):
    error = refusal(load, name)
    assert error.code == "model_not_found"
    assert "a .gguf file" in str(error)


def test_a_browser_may_choose_named_models_only():
    assert weights.ALLOWED == ("smollm2-135m",)


# ---- the real one -------------------------------------------------------------------------------------------------


@pytest.mark.model
def test_smollm2_is_what_transformers_opens_from_the_same_folder(smollm2):
    peer = transformers.AutoModelForCausalLM.from_pretrained(smollm2.folder)
    assert peer.config.tie_word_embeddings
    assert peer.config.rms_norm_eps == smollm2.config.rms_norm_eps == 1e-5
    assert all(torch.equal(peer.state_dict()[name], tensor) for name, tensor in smollm2.tensors.items())
