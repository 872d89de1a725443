"""What the runtime needs from the outside world, whoever plays it: the machine, evidence files or the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from bubblewatch.model.findings import SourceHealth
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.model.server import Epoch, Launch
from bubblewatch.model.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A server's main process as found on this host, before anyone knows what its argv means.

    `title` is what setproctitle shows, `workers` maps each GPU uuid that its descendants hold to the title of the
    worker that holds it. `version_hint` is the version of the package found beside its interpreter, None = not found.
    `connections` counts established connections on `port`; None = could not be read.
    """

    pid: int
    epoch: Epoch
    launch: Launch
    title: str = ""
    unit: str | None = None
    container: str | None = None
    pod: str | None = None
    port: int | None = None
    connections: int | None = None
    version_hint: str | None = None
    workers: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndpointReading:
    """What the server's own passive pages said at one moment. None = it does not say, or could not be asked.

    `running` is the true concurrency, not one slot's; `counters` are raw samples of the metrics that a server module
    asked for, by `name{labels}`.
    """

    time_ns: int
    running: int | None = None
    queued: int | None = None
    generated_tokens: float | None = None
    version: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    source: str = ""


class TelemetrySource(Protocol):
    """Readings of the GPUs of this host."""

    def window(self, since_ns: int) -> Telemetry:
        """Readings from `since_ns` (monotonic) to now, at the most what the ring still holds."""

    def health(self) -> SourceHealth: ...

    def close(self) -> None: ...


class LogSource(Protocol):
    """New lines of one server's log."""

    def read(self) -> Sequence[LogLine]:
        """Lines that came since the last call, oldest first; the first call gives the recent past. Never blocks."""

    def health(self) -> SourceHealth: ...

    def close(self) -> None: ...


@runtime_checkable
class ResumableLog(Protocol):
    """A log that can be opened again where its reading ended."""

    def place(self) -> LogPlace | None:
        """How far it was read, every line that `read` gave included; None when nothing was read yet."""


class ProcessSource(Protocol):
    """Servers that run on this host."""

    def scan(self) -> Sequence[ProcessSeen]:
        """Every main process of a server that is there now."""

    def health(self) -> SourceHealth: ...


class EndpointSource(Protocol):
    """A server's own metrics."""

    def read(self) -> EndpointReading | None:
        """One passive reading; None when nothing could be had."""

    def health(self) -> SourceHealth: ...
