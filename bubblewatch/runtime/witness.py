"""Who may sit between the watcher and its sources, and see everything that it sees: the flight recorder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from bubblewatch.model.findings import Snapshot
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import ProcessSeen, ProcessSource, TelemetrySource
from bubblewatch.model.server import Epoch, Launch
from bubblewatch.runtime.server_watch import OpenEndpoint, OpenLog, ReadModel, server_key
from bubblewatch.servers.base import ServerKind

Recognise = Callable[[Launch, str], ServerKind | None]


class Witness(Protocol):
    """Gives the watcher sources that behave like those it was given. Called from the thread that ticks, never raises
    on its own account.
    """

    def telemetry(self, source: TelemetrySource) -> TelemetrySource: ...

    def processes(self, source: ProcessSource) -> ProcessSource: ...

    def open_log(self, open_log: OpenLog, recognise: Recognise) -> OpenLog: ...

    def open_endpoint(self, open_endpoint: OpenEndpoint) -> OpenEndpoint: ...

    def read_model(self, read_model: ReadModel) -> ReadModel: ...

    def remembered(self, seen: ProcessSeen, lines: Sequence[LogLine]) -> None:
        """These lines of this server's log were read by an earlier watcher, and are known to this one."""

    def started(self, mono_ns: int) -> None:
        """Watching begins at this time."""

    def ticked(self, mono_ns: int, snapshot: Snapshot) -> None:
        """The tick that began at this time came to this picture."""


def stream_names(found: Iterable[ProcessSeen]) -> Mapping[Epoch, str]:
    """A name for the log and pages of each server of one scan: its key, with a number when several have the same.

    The same processes get the same names, whoever asks.
    """
    names: dict[Epoch, str] = {}
    counts: dict[str, int] = {}
    for seen in sorted(found, key=lambda s: s.epoch.start_ticks):
        key = server_key(seen)
        counts[key] = counts.get(key, 0) + 1
        names[seen.epoch] = key if counts[key] == 1 else f"{key}#{counts[key]}"
    return names
