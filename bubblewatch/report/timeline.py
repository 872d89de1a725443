"""Readings on an even grid of time: what a plot can show of a recording of any length."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblewatch.report.frames import RecordingFrames, readings_of
from bubblewatch.signals.series import MAX_HOLD_S

POINTS = 900
"""Most steps of a grid: about one for each pixel column of a plot."""

LEAST_STEP_S = 1.0
"""Steps are not shorter, in seconds: the slowest sensor that is drawn refreshes that often."""

FIELDS = ("sm_active_ratio", "util_ratio", "power_instant_w", "power_average_w")
"""Fields that are drawn."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Means over steps of `step_s` seconds, by GPU uuid and field; NaN where less than half of a step was read.

    `edges_ns` are the ends of the steps, one more than there are means.
    """

    edges_ns: NDArray[np.int64]
    step_s: float
    means: dict[str, dict[str, Floats]]

    def times(self) -> list[str]:
        """The middle of each step, UTC, as plots take them."""
        middles = (self.edges_ns[:-1] + self.edges_ns[1:]) // 2
        return [str(t)[:19] for t in middles.astype("datetime64[ns]")]


@dataclass(slots=True)
class _Sum:
    value: Floats
    known_s: Floats
    last: tuple[int, float] | None = None


def timeline(frames: RecordingFrames, start_ns: int, end_ns: int) -> Timeline:
    """The means between two wall times. Reads one part after the other, so that a day takes no more memory."""
    span_s = max((end_ns - start_ns) / 1e9, LEAST_STEP_S)
    step_s = max(LEAST_STEP_S, float(np.ceil(span_s / POINTS)))
    count = max(int(span_s // step_s), 1)
    edges_ns = start_ns + np.arange(count + 1, dtype=np.int64) * round(step_s * 1e9)
    sums: dict[tuple[str, str], _Sum] = defaultdict(lambda: _Sum(np.zeros(count), np.zeros(count)))
    for part in frames.parts("readings", fields=FIELDS):
        frame = readings_of(part)
        if not len(frame):
            continue
        for uuid, of_gpu in frame.groupby("gpu", observed=True):
            for field in FIELDS:
                if field in of_gpu:
                    _add(sums[str(uuid), field], of_gpu["time"], of_gpu[field], edges_ns)
    means: dict[str, dict[str, Floats]] = defaultdict(dict)
    for (uuid, field), total in sums.items():
        enough = total.known_s >= step_s / 2
        means[uuid][field] = np.where(enough, total.value / np.where(enough, total.known_s, 1.0), np.nan)
    return Timeline(edges_ns, step_s, dict(means))


def _add(total: _Sum, times: pd.Series, values: pd.Series, edges_ns: NDArray[np.int64]) -> None:
    """Add readings, each held until the next one and for MAX_HOLD_S at the most."""
    there = values.notna().to_numpy()
    at = times.astype("int64").to_numpy()[there] if there.any() else np.array([], np.int64)
    known = values.to_numpy(np.float64)[there]
    if total.last is not None:
        at, known = np.append(total.last[0], at), np.append(total.last[1], known)
    if len(at) < 2:
        if len(at):
            total.last = int(at[-1]), float(known[-1])
        return
    order = np.argsort(at, kind="stable")
    at, known = at[order], known[order]
    total.last = int(at[-1]), float(known[-1])
    held_s = np.minimum(np.diff(at) / 1e9, MAX_HOLD_S)
    # Integrals of value and of known time at each reading; between a hold's end and the next reading they stand still.
    knots = np.empty(2 * len(at) - 1)
    knots[0::2], knots[1::2] = at / 1e9, at[:-1] / 1e9 + held_s
    area = np.concatenate([[0.0], np.repeat(np.cumsum(known[:-1] * held_s), 2)])
    known_s = np.concatenate([[0.0], np.repeat(np.cumsum(held_s), 2)])
    edges_s = edges_ns / 1e9
    total.value += np.diff(np.interp(edges_s, knots, area))
    total.known_s += np.diff(np.interp(edges_s, knots, known_s))
