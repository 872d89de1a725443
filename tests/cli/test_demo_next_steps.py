"""What `bubblewatch demo` says to do next can be typed as it stands."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BESIDE = Path(sys.executable).with_name("bubblewatch")


@pytest.mark.skipif(not BESIDE.exists(), reason="needs the installed command beside this Python, as make test has it")
def test_the_next_command_runs_where_bubblewatch_is_not_on_path(tmp_path: Path) -> None:
    for folder in (ROOT, tmp_path):
        env = {**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "bubblewatch", "demo", "--plain"]
        shown = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout
        line = next(line for line in shown.splitlines() if " demo --list" in line)
        typed = shlex.split(line.partition("  all of them")[0])
        listed = subprocess.run(typed, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert listed.returncode == 0, listed.stderr
        assert "pp8-story" in listed.stdout
