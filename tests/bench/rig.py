"""What the benchmarks share: a host with stand-in GPUs, and how CPU time and memory of a process are measured."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.nvml_shim.shim import build, environment

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Rig:
    """A folder with a feed that a process of its own keeps fresh, and the environment that leads to it."""

    folder: Path
    gpus: int

    def environ(self, *, calls: Path | None = None) -> dict[str, str]:
        return {**os.environ, **environment(build(), self.folder / "feed", calls=calls), "PYTHONPATH": str(ROOT)}


@contextmanager
def rig(gpus: int) -> Iterator[Rig]:
    """A host with so many GPUs, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="bubblewatch-bench-"))
    command = [sys.executable, "-m", "tests.bench.feeder", str(folder / "feed"), str(gpus)]
    feeder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert feeder.stdout is not None
        feeder.stdout.readline()
        yield Rig(folder, gpus)
    finally:
        feeder.kill()
        feeder.wait()
        shutil.rmtree(folder)


def cpu_s(pid: int) -> float:
    """CPU time of all threads of this process so far, in seconds, to the nanosecond (/proc/PID/task/*/schedstat)."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def pss_mb(pid: int) -> float:
    """Memory of this process in MB, shared pages divided among those that share them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that compute and never wait."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


@contextmanager
def running(command: Sequence[str], environ: Mapping[str, str], settle_s: float) -> Iterator[int]:
    """The pid of this command after it has run for `settle_s`; it ends with the block."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(list(command), env=dict(environ), stdin=quiet, stdout=quiet, stderr=quiet, cwd=ROOT) as one:
        try:
            time.sleep(settle_s)
            yield one.pid
        finally:
            one.terminate()
            try:
                one.wait(5)
            except subprocess.TimeoutExpired:
                one.kill()


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a heading, numbers to three digits."""
    texts = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(head))]
    print(f"\n{title}\n")
    for number, row in enumerate(texts):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.3g}" if abs(cell) < 1000 else f"{cell:.0f}"
    return str(cell)
