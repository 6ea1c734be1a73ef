"""Published heads that do not fit: each refusal names what differs, and nothing that a reader types is ever loaded."""

import json
import os
import pickle

import pytest
import torch
from safetensors.torch import save_file

from engine import EngineConfig, EngineError, Request, SamplingParams
from engine.published import read_published
from engine.published_head import PublishedHead
from engine.published_medusa import PublishedMedusa
from tests.published_heads import MedusaRecipe, Recipe
from tests.toys import toy_engine, toy_model


def refusal(recipe, folder, **target) -> EngineError:
    """What an engine says that is asked to draft with this head."""
    engine = toy_engine(toy_model(**({"num_layers": 8} | target)), published_head=str(recipe.save(folder)))
    before = engine.pool.snapshot(), engine.stats()
    with pytest.raises(EngineError) as caught:
        engine.add(Request([1, 2, 3], SamplingParams(5), "published"))
    assert (engine.pool.snapshot(), engine.stats()) == before
    assert len(str(caught.value)) < 300 + len(str(folder))
    return caught.value


# ---- a head for another target --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recipe", [Recipe("eagle"), Recipe("eagle3"), Recipe("speculators-eagle3"), MedusaRecipe("medusa")]
)
def test_a_head_of_another_width_names_both_widths(recipe, tmp_path):
    error = refusal(recipe, tmp_path, hidden_size=32, num_heads=4)
    assert (error.code, error.values["name"]) == ("other_target", "hidden_size")
    assert (error.values["head"], error.values["target"]) == (16, 32)
    assert "16" in str(error)
    assert "32" in str(error)


@pytest.mark.parametrize("recipe", [Recipe("eagle"), Recipe("eagle3"), MedusaRecipe("medusa")])
def test_a_head_of_another_vocabulary_names_both(recipe, tmp_path):
    error = refusal(recipe, tmp_path, vocab_size=10)
    assert (error.code, error.values["name"]) == ("other_target", "vocab_size")
    assert (error.values["head"], error.values["target"]) == (8, 10)


@pytest.mark.parametrize("recipe", [Recipe("speculators-eagle3"), MedusaRecipe("medusa")])
def test_the_model_that_a_head_was_made_for_is_named_where_the_file_tells_it(recipe, tmp_path):
    assert "acme/" in str(refusal(recipe, tmp_path, hidden_size=32, num_heads=4))


def test_a_target_with_too_few_layers_for_three_features_is_refused(tmp_path):
    error = refusal(Recipe("eagle3"), tmp_path, num_layers=4)  # (2, 2, 1) are not three layers
    assert (error.code, error.values["name"], error.values["target"]) == ("other_target", "layers", 4)


@pytest.mark.parametrize("layers", [[1, 2, 9], [0, 1, 2], [2, 2, 3], "2,3,4", [1.0, 2, 3]])
def test_layers_that_the_target_does_not_have_are_refused(layers, tmp_path):
    recipe = Recipe("eagle3")
    recipe.written["eagle_aux_hidden_state_layer_ids"] = layers
    assert refusal(recipe, tmp_path).code == "other_target"


# ---- tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fc.weight", "midlayer.mlp.up_proj.weight", "norm.weight", "lm_head.weight", "d2t",
                                  "midlayer.input_layernorm.weight"])  # fmt: skip
def test_a_tensor_that_is_missing_is_named(name, tmp_path):
    recipe = Recipe("eagle3")
    del recipe.tensors[name]
    error = refusal(recipe, tmp_path)
    assert error.code == "bad_head"
    assert error.values["tensor"] == name.replace("midlayer.", "layers.0.")


def test_what_the_config_speaks_of_must_be_there(tmp_path):
    for kind, key, tensor in (
        ("eagle", "bias", "fc.bias"),
        ("eagle-qwen2", "qkv_bias", "layers.0.self_attn.q_proj.bias"),
    ):
        recipe = Recipe(kind)
        recipe.written[key] = True
        recipe.tensors = {name: value for name, value in recipe.tensors.items() if not name.endswith(".bias")}
        error = refusal(recipe, tmp_path / kind)
        assert (error.code, error.values["tensor"]) == ("bad_head", tensor)


def test_some_biases_of_q_k_and_v_without_the_others_are_refused(tmp_path):
    recipe = Recipe("eagle-qwen2")
    del recipe.tensors["layers.0.self_attn.k_proj.bias"]
    assert refusal(recipe, tmp_path).values["tensor"] == "layers.0.self_attn.k_proj.bias"


@pytest.mark.parametrize("recipe", [Recipe("eagle"), MedusaRecipe("medusa")])
def test_a_tensor_of_another_shape_or_without_a_place_is_named(recipe, tmp_path):
    name, value = next((name, value) for name, value in recipe.tensors.items() if value.dim() == 1)
    recipe.tensors[name] = value[1:]
    error = refusal(recipe, tmp_path / "short")
    assert error.code == "bad_head"
    assert "(15,)" in str(error)
    recipe.tensors[name] = value
    recipe.tensors["0.stranger"] = value
    assert refusal(recipe, tmp_path / "strange").values["tensor"] == "0.stranger"


@pytest.mark.parametrize("offsets", [[0, 0, 0, 0, 0, 3], [-1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
def test_a_reduced_vocabulary_must_give_different_ids_of_the_target(offsets, tmp_path):
    recipe = Recipe("eagle3")
    recipe.tensors["d2t"] = torch.tensor(offsets)
    assert refusal(recipe, tmp_path).values["tensor"] == "d2t"


def test_medusa_heads_that_are_told_and_not_there_are_missed(tmp_path):
    recipe = MedusaRecipe("medusa")
    recipe.written["medusa_num_heads"] = 5
    assert refusal(recipe, tmp_path).code == "bad_head"


# ---- layouts and files ----------------------------------------------------------------------------------------------


def test_other_layouts_are_refused_by_name(tmp_path):
    recipe = Recipe("eagle")
    recipe.tensors = {"model.embed_tokens.weight": torch.zeros(8, 16)}
    assert refusal(recipe, tmp_path / "plain").values["found"] == "model.embed_tokens.weight"
    recipe = Recipe("speculators-eagle3")
    recipe.written["speculators_model_type"] = "dflash"
    error = refusal(recipe, tmp_path / "dflash")
    assert (error.code, error.values["found"]) == ("unknown_head", "dflash")
    for key, value in (("num_hidden_layers", 2), ("layernorms", True), ("use_aux_hidden_state", False)):
        recipe = Recipe("eagle3")
        recipe.written[key] = value
        assert refusal(recipe, tmp_path / key).code == "bad_head"


def test_a_file_may_be_named_and_shards_are_joined(tmp_path):
    folder = Recipe("eagle").save(tmp_path / "one")
    assert read_published(str(folder / "pytorch_model.bin")).layout == "eagle"
    recipe = Recipe("speculators-eagle3")
    recipe.save(tmp_path / "two")
    (tmp_path / "two" / "model.safetensors").unlink()
    names, places = sorted(recipe.tensors), {}
    for index in range(2):
        file = f"model-{index}.safetensors"
        save_file({name: recipe.tensors[name] for name in names[index::2]}, tmp_path / "two" / file)
        places |= dict.fromkeys(names[index::2], file)
    (tmp_path / "two" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert read_published(str(tmp_path / "two")).tensors.keys() >= {"fc.weight", "layers.0.hidden_norm.weight", "d2t"}


def test_damaged_and_missing_files_are_refused(tmp_path):
    folder = Recipe("eagle").save(tmp_path / "head")
    file = folder / "pytorch_model.bin"
    whole = file.read_bytes()
    for broken in (b"", b"junk", whole[: len(whole) // 2], pickle.dumps([1, 2], protocol=2)):
        file.write_bytes(broken)
        assert said(folder) == "bad_head"
    torch.save({"fc.weight": "text"}, file)
    assert said(folder) == "bad_head"
    file.unlink()
    assert said(folder) == "no_published_head"
    for text in ("{", "[]", '"x"'):
        (Recipe("eagle").save(folder) / "config.json").write_text(text)
        assert said(folder) == "bad_head"
    (folder / "config.json").unlink()
    assert said(folder) == "no_published_head"
    for place in (tmp_path / "nowhere", "", "\0", "x" * 5000):
        assert said(place) == "no_published_head"


def said(place) -> str:
    with pytest.raises(EngineError) as caught:
        read_published(str(place))
    return caught.value.code


class Trap:
    """Unpickled, it would make a folder."""

    def __init__(self, place) -> None:
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)


def test_a_pickle_that_would_run_code_is_not_opened(tmp_path):
    folder = Recipe("eagle").save(tmp_path / "head")
    torch.save({"fc.weight": torch.zeros(2), "trap": Trap(tmp_path / "sprung")}, folder / "pytorch_model.bin")
    assert said(folder) == "bad_head"
    assert not (tmp_path / "sprung").exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert (tmp_path / "sprung").exists()  # so it is a trap


# ---- who may name a head --------------------------------------------------------------------------------------------


def test_a_request_cannot_name_a_head_by_its_place(tmp_path, monkeypatch):
    folder = Recipe("eagle").save(tmp_path)
    engine = toy_engine(toy_model(num_layers=8))
    for name, code in ((f"published:{folder}", "unknown_drafter"), ("published", "no_published_head"),
                       ("published:chain", "no_published_head"), ("published:", "no_published_head")):  # fmt: skip
        with pytest.raises(EngineError) as caught:
            engine.add(Request([1, 2, 3], SamplingParams(5), name))
        assert caught.value.code == code
    assert "EngineConfig(published_head=…)" in str(caught.value)


def test_a_chain_from_medusa_heads_is_refused(tmp_path):
    engine = toy_engine(toy_model(num_layers=8), published_head=str(MedusaRecipe("medusa").save(tmp_path)))
    with pytest.raises(EngineError, match="trees only") as caught:
        engine.add(Request([1, 2, 3], SamplingParams(5), "published:chain"))
    assert caught.value.code == "unknown_drafter"


def test_a_head_is_read_once_and_a_refusal_is_remembered(tmp_path):
    folder = Recipe("eagle").save(tmp_path)
    engine = toy_engine(toy_model(num_layers=8), published_head=str(folder))
    engine.generate([1, 2, 3], SamplingParams(5), "published")
    (folder / "pytorch_model.bin").unlink()
    engine.generate([1, 2, 3], SamplingParams(5), "published")
    engine = toy_engine(toy_model(num_layers=8), published_head=str(folder))
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            engine.add(Request([1, 2, 3], SamplingParams(5), "published"))
        assert caught.value.code == "no_published_head"
        Recipe("eagle").save(folder)


@pytest.mark.parametrize("value", [5, 1.5, ["x"], b"x"])
def test_a_configuration_names_a_head_by_a_text(value):
    with pytest.raises(EngineError, match="published_head") as caught:
        EngineConfig(published_head=value)
    assert caught.value.code == "bad_config"


def test_a_head_stands_on_its_own_without_an_engine(tmp_path):
    engine = toy_engine(toy_model(num_layers=8))
    eagle = PublishedHead(read_published(str(Recipe("eagle3").save(tmp_path / "a"))), engine.model, engine.cache)
    medusa = PublishedMedusa(
        read_published(str(MedusaRecipe("medusa").save(tmp_path / "b"))), engine.model, engine.cache
    )
    assert eagle.draft_ids.tolist() == [0, 1, 2, 4, 5, 7]
    assert (eagle.features.layers, medusa.features.layers) == ((2, 4, 5), (8,))
