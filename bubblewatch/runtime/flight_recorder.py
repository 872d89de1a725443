"""The flight recorder: writes what the watcher sees into a folder, bounded by size and age.

It is a `Witness`: it sits between the watcher and its sources. Nothing that goes wrong with the disk reaches the
watcher: the recorder stops, says so in its health, and tries again later.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import SourceError
from bubblewatch.model.findings import Finding, Health, Snapshot, SourceHealth
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import EndpointSource, LogSource, ProcessSeen, ProcessSource, TelemetrySource
from bubblewatch.model.server import Epoch
from bubblewatch.model.shape import ModelShape
from bubblewatch.runtime.flight_taps import TappedEndpoint, TappedLog, TappedProcesses, TappedTelemetry
from bubblewatch.runtime.server_watch import MAX_BIRTH_LINES, OpenEndpoint, OpenLog, ReadModel, server_key
from bubblewatch.runtime.witness import Recognise, stream_names
from bubblewatch.sources.recording_folder import free_bytes, log_path, parts_of, remove, surplus
from bubblewatch.sources.recording_log import LogWriter
from bubblewatch.sources.recording_records import (
    Begin,
    Books,
    End,
    Found,
    Gpus,
    Lines,
    Model,
    Record,
    Scan,
    Servers,
    SignalsSeen,
    Sources,
    Tick,
)

SIGNALS_S = 5.0
"""Seconds between two records of all signals and books: they look back 30 s, so nothing happens in between."""

FINDINGS_S = 60.0
"""Seconds after which findings are written again when only the numbers in them changed."""

RETRY_S = 60.0
"""Seconds after which a recorder that stopped tries again: somebody may have made room."""

log = logging.getLogger(__name__)

ClosePart = Callable[[Path], None]
"""Starts what turns a closed part into Parquet, and does not wait for it. Never raises."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a recording may take. A part ends after `part_s` seconds or at `part_bytes`, whichever comes first."""

    most_bytes: int = 2 << 30
    most_age_s: float = 7 * 86_400.0
    least_free_bytes: int = 512 << 20
    part_s: float = 3600.0
    part_bytes: int = 64 << 20


class FlightRecorder:
    """Records one session into a folder. Belongs to the thread that ticks; `health` may be asked from any.

    `begin` is the first record of the first part; the others repeat it. The folder must be there and be nobody
    else's (`FolderLock`).
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        begin: Begin,
        bounds: Bounds | None = None,
        close_part: ClosePart | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._begin = begin
        self._bounds = bounds or Bounds()
        self._close_part = close_part
        self._pending: list[Record] = []
        self._writer: LogWriter | None = None
        self._part = 0
        self._part_ns = 0
        self._retry_ns: int | None = None
        self._trouble = ""
        self._telemetry: TappedTelemetry | None = None
        self._names: dict[Epoch, str] = {}
        self._state: dict[str, Record] = {}
        self._born: dict[str, deque[LogLine]] = {}
        self._signals_ns: int | None = None
        self._findings_ns = 0
        self._findings_key: object = None
        self._written_bytes = 0
        self._knows_all = True
        """Whether what is pending is everything since the start, so that a part needs no head."""

    # --- the witness -------------------------------------------------------------------------------------------------

    def telemetry(self, source: TelemetrySource) -> TelemetrySource:
        self._telemetry = TappedTelemetry(source, self._tell)
        return self._telemetry

    def processes(self, source: ProcessSource) -> ProcessSource:
        return TappedProcesses(source, self._tell, self._found)

    def open_log(self, open_log: OpenLog, recognise: Recognise) -> OpenLog:
        def opened(seen: ProcessSeen) -> LogSource | None:
            source = open_log(seen)
            if source is None:
                return None
            return TappedLog(source, self._name(seen), recognise(seen.launch, seen.title), self._tell, self._keep_birth)

        return opened

    def open_endpoint(self, open_endpoint: OpenEndpoint) -> OpenEndpoint:
        def opened(seen: ProcessSeen, kind: str) -> EndpointSource | None:
            source = open_endpoint(seen, kind)
            return None if source is None else TappedEndpoint(source, self._name(seen), self._tell)

        return opened

    def read_model(self, read_model: ReadModel) -> ReadModel:
        def read(seen: ProcessSeen, name: str) -> ModelShape | None:
            shape = read_model(seen, name)
            self._tell(Model(self._name(seen), name, shape))
            return shape

        return read

    def remembered(self, seen: ProcessSeen, lines: Sequence[LogLine]) -> None:
        self._tell(Lines(self._name(seen), tuple(lines)))
        self._keep_birth(self._name(seen), lines)

    def started(self, mono_ns: int) -> None:
        self._begin = msgspec.structs.replace(self._begin, mono_ns=mono_ns)

    def ticked(self, mono_ns: int, snapshot: Snapshot) -> None:
        """Write everything since the last tick. A disk that does not take it stops the recorder, not the caller."""
        self._add_picture(mono_ns, snapshot)
        tapped = self._telemetry
        start_ns = tapped.start_ns if tapped is not None and tapped.start_ns is not None else mono_ns
        self._pending.append(
            Tick(mono_ns, snapshot.time_ns, start_ns, tapped.holds if tapped is not None else False, snapshot.answer)
        )
        if tapped is not None:
            tapped.forget_tick()
        records, self._pending = self._pending, []
        try:
            self._write(records, mono_ns)
        except SourceError as error:
            self._stop(error.what, mono_ns)

    # --- what it keeps for the head of a part ------------------------------------------------------------------------

    def _tell(self, record: Record) -> None:
        match record:
            case Gpus() | Scan() | Servers() | Found() | Sources():
                self._state[type(record).__name__] = record
            case Model():
                self._state[f"model {record.stream} {record.name}"] = record
            case _:
                pass
        self._pending.append(record)

    def _found(self, found: Sequence[ProcessSeen]) -> None:
        self._names = dict(stream_names(found))
        present = set(self._names.values())
        for stream in set(self._born) - present:
            del self._born[stream]
        for name in [n for n, r in self._state.items() if isinstance(r, Model) and r.stream not in present]:
            del self._state[name]

    def _name(self, seen: ProcessSeen) -> str:
        return self._names.get(seen.epoch, server_key(seen))

    def _keep_birth(self, stream: str, lines: Sequence[LogLine]) -> None:
        self._born.setdefault(stream, deque(maxlen=2 * MAX_BIRTH_LINES)).extend(lines)

    def _head(self) -> list[Record]:
        """What a part needs to be judged without those before it."""
        born = [Lines(stream, tuple(lines), again=True) for stream, lines in self._born.items()]
        return [*self._state.values(), *born]

    # --- the picture -------------------------------------------------------------------------------------------------

    def _add_picture(self, mono_ns: int, snapshot: Snapshot) -> None:
        servers = tuple(view.server for view in snapshot.views if view.server is not None)
        self._on_change(Servers(servers))
        self._on_change(Sources(tuple(_without_counts(source) for source in snapshot.sources)))
        key = [_what_matters(finding) for finding in snapshot.findings]
        is_old = mono_ns - self._findings_ns >= FINDINGS_S * NS
        if key != self._findings_key or (is_old and key):
            self._findings_key, self._findings_ns = key, mono_ns
            self._tell(Found(snapshot.findings))
        if self._signals_ns is None or mono_ns - self._signals_ns >= SIGNALS_S * NS:
            self._signals_ns = mono_ns
            for view in snapshot.views:
                self._tell(SignalsSeen(str(view.target), {n: s.value for n, s in view.signals.known.items()}))
            for uuid, signals in snapshot.gpu_signals.items():
                self._tell(SignalsSeen(f"gpu:{uuid}", {n: s.value for n, s in signals.known.items()}))
            self._tell(Books(snapshot.accounts))

    def _on_change(self, record: Servers | Sources) -> None:
        if self._state.get(type(record).__name__) != record:
            self._tell(record)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record], mono_ns: int) -> None:
        if self._retry_ns is not None and mono_ns < self._retry_ns:
            return
        writer = self._writer or self._begin_part(mono_ns)
        writer.append(records)
        self._knows_all, self._retry_ns, self._trouble = False, None, ""
        if writer.size_bytes >= self._bounds.part_bytes or mono_ns - self._part_ns >= self._bounds.part_s * NS:
            self._end_part(last=False)
            self._begin_part(mono_ns)

    def _begin_part(self, mono_ns: int) -> LogWriter:
        """Open the next part, with a head unless what is written next is the very first."""
        self._make_room()
        parts = parts_of(self._folder)
        number = parts[-1].number + 1 if parts else 1
        writer = self._writer = LogWriter(log_path(self._folder, number))
        self._part += 1
        self._part_ns = mono_ns
        begin = msgspec.structs.replace(self._begin, part=self._part, wall_ns=self._clock.wall_ns())
        writer.append([begin, *(() if self._knows_all else self._head())])
        return writer

    def _make_room(self) -> None:
        """Remove parts that are too many or too old. Raises SourceError when the disk is nearly full all the same."""
        oldest_ns = self._clock.wall_ns() - round(self._bounds.most_age_s * NS)
        for part in surplus(parts_of(self._folder), self._bounds.most_bytes, oldest_ns):
            log.info("recording part removed path=%s", part.path)
            remove(part)
        free = free_bytes(self._folder)
        if free < self._bounds.least_free_bytes:
            raise SourceError(f"{self._folder}: only {free >> 20} MiB are free")

    def _end_part(self, *, last: bool, hand_over: bool = True) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        self._written_bytes += writer.size_bytes
        try:
            writer.append([End(self._clock.wall_ns(), last)])
        finally:
            writer.close(sync=True)
        if self._close_part is not None and hand_over:
            self._close_part(writer.path)

    def _stop(self, why: str, mono_ns: int) -> None:
        self._knows_all = False
        if not self._trouble:
            log.warning("recorder stops why=%s", why)
        self._trouble = why
        self._retry_ns = mono_ns + round(RETRY_S * NS)
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except SourceError:
                log.debug("the stopped part cannot be closed either", exc_info=True)

    def health(self) -> SourceHealth:
        """Where it writes and how much, or why it does not."""
        if self._trouble:
            return SourceHealth("recorder", Health.DEGRADED, f"stopped: {self._trouble}", "make room on that disk")
        writer = self._writer
        written = self._written_bytes + (writer.size_bytes if writer is not None else 0)
        return SourceHealth(
            "recorder", Health.OK, f"{self._folder}, {written / 1e6:.1f} MB written", read_count=written
        )

    def close(self, *, hand_over: bool = True) -> None:
        """End the session, with `hand_over` also give its last part away to be turned into Parquet.

        What cannot be written any more is lost; nothing is raised.
        """
        try:
            self._end_part(last=True, hand_over=hand_over)
        except SourceError as error:
            log.warning("recording not closed why=%s", error.what)


def _what_matters(finding: Finding) -> object:
    """What makes two pictures of one finding different; not the numbers in its words."""
    return (
        *(finding.name, finding.target, finding.state, finding.severity, finding.confidence),
        *(finding.caused_by, finding.held_back_by, finding.ignored),
    )


def _without_counts(source: SourceHealth) -> SourceHealth:
    """The health without what changes at every tick."""
    return SourceHealth(source.name, source.health, "" if source.health is Health.OK else source.detail, source.mend)
