"""A model that says a given text, token by token, so that a test can put any bytes on any border of tokens.

Attention and MLP add nothing; a token's embedding is its own axis, and the head points from it to the next token.
"""

import dataclasses
from collections.abc import Sequence

import tokenizers
import torch

from engine.cache import KVCache
from engine.drafters import Proposal
from engine.sequence import Sequence as Running
from engine.tokenizer import Tokenizer
from engine.weights import LoadedModel
from tests.toys import toy_model

STRENGTH = 20.0  # of the head: at temperature 1 the script is certain up to e^-80


def scripted_model(pieces: Sequence[bytes], next_ids: Sequence[int] = (), **changes: object) -> LoadedModel:
    """Token i spells `pieces[i]` and is followed by `next_ids[i]` (by default i + 1, the last one by token 0)."""
    size = len(pieces)
    next_ids = next_ids or [(token + 1) % size for token in range(size)]
    loaded = toy_model(vocab_size=size, **changes)
    for name, tensor in loaded.tensors.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    axes = torch.eye(size, loaded.config.hidden_size)
    loaded.tensors["model.embed_tokens.weight"] = axes
    head = loaded.tensors["lm_head.weight"] = torch.zeros_like(axes)
    for token, following in enumerate(next_ids):
        head[following] += STRENGTH * axes[token]
    return dataclasses.replace(loaded, tokenizer=_spelling(pieces))


def _spelling(pieces: Sequence[bytes]) -> Tokenizer:
    letter_of = _byte_alphabet()
    vocabulary = {"".join(letter_of[byte] for byte in piece): token for token, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    backend.decoder = tokenizers.decoders.ByteLevel()
    return Tokenizer(backend, {}, None, ())


def _byte_alphabet() -> dict[int, str]:
    """Byte → its letter in a byte-level vocabulary, asked of the library by characters that have all bytes in them."""
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str
    letter_of: dict[int, str] = {}
    for character in map(chr, [*range(0x800), *range(0x800, 0xD000, 0x400), *range(0x10000, 0x110000, 0x10000)]):
        letter_of.update(zip(character.encode(), split(character)[0][0], strict=True))
    return letter_of


class ScriptDrafter:
    """Drafts what comes next, or with an offset always something else."""

    needs_slots = False
    caches: tuple[KVCache, ...] = ()
    features = ()
    num_cached = 0

    def __init__(self, next_ids: Sequence[int], offset: int = 0) -> None:
        self._next_ids = next_ids
        self._offset = offset

    def propose(self, sequence: Running, num_tokens: int, table: Sequence[int]) -> Proposal:
        tokens = [sequence.token_ids[-1]]
        for _ in range(num_tokens):
            tokens.append(self._next_ids[tokens[-1]])
        return Proposal(tuple((token + self._offset) % len(self._next_ids) for token in tokens[1:]))

    def update(self, sequence: Running, num_drafted: int, num_accepted: int) -> None:
        """Learns nothing."""
