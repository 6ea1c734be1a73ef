"""Text to ids and back: nothing is lost, no character is ever shown broken, and what a reader types stays text."""

import re

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizers import CONFIG, SPECIAL, byte_level, sentencepiece

from engine.errors import EngineError
from engine.tokenizer import Detokenizer, StopScanner, Tokenizer

BYTES = Tokenizer(byte_level(), CONFIG, None, ())
PIECES = Tokenizer(sentencepiece(), {"bos_token": "<s>", "eos_token": "</s>"}, None, ())
BOTH = pytest.mark.parametrize("tokenizer", [BYTES, PIECES], ids=["bytes", "pieces"])
ASTRONAUT = "👩‍🚀"
WELL_FORMED = st.text(st.characters(exclude_categories=["Cs"]))


def stream(tokenizer, ids):
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push(token_id) for token_id in ids), detokenizer.flush()]


# ---- decoding -----------------------------------------------------------------------------------------------------


@BOTH
@given(ids=st.lists(st.integers(0, 360), max_size=40))
@settings(max_examples=200)
def test_streamed_pieces_joined_equal_decoding_everything(tokenizer, ids):
    assert "".join(stream(tokenizer, ids)) == tokenizer.decode(ids)


@given(ids=st.lists(st.integers(0, 360), max_size=40))
@settings(max_examples=200)
def test_byte_level_decoding_equals_the_library_for_any_ids(ids):
    assert BYTES.decode(ids) == byte_level_backend.decode(ids, skip_special_tokens=True)


byte_level_backend, sentencepiece_backend = byte_level(), sentencepiece()


@given(text=WELL_FORMED)
def test_sentencepiece_decoding_equals_the_library_where_bytes_spell_characters(text):
    ids = PIECES.encode(text)
    assert PIECES.decode(ids) == sentencepiece_backend.decode(ids, skip_special_tokens=True)


@BOTH
@given(text=WELL_FORMED)
def test_any_text_comes_back_from_its_ids(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@BOTH
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")))
def test_a_streamed_text_never_shows_a_broken_character(tokenizer, text):
    shown = ""
    for piece in stream(tokenizer, tokenizer.encode(text)):
        shown += piece
        assert text.startswith(shown)


@BOTH
def test_a_character_appears_with_its_last_byte(tokenizer):
    ids = [token_id for token_id in tokenizer.encode("𝄞") if tokenizer.bytes.of(token_id).strip(b" ")]
    assert len(ids) == 4
    assert stream(tokenizer, ids) == ["", "", "", "𝄞", ""]


def test_a_character_that_never_becomes_whole_is_flushed_as_one_replacement_character():
    ids = BYTES.encode("a𝄞")[:-1]
    assert stream(BYTES, ids)[-1] == "\ufffd"
    assert BYTES.decode(ids) == "a\ufffd" == byte_level_backend.decode(ids)


@BOTH
def test_decoding_shows_no_special_tokens_and_skips_ids_beyond_the_vocabulary(tokenizer):
    special = min(tokenizer.bytes.special)
    assert tokenizer.decode([special, *tokenizer.encode("he"), 10_000, 2**40, -1]) == "he"


# ---- one token alone ----------------------------------------------------------------------------------------------


@BOTH
def test_labels_show_broken_bytes_by_number_and_never_a_replacement_character(tokenizer):
    labels = [tokenizer.label(token_id) for token_id in range(400)]
    assert not any("\ufffd" in label for label in labels)
    assert "⟨F0⟩" in labels
    assert labels[399] == "⟨399⟩"


def test_labels_keep_text_and_the_names_of_special_tokens():
    assert [BYTES.label(token_id) for token_id in BYTES.encode("the\n")] == ["the", "\n"]
    assert [BYTES.label(token_id) for token_id in range(3)] == SPECIAL
    assert "".join(map(BYTES.label, BYTES.encode("\ufffd"))) == "⟨EF⟩⟨BF⟩⟨BD⟩"


# ---- what a reader types ------------------------------------------------------------------------------------------


def test_special_tokens_typed_by_hand_are_plain_text():
    typed = "hi<|im_end|>there"
    assert not set(BYTES.encode(typed)) & set(BYTES.bytes.special)
    assert BYTES.decode(BYTES.encode(typed)) == typed
    assert 2 in BYTES.encode(typed, allow_special=True)
    assert not set(PIECES.encode("he</s>")[1:]) & set(PIECES.bytes.special)


@BOTH
def test_a_lone_surrogate_becomes_a_replacement_character_and_a_pair_its_character(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b\udc00")) == "a\ufffdb\ufffd"
    assert tokenizer.encode("\ud83d\ude00") == tokenizer.encode("😀")


@BOTH
def test_control_characters_and_long_texts_survive(tokenizer):
    for text in ("\0\x01\x1b[31m\x7f\u202e", "x" * 100_000, "\n" * 100_000, ("ab 12 漢 <b>" * 10_000)[:100_000]):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_something_that_is_no_text_is_refused_with_a_sentence():
    with pytest.raises(EngineError, match="not bytes") as caught:
        BYTES.encode(b"hi")
    assert caught.value.code == "bad_prompt"


def test_a_text_begins_as_the_models_own_files_say():
    assert PIECES.encode("hello") == sentencepiece_backend.encode("hello").ids
    assert PIECES.encode("hello")[0] == 1
    without = Tokenizer(sentencepiece(), {"bos_token": "<s>", "add_bos_token": False}, None, ())
    assert without.encode("hello") == PIECES.encode("hello")[1:]
    added = Tokenizer(byte_level(), {"bos_token": {"content": "<|im_start|>"}, "add_bos_token": True}, None, ())
    assert added.encode("the")[0] == 1


# ---- stop strings -------------------------------------------------------------------------------------------------


def cut(text, sizes):
    """The text in pieces of the given sizes, and what remains."""
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


@given(
    text=st.text("ab\n", max_size=20),
    stop=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    sizes=st.lists(st.integers(0, 4), max_size=12),
)
@settings(max_examples=500)
def test_a_stop_string_is_found_wherever_the_pieces_are_cut(text, stop, sizes):
    scanner = StopScanner(tuple(stop))
    results = [scanner.push(piece) for piece in cut(text, sizes)]
    shown, is_stopped = "".join(shown for shown, _ in results), results[-1][1]
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(string) for string in stop)]
    assert is_stopped == bool(ends)
    if ends:
        longest = max(len(string) for string in stop if text[: ends[0]].endswith(string))
        assert shown == text[: ends[0] - longest]
    else:
        assert shown + scanner.flush() == text


def test_text_is_held_back_only_while_it_may_begin_a_stop_string():
    scanner = StopScanner(("END",))
    assert [scanner.push(piece) for piece in ("a", "bE", "N", "x", "EN", "D!", "more")] == [
        ("a", False), ("b", False), ("", False), ("ENx", False), ("", False), ("", True), ("", True),
    ]  # fmt: skip


# ---- files --------------------------------------------------------------------------------------------------------


def test_a_folder_without_a_tokenizer_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(EngineError, match="save_pretrained") as caught:
        Tokenizer.from_folder(tmp_path)
    assert caught.value.code == "missing_tokenizer"


def test_a_damaged_tokenizer_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(EngineError, match="cannot be read") as caught:
        Tokenizer.from_folder(tmp_path)
    assert caught.value.code == "bad_tokenizer"


def test_a_tokenizer_of_another_kind_is_refused_with_a_sentence():
    backend = byte_level()
    backend.decoder = None
    with pytest.raises(EngineError, match="byte-level and SentencePiece") as caught:
        Tokenizer(backend, {}, None, ())
    assert caught.value.code == "unsupported_tokenizer"


def test_fingerprints_are_equal_exactly_for_equal_vocabularies():
    assert Tokenizer(byte_level(), {}, None, ()).fingerprint() == BYTES.fingerprint()
    assert PIECES.fingerprint() != BYTES.fingerprint()
    assert BYTES.vocab_size == 320


# ---- the real one -------------------------------------------------------------------------------------------------


@pytest.mark.model
def test_smollm2_agrees_with_transformers_on_all_kinds_of_text(smollm2):
    peer = transformers.AutoTokenizer.from_pretrained(smollm2.folder)
    texts = [
        "Hello, world!",
        "  a\n\n b\t\tc",
        "def f(x):\n    return x**2\n",
        "你好，世界！かな",
        ASTRONAUT + "🇩🇪👍🏽",
        " " * 37,
    ]
    texts += [
        "don't WON'T it's",
        "e\u0301 \ufeffx",
        "12345 6.78 a1b2 \n  3",
        "\r\n\0\x01",
        "مرحبا 한국어 №",
        "~!@#$%^&*()_+{}|",
    ]
    for text in texts:
        assert smollm2.tokenizer.encode(text) == peer(text).input_ids
        assert smollm2.tokenizer.decode(peer(text).input_ids) == text
    message = [{"role": "user", "content": "What is 2+2?"}]
    expected = peer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
    assert smollm2.tokenizer.chat(message) == expected


@pytest.mark.model
def test_smollm2_sets_every_digit_apart_as_its_vocabulary_demands(smollm2):
    labels = [smollm2.tokenizer.label(token_id) for token_id in range(smollm2.config.vocab_size)]
    assert not any(re.search(r"\d\d| \d", label) for label in labels if "⟨" not in label)
    ids = smollm2.tokenizer.encode("in 1999:\n  7")
    assert [labels[token_id] for token_id in ids] == ["in", " ", "1", "9", "9", "9", ":", "\n  ", "7"]


@pytest.mark.model
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_smollm2_streams_what_it_decodes(smollm2, data):
    ids = data.draw(st.lists(st.integers(0, smollm2.config.vocab_size - 1), max_size=40))
    assert "".join(stream(smollm2.tokenizer, ids)) == smollm2.tokenizer.decode(ids)
