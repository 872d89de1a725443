"""One recorder and one converter for a recording's folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from bubblewatch.model.errors import SourceError, UsageError

_NAME = "lock"
_CONVERT = "convert.lock"


@contextlib.contextmanager
def only_converter(folder: Path) -> Iterator[None]:
    """Nobody else converts parts of this folder meanwhile: waits for whoever does. SourceError when it is gone."""
    try:
        file = os.open(folder / _CONVERT, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror or error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


class FolderLock:
    """Makes the folder if need be and holds it until closed, or until the process ends.

    Raises UsageError when it cannot be made or another recorder holds it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._file = os.open(folder / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise UsageError(f"cannot record into {folder}: {error.strerror or error}", "another --output") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise UsageError(f"another bubblewatch records into {folder}", "another --output") from error

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._file)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
