"""Two small real tokenizers: byte-level BPE with a chat template, and Llama 2's kind with ▁ and byte fallback."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
    "chat_template": CHAT_TEMPLATE,
}  # fmt: skip
TEXTS = [
    "the cat and the hat",
    "then there, here",
    "你好世界你好",
    "👍👩‍🚀 mañana",
    "for i in range(10):\n    print(i)",
]


def byte_level() -> Tokenizer:
    """320 tokens: three special ones, 256 bytes, the rest merges, some of which are parts of characters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def sentencepiece() -> Tokenizer:
    """As Llama 2's tokenizer.json: <s> in front, spaces written ▁, bytes for characters without a token."""
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *"▁helowrd,é",
        "he",
        "ll",
        "▁he",
        "▁w",
    ]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    merges = [("h", "e"), ("l", "l"), ("▁", "he"), ("▁", "w")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def save_byte_level(folder: Path) -> Path:
    """Writes tokenizer.json and tokenizer_config.json, as a model's folder has them."""
    byte_level().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG))
    return folder
