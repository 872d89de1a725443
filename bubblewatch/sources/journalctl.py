"""One unit's lines out of the systemd journal through `journalctl -o json`, for hosts without systemd-python."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.model.findings import SourceHealth
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.model.redact import redact_text
from bubblewatch.sources.journal_unit import (
    FIELDS,
    HEAD_ENTRIES,
    JOURNAL_FOLDERS,
    READ_LIMIT,
    TAIL_ENTRIES,
    Entry,
    JournalFiles,
    UnitLog,
    look_at_files,
    unit_matches,
    unit_name,
)

CHUNK_BYTES = 1024 * 1024
"""Bytes taken from the child at once; its pipe holds 64 KiB, so it waits for us and not we for it."""

BUFFER_BYTES = 32 * 1024 * 1024
"""What is held of the child's output at most: 20,000 entries take about 10 MB. A longer single record is given up."""


class JournalctlSource:
    """Lines of one unit by a `journalctl --follow` child; a LogSource for one thread, otherwise as JournalSource.

    The child answers a little later than the first read. Raises SourceUnavailable when it cannot be started.
    """

    def __init__(
        self,
        unit: str,
        since_ns: int,
        *,
        cursor: str | None = None,
        skip: int = 0,
        path: str | None = None,
        user: bool = False,
        journalctl: str = "journalctl",
        head_entries: int = HEAD_ENTRIES,
        tail_entries: int = TAIL_ENTRIES,
    ) -> None:
        self._log = UnitLog(unit_name(unit), cursor, skip)
        self._since_us = since_ns // 1000
        self._cursor = cursor or None
        self._path = path
        self._user = user
        self._program = journalctl
        self._head_entries = head_entries
        self._tail_entries = tail_entries
        self._in_head = not cursor and not skip
        self._head_end: Entry | None = None
        self._resuming: str | None = None
        self._buffer = bytearray()
        self._had_files = False
        self._child = self._start(self._cursor)

    def read(self) -> Sequence[LogLine]:
        files = self._files()
        if self._child.poll() is not None or (files.found and not self._had_files):
            self._restart()
        lines = self._log.lines(self._new_entries())
        if self._in_head and self._log.entry_count >= self._head_entries:
            self._leave_head()
        if self._child.poll() is not None and not lines:
            self._log.trouble = self._last_words() or f"journalctl ended with {self._child.returncode}"
        elif lines:
            self._log.trouble = ""
        return lines

    def place(self) -> LogPlace | None:
        return self._log.place()

    def health(self) -> SourceHealth:
        return self._log.health(self._files(), "by journalctl")

    def close(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()

    def _files(self) -> JournalFiles:
        return look_at_files(
            JOURNAL_FOLDERS if self._path is None else (Path(self._path),), since_us=self._since_us or None
        )

    def _start(self, cursor: str | None, *, newest: int | None = None) -> subprocess.Popen[bytes]:
        self._resuming = cursor
        self._had_files = self._files().found > 0
        self._buffer.clear()
        where = [f"--directory={self._path}"] if self._path is not None else []
        if newest is not None:
            place = [f"--lines={newest}"]
        elif cursor is not None:
            place = [f"--cursor={cursor}", "--no-tail"]
        else:
            place = [f"--since=@{self._since_us // 1_000_000}.{self._since_us % 1_000_000:06}", "--no-tail"]
        groups = [list(group) for group in unit_matches(self._log.unit, self._user)]
        matches = [word for group in groups for word in ("+", *group)][1:]
        output = ["--output=json", "--all", f"--output-fields={','.join(FIELDS)}"]
        command = [self._program, "--follow", "--no-pager", "--quiet", *output, *where, *place, *matches]
        try:
            child = subprocess.Popen(  # noqa: S603 - fixed program, arguments without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # Ctrl-C is for us, and our last read comes after it
            )
        except OSError as error:
            raise SourceUnavailable(f"{self._program} cannot be started: {error.strerror or error}") from error
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        return child

    def _restart(self) -> None:
        """Begin again behind the last entry; at `since` when even the first cursor was refused."""
        last = self._log.last
        if last is None and self._cursor is not None and self._child.returncode:
            self._log.note("the place to go on from is no cursor of a journal")
            self._cursor = None
        self.close()
        self._child = self._start(last.cursor if last is not None else self._cursor)

    def _leave_head(self) -> None:
        """Go on with the newest entries once the head is read, dropping those of them that were in it."""
        self._in_head = False
        last = self._log.last
        if last is None:
            return
        self.close()
        self._head_end = last
        self._child = self._start(None, newest=self._tail_entries + 1)  # one to see whether it follows the head at once

    def _new_entries(self) -> list[Entry]:
        limit = READ_LIMIT
        if self._in_head:
            limit = min(limit, self._head_entries - self._log.entry_count)
        entries: list[Entry] = []
        for record in self._records(limit):
            entry = _entry(record)
            if entry is not None and self._is_new(entry):
                entries.append(entry)
        return entries

    def _records(self, limit: int) -> list[bytes]:
        """Whole JSON records that have come, at most `limit`; the rest stays in the buffer and in the pipe."""
        while len(self._buffer) < BUFFER_BYTES and self._buffer.count(b"\n") < limit:
            chunk = self._chunk()
            if not chunk:
                break
            self._buffer += chunk
        records = bytes(self._buffer).split(b"\n", limit)
        self._buffer = bytearray(records.pop())
        if len(self._buffer) >= BUFFER_BYTES and not records:
            self._buffer.clear()
        return records

    def _chunk(self) -> bytes:
        assert self._child.stdout is not None  # noqa: S101 - it was started with a pipe
        with suppress(BlockingIOError):
            return os.read(self._child.stdout.fileno(), CHUNK_BYTES)
        return b""

    def _is_new(self, entry: Entry) -> bool:
        """False for the entry that a resumed reading starts at, and for those of the tail that the head had."""
        resumed, self._resuming = self._resuming, None
        if resumed is not None and entry.cursor == resumed:
            return False
        if resumed is not None:
            self._log.note("entries behind the last one read are gone from the journal")
            self._log.forget_skip()
        if self._head_end is None:
            return True
        self._find_head_end(entry, self._head_end)
        return False

    def _find_head_end(self, entry: Entry, end: Entry) -> None:
        """Entries of the tail count from behind the head's last one, behind their first when that is not among them."""
        if entry.cursor == end.cursor:
            self._head_end = None
        elif entry.time_us > end.time_us:  # entries of one burst can share a microsecond
            self._log.skipped_middle = True
            self._head_end = None

    def _last_words(self) -> str:
        assert self._child.stderr is not None  # noqa: S101 - it was started with a pipe
        words = b""
        with suppress(BlockingIOError):
            words = os.read(self._child.stderr.fileno(), 4096)
        return redact_text(words.decode("utf-8", errors="replace").strip())


def _entry(record: bytes) -> Entry | None:
    """The entry of one JSON record, None for what is none."""
    try:
        fields = json.loads(record)
        return Entry(int(fields["__REALTIME_TIMESTAMP"]), str(fields["__CURSOR"]), fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
