"""A recording as a trace for Perfetto (ui.perfetto.dev): stages as tracks, numbers as counters, findings as instants.

Made with the protos of the `perfetto` package (0.59: TracePacket, TrackDescriptor, TrackEvent). Timestamps are wall
time in ns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from bubblewatch.model.findings import State
from bubblewatch.model.logs import (
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    LogLine,
    Ready,
    Retraction,
    Starting,
)
from bubblewatch.model.visible import visible
from bubblewatch.report.frames import RecordingFrames
from bubblewatch.report.summary import Summary, gpu_label, summary
from bubblewatch.report.timeline import Floats, Timeline, timeline
from bubblewatch.servers import registry
from bubblewatch.sources.recording_records import Found

_SEQUENCE = 1
_BUSY, _LOW = 0.5, 0.1
"""Share of a step from which a stage is shown as busy, and as hardly at work."""

_INSTANTS = (Failure, GraphCaptured, GraphOff, Ready, Retraction, Starting)
_NO_NUMBERS = str.maketrans("", "", "0123456789.")
_TEXT = 300
"""Characters of a log line or summary in an instant."""

_COUNTERS = (
    ("pipeline.stages_busy", "stages at work (S)", ""),
    ("throughput.gen_tps", "tokens per second", ""),
    ("demand.running", "requests running", ""),
    ("demand.queued", "requests queued", ""),
)


@dataclass(slots=True)
class _Trace:
    trace: Any
    tracks: int = 0

    def track(self, name: str, parent: int | None = None, unit: str | None = None) -> int:
        """A new track; with `unit` a counter ("" = without one)."""
        self.tracks += 1
        packet = self.trace.packet.add()
        descriptor = packet.track_descriptor
        descriptor.uuid = self.tracks
        descriptor.name = name
        if parent is not None:
            descriptor.parent_uuid = parent
        if unit is not None:
            descriptor.counter.unit_name = unit
        return self.tracks

    def event(self, time_ns: int, track: int) -> Any:
        packet = self.trace.packet.add()
        packet.timestamp = time_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_event.track_uuid = track
        return packet.track_event

    def count(self, time_ns: int, track: int, value: float) -> None:
        event = self.event(time_ns, track)
        event.type = pb.TrackEvent.TYPE_COUNTER
        event.double_counter_value = value

    def slice(self, start_ns: int, end_ns: int, track: int, name: str) -> None:
        event = self.event(start_ns, track)
        event.type = pb.TrackEvent.TYPE_SLICE_BEGIN
        event.name = name
        self.event(end_ns, track).type = pb.TrackEvent.TYPE_SLICE_END

    def instant(self, time_ns: int, track: int, name: str, text: str) -> None:
        event = self.event(time_ns, track)
        event.type = pb.TrackEvent.TYPE_INSTANT
        event.name = name
        note = event.debug_annotations.add()
        note.name = "text"
        note.string_value = visible(text, _TEXT)


def trace(frames: RecordingFrames) -> bytes:
    """The trace. Raises UsageError when the recording holds nothing in its span."""
    shown = summary(frames)
    made = _Trace(pb.Trace())
    _stages(made, shown, timeline(frames, shown.start_ns, shown.end_ns))
    tracks = {server.key: made.track(f"server {visible(server.key)}") for server in shown.servers}
    _counters(made, shown, tracks)
    _findings(made, frames, tracks)
    for key, time_ns, event in _events(frames, shown):
        made.instant(time_ns, tracks[key], type(event).__name__, event.line.text)
    for time_ns, key in shown.restarts:
        made.instant(time_ns, tracks[key], "restart", "a new process")
    data: bytes = made.trace.SerializeToString()
    return data


def _stages(made: _Trace, shown: Summary, lanes: Timeline) -> None:
    for gpu in shown.gpus:
        means = lanes.means.get(gpu.uuid, {})
        track = made.track(gpu_label(gpu, shown.servers))
        work = means.get("sm_active_ratio", means.get("util_ratio"))
        if work is not None:
            _slices(made, track, lanes.edges_ns, work)
            word = "SM activity" if "sm_active_ratio" in means else "utilization"
            _counter(made, made.track(word, track, "%"), lanes.edges_ns, work * 100)
        power = means.get("power_instant_w", means.get("power_average_w"))
        if power is not None:
            _counter(made, made.track("power", track, "W"), lanes.edges_ns, power)


def _slices(made: _Trace, track: int, edges_ns: NDArray[np.int64], work: Floats) -> None:
    """Runs of steps in which the stage was busy, or hardly at work."""
    level = np.where(np.isnan(work), 0, (work >= _LOW).astype(int) + (work >= _BUSY))
    changes = [0, *(np.flatnonzero(np.diff(level)) + 1).tolist(), len(level)]
    for first, end in pairwise(changes):
        if level[first]:
            made.slice(int(edges_ns[first]), int(edges_ns[end]), track, ("", "low", "busy")[level[first]])


def _counter(made: _Trace, track: int, edges_ns: NDArray[np.int64], values: Floats) -> None:
    for at in np.flatnonzero(~np.isnan(values)).tolist():
        made.count(int(edges_ns[at]), track, round(float(values[at]), 3))


def _counters(made: _Trace, shown: Summary, tracks: dict[str, int]) -> None:
    for key, parent in tracks.items():
        of_server = shown.signals[shown.signals["target"] == f"server:{key}"] if len(shown.signals) else shown.signals
        for name, label, unit in _COUNTERS:
            rows = of_server[of_server["name"] == name].dropna(subset=["number"]) if len(of_server) else of_server
            if len(rows):
                track = made.track(label, parent, unit)
                for time, number in zip(rows["time"], rows["number"], strict=True):
                    made.count(time.value, track, float(number))


def _findings(made: _Trace, frames: RecordingFrames, tracks: dict[str, int]) -> None:
    """An instant whenever a finding begins, and when it is gone."""
    standing: set[tuple[str, str]] = set()
    for time_ns, _, record in frames.records():
        if not isinstance(record, Found):
            continue
        now = {(f.name, f.target.id): f for f in record.findings if f.state is not State.RESOLVED}
        for name, target in sorted(set(now) - standing):
            if target in tracks:
                made.instant(time_ns, tracks[target], name, now[name, target].summary)
        for name, target in sorted(standing - set(now)):
            if target in tracks:
                made.instant(time_ns, tracks[target], f"{name} is gone", "")
        standing = set(now)


def _events(frames: RecordingFrames, shown: Summary) -> Iterator[tuple[str, int, Event]]:
    """What the log said beside its regular lines: starts, failures, captures, retractions."""
    kinds = {server.key: registry.by_name(server.kind) for server in shown.servers}
    dull: set[tuple[str, str]] = set()  # lines that differ only in their numbers mean the same kind of thing
    for row in frames.lines().itertuples(index=False):
        stream, text = str(row.stream), str(row.text)
        kind, shape = kinds.get(stream), (stream, text.translate(_NO_NUMBERS))
        if kind is None or shape in dull:
            continue
        time_ns = row.time.value
        events = [event for event in kind.parse(LogLine(text, time_ns)) if isinstance(event, _INSTANTS)]
        if not events:
            dull.add(shape)
        yield from ((stream, time_ns, event) for event in events)
