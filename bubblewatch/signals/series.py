"""Arithmetic on readings: what a sensor said, weighted by how long it said it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import Series

MAX_HOLD_S = 5.0
"""A reading speaks for at most this long, in seconds: sources repeat at least once a second, so a longer silence means
that nobody looked (five missed repeats)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of the monotonic clock, start inclusive, end exclusive, in nanoseconds."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / NS


def _weights(times: NDArray[np.int64], end_ns: int, within: Sequence[Interval] | None) -> NDArray[np.float64]:
    """Seconds for which each reading speaks, (n,), only those inside `within` when it is given."""
    gaps = np.diff(times)
    usual = float(np.median(gaps)) if len(gaps) else NS
    last = max(end_ns - int(times[-1]), 0) or usual
    ends = times + np.minimum(np.append(gaps, last), max(usual, MAX_HOLD_S * NS))
    if within is None:
        return np.asarray((ends - times) / NS, dtype=np.float64)
    total = np.zeros(len(times))
    for interval in within:
        overlap = np.minimum(ends, interval.end_ns) - np.maximum(times, interval.start_ns)
        total += np.maximum(overlap, 0) / NS
    return total


def mean(series: Series, end_ns: int, within: Sequence[Interval] | None = None) -> float | None:
    """Time-weighted mean of the readings, each held until the next; None when nothing was read (NaN does not count).

    `within` restricts the time that counts; `end_ns` is where the last reading ends.
    """
    if not len(series):
        return None
    values = np.asarray(series.values, dtype=np.float64)
    weights = _weights(np.asarray(series.times_ns, dtype=np.int64), end_ns, within)
    usable = np.isfinite(values) & (weights > 0)
    if not usable.any():
        return None
    return float(np.average(values[usable], weights=weights[usable]))


def last(series: Series) -> float | None:
    """The newest reading that is a number; None when there is none."""
    for value in reversed(series.values):
        if not math.isnan(value):
            return float(value)
    return None


def rate(series: Series) -> float | None:
    """Mean slope of a counter a second, between its first and last change; None below two changes or on a reset."""
    values = np.asarray(series.values, dtype=np.float64)
    times = np.asarray(series.times_ns, dtype=np.int64)
    usable = np.isfinite(values)
    values, times = values[usable], times[usable]
    if len(values) < 2 or (np.diff(values) < 0).any():
        return None
    changes = np.flatnonzero(np.diff(values) > 0) + 1
    if len(changes) < 2:
        return 0.0 if len(changes) == 0 else None
    first, end = changes[0], changes[-1]
    return float((values[end] - values[first]) / ((times[end] - times[first]) / NS))


def readings(series: Series) -> int:
    """How many distinct moments were read with a number."""
    return int(np.isfinite(np.asarray(series.values, dtype=np.float64)).sum())


def median(values: Iterable[float]) -> float | None:
    """The median, None of nothing."""
    known = list(values)
    return statistics.median(known) if known else None
