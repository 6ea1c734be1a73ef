"""The GGUF file format of llama.cpp: read its metadata, find its tensors, turn its blocks into float32.

Knows nothing of models or of what the metadata means. Format: the GGUF specification (ggml, docs/gguf.md), versions 2
and 3, little-endian. The reader touches each metadata string once; the weights stay where they are until asked for.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import EngineError

# ---- reading the file ---------------------------------------------------------------------------------------------

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where one tensor lies: its kind of block ("Q4_1"), its shape (outer dimension first), and its bytes."""

    kind: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


class GGUFFile:
    """An opened GGUF file: `metadata` (names to numbers, strings and lists) and `tensors` (names to StoredTensor)."""

    def __init__(self, data: Any) -> None:
        """`data`: the whole file as bytes or as a memory map.

        Raises EngineError("bad_gguf") when it is no such file or was cut short, ("unsupported_gguf") for a kind of
        block that is not decoded here.
        """
        self._data = memoryview(data)
        self._at = 0
        try:
            self._read_all()
        except (struct.error, ArithmeticError, TypeError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, EngineError):
                raise
            sentence = f"the .gguf file is damaged or was cut short near byte {self._at}; download it again"
            raise EngineError("bad_gguf", sentence, at=self._at) from error

    def tensor(self, name: str) -> np.ndarray:
        """The named tensor as float32, in its full shape."""
        stored = self.tensors[name]
        raw = np.frombuffer(self._data, dtype=np.uint8, count=stored.num_bytes, offset=stored.offset)
        return dequantize(raw, stored.kind).reshape(stored.shape)

    def _read_all(self) -> None:
        if bytes(self._data[:4]) != b"GGUF":
            raise EngineError("bad_gguf", "this is not a .gguf file: it does not begin with the letters GGUF", at=0)
        self._at = 4
        version = self._number("<I")
        if version not in (2, 3):
            raise EngineError("unsupported_gguf", f"GGUF version {version}; versions 2 and 3 are read", version=version)
        num_tensors, num_fields = self._number("<Q"), self._number("<Q")
        self.metadata = {self._string(): self._value(self._number("<I")) for _ in range(num_fields)}
        headers = [self._tensor_header() for _ in range(num_tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"tensors cannot be aligned to {alignment}")
        start = -(-self._at // alignment) * alignment
        self.tensors = {name: self._place(name, kind, shape, start + at) for name, kind, shape, at in headers}

    def _number(self, layout: str) -> Any:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return value

    def _string(self) -> str:
        length = self._number("<Q")
        end = self._at + length
        if end > len(self._data):
            raise ValueError("a string runs past the end")
        text = str(self._data[self._at : end], "utf-8", "replace")
        self._at = end
        return text

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind != _ARRAY:
            raise ValueError(f"metadata of unknown kind {kind}")
        kind, length = self._number("<I"), self._number("<Q")
        if kind not in _NUMBERS:
            return [self._value(kind) for _ in range(length)]
        values = np.frombuffer(self._data, dtype=_NUMBERS[kind], count=length, offset=self._at)
        self._at += values.nbytes
        return values.tolist()

    def _tensor_header(self) -> tuple[str, int, tuple[int, ...], int]:
        name, num_dimensions = self._string(), self._number("<I")
        inner_first = [self._number("<Q") for _ in range(num_dimensions)]
        return name, self._number("<I"), tuple(reversed(inner_first)), self._number("<Q")

    def _place(self, name: str, kind: int, shape: tuple[int, ...], offset: int) -> StoredTensor:
        if kind not in BLOCKS:
            readable = ", ".join(block.name for block in BLOCKS.values())
            sentence = f"tensor {name} is stored in GGUF kind {kind}; this engine reads {readable}"
            raise EngineError("unsupported_gguf", sentence, tensor=name, kind=kind)
        block = BLOCKS[kind]
        num_bytes = math.prod(shape) // block.num_weights * block.num_bytes
        if not shape or not num_bytes or offset + num_bytes > len(self._data) or shape[-1] % block.num_weights:
            raise ValueError(f"tensor {name} is empty, broken or runs past the end")
        return StoredTensor(block.name, shape, offset, num_bytes)


# ---- blocks to numbers --------------------------------------------------------------------------------------------
# Each function takes raw blocks, (num_blocks, bytes) uint8, and gives (num_blocks, weights) float32. Scales are fp16
# in the file; products and sums are float32 in this order, so that every machine gets the same bits.


def _half(raw: np.ndarray, start: int) -> np.ndarray:
    """The fp16 number at byte `start` of each block → (num_blocks, 1) float32."""
    return raw[:, start : start + 2].copy().view("<f2").astype(np.float32)


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """Bytes (…, n) → (…, 2n): all low halves, then all high halves."""
    return np.concatenate((raw & 15, raw >> 4), axis=-1)


def _fifth_bits(raw: np.ndarray, start: int) -> np.ndarray:
    """32 bits from byte `start` of each block, lowest first → (num_blocks, 32), worth 16 each."""
    return np.unpackbits(raw[:, start : start + 4], axis=1, bitorder="little") << 4


def _q4_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw, 0) * (_nibbles(raw[:, 2:]).astype(np.float32) - 8)


def _q4_1(raw: np.ndarray) -> np.ndarray:
    weights = _nibbles(raw[:, 4:]).astype(np.float32)
    weights *= _half(raw, 0)
    weights += _half(raw, 2)
    return weights


def _q5_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw, 0) * ((_nibbles(raw[:, 6:]) | _fifth_bits(raw, 2)).astype(np.float32) - 16)


def _q5_1(raw: np.ndarray) -> np.ndarray:
    return _half(raw, 0) * (_nibbles(raw[:, 8:]) | _fifth_bits(raw, 4)).astype(np.float32) + _half(raw, 2)


def _q8_0(raw: np.ndarray) -> np.ndarray:
    return raw[:, 2:].view(np.int8).astype(np.float32) * _half(raw, 0)


def _scales_and_offsets(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 12 bytes of a K block hold eight 6-bit scales and eight 6-bit offsets → two (num_blocks, 8) arrays."""
    low, middle, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate((low & 63, (high & 15) | (low >> 6 << 4)), axis=1)
    offsets = np.concatenate((middle & 63, (high >> 4) | (middle >> 6 << 4)), axis=1)
    return scales.astype(np.float32), offsets.astype(np.float32)


def _scaled_groups(raw: np.ndarray, quants: np.ndarray) -> np.ndarray:
    """Q4_K and Q5_K: eight groups of 32 weights, each with its own scale and offset. quants: (num_blocks, 8, 32)."""
    scales, offsets = _scales_and_offsets(raw[:, 4:16])
    scale = (_half(raw, 0) * scales)[:, :, None]
    offset = (_half(raw, 2) * offsets)[:, :, None]
    return (scale * quants.astype(np.float32) - offset).reshape(-1, 256)


def _q4_k(raw: np.ndarray) -> np.ndarray:
    return _scaled_groups(raw, _nibbles(raw[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(raw: np.ndarray) -> np.ndarray:
    low = _nibbles(raw[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    fifth = (raw[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1  # (num_blocks, 8, 32)
    return _scaled_groups(raw, low | fifth << 4)


def _q6_k(raw: np.ndarray) -> np.ndarray:
    low = _nibbles(raw[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (raw[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3  # (num_blocks, 2, 4, 32)
    quants = (low | high << 4).astype(np.float32).reshape(-1, 16, 16) - 32
    scales = _half(raw, 208) * raw[:, 192:208].view(np.int8).astype(np.float32)
    return (scales[:, :, None] * quants).reshape(-1, 256)


def _f32(raw: np.ndarray) -> np.ndarray:
    return raw.view("<f4").astype(np.float32)


def _f16(raw: np.ndarray) -> np.ndarray:
    return raw.view("<f2").astype(np.float32)


def _bf16(raw: np.ndarray) -> np.ndarray:
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


@dataclass(frozen=True, slots=True)
class Block:
    """A kind of block: how many weights it holds in how many bytes, and how to read them."""

    name: str
    num_weights: int
    num_bytes: int
    read: Callable[[np.ndarray], np.ndarray]


BLOCKS = {
    0: Block("F32", 1, 4, _f32),
    1: Block("F16", 1, 2, _f16),
    2: Block("Q4_0", 32, 18, _q4_0),
    3: Block("Q4_1", 32, 20, _q4_1),
    6: Block("Q5_0", 32, 22, _q5_0),
    7: Block("Q5_1", 32, 24, _q5_1),
    8: Block("Q8_0", 32, 34, _q8_0),
    12: Block("Q4_K", 256, 144, _q4_k),
    13: Block("Q5_K", 256, 176, _q5_k),
    14: Block("Q6_K", 256, 210, _q6_k),
    30: Block("BF16", 1, 2, _bf16),
}
_BY_NAME = {block.name: block for block in BLOCKS.values()}


def dequantize(raw: np.ndarray, kind: str) -> np.ndarray:
    """Raw bytes (uint8, any number of whole blocks) of the named kind → float32, one dimension."""
    block = _BY_NAME[kind]
    return block.read(raw.reshape(-1, block.num_bytes)).reshape(-1)
