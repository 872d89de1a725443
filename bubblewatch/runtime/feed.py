"""What a screen needs beside the snapshot: the last minute at the sensors' own rate, and the newest log lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Snapshot
from bubblewatch.model.logs import Event, Failure, LogLine
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuReading, Series, Telemetry
from bubblewatch.theory.sensors import SM_ACTIVE_AT_WORK

SPAN_S = 60.0
"""How far back a feed goes, in seconds: a minute is what the eye takes in, and it bounds the page."""

MOST_POINTS = 20_000
"""Points of all lanes of one feed: eight GPUs at full rate have 12,000; with more GPUs the steps become longer."""

LINES = 200
"""Log lines in one feed: several screens full, and what eight ranks print in half a minute."""

LINE_LENGTH = 1000
"""Characters of a log line in a feed; a printed launch command of SGLang has several thousand."""

STEPS_S = (0.1, 0.2, 0.5, 1.0)
"""Grids on which lanes are laid, in seconds: the refresh periods of the sensors we know."""

CHANGES = 5
"""Changes of a value that must be seen before its refresh period is believed."""

_USUAL_STEP_S: Mapping[str, float] = MappingProxyType(
    {"power_instant_w": 0.1, "power_average_w": 0.1, "util_ratio": 0.2, "sm_active_ratio": 1.0}
)
"""Field -> step while the value does not change, in seconds."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One quantity over the last minute on an even grid, the newest value last; None = nothing was read then.

    `step_s` lies between two values. `last` numbers the steps of the clock: the same moment has the same number in the
    next feed. `refresh_s` is how often the sensor really changed; None = too few changes seen.
    """

    step_s: float
    values: tuple[float | None, ...]
    last: int = 0
    refresh_s: float | None = None


@dataclass(frozen=True, slots=True)
class GpuTrace:
    """The last minute of one GPU. `work` is the work duty 0..1 by `basis` (sm, util, power, prior), util a ratio."""

    basis: str = ""
    work: Lane | None = None
    util: Lane | None = None
    power_w: Lane | None = None


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A log line of one server as it was read, redacted and untrusted; `number` counts all lines of this server.

    `meaning` says what it was understood as (`decode step`), empty when it was not. `is_failure`: it tells of a fault.
    """

    server: str
    number: int
    text: str
    time_ns: int | None = None
    meaning: str = ""
    is_failure: bool = False


@dataclass(frozen=True, slots=True)
class ScreenFeed:
    """Everything that a screen shows of one moment. `lines` are the newest, the oldest of them first."""

    snapshot: Snapshot
    host: str = ""
    traces: Mapping[str, GpuTrace] = field(default_factory=dict)
    lines: tuple[ShownLine, ...] = ()


def shown_line(server: str, number: int, line: LogLine, events: Sequence[Event]) -> ShownLine:
    """The line as screens show it, with what it was understood as."""
    meaning = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(events[0]).__name__).lower() if events else ""
    failed = any(isinstance(event, Failure) for event in events)
    return ShownLine(server, number, line.text[:LINE_LENGTH], line.time_ns, meaning, failed)


def make_feed(snapshot: Snapshot, telemetry: Telemetry, lines: Iterable[ShownLine], host: str) -> ScreenFeed:
    """The feed of this snapshot. `telemetry` should reach back SPAN_S; `lines` are in order for each server."""
    most = max(MOST_POINTS // max(3 * len(telemetry.gpus), 1), 30)
    traces = {
        reading.gpu.uuid: _trace(reading, snapshot.gpu_signals.get(reading.gpu.uuid, Signals()), telemetry.end_ns, most)
        for reading in telemetry.gpus
    }
    newest = sorted(lines, key=lambda line: line.time_ns or 0)[-LINES:]
    return ScreenFeed(snapshot, host, MappingProxyType(traces), tuple(newest))


def _trace(reading: GpuReading, signals: Signals, end_ns: int, most: int) -> GpuTrace:
    util = _lane("util_ratio", reading.series.get("util_ratio"), end_ns, most)
    power_name = "power_instant_w" if "power_instant_w" in reading.series else "power_average_w"
    power = _lane(power_name, reading.series.get(power_name), end_ns, most, digits=1)
    work = signals.known.get("gpu.work_duty")
    if work is None:
        return GpuTrace("", None, util, power)
    if work.basis == "sm":
        active = _lane("sm_active_ratio", reading.series.get("sm_active_ratio"), end_ns, most)
        return GpuTrace("sm", _mapped(active, 0.0, SM_ACTIVE_AT_WORK), util, power)
    if work.basis == "util":
        return GpuTrace("util", util, util, power)
    idle_w, busy_w = signals.number("gpu.power_idle_w"), signals.number("gpu.power_busy_w")
    duty = _mapped(power, idle_w, busy_w) if idle_w is not None and busy_w is not None else None
    return GpuTrace(work.basis, duty, util, power)


def _lane(name: str, series: Series | None, end_ns: int, most: int, digits: int = 3) -> Lane | None:
    if series is None or not len(series):
        return None
    times = np.asarray(series.times_ns, dtype=np.int64)
    values = np.asarray(series.values, dtype=np.float64)
    refresh_s = _refresh_s(times, values)
    step_s = _USUAL_STEP_S[name] if refresh_s is None else max(s for s in STEPS_S if s <= max(refresh_s * 1.5, 0.1))
    points, last = _held(times, values, end_ns, step_s)
    together = max(math.ceil(len(points) / most), 1)
    if together > 1:
        points = points[: len(points) - (last + 1) % together]  # whole groups of the clock's steps only
        points = points[len(points) % together :].reshape(-1, together).mean(axis=1)
        last = (last + 1) // together - 1
    shown = tuple(None if math.isnan(value) else round(value, digits) for value in points.tolist())
    return Lane(step_s * together, shown, last, refresh_s)


def _refresh_s(times: NDArray[np.int64], values: NDArray[np.float64]) -> float | None:
    """Median time between two changes of the value, in seconds."""
    changes = times[1:][np.diff(values) != 0]
    return float(np.median(np.diff(changes))) / NS if len(changes) > CHANGES else None


def _held(
    times: NDArray[np.int64], values: NDArray[np.float64], end_ns: int, step_s: float
) -> tuple[NDArray[np.float64], int]:
    """The value that held at each whole step of the clock, NaN before the first reading, and the last step's number."""
    step_ns = round(step_s * NS)
    last = end_ns // step_ns
    grid = np.arange(last - round(SPAN_S / step_s) + 1, last + 1, dtype=np.int64) * step_ns
    places = np.searchsorted(times, grid, side="right") - 1
    return np.where(places >= 0, values[np.maximum(places, 0)], np.nan), last


def _mapped(lane: Lane | None, low: float, high: float) -> Lane | None:
    """The lane with `low`..`high` as 0..1, cut at both ends; None where there is no such range."""
    if lane is None or high <= low:
        return None
    scale = 1 / (high - low)
    values = tuple(None if v is None else round(min(max((v - low) * scale, 0.0), 1.0), 3) for v in lane.values)
    return Lane(lane.step_s, values, lane.last, lane.refresh_s)
