"""What imports what, and that importing does nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(code: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that writes no byte code, so that a file opened for writing is the code's own doing."""
    return subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def loaded_by(code: str) -> set[str]:
    """Top-level names of the modules that are loaded when the code has run."""
    ending = "\nimport sys; print(); print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    done = python(code + ending)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_layers_point_down_and_each_binding_has_one_file() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


WALK = """
import importlib, pkgutil
import {package}
names = [m.name for m in pkgutil.walk_packages({package}.__path__, "{package}.") if not m.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
"""


APP_BUT_DAEMON = WALK.format(package="bubblewatch.app").replace("__main__", "daemon")
"""The daemon serves HTTP and may load what serves it."""


@pytest.mark.parametrize("code", ["import bubblewatch.cli", APP_BUT_DAEMON], ids=["cli", "app"])
def test_what_only_some_commands_need_is_not_loaded_at_start(code: str) -> None:
    heavy = {
        "textual",
        "pandas",
        "pyarrow",
        "plotly",
        "jinja2",
        "fsspec",
        "perfetto",
        "pynvml",
        "systemd",
        "httpx",
        "hypercorn",
    }
    assert loaded_by(code) & heavy == set()


def test_the_daemon_loads_nothing_that_draws_or_reports() -> None:
    loaded = loaded_by("import bubblewatch.app.daemon")
    assert "bubblewatch" in loaded
    assert loaded & {"textual", "pandas", "pyarrow", "plotly", "jinja2", "fsspec", "perfetto"} == set()


def test_the_child_that_makes_tables_of_a_recording_loads_no_more_than_it_needs() -> None:
    loaded = loaded_by("import bubblewatch.report.compact, bubblewatch.report.recording_tables")
    assert "pyarrow" in loaded
    assert loaded & {"pandas", "plotly", "jinja2", "fsspec", "perfetto", "textual", "rich", "cel_expr_python"} == set()


def test_help_comes_without_arithmetic_rules_and_metrics() -> None:
    code = """
import sys
sys.argv = ["bubblewatch", "--help"]
from bubblewatch.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    loaded = loaded_by(code)
    assert "bubblewatch" in loaded
    assert loaded & {"numpy", "pandas", "yaml", "prometheus_client", "cel_expr_python"} == set()


SIDE_EFFECTS = """
import json, os, sys, threading
WATCHED = {
    "open", "socket.connect", "socket.bind", "subprocess.Popen", "os.fork", "os.mkdir", "os.putenv", "os.remove",
    "os.rename", "signal.signal", "signal.setitimer",
}
seen = []
def is_ours():  # and not of a dependency, such as numpy, which sets a variable of its own
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if "site-packages" in name:
            return False
        if "/bubblewatch/" in name.removeprefix(os.getcwd()):
            return True
        frame = frame.f_back
    return False
def hook(event, arguments):
    if event not in WATCHED or not is_ours():
        return
    if event == "open":
        path, mode, flags = arguments
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            seen.append([event, str(path)])
    else:
        seen.append([event, repr(arguments)[:200]])
sys.addaudithook(hook)
WALK
seen += [["thread", t.name] for t in threading.enumerate() if t is not threading.main_thread()]
print(json.dumps([len(names), seen]))
"""


def test_importing_every_module_starts_nothing_and_writes_nothing() -> None:
    done = python(SIDE_EFFECTS.replace("WALK", WALK.format(package="bubblewatch")))
    assert done.returncode == 0, done.stderr
    count, seen = json.loads(done.stdout.splitlines()[-1])
    assert count >= len(list((ROOT / "bubblewatch").rglob("[a-z]*.py")))
    assert seen == []
