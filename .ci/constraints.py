"""Writes constraints.txt: the newest releases that pyproject.toml allows, resolved in an empty environment.

Run by `make constraints`. Names no package index, so the file is the same wherever it was made.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# Exact versions of everything that bubblewatch, its tests and its linters use. Written by `make constraints`.
"""
BUILD_TOOLS = ("hatchling", "editables", "setuptools", "wheel")
"""Used in isolated builds (of bubblewatch and of systemd-python), where `pip freeze` does not see them."""


def pip(python: Path, *arguments: str) -> str:
    """What pip prints."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *BUILD_TOOLS]
    wanted += [
        r for extra in project["project"]["optional-dependencies"].values() for r in extra if "bubblewatch" not in r
    ]
    wanted += [r for group in project["dependency-groups"].values() for r in group]
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = Path(directory, "bin", "python")
        pip(python, "install", "--quiet", "--upgrade", "pip")
        pip(python, "install", "--quiet", "--upgrade", *wanted)
        frozen = pip(python, "freeze", "--all").splitlines()
    pins = [line for line in frozen if re.fullmatch(r"[\w.-]+==[\w.!+]+", line)]
    if len(pins) != len(frozen):
        sys.exit(f"these have no plain version: {sorted(set(frozen) - set(pins))}")
    pins.sort(key=lambda pin: pin.partition("==")[0].lower())
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(pins) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
