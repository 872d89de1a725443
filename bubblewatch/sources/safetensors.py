"""Headers of safetensors files: what tensors there are and how large. The weights themselves are never read.

Format: 8 bytes with the length of the header, little endian, then that many bytes of JSON: name -> dtype, shape and
data_offsets (begin and end behind the header); safetensors 0.3 to 0.6, README "Format".
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeGuard

MAX_HEADER_BYTES = 32 * 1024 * 1024
"""Longest header that is read. The format's own reader takes 100 MB; a shard of 1,500 tensors has 200 kB."""

MAX_DIMENSIONS = 16
"""More than any tensor has."""

FOUR_BYTE_FLOATS = frozenset({"F32", "F64"})
"""Types that every server casts to 2 bytes when it loads."""


class MalformedHeader(ValueError):
    """The file is no safetensors file; the message says what is wrong, without quoting it."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor; `size_bytes` as a server keeps it, with no float wider than 2 bytes."""

    name: str
    size_bytes: int


def read_header(file: BinaryIO) -> tuple[Tensor, ...]:
    """The tensors of this file. Raises MalformedHeader."""
    length_bytes = file.read(8)
    if len(length_bytes) < 8:
        raise MalformedHeader("is too short for a header")
    (length,) = struct.unpack("<Q", length_bytes)
    if length > MAX_HEADER_BYTES:
        raise MalformedHeader(f"claims a header of {length} bytes")
    raw = file.read(length)
    if len(raw) < length:
        raise MalformedHeader("ends within its header")
    try:
        entries = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedHeader("has a header that is not JSON") from error
    if not isinstance(entries, dict):
        raise MalformedHeader("has a header that is not a JSON object")
    return tuple(_tensors(entries.items()))


def _tensors(entries: Iterable[tuple[str, object]]) -> Iterator[Tensor]:
    for name, entry in entries:
        if name == "__metadata__":
            continue
        offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not (isinstance(entry, dict) and _are_sizes(offsets) and _are_sizes(shape)):
            raise MalformedHeader("has a tensor without shape or offsets")
        if len(offsets) != 2 or offsets[0] > offsets[1]:
            raise MalformedHeader("has a tensor that ends before it begins")
        size = offsets[1] - offsets[0]
        if entry.get("dtype") in FOUR_BYTE_FLOATS:
            size = min(size, 2 * math.prod(shape))
        yield Tensor(name, size)


def _are_sizes(values: object) -> TypeGuard[list[int]]:
    return (
        isinstance(values, list)
        and len(values) <= MAX_DIMENSIONS
        and all(type(value) is int and 0 <= value < 2**63 for value in values)
    )
