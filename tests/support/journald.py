"""A real journald of a test's own: private /run, /var/log and process ids, nothing of the host is touched.

`private_journald(command)` runs a command inside and returns when it ended. `Journald` keeps one open, so that a test
outside writes to it and reads its files through `/proc/PID/root`. Both need root, and several may run at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

EMITTER = Path(__file__).with_name("emit_unit.py")

SETTINGS = "Storage=volatile\nRateLimitIntervalSec=0\nReadKMsg=no\nRuntimeMaxUse=1G\n"
"""journald.conf: keep in memory, drop nothing, leave the kernel's log alone."""

START = """
set -e
mkdir -p /run/systemd/journald.conf.d /run/log/journal
printf '[Journal]\\n%s' "$SETTINGS" > /run/systemd/journald.conf.d/test.conf
/lib/systemd/systemd-journald &
for i in $(seq 500); do [ -S /run/systemd/journal/stdout ] && break; sleep .01; done
"""
"""Starts journald inside; a command that was run without one may do it itself."""

_PREPARE = "set -e; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/log\n"

# --cgroup: our own control group is then the root, where journald believes the header of a stream
_UNSHARE = (
    *("unshare", "--mount", "--propagation", "private", "--cgroup"),
    *("--pid", "--fork", "--kill-child", "--mount-proc"),
)


def inside(command: Sequence[str], *, started: bool = True) -> list[str]:
    """The command line that runs `command` beside a journald of its own; `SETTINGS` must be in its environment."""
    script = f'{_PREPARE}{START if started else ""}\n"$@"'
    return [*_UNSHARE, "bash", "-c", script, "private-journald", *command]


def private_journald(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    settings: str = SETTINGS,
    started: bool = True,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `command` inside and return its outputs and exit status; `env` is added to the environment.

    The command may start servers with `[sys.executable, str(EMITTER), "sglang.service", *server]`; whatever still runs
    when it ends is killed. Without `started` it finds a host without a journal.
    """
    environment = {**os.environ, "SETTINGS": settings, **(env or {})}
    return subprocess.run(
        inside(command, started=started),
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


class Journald:
    """A journald that runs until the `with` block ends. `folder` holds its files as seen from outside."""

    def __init__(self, settings: str = SETTINGS) -> None:
        self._process = subprocess.Popen(
            inside(["sh", "-c", "echo ready; exec cat"]),
            env={**os.environ, "SETTINGS": settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("the private journald did not start")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._pid = int(children[0])
        self.folder = f"/proc/{self._pid}/root/run/log/journal"

    def __enter__(self) -> Journald:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, command: Sequence[str], stdin: bytes = b"") -> bytes:
        """What `command`, run beside the journald, prints; raises when it fails."""
        words = ["nsenter", "-t", str(self._pid), "-m", "-p", "-C", *command]
        return subprocess.run(words, input=stdin, stdout=subprocess.PIPE, check=True, timeout=60).stdout

    def emit(self, unit: str, text: bytes | str) -> None:
        """Write `text` as `unit`, from a new process; it is in the journal on return."""
        data = text.encode() if isinstance(text, str) else text
        self.run([sys.executable, str(EMITTER), unit], data)


def eventually(look: Callable[[], T], until: Callable[[T], bool], timeout_s: float = 20.0) -> T:
    """The first thing seen that `until` accepts, or the last thing seen: real daemons answer when they please."""
    give_up = time.monotonic() + timeout_s
    seen = look()
    while not until(seen) and time.monotonic() < give_up:
        time.sleep(0.02)
        seen = look()
    return seen
