"""The tokenizer inside a GGUF file, as a tokenizer.json and a tokenizer_config.json.

Knows nothing of weights. A GGUF file holds a vocabulary, and either merges (byte-level BPE) or scores (SentencePiece);
how text is cut before that is only named, so the cuts of the known names are written here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from engine.errors import EngineError

Metadata = Mapping[str, Any]
_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 2, 3, 4, 5, 6  # kinds of token; 1 is an ordinary one
_SPACE = "▁"

# How Llama 3 and Qwen 2 cut text: contractions, words with one leading sign, digits, punctuation, line ends, spaces.
_CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _CUT.replace("DIGITS", "{1,3}")
_QWEN2 = _CUT.replace("DIGITS", "")
_CUTS = {
    "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "llama-v3": _LLAMA3, "smaug-bpe": _LLAMA3,
    "qwen2": _QWEN2, "deepseek-r1-qwen": _QWEN2,
}  # fmt: skip
_GPT2_NAMES = ("gpt-2", "smollm")  # cut by GPT-2's rule; "smollm" first sets every digit apart


def build_tokenizer(metadata: Metadata) -> Tokenizer:
    """The tokenizer that a GGUF file's metadata describes.

    Raises EngineError("missing_tokenizer") if there is none, ("unsupported_tokenizer") for a kind not known here,
    ("bad_tokenizer") if its parts do not fit together.
    """
    if not metadata.get("tokenizer.ggml.tokens"):
        raise EngineError("missing_tokenizer", "the .gguf file holds no tokenizer; take one that does")
    try:
        return _build(metadata)
    except EngineError:
        raise
    except Exception as error:  # the tokenizers library raises plain Exception
        raise EngineError(
            "bad_tokenizer", f"the .gguf file's tokenizer is broken ({error}); download it again"
        ) from error


def _build(metadata: Metadata) -> Tokenizer:
    tokens = metadata["tokenizer.ggml.tokens"]
    model = metadata.get("tokenizer.ggml.model")
    kinds = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    vocabulary = {text: index for index, text in enumerate(tokens) if kinds[index] != _UNUSED}
    if model == "gpt2":
        tokenizer = _byte_level(metadata, vocabulary)
    elif model == "llama":
        tokenizer = _sentencepiece(metadata, vocabulary, kinds)
    else:
        raise _unsupported(f"the .gguf file's tokenizer is of kind {model!r}; this engine reads 'gpt2' and 'llama'")
    for wanted, add in ((_CONTROL, tokenizer.add_special_tokens), (_USER_DEFINED, tokenizer.add_tokens)):
        add([AddedToken(text, normalized=False) for text, index in vocabulary.items() if kinds[index] == wanted])
    if metadata.get("tokenizer.ggml.add_bos_token", model == "llama"):
        first = metadata["tokenizer.ggml.bos_token_id"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[tokens[first], "$A"], special_tokens=[(tokens[first], first)]
        )
    return tokenizer


def tokenizer_config_json(metadata: Metadata) -> dict[str, Any]:
    """The tokenizer_config.json that goes with it: the chat template and the tokens with a role."""
    tokens = metadata["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if index is not None:
            config[f"{role}_token"] = tokens[index]
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    return config


def _unsupported(sentence: str) -> EngineError:
    return EngineError("unsupported_tokenizer", f"{sentence}; use the model's folder with its tokenizer.json instead")


def _byte_level(metadata: Metadata, vocabulary: dict[str, int]) -> Tokenizer:
    """BPE over bytes, as GPT-2 introduced it (Radford et al. 2019, section 2.2)."""
    name = metadata.get("tokenizer.ggml.pre", "")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.get("tokenizer.ggml.merges", ())]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=_CUTS.get(name) == _LLAMA3))
    if name in _GPT2_NAMES:
        cuts = [pre_tokenizers.Digits(individual_digits=True)] if name == "smollm" else []
        cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))
    elif name in _CUTS:
        cuts = [pre_tokenizers.Split(Regex(_CUTS[name]), "isolated")]
        cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    else:
        raise _unsupported(f"the .gguf file cuts text by the rule {name!r}, which is not known here")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    tokenizer.decoder = decoders.ByteLevel()
    if _CUTS.get(name) == _QWEN2:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _sentencepiece(metadata: Metadata, vocabulary: dict[str, int], kinds: Sequence[int]) -> Tokenizer:
    """BPE over characters with spaces written ▁ and unknown characters spelled in bytes (Llama 2, Mistral)."""
    scores = metadata["tokenizer.ggml.scores"]
    unknown = metadata["tokenizer.ggml.tokens"][metadata.get("tokenizer.ggml.unknown_token_id", 0)]
    ordinary = {text: index for text, index in vocabulary.items() if kinds[index] not in (_UNKNOWN, _CONTROL, _BYTE)}
    merges = merges_from_scores(ordinary, scores)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    normalize = [normalizers.Replace(" ", _SPACE)]
    decode = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        normalize.insert(0, normalizers.Prepend(_SPACE))
        decode.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(normalize)
    tokenizer.decoder = decoders.Sequence(decode)
    return tokenizer


def merges_from_scores(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """SentencePiece joins the two neighbours whose union scores highest; so the unions, best first, are the merges.

    Among the splits of one token the order does not matter to the result's score; ids make it fixed.
    """
    found = [
        (-scores[index], index, vocabulary[text[:cut]], vocabulary[text[cut:]], text[:cut], text[cut:])
        for text, index in vocabulary.items()
        for cut in range(1, len(text))
        if text[:cut] in vocabulary and text[cut:] in vocabulary
    ]
    return [(left, right) for *_, left, right in sorted(found)]
