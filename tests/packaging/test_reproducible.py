"""Whoever builds the same tree gets the same bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def built(folder: Path, target: str, umask: int) -> str:
    """Checksum of the archive that a build gives, started under this umask at whatever time it is."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = folder.iterdir()
    return hashlib.sha256(archive.read_bytes()).hexdigest()


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_two_builds_are_the_same_to_the_last_byte(target: str, tmp_path: Path) -> None:
    assert built(tmp_path / "one", target, 0o022) == built(tmp_path / "two", target, 0o077)
