"""Sources that hand on what another source gives and tell a recorder about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bubblewatch.model.errors import SourceError
from bubblewatch.model.findings import SourceHealth
from bubblewatch.model.logs import LogLine, Ready
from bubblewatch.model.protocols import (
    EndpointReading,
    EndpointSource,
    LogSource,
    ProcessSeen,
    ProcessSource,
    TelemetrySource,
)
from bubblewatch.model.telemetry import DeviceLink, GpuInfo, Telemetry
from bubblewatch.runtime.server_watch import BIRTH, DIALECT_LINES
from bubblewatch.servers.base import ServerKind
from bubblewatch.sources.recording_records import Gpus, Lines, Page, Readings, Record, Scan, packed

Tell = Callable[[Record], None]
"""Takes one record, and never raises."""

_MAY_QUOTE = re.compile(r"prompt|messages|content|input", re.IGNORECASE)
"""Words of lines that may quote what users ask (vLLM 0.6 `Received request cmpl-1: prompt: '...'`): without a meaning
to us such a line is never kept, however early it comes."""


class TappedTelemetry:
    """Tells each reading once, and the GPUs when they change."""

    def __init__(self, source: TelemetrySource, tell: Tell) -> None:
        self._source = source
        self._tell = tell
        self._gpus: tuple[GpuInfo, ...] | None = None
        self._links: tuple[DeviceLink, ...] = ()
        self._last_ns: dict[tuple[str, str], int] = {}
        self.start_ns: int | None = None
        self.holds = False

    def window(self, since_ns: int) -> Telemetry:
        telemetry = self._source.window(since_ns)
        if self.start_ns is None:
            self.start_ns = telemetry.start_ns
        gpus = tuple(reading.gpu for reading in telemetry.gpus)
        if gpus != self._gpus or telemetry.links != self._links:
            self._gpus, self._links = gpus, telemetry.links
            self._tell(Gpus(gpus, telemetry.links))
        firsts = [series.times_ns[0] for gpu in telemetry.gpus for series in gpu.series.values() if len(series)]
        self.holds = bool(firsts) and set(firsts) == {telemetry.start_ns}
        for reading in telemetry.gpus:
            fresh: dict[str, tuple[bytes, bytes]] = {}
            for field, series in reading.series.items():
                if not len(series):
                    continue
                place = reading.gpu.uuid, field
                last_ns = self._last_ns.get(place)
                # A window may begin with a reading that is older than it: that one was told before.
                after_ns = max(last_ns, telemetry.start_ns) if last_ns is not None and self.holds else last_ns
                pair = packed(series, after_ns)
                if pair is not None:
                    fresh[field] = pair
                    self._last_ns[place] = series.times_ns[-1]
            if fresh:
                self._tell(Readings(reading.gpu.uuid, fresh))
        return telemetry

    def forget_tick(self) -> None:
        """The next window is that of another tick."""
        self.start_ns = None

    def health(self) -> SourceHealth:
        return self._source.health()

    def close(self) -> None:
        self._source.close()


class TappedProcesses:
    """Tells what a scan found when it is not what the one before found. `names` get those of each scan."""

    def __init__(self, source: ProcessSource, tell: Tell, found: Callable[[Sequence[ProcessSeen]], None]) -> None:
        self._source = source
        self._tell = tell
        self._found = found
        self._last: Scan | None = None

    def scan(self) -> Sequence[ProcessSeen]:
        try:
            found = self._source.scan()
        except SourceError as error:
            self._note(Scan(error=error.what))
            raise
        self._found(found)
        self._note(Scan(tuple(found)))
        return found

    def _note(self, scan: Scan) -> None:
        if scan != self._last:
            self._last = scan
            self._tell(scan)

    def health(self) -> SourceHealth:
        return self._source.health()


class TappedLog:
    """Tells the lines that mean something and, until the server is ready, the first others: their dialect tells the
    version. Whatever else a server writes into its log, such as what its users ask, is not told.
    """

    def __init__(
        self,
        source: LogSource,
        stream: str,
        kind: ServerKind | None,
        tell: Tell,
        born: Callable[[str, Sequence[LogLine]], None],
    ) -> None:
        self._source = source
        self._stream = stream
        self._kind = kind
        self._tell = tell
        self._born = born
        self._early_left = DIALECT_LINES if kind is not None else 1

    def read(self) -> Sequence[LogLine]:
        lines = self._source.read()
        kept: list[LogLine] = []
        once: list[LogLine] = []
        for line in lines:
            events = self._kind.parse(line) if self._kind is not None else ()
            is_early = self._early_left > 0 and (bool(events) or not _MAY_QUOTE.search(line.text))
            self._early_left -= 1
            if any(isinstance(event, Ready) for event in events):
                self._early_left = 0
            if events or is_early:
                kept.append(line)
            if is_early or any(isinstance(event, BIRTH) for event in events):
                once.append(line)
        if kept:
            self._tell(Lines(self._stream, tuple(kept)))
        if once:
            self._born(self._stream, once)
        return lines

    def health(self) -> SourceHealth:
        return self._source.health()

    def close(self) -> None:
        self._source.close()


class TappedEndpoint:
    """Tells each reading of a server's pages."""

    def __init__(self, source: EndpointSource, stream: str, tell: Tell) -> None:
        self._source = source
        self._stream = stream
        self._tell = tell

    def read(self) -> EndpointReading | None:
        reading = self._source.read()
        if reading is not None:
            self._tell(Page(self._stream, reading))
        return reading

    def health(self) -> SourceHealth:
        return self._source.health()
