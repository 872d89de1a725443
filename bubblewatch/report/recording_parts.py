"""Reading a recording whatever form its parts have, and turning closed parts into Parquet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bubblewatch.model.errors import SourceError, UsageError
from bubblewatch.sources.recording_folder import (
    UNFINISHED_SUFFIX,
    Part,
    recording_parts,
    table_folder,
)
from bubblewatch.sources.recording_lock import only_converter
from bubblewatch.sources.recording_log import read_frames, read_log
from bubblewatch.sources.recording_records import SCHEMA, Begin, Record

MISSING = "install the extra: pip install 'bubblewatch[report]'"


def read_records(folder: Path) -> Iterator[Record]:
    """All records of a recording, oldest first. Raises UsageError for what is no recording or cannot be read here."""
    for part in recording_parts(folder):
        yield from part_records(part)


def part_records(part: Part) -> Iterator[Record]:
    """The records of one part. A part that is turned into Parquet meanwhile is read in the form it then has."""
    for record in _from_log(part) if part.is_log else _from_tables(part.path):
        if isinstance(record, Begin) and record.schema > SCHEMA:
            raise UsageError(
                f"{part.path} was written by bubblewatch {record.program}, in a form that this version cannot read",
                "use that version or a newer one",
            )
        yield record


def _from_log(part: Part) -> Iterator[Record]:
    try:
        file = part.path.open("rb")
    except FileNotFoundError:
        yield from _from_tables(table_folder(part.path.parent, part.number))
        return
    except OSError as error:
        raise UsageError(f"{part.path}: {error.strerror or error}") from error
    with file:
        yield from read_frames(file, str(part.path))


def _from_tables(folder: Path) -> Iterator[Record]:
    try:
        from bubblewatch.report.recording_tables import read_part  # noqa: PLC0415  pyarrow is an extra
    except ImportError as error:
        raise UsageError(f"{folder} is Parquet, and pyarrow is not installed", MISSING) from error
    return read_part(folder)


def compact(log: Path) -> Path:
    """Turn the append-only file of a closed part into a folder of Parquet, and remove it; gives the folder.

    At any moment either the file or the whole folder is there. A part that was turned before stays as it is. Raises
    SourceError when it cannot be done.
    """
    from bubblewatch.report.recording_tables import to_tables, write_part  # noqa: PLC0415  pyarrow is an extra

    number = int(log.name.partition(".")[0])
    final = table_folder(log.parent, number)
    unfinished = final.with_name(final.name + UNFINISHED_SUFFIX)
    try:
        with only_converter(log.parent):
            shutil.rmtree(unfinished, ignore_errors=True)
            if log.exists() and not final.exists():
                unfinished.mkdir()
                write_part(to_tables(read_log(log)), unfinished)
                for path in unfinished.iterdir():
                    _sync(path)
                unfinished.rename(final)
                _sync(log.parent)
            log.unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(f"{log} cannot be turned into Parquet: {error.strerror or error}") from error
    return final


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
