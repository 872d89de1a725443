"""What both readers of the journal share: which entries belong to a unit, what an entry says, how the reading fares."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.sources.text import MAX_LINE_CHARS, safe_lines

READ_LIMIT = 20_000
"""Entries that one read() takes at most, less than a second of work."""

HEAD_ENTRIES = 20_000
"""Entries read from the server's start on: a start of eight ranks has some hundreds, the rest is early load."""

TAIL_ENTRIES = 20_000
"""Newest entries that are always read; what lies between head and tail is skipped, for it is neither start nor now."""

JOURNAL_FOLDERS = (Path("/run/log/journal"), Path("/var/log/journal"))
"""Where journald keeps its files: until the next boot, and for good."""

FIELDS = ("MESSAGE", "_PID", "_STREAM_ID", "_LINE_BREAK", "_SOURCE_REALTIME_TIMESTAMP", "N_DROPPED")
"""Fields of an entry that are looked at."""

MOST_HELD_ENTRIES = 10_000
"""Entries after which the rest of a cut line is not waited for any more: its writer is gone."""

_SOURCE_LAG_US = 60_000_000  # a sender's own time is believed when it lies within the minute before the arrival


def unit_name(unit: str) -> str:
    """The full name: a name without a suffix is a service, as for systemctl."""
    return unit if "." in unit else f"{unit}.service"


def unit_matches(unit: str, user: bool = False) -> tuple[tuple[str, ...], ...]:
    """Groups of FIELD=value: an entry belongs to the unit when it has every field of one group.

    The unit's own output, what the manager says of it, its core dumps, and what privileged programs say about it, as
    `journalctl --unit` selects (journalctl(1) and systemd.journal-fields(7), systemd 252). `user`: a unit of the
    calling user's manager.
    """
    if user:
        owner = f"_UID={os.getuid()}"
        return (
            (f"_SYSTEMD_USER_UNIT={unit}", owner),
            (f"USER_UNIT={unit}", owner),
            (f"COREDUMP_USER_UNIT={unit}", "_UID=0"),
            (f"OBJECT_SYSTEMD_USER_UNIT={unit}", "_UID=0"),
        )
    return (
        (f"_SYSTEMD_UNIT={unit}",),
        (f"UNIT={unit}", "_PID=1"),
        (f"COREDUMP_UNIT={unit}", "_UID=0"),
        (f"OBJECT_SYSTEMD_UNIT={unit}", "_UID=0"),
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: when the journal got it (wall time), where it stands, and its fields as the transport gave them."""

    time_us: int
    cursor: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class JournalFiles:
    """How many journal files (or folders of them) are there, and how many of those may not be read.

    `damaged` counts files that journald found damaged and set aside (named `*.journal~`) since the time asked for.
    """

    found: int = 0
    denied: int = 0
    damaged: int = 0


def look_at_files(folders: Iterable[Path], files: Iterable[Path] = (), since_us: int | None = None) -> JournalFiles:
    """What is in `folders` and their subfolders, and of `files`. A folder that is not there counts nothing.

    `since_us` (wall time) is when files that were set aside begin to count; None = never.
    """
    found = denied = 0
    paths = list(files)
    for folder in folders:
        try:
            below = [folder, *(child for child in folder.iterdir() if child.is_dir())]
            paths += [file for place in below for file in place.glob("*.journal*")]
            blocked = [place for place in below if not os.access(place, os.R_OK | os.X_OK)]
        except PermissionError:
            blocked = [folder]
        except OSError:
            continue
        found += len(blocked)
        denied += len(blocked)
    unread = sum(not os.access(path, os.R_OK) for path in paths)
    aside = [path for path in paths if path.suffix == ".journal~"] if since_us is not None else []
    damaged = sum(_changed_us(path) >= (since_us or 0) for path in aside)
    return JournalFiles(found + len(paths), denied + unread, damaged)


def _changed_us(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1000
    except OSError:
        return 0


class UnitLog:
    """Entries of one unit on their way to lines, with the count of them. Not for several threads at once."""

    def __init__(self, unit: str, after: str | None = None, skip: int = 0) -> None:
        """`skip` lines behind the entry `after` were given out by an earlier reader and are left out."""
        self.unit = unit
        self._to_skip = skip
        self._settled = after or None
        self._after_settled = skip
        self._entries_after_settled = 0
        self.last: Entry | None = None
        self.entry_count = 0
        self.line_count = 0
        self.dropped_count = 0
        self.skipped_middle = False
        self.notes: list[str] = []
        self.trouble = ""
        self._held: dict[object, bytes | str] = {}

    def lines(self, entries: Sequence[Entry]) -> list[LogLine]:
        """The lines of `entries`, which follow those of the call before.

        journald cuts a line at LineMax (48 KiB unless configured) and marks the piece; pieces are joined again.
        """
        result: list[LogLine] = []
        for entry in entries:
            dropped = _number(entry.fields.get("N_DROPPED"))
            self.dropped_count += dropped or 0
            message = self._joined(entry)
            lines = safe_lines(message) if message is not None else ()
            self._settle(entry, len(lines))
            if self._to_skip:
                lines, self._to_skip = lines[self._to_skip :], max(self._to_skip - len(lines), 0)
            result += (
                LogLine(
                    text=text,
                    time_ns=_time_us(entry) * 1000,
                    time_exact=True,
                    source="journal",
                    unit=self.unit,
                    pid=_number(entry.fields.get("_PID")),
                    cursor=entry.cursor,
                )
                for text in lines
            )
        if entries:
            self.last = entries[-1]
        self.entry_count += len(entries)
        self.line_count += len(result)
        return result

    def place(self) -> LogPlace | None:
        """Where another reader goes on: behind the last entry at which no line was in pieces ("" = from the start),
        plus the lines given out since then.
        """
        if self._settled is None and not self._after_settled:
            return None
        return LogPlace(self._settled or "", self._after_settled)

    def forget_skip(self) -> None:
        """The entries that an earlier reader had seen are gone, so whatever comes is new."""
        self._after_settled -= self._to_skip
        self._to_skip = 0

    def _settle(self, entry: Entry, line_count: int) -> None:
        self._after_settled += line_count
        self._entries_after_settled += 1
        if self._held and self._entries_after_settled < MOST_HELD_ENTRIES:
            return
        if self._held:
            self.note("the rest of a cut line never came")
            self._held.clear()
        self._settled, self._after_settled, self._entries_after_settled = entry.cursor, 0, 0

    def note(self, text: str) -> None:
        """Remember once what health() shall tell."""
        if text not in self.notes:
            self.notes.append(text)

    def _joined(self, entry: Entry) -> bytes | str | None:
        """The whole message that ends with `entry`, None while more of it is to come."""
        message = _message(entry.fields.get("MESSAGE"))
        stream = _text(entry.fields.get("_STREAM_ID"))
        held = self._held.pop(stream, None)
        if held is not None:
            message = _bytes(held) + _bytes(message)
        if stream and _text(entry.fields.get("_LINE_BREAK")) == "line-max" and len(message) < MAX_LINE_CHARS:
            self._held[stream] = message
            return None
        return message

    def health(self, files: JournalFiles, via: str) -> SourceHealth:
        """How the reading of this unit fares; `via` names the reader."""
        state = self._state(files, via)
        return SourceHealth("journal", *state, read_count=self.line_count, gaps=tuple(self._gaps(files)))

    def _gaps(self, files: JournalFiles) -> list[str]:
        """What is missing for good, in words."""
        gaps = list(self.notes)
        if self.dropped_count:
            gaps.append(f"journald's rate limit dropped {self.dropped_count} lines")
        if files.damaged:
            gaps.append(f"journald set {files.damaged} damaged files aside since then, lines of them may be missing")
        return gaps

    def _state(self, files: JournalFiles, via: str) -> tuple[Health, str, str]:
        if self.entry_count == 0 and files.denied:
            who = _user()
            return (
                Health.DENIED,
                f"{files.denied} of {files.found} journal files may not be read by {who}, nothing of {self.unit} seen",
                f"sudo usermod -aG systemd-journal {who}",
            )
        if self.trouble:
            return Health.LOST, f"{self.unit} {via}: {self.trouble}", ""
        if self.entry_count == 0 and files.found == 0:
            return Health.ABSENT, "no journal files on this host, so no journald or no place it writes to", ""
        if self.entry_count == 0:
            return Health.OK, f"{self.unit} has written nothing since then, {via}", ""
        notes = self._gaps(files)
        mend = ""
        if self.dropped_count:
            mend = f"systemctl edit {self.unit}: LogRateLimitIntervalSec=0 under [Service]"
        if files.denied:
            notes.append(f"{files.denied} of {files.found} journal files may not be read")
        read = f"{self.line_count} lines of {self.unit} {via}"
        if self.skipped_middle:
            read += ", its start and its newest entries"
        return Health.DEGRADED if notes else Health.OK, "; ".join([read, *notes]), mend


def _time_us(entry: Entry) -> int:
    sent = _number(entry.fields.get("_SOURCE_REALTIME_TIMESTAMP"))
    return sent if sent is not None and 0 <= entry.time_us - sent <= _SOURCE_LAG_US else entry.time_us


def _message(value: object) -> bytes | str:
    """A field that was given several times counts with its first value; `journalctl -o json` gives bytes as numbers."""
    if isinstance(value, list | tuple):
        if all(isinstance(part, int) for part in value):
            return bytes(part & 0xFF for part in value)
        return _message(value[0])
    return value if isinstance(value, bytes | str) else ""


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", errors="replace")


def _text(value: object) -> str:
    message = _message(value)
    return message if isinstance(message, str) else message.decode("ascii", errors="replace")


def _number(value: object) -> int | None:
    text = _text(value)
    return int(text) if text.isascii() and text.isdigit() else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
