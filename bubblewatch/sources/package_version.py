"""Version of a server's Python package, read from the files beside its interpreter. Never runs anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

_DISTRIBUTION = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>\d[^-]*)\.(?:dist-info|egg-info)")
"""Example: `sglang-0.5.10.post1.dist-info` (Python packaging: recording installed projects)."""

_PACKAGES_OF = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
"""Where packages lie under an interpreter's prefix: upstream, Debian's own, Debian's pip."""

_ELSEWHERE = ("usr/local/bin", "usr/bin")
"""Where an interpreter without a folder in its name may be when PATH is not known."""


def installed_version(
    names: Sequence[str], root: Path, argv: Sequence[str], environment: Mapping[str, str] | None, executable: str | None
) -> str | None:
    """Version of the first of the packages `names` that is installed for a process's interpreter, None when none is.

    `root` is the process's root folder as seen from here (`/proc/PID/root`), `executable` what its `exe` points to.
    """
    for folder in _package_folders(root, argv, environment or {}, executable):
        versions = _versions_in(folder, names)
        for name in names:
            if name in versions:
                return versions[name]
    return None


def _package_folders(
    root: Path, argv: Sequence[str], environment: Mapping[str, str], executable: str | None
) -> Iterator[Path]:
    """Folders that Python would search, in its order: PYTHONPATH, then the prefixes of its possible interpreters."""
    for entry in environment.get("PYTHONPATH", "").split(":"):
        if entry.startswith("/"):
            yield _under(root, entry)
    seen: set[Path] = set()
    for prefix in _prefixes(root, argv, environment, executable):
        if prefix in seen:
            continue
        seen.add(prefix)
        for pattern in _PACKAGES_OF:
            yield from _glob(prefix, pattern)


def _prefixes(
    root: Path, argv: Sequence[str], environment: Mapping[str, str], executable: str | None
) -> Iterator[Path]:
    """Prefixes of the interpreter: of the program's path as typed (a virtual environment links to a base elsewhere)."""
    program = argv[0] if argv else ""
    if program.startswith("/"):
        yield _under(root, program).parent.parent
    if "VIRTUAL_ENV" in environment:
        yield _under(root, environment["VIRTUAL_ENV"])
    if program and "/" not in program:
        for folder in environment.get("PATH", "").split(":") if "PATH" in environment else _ELSEWHERE:
            if _exists(_under(root, folder) / program):
                yield _under(root, folder).parent
                break
    if executable:
        yield _under(root, executable).parent.parent


def _versions_in(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Versions of those of the packages that are installed in this folder."""
    versions: dict[str, str] = {}
    for name in names:
        for entry in _glob(folder, f"{name}-*-info"):
            found = _DISTRIBUTION.fullmatch(entry.name)
            if found and found["name"] == name:
                versions[name] = found["version"]
    return versions


def _under(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        return False


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:  # not ours to read
        return []
