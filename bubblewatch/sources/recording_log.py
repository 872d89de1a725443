"""The append-only file of a recording: frames that are whole or are not there.

A file is `MAGIC`, then frames: length of the payload and its CRC-32 (both unsigned 32 bit, little-endian), then the
payload. Each batch of frames is one `write`, so what the kernel took survives the death of the process; at most the
last frame is cut off, and a reader stops before it. Surviving a loss of power takes an fsync, which `sync` does.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from bubblewatch.model.errors import SourceError
from bubblewatch.sources.recording_records import Codec, Record

MAGIC = b"bubblewatch recording 1\n"
"""First bytes of every file; the number changes when frames do."""

MOST_BYTES = 64 << 20
"""Largest payload in bytes that a reader believes: beyond any record, and below what a broken length could ask for."""

_HEAD = struct.Struct("<II")


class NoSpace(SourceError):
    """The disk is full, or a quota is used up."""


class LogWriter:
    """Appends records to a new file. Belongs to one thread."""

    def __init__(self, path: Path) -> None:
        """Raises SourceError when the file is there already or cannot be made, NoSpace when the disk is full."""
        self.path = path
        self._codec = Codec()
        self.size_bytes = 0
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise _translated(error, path) from error
        self._write(MAGIC)

    def append(self, records: Iterable[Record]) -> None:
        """Write these records in one go. After an error the file holds whole frames and perhaps a part of one more."""
        frames = bytearray()
        for record in records:
            payload = self._codec.encode(record)
            frames += _HEAD.pack(len(payload), zlib.crc32(payload))
            frames += payload
        self._write(frames)

    def _write(self, data: bytes | bytearray) -> None:
        rest = memoryview(data)
        try:
            while rest:
                written = os.write(self._file, rest)
                self.size_bytes += written
                rest = rest[written:]
        except OSError as error:
            raise _translated(error, self.path) from error

    def close(self, *, sync: bool = False) -> None:
        """Close the file; with `sync` its bytes are on the disk then."""
        try:
            if sync:
                os.fsync(self._file)
        except OSError as error:
            raise _translated(error, self.path) from error
        finally:
            os.close(self._file)


def read_log(path: Path) -> Iterator[Record]:
    """The records of a file up to its end or to the first frame that is not whole.

    Records of kinds that this version does not know are left out. Raises SourceError for a file that is no recording.
    """
    try:
        with path.open("rb") as file:
            yield from read_frames(file, str(path))
    except OSError as error:
        raise _translated(error, path) from error


def read_frames(file: BinaryIO, name: str) -> Iterator[Record]:
    """The records of an open file, as `read_log` gives them. `name` is how errors call it."""
    codec = Codec()
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if MAGIC.startswith(magic):
            return  # killed before the first write was done
        raise SourceError(f"{name} is no recording of bubblewatch")
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        length, checksum = _HEAD.unpack(head)
        if length > MOST_BYTES:
            return
        payload = file.read(length)
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        record = codec.decode(payload)
        if record is not None:
            yield record


def _translated(error: OSError, path: Path) -> SourceError:
    what = f"{path}: {error.strerror or error}"
    return NoSpace(what) if error.errno in (errno.ENOSPC, errno.EDQUOT) else SourceError(what)
