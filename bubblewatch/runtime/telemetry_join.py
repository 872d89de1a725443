"""Two windows of one host's readings as one: what an ended sampler has left, and what the next one reads."""

from __future__ import annotations

from bisect import bisect_left
from types import MappingProxyType

from bubblewatch.model.telemetry import GpuReading, Series, Telemetry


def joined(older: Telemetry, newer: Telemetry, since_ns: int) -> Telemetry:
    """Both windows as one from `since_ns` on: GPUs by uuid, those of the newer one first.

    Every reading of `older` must lie before those of `newer`, and `newer` must hold none before `since_ns`.
    """
    if not older.gpus:
        return newer
    before = {reading.gpu.uuid: reading for reading in older.gpus}
    gpus = [_joined_reading(before.pop(one.gpu.uuid, None), one, since_ns) for one in newer.gpus]
    gpus += [_joined_reading(one, GpuReading(one.gpu), since_ns) for one in before.values()]
    start_ns = max(min(older.start_ns, newer.start_ns), since_ns)
    return Telemetry(tuple(gpus), start_ns, newer.end_ns, newer.wall_offset_ns)


def _joined_reading(older: GpuReading | None, newer: GpuReading, since_ns: int) -> GpuReading:
    if older is None:
        return newer
    names = dict.fromkeys((*older.series, *newer.series))
    series = {name: _joined_series(older.series.get(name), newer.series.get(name), since_ns) for name in names}
    return GpuReading(newer.gpu, MappingProxyType({name: one for name, one in series.items() if len(one)}))


def _joined_series(older: Series | None, newer: Series | None, since_ns: int) -> Series:
    newer = newer or Series()
    if older is None:
        return newer
    start = bisect_left(older.times_ns, since_ns)
    return Series([*older.times_ns[start:], *newer.times_ns], [*older.values[start:], *newer.values])
