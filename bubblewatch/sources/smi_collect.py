"""Rows of nvidia-smi output, whatever its form, gathered into readings of each GPU. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import DeviceLink, GpuInfo, GpuReading, Series, Telemetry
from bubblewatch.sources.smi_columns import FACTS, FIELDS, LOAD_FIELDS, SWITCHES, number_of, time_of

Row = Mapping[str, str]
"""One GPU at one moment: column of `--query-gpu` -> cell as text. Other forms are translated to these columns."""

NOMINAL_PERIOD_S = 1.0
"""Time between two rows of one GPU when the text carries no time: the period of `nvidia-smi -l 1` and of `dmon`."""

_SAME_MOMENT_NS = 20_000_000
"""Rows closer than this are of one moment: nvidia-smi takes milliseconds from one GPU to the next and loops slower."""

_STEP_BACK_NS = 60 * NS
"""A step back of the clock that is longer than this begins another run; a shorter one is the clock being set."""


@dataclass(slots=True)
class GpuRows:
    """What has been read of one GPU so far."""

    key: str
    index: int
    names: dict[str, str] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)
    times: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    last_ns: int | None = None

    @property
    def tells_load(self) -> bool:
        """Whether utilization or power was delivered."""
        return bool(LOAD_FIELDS & self.values.keys())

    def learn(self, other: GpuRows) -> None:
        """Take what does not change from another form of the same output, where this one does not say it."""
        self.names = {**other.names, **self.names}
        self.facts = {**other.facts, **self.facts}
        self.switches = {**other.switches, **self.switches}


def collect(rows: Iterable[Row]) -> list[GpuRows]:
    """The GPUs of these rows, by index. Every row counts as one reading, also when its values repeat."""
    gpus: dict[str, GpuRows] = {}
    clock = _RowClock()
    for row in rows:
        time_ns = clock.read(row.get("timestamp", ""))
        _add_row(_gpu_of(row, gpus, clock.place), row, time_ns)
    return sorted(gpus.values(), key=lambda gpu: gpu.index)


def telemetry_of(gpus: Sequence[GpuRows], links: tuple[DeviceLink, ...] = ()) -> Telemetry:
    """Readings of all GPUs with times from 0 on."""
    times = [time for gpu in gpus for series in gpu.times.values() for time in (series[0], series[-1])]
    first, last = min(times, default=0), max(times, default=0)
    readings = tuple(
        GpuReading(
            _info(gpu),
            {
                name: Series(tuple(time - first for time in series), tuple(gpu.values[name]))
                for name, series in gpu.times.items()
            },
        )
        for gpu in gpus
    )
    return Telemetry(readings, 0, last - first, links=links)


@dataclass(slots=True)
class _RowClock:
    """Times of rows, made to go forward; `place` is the row's place among those of one moment, from 0."""

    place: int = 0
    shift_ns: int = 0
    latest_ns: int | None = None

    def read(self, text: str) -> int | None:
        """Time of the row with this timestamp, None when it has none."""
        time_ns = time_of(text)
        if time_ns is None:
            return None
        time_ns += self.shift_ns
        if self.latest_ns is None:
            self.latest_ns = time_ns
            return time_ns
        if time_ns < self.latest_ns - _STEP_BACK_NS:  # a second run follows the first in one file
            self.shift_ns += self.latest_ns + NS - time_ns
            time_ns = self.latest_ns + NS
        self.place = self.place + 1 if time_ns - self.latest_ns < _SAME_MOMENT_NS else 0
        self.latest_ns = max(time_ns, self.latest_ns)
        return time_ns


def _gpu_of(row: Row, gpus: dict[str, GpuRows], place: int = 0) -> GpuRows:
    """The GPU that a row is about: by uuid, index or bus, else by the row's `place` among those of one moment."""
    index = int(row["index"]) if row.get("index", "").isdigit() else None
    uuid = row.get("uuid", "")
    if uuid.startswith(("GPU-", "MIG-")):
        key = uuid
    elif index is None and row.get("pci.bus_id"):
        key = f"pci-{row['pci.bus_id']}"
    else:
        index = place if index is None else index
        key = f"index-{index}"
    if key not in gpus:
        gpus[key] = GpuRows(key, len(gpus) if index is None else index)
    return gpus[key]


def _add_row(gpu: GpuRows, row: Row, time_ns: int | None) -> None:
    """Add one row's readings, at a time that is later than that of the row before."""
    if time_ns is None:
        time_ns = 0 if gpu.last_ns is None else gpu.last_ns + round(NOMINAL_PERIOD_S * NS)
    if gpu.last_ns is not None:
        time_ns = max(time_ns, gpu.last_ns + 1)
    gpu.last_ns = time_ns
    for name in ("name", "pci.bus_id"):
        if row.get(name):
            gpu.names[name] = row[name]
    for name, cell in row.items():
        if fact := FACTS.get(name):
            number = number_of(cell) * fact.scale
            if not math.isnan(number):
                gpu.facts[fact.to] = number
        elif reading := FIELDS.get(name):
            times = gpu.times.setdefault(reading.to, [])
            if times and times[-1] == time_ns:
                continue  # `power.draw` beside `power.draw.average`: one of them is enough
            times.append(time_ns)
            gpu.values.setdefault(reading.to, []).append(number_of(cell) * reading.scale)
        elif name in SWITCHES and cell in ("Enabled", "Disabled"):
            gpu.switches[SWITCHES[name]] = cell == "Enabled"


def _info(gpu: GpuRows) -> GpuInfo:
    def whole(name: str) -> int | None:
        return int(gpu.facts[name]) if name in gpu.facts else None

    return GpuInfo(
        uuid=gpu.key,
        index=gpu.index,
        name=gpu.names.get("name", "unknown GPU"),
        power_limit_w=gpu.facts.get("power_limit_w"),
        power_default_limit_w=gpu.facts.get("power_default_limit_w"),
        memory_total_bytes=whole("memory_total_bytes"),
        sm_clock_max_mhz=gpu.facts.get("sm_clock_max_mhz"),
        pcie_gen_max=whole("pcie_gen_max"),
        pcie_width_max=whole("pcie_width_max"),
        pci_bus_id=gpu.names.get("pci.bus_id"),
        is_mig=gpu.key.startswith("MIG-"),
        persistence=gpu.switches.get("persistence"),
    )
