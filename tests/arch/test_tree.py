"""The tree as a reader finds it: short files, a stable top level, and nothing of the places where it was made."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MOST_LINES = 400

LONGER_WITH_REASON: Mapping[str, str] = {}
"""Files of bubblewatch/ that are longer, and why they are better in one piece."""

TOP_LEVEL = {
    *("pyproject.toml", "constraints.txt", "Makefile", "README.md", "CHANGELOG.md", "LICENSE"),
    *("bubblewatch", "rules", "dashboards", "tests", "examples"),
}


def without_marks(pattern: str) -> str:
    """The words are written with a ~ inside, so that this file does not hold what it forbids."""
    return pattern.replace("~", "")


REGISTRIES = r"\b(?:py~pi|python~hosted)\.org|\bnpm~js\.(?:org|com)|\.deb~ian\.org|\.ub~untu\.com|\bproxy\.gol~ang\.org"
DOCUMENTS = r"\bsha~red/(?:DES~IGN|U~X\b|know~ledge|cases/|refer~ence|too~ls/|ho~oks)"
FORBIDDEN = {
    "a package registry's host": without_marks(REGISTRIES),
    "a path of the machine where it was written": without_marks(r"(?<![\w.-])/wo~rk/(?:main|shared|\.)|/tm~p/bw\b"),
    "the workplace's own files": without_marks(DOCUMENTS),
    "a mark of unfinished work": without_marks(r"\b(?:TO~DO|FIX~ME)(?:[:(\s]|$)"),
}


def git_files(*options: str) -> list[Path]:
    """Files of the tree as git lists them, relative to the root."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: what belongs to the tree is not known")
    paths = [Path(name) for name in listed.stdout.split("\0") if name]
    return [path for path in paths if (ROOT / path).is_file()]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """What git has, and what it would take."""
    return git_files("--cached", "--others", "--exclude-standard")


def test_source_files_can_be_read_in_one_sitting(files: list[Path]) -> None:
    lengths = {
        path.as_posix(): len((ROOT / path).read_text(encoding="utf-8").splitlines())
        for path in files
        if path.parts[0] == "bubblewatch" and path.suffix == ".py"
    }
    assert lengths
    too_long = {name: length for name, length in lengths.items() if length > MOST_LINES}
    assert set(too_long) == set(LONGER_WITH_REASON), f"longer than {MOST_LINES} lines: {too_long}"


def test_the_top_level_stays() -> None:
    found = {path.parts[0] for path in git_files("--cached")}  # not a scratch file that nobody has added
    assert found
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_tree_does_not_name(what: str, files: list[Path]) -> None:
    pattern = re.compile(FORBIDDEN[what])
    hits = []
    for path in files:
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a recording
        hits += [
            f"{path}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)
        ]
    assert hits == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a package registry's host", "see https://py~pi.org/project"),
        ("a path of the machine where it was written", "open('/wo~rk/main/x')"),
        ("the workplace's own files", "../sha~red/know~ledge/sglang.md"),
        ("a mark of unfinished work", "# TO~DO: later"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, text: str) -> None:
    assert re.search(FORBIDDEN[what], without_marks(text))
