"""The inference servers that run on this host: main process, launch, owner, port, clients, who holds which GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bubblewatch.model.errors import AccessDenied, SourceError, SourceLost, SourceUnavailable, UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.protocols import ProcessSeen
from bubblewatch.model.redact import redact_argv, redact_text
from bubblewatch.model.server import Launch
from bubblewatch.sources.cgroup import Owner, owner_of
from bubblewatch.sources.package_version import installed_version
from bubblewatch.sources.proc import Proc, Process, ancestors, descendants
from bubblewatch.sources.serving_env import serving_env
from bubblewatch.sources.sockets import connection_count, listening_ports, socket_inodes, sockets_of
from bubblewatch.sources.systemd_unit import Systemd, read_unit_file, unit_name

PACKAGES = ("sglang", "vllm", "tensorrt_llm", "lmdeploy", "text_generation_server")
"""Python packages whose version is looked for beside a server's interpreter, when its command line names them."""

_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*")
_NEVER_SERVERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ash", "fish", "docker", "podman", "nerdctl", "kubectl", "ssh"}
)
"""Programs whose command line may hold that of a server, which then runs as another process."""

_PTRACE = "run as root, as the server's user, or with CAP_SYS_PTRACE"

Recognise = Callable[[Launch, str], bool]
"""Whether a command line, or a title that a process gave itself, belongs to an inference server."""

GpuHolders = Callable[[], Mapping[str, Sequence[int]]]
"""GPU uuid -> pids that hold it, as NVML says; raises SourceError when NVML cannot say."""


@dataclass(slots=True)
class _Trouble:
    """What one look at the processes could not see, and how many servers it found."""

    servers: int = 0
    environ_denied: list[int] = field(default_factory=list)
    sockets_denied: list[int] = field(default_factory=list)
    hidden_holders: list[int] = field(default_factory=list)
    holders: str = ""


@dataclass(frozen=True, slots=True)
class _View:
    """The processes at one moment, and which of them are servers' main processes."""

    table: Mapping[int, Process]
    mains: frozenset[int]
    holders: Mapping[str, Sequence[int]]
    trouble: _Trouble


class LinuxProcesses:
    """Servers by /proc, NVML's pid lists and systemd; a ProcessSource.

    A main process is the highest one that `recognise` takes for a server and that does not merely start another (a
    shell, sudo, tmux, a container tool). Not thread-safe: `scan` and `health` belong to one thread.
    """

    def __init__(
        self,
        recognise: Recognise,
        gpu_holders: GpuHolders | None = None,
        systemd: Systemd | None = None,
        proc: Path = Path("/proc"),
    ) -> None:
        self._recognise = recognise
        self._gpu_holders = gpu_holders
        self._systemd = systemd
        self._proc = Proc(proc)
        self._trouble: _Trouble | None = None

    def scan(self) -> tuple[ProcessSeen, ...]:
        """Every server's main process that is there now, by pid. Processes that end meanwhile are left out.

        Raises SourceUnavailable when there is no process table to read.
        """
        view = self._look()
        return tuple(self._seen(view, view.table[pid]) for pid in sorted(view.mains))

    def by_pid(self, pid: int) -> ProcessSeen | None:
        """The server that process `pid` is, is part of, or has started; None when it has to do with none.

        Raises SourceLost when there is no such process.
        """
        view = self._look()
        if pid not in view.table:
            raise SourceLost(f"no process {pid} that can be seen here", "`ps -e` lists those there are")
        related = [*ancestors(view.table, pid), *descendants(view.table, pid)]
        main = next((process for process in related if process.pid in view.mains), None)
        return self._seen(view, main) if main else None

    def by_unit(self, unit: str) -> ProcessSeen:
        """The server that runs in a systemd unit (`.service` may be left out).

        Found through systemd where it answers, else by control group. Raises SourceUnavailable when there is no such
        unit, or when nothing runs in it.
        """
        name = unit_name(unit)
        view = self._look()
        main_pid = self._systemd_main_pid(name)
        inside = [process for process in view.table.values() if self._owner(process.pid).unit == name]
        if main_pid is not None:
            inside = descendants(view.table, main_pid) or inside
        if not inside:
            raise SourceUnavailable(f"no process runs in {name}", f"`systemctl status {name}` tells its state")
        pids = {process.pid for process in inside}
        mains = [process for process in inside if process.pid in view.mains]
        roots = [process for process in inside if process.parent not in pids]
        return self._seen(view, (mains or roots or inside)[0])

    def health(self) -> SourceHealth:
        """How well the last look saw, with what would mend it."""
        trouble = self._trouble
        if trouble is None:
            return SourceHealth("processes", Health.ABSENT, "not looked at yet")
        notes = []
        if trouble.environ_denied:
            notes.append(f"environment of pid {_pids(trouble.environ_denied)} denied: options set there are unknown")
        if trouble.sockets_denied:
            notes.append(
                f"sockets of pid {_pids(trouble.sockets_denied)} denied: its port is taken from the command line"
            )
        if trouble.hidden_holders:
            notes.append(f"a GPU is held by pid {_pids(trouble.hidden_holders)}, which cannot be seen from here")
        if trouble.holders:
            notes.append(f"which process holds which GPU is unknown: {trouble.holders}")
        mend = _PTRACE if trouble.environ_denied or trouble.sockets_denied else ""
        if trouble.hidden_holders:
            mend = mend or "run in the host's PID namespace (`--pid=host`, `hostPID: true`) and without hidepid"
        return SourceHealth(
            "processes",
            Health.DENIED if trouble.environ_denied else Health.DEGRADED if notes else Health.OK,
            "; ".join([f"{trouble.servers} server{'' if trouble.servers == 1 else 's'}", *notes]),
            mend,
            trouble.servers,
        )

    def _look(self) -> _View:
        trouble = self._trouble = _Trouble()
        try:
            table = self._proc.table()
        except OSError as error:
            raise SourceUnavailable(f"the process table cannot be read: {error}") from error
        servers = {process.pid for process in table.values() if self._is_server(process)}
        mains = {
            pid for pid in servers if not any(process.pid in servers for process in ancestors(table, table[pid].parent))
        }
        return _View(table, frozenset(mains), self._holders(table, trouble), trouble)

    def _is_server(self, process: Process) -> bool:
        """Whether the process itself is (a part of) a server, and not a program that starts one."""
        if not self._recognise(Launch(process.argv), process.title):
            return False
        program = os.path.basename(process.argv[0])  # noqa: PTH119 - a word of a command, not a path here
        if program in _NEVER_SERVERS:
            return False
        behind = process.argv[1:]
        return bool(_INTERPRETER.fullmatch(program)) or not behind or not self._recognise(Launch(behind), "")

    def _holders(self, table: Mapping[int, Process], trouble: _Trouble) -> Mapping[str, Sequence[int]]:
        if self._gpu_holders is None:
            return {}
        try:
            holders = self._gpu_holders()
        except SourceError as error:
            trouble.holders = error.what
            return {}
        hidden = {pid for pids in holders.values() for pid in pids if pid not in table}
        trouble.hidden_holders = sorted(hidden)
        return holders

    def _seen(self, view: _View, main: Process) -> ProcessSeen:
        view.trouble.servers += 1
        folder = self._proc.folder(main.pid)
        family = descendants(view.table, main.pid)
        environment = self._environment(main.pid, view.trouble)
        owner = self._owner(main.pid)
        port = self._port(family, main, view.trouble)
        executable = self._proc.link(main.pid, "exe")
        return ProcessSeen(
            pid=main.pid,
            epoch=self._proc.epoch(main),
            launch=self._launch(main, environment, owner),
            title=redact_text(main.title),
            unit=owner.unit,
            container=owner.container,
            pod=owner.pod,
            port=port,
            connections=self._connections(main.pid, port),
            version_hint=installed_version(
                _packages_named_in(main.argv), folder / "root", main.argv, environment, executable
            ),
            workers=self._workers(view, family),
            files=self._proc.log_files(main.pid),
        )

    def _environment(self, pid: int, trouble: _Trouble) -> dict[str, str] | None:
        try:
            return self._proc.environment(pid)
        except AccessDenied:
            trouble.environ_denied.append(pid)
        except SourceLost:
            pass
        return None

    def _launch(self, main: Process, environment: Mapping[str, str] | None, owner: Owner) -> Launch:
        """What the process was started with; options point to the lines of its unit file where that says the same."""
        launch = Launch(
            argv=redact_argv(main.argv),
            env=None if environment is None else serving_env(environment),
            where=f"pid {main.pid}",
            working_directory=self._proc.link(main.pid, "cwd"),
        )
        if self._systemd is None or owner.unit is None:
            return launch
        try:
            fragment = self._systemd.show(owner.unit).fragment
            places = read_unit_file(fragment).places if fragment else {}
        except (SourceError, UsageError):
            return launch
        options = {word.partition("=")[0] for word in launch.argv} | set(launch.env or ())
        return replace(launch, places={name: place for name, place in places.items() if name in options})

    def _owner(self, pid: int) -> Owner:
        return owner_of(self._proc.cgroup(pid))

    def _systemd_main_pid(self, unit: str) -> int | None:
        """Main pid by systemd; None when systemd cannot be asked. A unit that is known and not running is an error."""
        if self._systemd is None:
            return None
        try:
            state = self._systemd.show(unit)
        except SourceUnavailable as error:
            if error.what.startswith("no unit"):
                raise
            return None
        if state.main_pid is None:
            restarts = f", restarted {state.restarts} times" if state.restarts else ""
            result = f", result {state.result}" if state.result not in {"", "success"} else ""
            raise SourceUnavailable(f"{unit} is not running ({state.active}{result}{restarts})")
        return state.main_pid

    def _port(self, family: Sequence[Process], main: Process, trouble: _Trouble) -> int | None:
        """The port that the command names, else the lowest on which the main process (or a child) listens."""
        if (stated := _stated_port(main.argv)) is not None:
            return stated
        sockets = sockets_of(self._proc.folder(main.pid))
        for group in ([main], family):
            inodes = [socket_inodes(self._proc.folder(process.pid)) for process in group]
            if inodes[0] is None and group == [main]:
                trouble.sockets_denied.append(main.pid)
            ports = listening_ports(sockets or (), frozenset().union(*(each for each in inodes if each)))
            if ports:
                return ports[0]
        return None

    def _connections(self, pid: int, port: int | None) -> int | None:
        """Clients connected to `port` in the server's network namespace; None when nothing listens there (yet)."""
        sockets = sockets_of(self._proc.folder(pid))
        if sockets is None or port is None or not any(each.listens_on(port) for each in sockets):
            return None
        return connection_count(sockets, port)

    def _workers(self, view: _View, family: Sequence[Process]) -> dict[str, str]:
        """GPU uuid -> title of the family's process that holds it; the one whose title tells most where several do."""
        members = {process.pid: process for process in family}
        workers: dict[str, str] = {}
        for uuid, pids in view.holders.items():
            titles = [members[pid].title for pid in pids if pid in members]
            if titles:
                workers[uuid] = redact_text(
                    max(titles, key=lambda title: (self._recognise(Launch(), title), len(title)))
                )
        return workers


def _packages_named_in(argv: Sequence[str]) -> list[str]:
    text = " ".join(argv[:8])  # the module or program is among the first words
    return [name for name in PACKAGES if name in text or name.replace("_", "-") in text]


def _stated_port(argv: Sequence[str]) -> int | None:
    """Value of the last `--port` on the command line, None when there is none."""
    port = None
    for index, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if option == "--port":
            text = value if equals else argv[index + 1] if index + 1 < len(argv) else ""
            port = int(text) if text.isdigit() and 0 < int(text) < 65536 else port
    return port


def _pids(pids: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(set(pids))[:4]))
