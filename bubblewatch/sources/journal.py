"""One unit's lines out of the systemd journal: through systemd-python where it is there, else through journalctl."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.model.findings import SourceHealth
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.model.protocols import LogSource
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
from bubblewatch.sources.journalctl import JournalctlSource

if TYPE_CHECKING:
    from systemd.journal import Reader

FIELD_BYTES = 1024 * 1024
"""Longest field that libsystemd hands over whole; its own default of 64 KiB is below a raised LineMax."""


def open_journal(
    unit: str,
    since_ns: int,
    *,
    cursor: str | None = None,
    skip: int = 0,
    path: str | None = None,
    user: bool = False,
) -> LogSource:
    """The lines of `unit`, through systemd-python, else through journalctl.

    Raises SourceUnavailable when there is neither. Parameters as for JournalSource.
    """
    try:
        return JournalSource(unit, since_ns, cursor=cursor, skip=skip, path=path, user=user)
    except SourceUnavailable:
        journalctl = shutil.which("journalctl")
        if journalctl is None:
            raise
        return JournalctlSource(unit, since_ns, cursor=cursor, skip=skip, path=path, user=user, journalctl=journalctl)


class JournalSource:
    """Lines of one unit by systemd-python; a LogSource for one thread.

    The first reads give what was written since `since_ns` (wall time, the server's start): the first `head_entries`
    and the newest `tail_entries`, all of it when there is less; then what is new. With `cursor`, reading goes on behind
    that entry without `skip` further lines (see `place`), and `health` tells when it is no longer there. `path`: a
    folder of journal files instead of the host's. The journal may come later and its files may be rotated or removed.
    Raises SourceUnavailable without systemd-python.
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
        head_entries: int = HEAD_ENTRIES,
        tail_entries: int = TAIL_ENTRIES,
    ) -> None:
        _require_binding()
        self._log = UnitLog(unit_name(unit), cursor, skip)
        self._since_us = since_ns // 1000
        self._cursor = cursor or None
        self._path = path
        self._user = user
        self._head_entries = head_entries
        self._tail_entries = tail_entries
        self._in_head = not cursor and not skip
        self._resuming: str | None = None
        self._reader: Reader | None = None
        self._open()

    def read(self) -> Sequence[LogLine]:
        if self._reader is None or not self._sees_files():
            self._open()
        if self._reader is None:
            return ()
        try:
            self._reader.process()
            lines = self._log.lines(list(self._new_entries(self._reader)))
            if self._in_head and self._log.entry_count >= self._head_entries:
                self._leave_head(self._reader)
        except OSError as error:  # a damaged or vanished file: begin again behind the last good entry
            self._lost(error)
            return ()
        return lines

    def place(self) -> LogPlace | None:
        return self._log.place()

    def health(self) -> SourceHealth:
        return self._log.health(self._files(), "by systemd-python")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _files(self) -> JournalFiles:
        return look_at_files(
            JOURNAL_FOLDERS if self._path is None else (Path(self._path),), since_us=self._since_us or None
        )

    def _sees_files(self) -> bool:
        """False when the host had no journal folder at opening: libsystemd watches only folders that were there."""
        reader = self._reader
        if self._path is not None or reader is None:
            return True
        return bool(reader.has_runtime_files() or reader.has_persistent_files())

    def _open(self) -> None:
        self.close()
        cursor = self._log.last.cursor if self._log.last is not None else self._cursor
        try:
            self._reader = _reader(self._log.unit, self._path, self._user)
            if cursor is None or not self._seek(self._reader, cursor):
                self._reader.seek_realtime((self._since_us + 0.5) / 1e6)
            self._log.trouble = ""
        except OSError as error:
            self._lost(error)

    def _seek(self, reader: Reader, cursor: str) -> bool:
        try:
            reader.seek_cursor(cursor)
        except ValueError:
            self._log.note("the place to go on from is no cursor of a journal")
            return False
        self._resuming = cursor
        return True

    def _new_entries(self, reader: Reader) -> Iterator[Entry]:
        """At most READ_LIMIT entries. After a seek to a cursor its own entry comes first, another if that is gone."""
        count = self._log.entry_count
        last = min(count + READ_LIMIT, self._head_entries) if self._in_head else count + READ_LIMIT
        while count < last:
            fields = reader.get_next()
            if not fields:
                self._in_head = False
                return
            resumed, self._resuming = self._resuming, None
            if resumed is not None:
                if reader.test_cursor(resumed):
                    continue
                self._log.note("entries behind the last one read are gone from the journal")
                self._log.forget_skip()
            count += 1
            yield _entry(fields)

    def _leave_head(self, reader: Reader) -> None:
        """Go on with the newest entries once the head is read, unless they follow at once."""
        self._in_head = False
        last = self._log.last
        if last is None:
            return
        reader.seek_tail()
        first = reader.get_previous(self._tail_entries + 1)
        if first and first["__REALTIME_TIMESTAMP"] > last.time_us:
            self._log.skipped_middle = True
        else:
            self._seek(reader, last.cursor)

    def _lost(self, error: OSError) -> None:
        self.close()
        self._log.trouble = error.strerror or str(error)


def _require_binding() -> None:
    try:
        import systemd.journal  # noqa: F401, PLC0415 - optional: built from source, so not everybody has it
    except ImportError as error:
        raise SourceUnavailable("systemd-python is not installed", "pip install 'bubblewatch[journal]'") from error


def _reader(unit: str, path: str | None, user: bool) -> Reader:
    """A reader of the unit's entries that stands nowhere yet. Raises OSError when `path` cannot be opened."""
    from systemd.journal import Reader  # noqa: PLC0415 - see _require_binding

    class RawReader(Reader):  # type: ignore[misc]  # the library ships no types
        """Leaves every field as the journal has it: conversion of the twenty that nobody reads is most of the time."""

        def _convert_entry(self, entry: dict[str, object]) -> dict[str, object]:
            return entry  # systemd-python 235; where it is not called, the converters below give the same

    raw = dict.fromkeys(("__REALTIME_TIMESTAMP", "MESSAGE", "_PID", "_SOURCE_REALTIME_TIMESTAMP"), _as_it_is)
    reader = RawReader(path=path, converters=raw)
    reader.data_threshold = FIELD_BYTES
    for number, group in enumerate(unit_matches(unit, user)):
        if number:
            reader.add_disjunction()
        for match in group:
            reader.add_match(match)
    reader.fileno()  # from here on libsystemd notices new and rotated files when process() is called
    return reader


def _as_it_is(value: object) -> object:
    return value


def _entry(fields: Mapping[str, object]) -> Entry:
    time_us = fields["__REALTIME_TIMESTAMP"]
    kept = {name: fields[name] for name in FIELDS if name in fields}  # some twenty others would fill the memory
    return Entry(time_us if isinstance(time_us, int) else 0, str(fields["__CURSOR"]), kept)
