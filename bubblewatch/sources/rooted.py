"""Files of another root folder, such as a container's seen through /proc/PID/root, read without leaving it.

A link in a container may point anywhere. Followed by the kernel it would be followed from OUR root; here it is followed
inside the root that it belongs to, and what is no regular file is not opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

MAX_LINKS = 40
"""Symbolic links followed on one path, as many as Linux does (path_resolution(7))."""


def inside(root: Path, path: str) -> Path:
    """Where the absolute `path` of a process with root folder `root` lies for us, every link followed inside `root`.

    The last part need not exist. Raises OSError for a loop of links.
    """
    todo = list(reversed(PurePosixPath("/", path).parts[1:]))
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            del done[-1:]
            continue
        here = root.joinpath(*done, part)
        if not here.is_symlink():
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(40, os.strerror(40), path)
        target = PurePosixPath(here.readlink())
        if target.is_absolute():
            done.clear()
        todo += reversed([part for part in target.parts if part != "/"])
    return root.joinpath(*done)


@contextmanager
def open_inside(root: Path, path: str) -> Iterator[BinaryIO]:
    """The regular file at `path` inside `root`, for reading. Raises OSError when there is none; never waits for one."""
    # A fifo would block the open, and a link put there after we looked would lead out.
    found = os.open(inside(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(found, "rb") as file:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(22, "is not a regular file", path)
        yield file


def read_inside(root: Path, path: str, limit: int) -> bytes:
    """The first `limit` bytes of that file. Raises OSError as `open_inside`, and for a file that is larger."""
    with open_inside(root, path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(27, f"is larger than {limit} bytes", path)
    return data


def names_inside(root: Path, path: str) -> tuple[str, ...]:
    """Names in that folder, sorted; () when it cannot be listed."""
    try:
        return tuple(sorted(os.listdir(inside(root, path))))  # noqa: PTH208 - names are wanted, not paths
    except OSError:
        return ()
