"""What the screen costs with eight GPUs: CPU, bytes to the terminal, time to the first frame; peers beside it.

`python -m tests.bench.tui [SECONDS]` prints a table. Each program runs in a pseudo-terminal of 120 x 40 that this
process drains. The demo's CPU includes the simulated host and all judging; `top --connect` is the screen alone. nvitop
and nvtop are measured where they are installed, on the same stand-in for NVML.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.model.clock import SystemClock
from bubblewatch.sources.simulated import SCENARIOS, SimulatedHost
from tests.nvml_shim.shim import Feed, FeedThread, build, environment

COLUMNS, ROWS = 120, 40
BUBBLEWATCH = (sys.executable, "-m", "bubblewatch")
FIRST_FRAME_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one program took. `cpu` is a share of one core over the steady part, children included.

    `first_cpu_s` is CPU time until the first frame: unlike the time itself it does not tell how busy the machine is.
    """

    name: str
    first_frame_s: float | None
    first_cpu_s: float
    cpu: float
    bytes_per_s: float
    memory_mib: float


class InTerminal:
    """A program in a pseudo-terminal."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.begun = time.monotonic()
        self.seen = bytearray()
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], list(command), dict(environ))
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def drain(self, seconds: float, until: bytes | None = None) -> float | None:
        """Read for so long, or until the words come; how long that took since the start, None when they did not."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                continue
            try:
                self.seen += os.read(self._master, 65536)
            except OSError:
                break
            if until is not None and until in self.seen:
                return time.monotonic() - self.begun
        return None

    def cpu_s(self) -> float:
        """CPU time of the program and its descendants so far."""
        return sum(_cpu_s(pid) for pid in _tree(self.pid))

    def memory_mib(self) -> float:
        return sum(_memory_kib(pid) for pid in _tree(self.pid)) / 1024

    def end(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        self.drain(2.0)
        os.close(self._master)
        os.waitpid(self.pid, 0)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [child for word in task.read_text(encoding="ascii").split() for child in _tree(int(word))]
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_kib(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


def measure(name: str, command: Sequence[str], environ: Mapping[str, str], first: bytes, seconds: float) -> Cost:
    """Run the program, wait for its first frame (the words `first`), and measure from two seconds later on."""
    program = InTerminal(command, environ)
    try:
        first_frame_s = program.drain(FIRST_FRAME_LIMIT_S, first)
        first_cpu_s = program.cpu_s()
        program.drain(2.0)
        cpu_s, sent, begun = program.cpu_s(), len(program.seen), time.monotonic()
        program.drain(seconds)
        took = time.monotonic() - begun
        cpu = (program.cpu_s() - cpu_s) / took
        return Cost(name, first_frame_s, first_cpu_s, cpu, (len(program.seen) - sent) / took, program.memory_mib())
    finally:
        program.end()


@contextmanager
def daemon() -> Iterator[str]:
    """A daemon on the simulated host, at this address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (*BUBBLEWATCH, "run", "--demo", "pp8-story", "--listen", f"127.0.0.1:{port}")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3.0)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def shim() -> Iterator[Mapping[str, str]]:
    """The environment in which programs see the stand-in for NVML, fed by the simulated host."""
    with tempfile.TemporaryDirectory() as folder:
        clock = SystemClock()
        host = SimulatedHost(SCENARIOS["pp8-story"], clock)
        feed = Feed(Path(folder) / "feed", len(host.gpus))
        with FeedThread(feed, host.sensor_state, clock.monotonic_ns):
            yield environment(build(), feed.path)


def costs(seconds: float) -> Iterator[Cost]:
    base = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    base.pop("COLUMNS", None)
    base.pop("LINES", None)
    yield measure("demo", (*BUBBLEWATCH, "demo"), base, b"FIX FIRST", seconds)
    with daemon() as url:
        yield measure("top --connect", (*BUBBLEWATCH, "top", "--connect", url), base, b"sglang-k26", seconds)
    peers = {"nvitop": ("nvitop", "--monitor", "full"), "nvtop": ("nvtop",)}
    found = {name: command for name, command in peers.items() if shutil.which(command[0])}
    with shim() as environ:
        alone = (*BUBBLEWATCH, "top", "--alone")
        yield measure("top --alone (shim)", alone, {**base, **environ}, b"W idle/act", seconds)
        for name, command in found.items():
            yield measure(f"{name} (shim)", command, {**base, **environ}, b"GPU", seconds)


def main(seconds: float = 20.0) -> None:
    """Print the table."""
    print(f"The screen with eight GPUs, {COLUMNS}x{ROWS}, over {seconds:.0f} s (aims: 3 % of a core, 15 KB/s)")
    print(f"{'':20} {'first frame':>11} {'of it CPU':>9} {'CPU':>7} {'KB/s':>7} {'MiB':>6}")
    for cost in costs(seconds):
        first = "?" if cost.first_frame_s is None else f"{cost.first_frame_s:.2f} s"
        print(
            f"{cost.name:20} {first:>11} {cost.first_cpu_s:7.2f} s {100 * cost.cpu:6.1f}% "
            f"{cost.bytes_per_s / 1000:7.1f} {cost.memory_mib:6.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*(float(word) for word in sys.argv[1:2]))
