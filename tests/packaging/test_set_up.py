"""The two commands for a fresh machine: what they say when it lacks something, and how the demo may end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAIN_TOOLS = ("bash", "cat", "cut", "dirname", "env", "id", "mkdir", "sha256sum", "tail", "tee")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the set-up reads."""
    (tmp_path / ".ci").mkdir()
    for name in (".ci/setup.sh", "pyproject.toml", "constraints.txt", "Makefile"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def set_up(tree: Path, target: str, *, python: str | None) -> subprocess.CompletedProcess[str]:
    """The set-up on a machine that has only the plainest tools: no apt-get, no compiler."""
    tools = tree / "tools"
    tools.mkdir()
    for name in PLAIN_TOOLS:
        found = shutil.which(name)
        assert found, name
        (tools / name).symlink_to(found)
    if python is not None:
        (tools / "python3").symlink_to(python)
    return subprocess.run(
        ["bash", ".ci/setup.sh", target],
        cwd=tree,
        env={"PATH": str(tools)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_machine_without_apt_is_told_everything_that_is_missing_at_once(tree: Path) -> None:
    done = set_up(tree, "test", python=sys.executable)
    assert done.returncode == 2
    for package in ("gcc", "libc6-dev", "pkg-config", "libsystemd-dev", "tmux"):
        assert f"{package} (" in done.stderr
    assert "then run make test again" in done.stderr
    assert not (tree / ".venv").exists()


def test_a_machine_without_a_right_python_is_told_which_ones_are(tree: Path) -> None:
    done = set_up(tree, "demo", python=None)
    assert done.returncode == 2
    assert "3.11" in done.stderr
    assert "PYTHON=" in done.stderr


def test_an_unknown_target_is_refused(tree: Path) -> None:
    done = set_up(tree, "dance", python=sys.executable)
    assert done.returncode == 2
    assert "demo, test or check" in done.stderr


def make_with_python_that_ends(tree: Path, status: int) -> subprocess.CompletedProcess[str]:
    """`make demo` where the set-up has nothing to do and bubblewatch ends with this status."""
    (tree / ".ci" / "setup.sh").write_text("true\n", encoding="utf-8")
    python = tree / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@"\nexit {status}\n', encoding="utf-8")
    python.chmod(0o755)
    return subprocess.run(
        ["make", "--no-print-directory", "demo"],
        cwd=tree,
        env={"PATH": os.environ["PATH"]},  # not the variables of a make that runs this test
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("status", [0, 1])
def test_a_demo_with_findings_is_a_success_and_plain_off_a_terminal(tree: Path, status: int) -> None:
    done = make_with_python_that_ends(tree, status)
    assert done.returncode == 0
    assert done.stdout.split() == ["-m", "bubblewatch", "demo", "--plain"]


@pytest.mark.parametrize("status", [2, 3, 130])
def test_any_other_end_of_the_demo_is_a_failure(tree: Path, status: int) -> None:
    assert make_with_python_that_ends(tree, status).returncode != 0
