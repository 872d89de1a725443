"""Log files: followed while a server writes them, or read whole as evidence."""

from __future__ import annotations

import glob
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.sources.container_log import unwrapped
from bubblewatch.sources.text import MAX_LINE_CHARS

HEAD_BYTES = 8 * 1024 * 1024
"""Bytes read from the start of a long file, where the server prints its settings; eight ranks print below 1 MB."""

TAIL_BYTES = 16 * 1024 * 1024
"""Newest bytes that are always read, some 100,000 lines; what lies between head and tail is skipped."""

READ_BYTES = 4 * 1024 * 1024
"""Bytes that one read() takes at most, about half a second of work."""

MAX_LOG_BYTES = 256 * 1024 * 1024
"""Largest log that is read whole, unpacked: as lines it takes several times as much memory."""

STDIN = "-"


class LogFileSource:
    """Lines of a growing file; a LogSource for one thread.

    The first reads give what is there (of a long file its start and its newest part), then what is appended. The file
    may come later, be renamed away and begun anew (the rest of the old one is read first), or be cut to nothing. With
    `after`, the place of an earlier source, reading goes on there; a file that was renamed meanwhile is looked for
    beside the new one.
    """

    def __init__(
        self, path: str, *, after: LogPlace | None = None, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self._path = path
        self._after = after
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._file: BinaryIO | None = None
        self._position = 0
        self._rest = b""
        self._line_count = 0
        self._notes: list[str] = []
        self._trouble = ""

    def read(self) -> Sequence[LogLine]:
        try:
            if self._file is None:
                self._file = self._open()
            data = self._appended(self._file)
            if not data and self._is_replaced(self._file):
                data = self._rest + b"\n" if self._rest else b""
                self._rest = b""
                self.close()
                self._file = self._open()
                data += self._appended(self._file)
        except OSError as error:
            self._trouble = error.strerror or str(error)
            return ()
        self._trouble = ""
        lines = self._lines(data)
        self._line_count += len(lines)
        return lines

    def place(self) -> LogPlace | None:
        """Device, inode and offset behind the last whole line."""
        if self._file is None:
            return self._after
        now = os.fstat(self._file.fileno())
        return LogPlace(f"{now.st_dev}:{now.st_ino}:{self._position - len(self._rest)}")

    def health(self) -> SourceHealth:
        detail = f"{self._path}: {self._trouble or f'{self._line_count} lines'}"
        if self._trouble:
            missing = not Path(self._path).exists()
            health = Health.LOST if self._line_count else Health.ABSENT if missing else Health.DENIED
        else:
            health = Health.DEGRADED if self._notes else Health.OK
            detail = "; ".join([detail, *self._notes])
        return SourceHealth("log", health, detail, read_count=self._line_count, gaps=tuple(self._notes))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> BinaryIO:
        if not Path(self._path).is_file():  # a pipe would block
            raise FileNotFoundError(2, "no such file" if not Path(self._path).exists() else "not a regular file")
        self._position = 0
        after, self._after = self._after, None
        return Path(self._path).open("rb") if after is None else self._opened_after(after)

    def _opened_after(self, after: LogPlace) -> BinaryIO:
        """The file in which an earlier source stopped, at that place; the one of now when it cannot be found."""
        where, _, offset = after.cursor.rpartition(":")
        path = Path(self._path)
        for candidate in (path, *sorted(path.parent.glob(f"{glob.escape(path.name)}?*"))):
            try:
                file = candidate.open("rb")
            except OSError:
                continue  # an old one that we may not read; that of now is opened once more below
            found = os.fstat(file.fileno())
            if f"{found.st_dev}:{found.st_ino}" == where and offset.isdecimal() and found.st_size >= int(offset):
                self._position = int(offset)
                return file
            file.close()
        self._note("the file in which reading stopped is gone, and lines of it may be")
        return path.open("rb")

    def _appended(self, file: BinaryIO) -> bytes:
        """Bytes that came since the last call, at most READ_BYTES; the middle of a long file is jumped over."""
        size = os.fstat(file.fileno()).st_size
        if size < self._position:
            self._note("it was cut to nothing while it was read")
            self._position, self._rest = 0, b""
        if self._position == self._head_bytes and size > self._head_bytes + self._tail_bytes:
            self._position = size - self._tail_bytes
            self._rest = b""
            file.seek(self._position)
            self._position += len(file.readline(MAX_LINE_CHARS))  # the rest of a line whose start was skipped
        limit = self._head_bytes - self._position if self._position < self._head_bytes else READ_BYTES
        file.seek(self._position)
        data = file.read(min(limit, READ_BYTES))
        self._position += len(data)
        return data

    def _is_replaced(self, file: BinaryIO) -> bool:
        try:
            now = Path(self._path).stat()
        except FileNotFoundError:
            return False  # renamed away, the new one has not come yet
        then = os.fstat(file.fileno())
        return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino)

    def _lines(self, data: bytes) -> list[LogLine]:
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > MAX_LINE_CHARS:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        self._rest = rest
        return [line for record in whole.split(b"\n") for line in unwrapped(record, self._path)] if newline else []

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)


def read_log(path: str, stdin: BinaryIO | None = None) -> tuple[LogLine, ...]:
    """Every line of the file `path`, or of standard input for `-`, with its number; gzip is unpacked.

    Times are set where the container runtime wrote one in front. Bytes that are no text become U+FFFD. Raises
    UsageError in one sentence when the file is missing, a folder, unreadable, empty or too large.
    """
    shown = "standard input" if path == STDIN else path
    try:
        if path == STDIN:
            data = (stdin or sys.stdin.buffer).read(MAX_LOG_BYTES + 1)
        elif Path(path).is_dir():
            raise UsageError(f"{shown}: is a folder, expected a server log", "give one file")
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_LOG_BYTES + 1)
        if data.startswith(b"\x1f\x8b"):
            data = _unpacked(data)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{shown}: cannot be read: {reason}", "expected a server log") from error
    if len(data) > MAX_LOG_BYTES:
        raise UsageError(f"{shown}: larger than {MAX_LOG_BYTES // 1024**2} MiB", "give its start and its newest part")
    if not data.strip():
        raise UsageError(f"{shown}: empty, expected a server log")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # as PowerShell redirects
        data = data.decode("utf-16", errors="replace").encode()
    return tuple(_numbered(data, shown))


def _unpacked(data: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
        return packed.read(MAX_LOG_BYTES + 1)


def _numbered(data: bytes, path: str) -> Iterator[LogLine]:
    for number, record in enumerate(data.split(b"\n"), 1):
        yield from unwrapped(record, path, number)
