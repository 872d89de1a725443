"""The folder of a recording: numbered parts, each an append-only file at first and a folder of Parquet later.

    000001/              a closed part: one Parquet file for each table
    000002.bwlog         the part that is being written, or one that nobody has turned into Parquet
    000003.tmp/          a folder that a converter is making, or left when it was ended; never read
    lock, convert.lock   held by the one recorder, and by the one converter

Numbers go on over sessions and are never used twice. A part is either of the two forms: the file goes away after the
folder has got its name, so when both are there the folder counts.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.model.errors import SourceError, UsageError

LOG_SUFFIX = ".bwlog"
UNFINISHED_SUFFIX = ".tmp"

_PART = re.compile(r"(\d{6,})(\.bwlog)?")


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """One part of a recording. `is_log` is True for the append-only form."""

    number: int
    path: Path
    is_log: bool

    @property
    def size_bytes(self) -> int:
        """What it takes on the disk; 0 when it is gone."""
        try:
            if self.is_log:
                return self.path.stat().st_size
            return sum(file.stat().st_size for file in self.path.iterdir())
        except OSError:
            return 0


def parts_of(folder: Path) -> tuple[Part, ...]:
    """The parts in a folder, oldest first. Raises UsageError when it cannot be read."""
    found: dict[int, Part] = {}
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}", "a folder that bubblewatch record wrote") from error
    for path in paths:
        match = _PART.fullmatch(path.name)
        if match is None or (match[2] is None) != path.is_dir():
            continue
        part = Part(int(match[1]), path, match[2] is not None)
        known = found.get(part.number)
        if known is None or known.is_log:
            found[part.number] = part
    return tuple(found[number] for number in sorted(found))


def recording_parts(folder: Path) -> tuple[Part, ...]:
    """The parts in a folder that is meant to be a recording. Raises UsageError when it holds none."""
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}", "bubblewatch record --output DIR makes one")
    parts = parts_of(folder)
    if not parts:
        raise UsageError(f"{folder} holds no recording", "bubblewatch record --output DIR makes one")
    return parts


def log_path(folder: Path, number: int) -> Path:
    """Where the append-only form of a part is."""
    return folder / f"{number:06d}{LOG_SUFFIX}"


def table_folder(folder: Path, number: int) -> Path:
    """Where the Parquet form of a part is."""
    return folder / f"{number:06d}"


def remove(part: Part) -> None:
    """Remove a part. Raises SourceError when that is not allowed."""
    try:
        if part.is_log:
            part.path.unlink(missing_ok=True)
        else:
            shutil.rmtree(part.path)
    except OSError as error:
        raise SourceError(f"{part.path}: {error.strerror or error}") from error


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write to the file system of a folder."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror or error}") from error
    return status.f_bavail * status.f_frsize


def surplus(parts: Sequence[Part], most_bytes: int, oldest_ns: int) -> tuple[Part, ...]:
    """The parts to remove, oldest first, so that what stays is within `most_bytes` and not older than `oldest_ns`.

    The age is that of the last change (wall time in ns). The newest part always stays.
    """
    kept_bytes = 0
    doomed: list[Part] = []
    for part in reversed(parts):
        kept_bytes += part.size_bytes
        if part is not parts[-1] and (doomed or kept_bytes > most_bytes or _changed_ns(part) < oldest_ns):
            doomed.append(part)
    return tuple(reversed(doomed))


def _changed_ns(part: Part) -> int:
    try:
        return part.path.stat().st_mtime_ns
    except OSError:
        return 0
