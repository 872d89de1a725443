"""A recording as the sources of a watcher: it sees again what was seen, at the same times of a clock that is moved."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bubblewatch.model.clock import NS
from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.model.findings import Health, Snapshot, SourceHealth
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import EndpointReading, EndpointSource, LogSource, ProcessSeen
from bubblewatch.model.server import Epoch
from bubblewatch.model.shape import ModelShape
from bubblewatch.model.telemetry import GpuReading, Series, Telemetry
from bubblewatch.runtime.server_watch import MAX_EVENTS, server_key
from bubblewatch.runtime.watch import Watcher
from bubblewatch.runtime.witness import stream_names
from bubblewatch.sources.recording_records import (
    Begin,
    Gpus,
    Lines,
    Model,
    Page,
    Readings,
    Record,
    Scan,
    Tick,
    unpacked,
)

KEEP_S = 600.0
"""Seconds of readings that are kept, as a sampler's ring does."""


class ReplayClock:
    """A clock that stands where the recording's stood. `move` sets it."""

    def __init__(self) -> None:
        self._mono_ns = 0
        self._wall_ns = 0

    def move(self, mono_ns: int, wall_ns: int) -> None:
        """Set both times."""
        self._mono_ns, self._wall_ns = mono_ns, wall_ns

    def monotonic_ns(self) -> int:
        return self._mono_ns

    def wall_ns(self) -> int:
        return self._wall_ns

    def sleep(self, seconds: float) -> None:
        """Nothing passes here but what the recording says."""


@dataclass(slots=True)
class _Kept:
    times_ns: list[int]
    values: list[float]

    def drop_before(self, time_ns: int) -> None:
        first = bisect_left(self.times_ns, time_ns) - 1  # the one that held then stays
        if first > 0:
            del self.times_ns[:first], self.values[:first]


class ReplayTelemetry:
    """A TelemetrySource of what was recorded."""

    def __init__(self, clock: ReplayClock) -> None:
        self._clock = clock
        self._gpus = Gpus(())
        self._kept: dict[str, dict[str, _Kept]] = {}
        self._begun_ns: int | None = None
        self._holds = False
        self._count = 0

    def take(self, record: Gpus | Readings) -> None:
        """Know what this record says."""
        if isinstance(record, Gpus):
            self._gpus = record
            return
        fields = self._kept.setdefault(record.uuid, {})
        for field, pair in record.series.items():
            times, values = unpacked(pair)
            kept = fields.setdefault(field, _Kept([], []))
            kept.times_ns.extend(times)
            kept.values.extend(values)
            self._count += len(times)

    def stand_at(self, tick: Tick) -> None:
        """Show what was shown at this tick."""
        self._holds = tick.holds
        if self._begun_ns is None:
            self._begun_ns = tick.start_ns
        for fields in self._kept.values():
            for kept in fields.values():
                kept.drop_before(tick.mono_ns - round(KEEP_S * NS))

    def window(self, since_ns: int) -> Telemetry:
        now_ns = self._clock.monotonic_ns()
        start_ns = max(since_ns, self._begun_ns or 0, now_ns - round(KEEP_S * NS))
        readings = []
        for gpu in self._gpus.gpus:
            fields = self._kept.get(gpu.uuid, {})
            cut = {name: self._cut(kept, start_ns) for name, kept in fields.items()}
            readings.append(GpuReading(gpu, {name: series for name, series in cut.items() if len(series)}))
        offset_ns = self._clock.wall_ns() - now_ns
        return Telemetry(tuple(readings), start_ns, now_ns, offset_ns, self._gpus.links)

    def _cut(self, kept: _Kept, start_ns: int) -> Series:
        if not self._holds:
            first = bisect_left(kept.times_ns, start_ns)
            return Series(kept.times_ns[first:], kept.values[first:])
        first = max(bisect_right(kept.times_ns, start_ns) - 1, 0)
        times = kept.times_ns[first:]
        if times and times[0] < start_ns:
            times[0] = start_ns
        return Series(times, kept.values[first:])

    def health(self) -> SourceHealth:
        if not self._gpus.gpus:
            return SourceHealth("telemetry", Health.ABSENT, "no GPU in the recording")
        return SourceHealth("telemetry", Health.OK, f"recorded, {len(self._gpus.gpus)} GPUs", read_count=self._count)

    def close(self) -> None:
        """Nothing is open."""


class ReplayProcesses:
    """A ProcessSource of the scans that were recorded."""

    def __init__(self) -> None:
        self._last = Scan(error="the recording does not say which servers ran")

    def take(self, scan: Scan) -> None:
        self._last = scan

    def scan(self) -> Sequence[ProcessSeen]:
        if self._last.error:
            raise SourceUnavailable(self._last.error)
        return self._last.found

    def names(self) -> dict[Epoch, str]:
        return dict(stream_names(self._last.found))

    def health(self) -> SourceHealth:
        if self._last.error:
            return SourceHealth("processes", Health.ABSENT, self._last.error)
        count = len(self._last.found)
        return SourceHealth("processes", Health.OK, f"recorded, {count} server{'' if count == 1 else 's'}")


class _ReplayLog:
    def __init__(self, waiting: deque[LogLine]) -> None:
        self._waiting = waiting
        self._count = 0

    def read(self) -> Sequence[LogLine]:
        lines = tuple(self._waiting)
        self._waiting.clear()
        self._count += len(lines)
        return lines

    def health(self) -> SourceHealth:
        return SourceHealth("log", Health.OK, f"recorded, {self._count} lines", read_count=self._count)

    def close(self) -> None:
        """Nothing is open."""


class _ReplayEndpoint:
    def __init__(self, waiting: deque[EndpointReading]) -> None:
        self._waiting = waiting
        self._count = 0

    def read(self) -> EndpointReading | None:
        if not self._waiting:
            return None
        self._count += 1
        return self._waiting.popleft()

    def health(self) -> SourceHealth:
        if not self._count:
            return SourceHealth("metrics", Health.OFF, "none in the recording")
        return SourceHealth("metrics", Health.OK, f"recorded, {self._count} readings", read_count=self._count)


class ReplayHost:
    """The machine as a session of a recording shows it. `take` records, `stand_at` a tick, then let a watcher tick."""

    def __init__(self) -> None:
        self.clock = ReplayClock()
        self.telemetry = ReplayTelemetry(self.clock)
        self.processes = ReplayProcesses()
        self._lines: dict[str, deque[LogLine]] = {}
        self._pages: dict[str, deque[EndpointReading]] = {}
        self._models: dict[tuple[str, str], ModelShape | None] = {}
        self._has_ticked = False

    def take(self, record: Record) -> None:
        """Know what this record says; records that a replay does not need are left alone."""
        match record:
            case Begin() if not self._has_ticked:
                self.clock.move(record.mono_ns, record.wall_ns)
            case Gpus() | Readings():
                self.telemetry.take(record)
            case Scan():
                self.processes.take(record)
            case Lines() if not (record.again and self._lines.get(record.stream) is not None):
                self._lines.setdefault(record.stream, deque(maxlen=MAX_EVENTS)).extend(record.lines)
            case Page() if record.reading is not None:
                self._pages.setdefault(record.stream, deque(maxlen=1)).append(record.reading)
            case Model():
                self._models[record.stream, record.name] = record.shape
            case _:
                pass

    def stand_at(self, tick: Tick) -> None:
        """Let it be the time of this tick."""
        self._has_ticked = True
        self.clock.move(tick.mono_ns, tick.wall_ns)
        self.telemetry.stand_at(tick)

    def open_log(self, seen: ProcessSeen) -> LogSource | None:
        """The lines of this server; they come as far as the clock stands."""
        return _ReplayLog(self._lines.setdefault(self._name(seen), deque(maxlen=MAX_EVENTS)))

    def open_endpoint(self, seen: ProcessSeen, _kind: str) -> EndpointSource | None:
        """Its pages; they come as far as the clock stands."""
        return _ReplayEndpoint(self._pages.setdefault(self._name(seen), deque(maxlen=1)))

    def read_model(self, seen: ProcessSeen, name: str) -> ModelShape | None:
        """What was read of its model, None when nothing was."""
        return self._models.get((self._name(seen), name))

    def _name(self, seen: ProcessSeen) -> str:
        return self.processes.names().get(seen.epoch, server_key(seen))


def replay(
    host: ReplayHost,
    moments: Iterable[tuple[Sequence[Record], Tick]],
    make_watcher: Callable[[ReplayHost], Watcher],
    from_ns: int | None = None,
    is_judged: Callable[[Tick], bool] = lambda _tick: True,
) -> Iterator[tuple[Watcher, Snapshot]]:
    """What a watcher says at each tick of one session from `from_ns` (wall time) on; ticks before that only fill its
    sources. At ticks that are not to be judged it only reads. The watcher is made at the first tick that counts, and
    closed at the end.
    """
    watcher: Watcher | None = None
    begin: Begin | None = None
    try:
        for records, tick in moments:
            for record in records:
                begin = record if isinstance(record, Begin) and begin is None else begin
                host.take(record)
            if from_ns is not None and tick.wall_ns < from_ns:
                host.stand_at(tick)
                continue
            if watcher is None:
                if begin is not None and from_ns is None and begin.part == 1:
                    host.clock.move(begin.mono_ns, tick.wall_ns - (tick.mono_ns - begin.mono_ns))
                else:
                    host.clock.move(tick.mono_ns, tick.wall_ns)
                watcher = make_watcher(host)
            host.stand_at(tick)
            if is_judged(tick):
                yield watcher, watcher.tick()
            else:
                watcher.look()
    finally:
        if watcher is not None:
            watcher.close()
