"""GGUF files: blocks decoded as by hand and as by the reference library; a model comes out as it went in."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from make_gguf import gguf_bytes, gguf_of
from tiny_tokenizers import byte_level, sentencepiece

from engine import weights
from engine.errors import EngineError
from engine.gguf import BLOCKS, GGUFFile, dequantize
from engine.gguf_model import config_json, hub_names
from engine.gguf_tokenizer import build_tokenizer, merges_from_scores
from engine.model_config import ModelConfig

HALF, TWO, MINUS_THREE = b"\x00\x38", b"\x00\x40", b"\x00\xc2"  # fp16 numbers, little-endian


def raw(*parts: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


# ---- blocks -------------------------------------------------------------------------------------------------------


def test_a_q4_0_block_is_its_scale_times_nibble_less_eight():
    weights = dequantize(raw(HALF, bytes([0xF1]), bytes([0x80] * 15)), "Q4_0")
    assert weights[[0, 1, 16, 17]].tolist() == [-3.5, -4.0, 3.5, 0.0]


def test_a_q4_1_block_is_scale_times_nibble_plus_offset():
    weights = dequantize(raw(HALF, MINUS_THREE, bytes([0xF1] * 16)), "Q4_1")
    assert weights[0] == 0.5 * 1 - 3
    assert weights[31] == 0.5 * 15 - 3


def test_a_q5_block_takes_each_fifth_bit_from_a_word_of_32():
    bits = (0x80000001).to_bytes(4, "little")
    zero = dequantize(raw(TWO, bits, bytes([0x21] * 16)), "Q5_0")
    assert zero[[0, 1, 30, 31]].tolist() == [2 * (17 - 16), 2 * (1 - 16), 2 * (2 - 16), 2 * (18 - 16)]
    one = dequantize(raw(TWO, MINUS_THREE, bits, bytes([0x21] * 16)), "Q5_1")
    assert one[[0, 31]].tolist() == [2 * 17 - 3, 2 * 18 - 3]


def test_a_q8_0_block_is_its_scale_times_signed_bytes():
    weights = dequantize(raw(HALF, bytes([127, 128, 255] + [0] * 29)), "Q8_0")
    assert weights[:4].tolist() == [63.5, -64.0, -0.5, 0.0]


def test_a_q4_k_block_gives_each_group_of_32_its_own_scale_and_offset():
    # group 0: scale 3, offset 1; group 4: scale 5 | 2 << 4 = 37, offset 4 | 1 << 4 = 20; all others 0
    packed = bytes([3 | 2 << 6, 0, 0, 0, 1 | 1 << 6, 0, 0, 0, 5 | 4 << 4, 0, 0, 0])
    weights = dequantize(raw(HALF, TWO, packed, bytes([0x07] * 128)), "Q4_K").reshape(8, 32)
    assert weights[0].tolist() == [0.5 * 3 * 7 - 2 * 1] * 32
    assert weights[4].tolist() == [0.5 * 37 * 7 - 2 * 20] * 32
    assert not weights[[1, 2, 3, 5, 6, 7]].any()


def test_a_q6_k_block_joins_four_low_and_two_high_bits():
    low, high, scales = bytes([0x5F] * 128), bytes([0b11_10_01_00] * 64), bytes([1] * 8 + [255] * 8)
    weights = dequantize(raw(low, high, scales, TWO), "Q6_K").reshape(2, 4, 32)
    assert weights[0, :, 0].tolist() == [2.0 * (q - 32) for q in (15, 15 + 16, 5 + 32, 5 + 48)]
    assert weights[1, :, 0].tolist() == [-2.0 * (q - 32) for q in (15, 15 + 16, 5 + 32, 5 + 48)]


def test_floating_point_kinds_are_widened_exactly():
    numbers = np.array([0.1, -65504.0, 3e-8], dtype=np.float16)
    assert dequantize(numbers.view(np.uint8), "F16").tolist() == numbers.astype(np.float32).tolist()
    assert dequantize(raw(bytes([0x80, 0x3F, 0x49, 0xC0])), "BF16").tolist() == [1.0, -3.140625]
    assert dequantize(np.array([1.5], np.float32).view(np.uint8), "F32").tolist() == [1.5]


@pytest.mark.parametrize("block", BLOCKS.values(), ids=lambda block: block.name)
def test_every_kind_of_block_has_the_bits_of_the_reference_library(block):
    gguf = pytest.importorskip("gguf", reason="the reference library is not installed")
    blocks = np.random.default_rng(0).integers(0, 256, (64, block.num_bytes), dtype=np.uint8)
    with np.errstate(invalid="ignore"):  # some random scales are infinite
        expected = gguf.dequantize(blocks.copy(), gguf.GGMLQuantizationType[block.name]).astype(np.float32).reshape(-1)
        found = dequantize(blocks.reshape(-1), block.name)
    same = found.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(found) & np.isnan(expected))).all()


# ---- whole models -------------------------------------------------------------------------------------------------

MODELS = [
    ("llama2-mha", "llama"),
    ("smollm2-tied", "llama"),
    ("qwen2-bias", "qwen2"),
    ("qwen3-norms", "qwen3"),
    ("mistral-full", "llama"),
    ("smollm3-nope", "smollm3"),
]


@pytest.mark.parametrize(("name", "architecture"), MODELS)
def test_a_model_comes_out_of_a_gguf_file_as_it_went_in(tiny_model, tmp_path, name, architecture):
    sizes = {"no_rope_layers": None} if architecture == "smollm3" else {}
    folder = tiny_model(name, **sizes)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_of(folder, architecture))
    original = weights.load(str(folder), store=tmp_path / "store")
    converted = weights.load(str(path), store=tmp_path / "store")
    assert converted.tensors.keys() == original.tensors.keys()
    assert all(torch.equal(converted.tensors[name], tensor) for name, tensor in original.tensors.items())
    assert converted.sha256 == original.sha256
    assert converted.tokenizer.fingerprint() == original.tokenizer.fingerprint()
    assert converted.tokenizer.encode("the 漢 cat") == original.tokenizer.encode("the 漢 cat")
    assert converted.tokenizer.decode(converted.tokenizer.chat("hi")) == "hi"
    changes = {"model_type": original.config.model_type, "sliding_window": None}
    assert ModelConfig(**{**fields(converted.config), **changes}) == ModelConfig(
        **{**fields(original.config), **changes}
    )


def fields(config):
    return {name: getattr(config, name) for name in config.__slots__}


def one_tensor(factors: np.ndarray, **metadata) -> GGUFFile:
    metadata = {"general.architecture": "llama", "llama.rope.freq_base": 500000.0, **metadata}
    tensors = {"rope_freqs.weight": (0, factors.shape, factors.astype(np.float32).tobytes())}
    return GGUFFile(gguf_bytes(metadata, tensors))


def test_llama_3_rope_scaling_is_recognised_by_its_factors():
    """Llama 3.2 1B: 32 pairs, θ = 500,000; up to 2,048 positions a turn as it was, from 8,192 on 32 times slower."""
    wavelengths = 2 * np.pi * 500000.0 ** (np.arange(32) / 32)
    smooth = (8192 / wavelengths - 1) / 3
    factors = np.where(wavelengths < 2048, 1, np.where(wavelengths > 8192, 32, 1 / ((1 - smooth) / 32 + smooth)))
    scaling = config_json(one_tensor(factors))["rope_scaling"]
    assert scaling == {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    with pytest.raises(EngineError, match="not Llama 3's"):
        config_json(one_tensor(factors + 1))


def test_other_rope_scaling_is_carried_over_or_refused_by_the_config():
    metadata = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    gguf = GGUFFile(gguf_bytes({"general.architecture": "llama", **metadata}, {}))
    assert config_json(gguf)["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}


def test_models_and_tensors_of_other_kinds_are_refused_with_a_sentence():
    with pytest.raises(EngineError, match="'gemma'") as caught:
        config_json(GGUFFile(gguf_bytes({"general.architecture": "gemma"}, {})))
    assert caught.value.code == "unsupported_model"
    with pytest.raises(EngineError, match="ffn_gate_exps"):
        hub_names(GGUFFile(gguf_bytes({}, {"blk.0.ffn_gate_exps.weight": (0, (1,), b"\0" * 4)})))
    with pytest.raises(EngineError, match="GGUF kind 16") as caught:
        GGUFFile(gguf_bytes({}, {"token_embd.weight": (16, (256,), b"\0" * 66)}))
    assert caught.value.code == "unsupported_gguf"


# ---- damaged files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_file() -> bytes:
    metadata = {"a": 1, "b": "text", "c": [1.0, 2.0], "d": ["x", "yz"], "e": True}
    return gguf_bytes(metadata, {"one": (0, (2, 3), bytes(24)), "two": (8, (1, 32), bytes(34))})


def test_a_file_cut_anywhere_is_refused_with_a_sentence(small_file):
    whole = len(small_file.rstrip(b"\0")) if small_file[-30:].strip(b"\0") else len(small_file) - 30
    for length in range(whole):
        with pytest.raises(EngineError) as caught:
            GGUFFile(small_file[:length])
        assert caught.value.code == "bad_gguf"


def refusal_of(data: bytes) -> str:
    """The code of the error with which a file, or one of its tensors, is refused; "" where all can be read."""
    try:
        gguf = GGUFFile(data)
        for name in gguf.tensors:
            gguf.tensor(name)
    except EngineError as refusal:
        return refusal.code
    return ""


@given(at=st.integers(0, 400), byte=st.integers(0, 255))
@settings(max_examples=300)
def test_a_flipped_byte_is_read_or_refused_and_never_crashes(small_file, at, byte):
    damaged = bytearray(small_file)
    damaged[at % len(damaged)] = byte
    assert refusal_of(bytes(damaged)) in ("", "bad_gguf", "unsupported_gguf")


# ---- tokenizers ---------------------------------------------------------------------------------------------------


def test_merges_follow_from_scores_best_first():
    vocabulary = {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5}
    scores = [0, 0, 0, -2, -1, -3]
    assert merges_from_scores(vocabulary, scores) == [("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")]


def test_a_sentencepiece_vocabulary_with_scores_cuts_text_as_its_merges_do():
    reference = sentencepiece()
    vocabulary = json.loads(reference.to_str())["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    first_merge = tokens.index("he")
    metadata = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.scores": [min(0.0, float(first_merge - index)) for index in range(len(tokens))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259),
    }  # fmt: skip
    built = build_tokenizer(metadata)
    for text in ("hello world", "  he\n\nllo, é漢", "", "</s> <s>", "<0x41>"):
        assert built.encode(text).ids == reference.encode(text).ids
        assert built.decode(built.encode(text).ids) == reference.decode(reference.encode(text).ids)


@pytest.mark.parametrize(
    ("pre", "text", "cuts"),
    [
        ("gpt-2", "It's 123 a", ["It", "'s", "Ġ123", "Ġa"]),
        ("smollm", "It's 123 a", ["It", "'s", "Ġ", "1", "2", "3", "Ġa"]),
        ("llama-bpe", "IT'S 1234\n a", ["IT", "'S", "Ġ", "123", "4", "Ċ", "Ġa"]),
        ("qwen2", "IT'S 1234\n a", ["IT", "'S", "Ġ", "1", "2", "3", "4", "Ċ", "Ġa"]),
    ],
)
def test_text_is_cut_by_the_rule_that_the_file_names(pre, text, cuts):
    vocabulary = json.loads(byte_level().to_str())["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens}
    found = build_tokenizer(metadata).pre_tokenizer.pre_tokenize_str(text)
    assert [piece for piece, _ in found] == cuts


def test_files_without_a_known_tokenizer_are_refused_with_a_sentence():
    for metadata, code in (
        ({}, "missing_tokenizer"),
        ({"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": ["a"]}, "unsupported_tokenizer"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"]}, "unsupported_tokenizer"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a"]}, "bad_tokenizer"),
    ):
        with pytest.raises(EngineError) as caught:
            build_tokenizer(metadata)
        assert caught.value.code == code


# ---- the real file ------------------------------------------------------------------------------------------------


@pytest.mark.model
def test_smollm2_has_the_weights_that_transformers_reads_from_the_file(smollm2):
    """The digest was taken when all 272 tensors were bit-equal to `transformers` 5.24's own reading of the file."""
    assert smollm2.sha256 == "faf714ce5e44852b956c3b9adba96ebb99ce3341ac494296ed6d8b0939fab337"
    assert smollm2.config.num_layers == 30
    assert smollm2.config.eos_token_ids == (2,)
    assert len(smollm2.tensors) == 272
