"""Judging this machine: NVML in a process of its own, the servers it finds, their journal and pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TextIO

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, Clock, SystemClock
from bubblewatch.model.errors import AccessDenied, SourceLost, UsageError
from bubblewatch.model.findings import Snapshot
from bubblewatch.model.protocols import EndpointSource, LogSource, ProcessSeen
from bubblewatch.runtime.log_places import LogPlaces
from bubblewatch.runtime.memory import Memory
from bubblewatch.runtime.sampler import NullTelemetry, SamplerProcess
from bubblewatch.runtime.sampler_cost import SamplerCost
from bubblewatch.runtime.server_watch import ReadModel
from bubblewatch.runtime.watch import Watcher, WatchOptions
from bubblewatch.runtime.witness import Witness
from bubblewatch.servers import registry
from bubblewatch.signals.evidence import Stated
from bubblewatch.sources.endpoint import ServerMetrics
from bubblewatch.sources.journal import open_journal
from bubblewatch.sources.logfile import LogFileSource
from bubblewatch.sources.model_files import ModelPlace, given_model, served_model
from bubblewatch.sources.proc import Proc
from bubblewatch.sources.process import LinuxProcesses
from bubblewatch.sources.systemd_unit import Systemd, unit_name

FIRST_READING_S = 10.0
"""How long a diagnosis waits for NVML's first readings, in seconds: without persistence mode the driver initialises
each GPU first."""

TICK_S = 0.5
"""Seconds between two looks while a diagnosis watches."""

HISTORY_S = 900.0
"""How far back the log is read by default, in seconds, beside the start-up lines of the server's life."""

_UNITS: Mapping[str, float] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What of this machine to watch, for how long, and what the user knows."""

    unit: str | None = None
    container: str | None = None
    pid: int | None = None
    gpus: str | None = None
    seconds: float = 30.0
    since: str | None = None
    rate_hz: float | None = None
    nvml: bool = True
    stated: Stated = field(default_factory=Stated)
    version: str | None = None
    model_config: str | None = None
    ignore: tuple[str, ...] = ()
    one_shot: bool = True


def gpu_names(text: str | None) -> frozenset[str] | None:
    """GPUs named by `0,2`, `0-3` or UUIDs, as the sampler takes them; None = all. Raises UsageError for anything
    else.
    """
    if text is None:
        return None
    names: set[str] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        span = re.fullmatch(r"(\d{1,3})-(\d{1,3})", part)
        if span and int(span[1]) <= int(span[2]):
            names |= {str(index) for index in range(int(span[1]), int(span[2]) + 1)}
        elif re.fullmatch(r"\d{1,3}|(?:GPU|MIG)-[0-9a-fA-F-]{8,}", part):
            names.add(part)
        else:
            raise UsageError(f"--gpus {text!r}: {part!r} names no GPU", "indices such as 0,2 or 0-3, or UUIDs")
    if not names:
        raise UsageError(f"--gpus {text!r} names no GPU", "indices such as 0,2 or 0-3, or UUIDs")
    return frozenset(names)


def since_ns(text: str | None, now_ns: int) -> int | None:
    """Wall time in ns of `15m`, `2h` (ago) or of a local ISO date and time; None when not given."""
    if text is None:
        return None
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])(?:\s*ago)?", text.strip())
    if ago:
        return now_ns - round(float(ago[1]) * _UNITS[ago[2]] * NS)
    try:
        return round(datetime.fromisoformat(text.strip()).astimezone().timestamp() * NS)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"--since {text!r} is no time", "for example 15m, 2h or 2026-12-01T14:00") from error


def live_watcher(
    options: LiveOptions,
    rules: Sequence[Rule],
    clock: Clock,
    witness: Witness | None = None,
    memory: Memory | None = None,
) -> tuple[Watcher, Callable[[], SamplerCost] | None]:
    """A watcher on this machine, and what tells the cost of its sampler (None without NVML).

    With `memory`, it goes on where an earlier one stopped.
    """
    places = LogPlaces(memory or Memory(), clock.wall_ns())
    only = gpu_names(options.gpus)
    start_ns = since_ns(options.since, clock.wall_ns())
    telemetry: SamplerProcess | NullTelemetry = NullTelemetry()
    if options.nvml:
        telemetry = SamplerProcess(clock, os.environ, options.rate_hz, only)
        telemetry.wait(FIRST_READING_S)
    processes = LinuxProcesses(
        recognise=lambda launch, title: registry.recognise(launch, title) is not None,
        gpu_holders=lambda: {uuid: [pid for pid, _ in held] for uuid, held in telemetry.processes().items()},
        systemd=Systemd(),
    )
    watcher = Watcher(
        clock=clock,
        telemetry=telemetry,
        processes=processes,
        recognise=registry.recognise,
        open_log=lambda seen: _open_log(seen, start_ns, clock, places),
        open_endpoint=lambda seen, kind: _open_endpoint(seen, kind, clock),
        read_model=_model_reader(options.model_config),
        rules=rules,
        options=WatchOptions(
            window_s=options.seconds,
            stated=options.stated,
            version=options.version,
            ignore=options.ignore,
            wanted=_wanted(options, processes),
            one_shot=options.one_shot,
        ),
        witness=witness,
        memory=memory,
        places=places,
        born_ns=lambda seen: _birth_ns(seen, clock),
    )
    return watcher, telemetry.cost if isinstance(telemetry, SamplerProcess) else None


def _model_reader(given: str | None) -> ReadModel:
    """The model that the user names, for every server; else what each server's own root folder holds of its model."""
    if given is not None:
        shape = given_model(given)
        return lambda _seen, _name: shape
    return lambda seen, name: served_model(_model_place(seen, name))


def _model_place(seen: ProcessSeen, name: str) -> ModelPlace:
    """Where a server's model lies. Its root folder may be hidden from us: then it is ours, unless it has its own."""
    proc = Proc()
    try:
        environment = proc.environment(seen.pid)
    except (AccessDenied, SourceLost):
        environment = {}
    is_contained = seen.container is not None or seen.pod is not None
    root = proc.folder(seen.pid) / "root" if is_contained or proc.link(seen.pid, "root") else Path("/")
    return ModelPlace(name, root, seen.launch.working_directory or "/", environment)


def _wanted(options: LiveOptions, processes: LinuxProcesses) -> Callable[[ProcessSeen], bool] | None:
    if options.unit is not None:
        unit = unit_name(options.unit)
        return lambda seen: seen.unit == unit
    if options.container is not None:
        return lambda seen: seen.container is not None and seen.container.startswith(options.container or "")
    if options.pid is not None:
        owner = processes.by_pid(options.pid)
        if owner is None:
            raise UsageError(
                f"process {options.pid} belongs to no server that bubblewatch knows", "see bubblewatch doctor"
            )
        return lambda seen: seen.pid == owner.pid
    return None


def _open_log(seen: ProcessSeen, start_ns: int | None, clock: Clock, places: LogPlaces) -> LogSource | None:
    """The journal of the server's unit, else the file that its output goes to, else none. What an earlier reading had
    is not read again.
    """
    if seen.unit is not None:
        since = start_ns if start_ns is not None else _birth_ns(seen, clock)
        place = places.before(seen.unit)
        cursor, skip = (place.cursor, place.skip) if place is not None else (None, 0)
        return places.opened(seen.epoch, seen.unit, open_journal(seen.unit, since, cursor=cursor, skip=skip))
    path = next((path for path in seen.files if Path(path).is_file()), None)
    if path is None:
        return None
    return places.opened(seen.epoch, path, LogFileSource(path, after=places.before(path)))


def _birth_ns(seen: ProcessSeen, clock: Clock) -> int:
    """Wall time at which this process started, one second early for the lines of its unit's start."""
    ticks = seen.epoch.start_ticks / os.sysconf("SC_CLK_TCK")
    with Path("/proc/uptime").open(encoding="ascii") as file:
        age_s = max(float(file.read().split()[0]) - ticks, 0.0)
    return clock.wall_ns() - round((age_s + 1.0) * NS)


def _open_endpoint(seen: ProcessSeen, kind: str, clock: Clock) -> EndpointSource | None:
    return ServerMetrics(f"http://127.0.0.1:{seen.port}", kind, clock) if seen.port is not None else None


def diagnose_live(options: LiveOptions, rules: Sequence[Rule], progress: TextIO | None) -> tuple[Snapshot, bool]:
    """Watch for so long and judge; whether it was interrupted comes with it. Progress goes to `progress`, None =
    none.
    """
    clock = SystemClock()
    watcher, _ = live_watcher(options, rules, clock)
    interrupted = False
    try:
        snapshot = watcher.tick()
        try:
            while snapshot.watched_s < options.seconds:
                _tell(progress, snapshot, options.seconds)
                clock.sleep(min(TICK_S, max(options.seconds - snapshot.watched_s, 0.05)))
                snapshot = watcher.tick()
        except KeyboardInterrupt:
            interrupted = True
            snapshot = watcher.tick()
        _clear(progress)
    finally:
        watcher.close()
    return _with_what_was_asked(snapshot, options), interrupted


def _tell(progress: TextIO | None, snapshot: Snapshot, seconds: float) -> None:
    if progress is None or not progress.isatty():
        return
    servers = ", ".join(v.server.key for v in snapshot.views if v.server is not None) or "no server found yet"
    text = (
        f"watching {servers}: {snapshot.watched_s:.0f} of {seconds:.0f} s, {len(snapshot.gpus)} GPUs (Ctrl-C to stop)"
    )
    progress.write(f"\r\x1b[K{text[:100]}")
    progress.flush()


def _clear(progress: TextIO | None) -> None:
    if progress is not None and progress.isatty():
        progress.write("\r\x1b[K")
        progress.flush()


def _with_what_was_asked(snapshot: Snapshot, options: LiveOptions) -> Snapshot:
    """The snapshot, saying what was looked for where no server was found."""
    if any(view.server is not None for view in snapshot.views):
        return snapshot
    wanted = "an inference server on this machine (none was found; --pid or --unit names one)"
    if options.unit is not None:
        wanted = f"a server process in unit {options.unit} (none is running: systemctl status {options.unit})"
    elif options.container is not None:
        wanted = f"a server process in container {options.container} (none was found)"
    views = tuple(replace(view, missing=(wanted, *view.missing)) for view in snapshot.views)
    return replace(snapshot, views=views)
