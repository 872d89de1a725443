"""What Linux says of its processes in /proc. Every read survives a process that ends meanwhile."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.model.errors import AccessDenied, SourceLost
from bubblewatch.model.server import Epoch

MAX_CMDLINE_BYTES = 1024 * 1024
"""More than any launch line; a process may write what it likes over its own."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment. A process that renamed itself has its title as the only word of `argv`."""

    pid: int
    parent: int
    start_ticks: int
    argv: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name that the process gave itself (setproctitle), "" when its command line is as it was started."""
        return self.argv[0] if len(self.argv) == 1 and not self.argv[0].startswith("/") else ""


@dataclass(frozen=True, slots=True)
class Proc:
    """The process table under `root`, normally /proc."""

    root: Path = Path("/proc")

    def folder(self, pid: int) -> Path:
        return self.root / str(pid)

    def table(self) -> dict[int, Process]:
        """Every process with a command line that can be seen now, by pid; kernel threads have none."""
        found = (self.process(int(entry.name)) for entry in self.root.iterdir() if entry.name.isdigit())
        return {process.pid: process for process in found if process is not None}

    def process(self, pid: int) -> Process | None:
        """The process, or None when it is gone, hidden or a kernel thread."""
        try:
            with (self.folder(pid) / "cmdline").open("rb") as file:
                raw = file.read(MAX_CMDLINE_BYTES)
            status = (self.folder(pid) / "stat").read_text("utf-8", "replace")
        except OSError:
            return None
        argv = split_cmdline(raw)
        numbers = status.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
        if not argv or len(numbers) < 20:
            return None
        return Process(pid, parent=int(numbers[1]), start_ticks=int(numbers[19]), argv=argv)

    def environment(self, pid: int) -> dict[str, str]:
        """Variables with which the process was started.

        Raises AccessDenied when only its own user and root may see them, SourceLost when the process is gone.
        """
        try:
            raw = (self.folder(pid) / "environ").read_bytes()
        except PermissionError as error:
            raise AccessDenied(f"environment of pid {pid} may not be read", "run as root or as its user") from error
        except OSError as error:
            raise SourceLost(f"pid {pid} is gone") from error
        words = (word.partition("=") for word in raw.decode("utf-8", "replace").split("\0"))
        return {name: value for name, equals, value in words if name and equals}

    def cgroup(self, pid: int) -> str:
        """Text of the process's cgroup file, "" when it cannot be read."""
        try:
            return (self.folder(pid) / "cgroup").read_text("utf-8", "replace")
        except OSError:
            return ""

    def link(self, pid: int, name: str) -> str | None:
        """Where `/proc/PID/NAME` (`exe`, `cwd`, `root`) points to, None when that may not be seen."""
        try:
            return str((self.folder(pid) / name).readlink())
        except OSError:
            return None

    def log_files(self, pid: int) -> tuple[str, ...]:
        """Regular files behind the process's standard output and error: where its log goes if not to the journal."""
        found = []
        for descriptor in ("fd/1", "fd/2"):
            target = self.link(pid, descriptor)
            try:
                is_file = stat.S_ISREG((self.folder(pid) / descriptor).stat().st_mode)
            except OSError:
                continue
            if is_file and target is not None and not target.endswith(" (deleted)"):
                found.append(target)
        return tuple(dict.fromkeys(found))

    def boot_id(self) -> str:
        """Identity of this boot of the machine, "" when /proc does not say."""
        try:
            return (self.root / "sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            return ""

    def epoch(self, process: Process) -> Epoch:
        return Epoch(self.boot_id(), process.pid, process.start_ticks)


def split_cmdline(raw: bytes) -> tuple[str, ...]:
    """Words of /proc/PID/cmdline; an overwritten one ends in padding, which is left out."""
    text = raw.decode("utf-8", "replace").rstrip("\0 ")
    return tuple(text.split("\0")) if text else ()


def ancestors(table: Mapping[int, Process], pid: int) -> list[Process]:
    """The process and its parents in `table`, nearest first; ends where a parent is not in it."""
    line: list[Process] = []
    seen: set[int] = set()
    while pid in table and pid not in seen:
        seen.add(pid)
        line.append(table[pid])
        pid = table[pid].parent
    return line


def descendants(table: Mapping[int, Process], pid: int) -> list[Process]:
    """The process and all its children in `table`, by generation."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[Process] = []
    queue = [pid]
    while queue:
        current = queue.pop(0)
        if current in table and all(current != process.pid for process in found):
            found.append(table[current])
            queue += sorted(children.get(current, []))
    return found


def own_children() -> tuple[int, ...]:
    """Processes that this one has started and that are still there."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += map(int, (task / "children").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            continue  # the thread is gone, or the kernel was built without this file
    return tuple(found)
