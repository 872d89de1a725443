"""Telemetry that people hand over: the text of `nvidia-smi --query-gpu=… --format=csv`, or its table."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from bubblewatch.model.clock import NS
from bubblewatch.model.errors import UsageError
from bubblewatch.model.telemetry import GpuInfo, GpuReading, Series, Telemetry
from bubblewatch.sources.smi_columns import (
    FACTS,
    FIELDS,
    LOAD_FIELDS,
    column_name,
    guess_header,
    is_header,
    number_of,
    tells_load,
    time_of,
)
from bubblewatch.sources.smi_table import TableRow, is_table, read_table
from bubblewatch.sources.text_file import STDIN, read_text

NOMINAL_PERIOD_S = 1.0
"""Time between two rows of one GPU when the text carries no time: the period of `nvidia-smi -l 1`."""

_SAME_MOMENT_NS = 20_000_000
"""Rows closer than this are of one moment: nvidia-smi takes milliseconds from one GPU to the next and loops slower."""

_STEP_BACK_NS = 60 * NS
"""A step back of the clock that is longer than this begins another run; a shorter one is the clock being set."""

_EXPECTED = "nvidia-smi output, such as `nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv -lms 500`"


@dataclass(slots=True)
class _Gpu:
    """What has been read of one GPU so far."""

    key: str
    index: int
    names: dict[str, str] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    times: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    last_ns: int | None = None


def read_telemetry(path: str, stdin: BinaryIO | None = None) -> Telemetry:
    """The readings in the file `path`, or on standard input for `-`.

    Every row counts as one reading, also when its values repeat. Times start at 0 and come from the `timestamp` column,
    else rows of one GPU are NOMINAL_PERIOD_S apart. `wall_offset_ns` is None: the text names no time zone. `[N/A]` and
    `ERR!` become NaN. A GPU without a `uuid` column is called `index-N`. Raises UsageError in one sentence for text
    that holds no utilization and no power.
    """
    shown = "standard input" if path == STDIN else path
    return telemetry_from_text(read_text(path, _EXPECTED, stdin), shown)


def telemetry_from_text(text: str, shown: str) -> Telemetry:
    """As `read_telemetry`, of a text; `shown` names it in errors."""
    if is_table(text):
        return _from_table(read_table(text), shown)
    _refuse_other_formats(text, shown)
    gpus: dict[str, _Gpu] = {}
    header: list[str] = []
    clock = _RowClock()
    for number, cells in _rows(text):
        if is_header(cells):
            header = [column_name(cell) for cell in cells]
            _refuse_useless_header(header, shown, number)
            continue
        if not header:
            header = _guessed(cells, shown)
        if len(cells) != len(header):
            continue  # a row cut by Ctrl-C, or a message between the rows
        row = dict(zip(header, cells, strict=True))
        time_ns = clock.read(row.get("timestamp", ""))
        _add_row(_gpu_of(row, gpus, clock.place), row, time_ns)
    readings = [gpu for gpu in gpus.values() if LOAD_FIELDS & gpu.values.keys()]
    if not readings:
        raise UsageError(f"{shown}: no reading of utilization or power in it", f"expected {_EXPECTED}")
    return _telemetry(sorted(readings, key=lambda gpu: gpu.index))


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


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of every line that has any."""
    for number, line in enumerate(text.replace("\0", "").splitlines(), start=1):
        if line.strip():
            yield number, [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def _refuse_useless_header(header: Sequence[str], shown: str, number: int) -> None:
    if not tells_load(header):
        raise UsageError(
            f"{shown}:{number}: the columns hold neither utilization.gpu nor power.draw", f"expected {_EXPECTED}"
        )


def _guessed(cells: Sequence[str], shown: str) -> list[str]:
    header = guess_header(cells)
    if header is None:
        raise UsageError(
            f"{shown}: not understood as nvidia-smi output (no header, and no units that tell the columns)",
            f"expected {_EXPECTED}",
        )
    return header


def _refuse_other_formats(text: str, shown: str) -> None:
    """Say plainly which of nvidia-smi's other formats this is."""
    start = text.lstrip()
    if re.match(r"#\s*(?:gpu|Date)\b", start):
        raise UsageError(f"{shown}: `nvidia-smi dmon` or `pmon` output is not understood yet", f"expected {_EXPECTED}")
    if start.startswith("=") and "NVSMI LOG" in start[:200]:
        raise UsageError(f"{shown}: `nvidia-smi -q` output is not understood yet", f"expected {_EXPECTED}")
    if start.startswith(("<?xml", "<nvidia_smi_log")):
        raise UsageError(f"{shown}: XML output is not understood", f"expected {_EXPECTED}")
    if failed := re.search(
        r"^.*(?:NVIDIA-SMI has failed|couldn't find libnvidia-ml|No devices were found).*$", text, re.MULTILINE
    ):
        raise UsageError(f"{shown}: nvidia-smi itself failed: {failed.group().strip()[:160]}")


def _gpu_of(row: Mapping[str, str], gpus: dict[str, _Gpu], place: int = 0) -> _Gpu:
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
        gpus[key] = _Gpu(key, len(gpus) if index is None else index)
    return gpus[key]


def _add_row(gpu: _Gpu, row: Mapping[str, str], time_ns: int | None) -> None:
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


def _telemetry(gpus: Sequence[_Gpu]) -> Telemetry:
    """Readings of all GPUs with times from 0 on."""
    first = min(times[0] for gpu in gpus for times in gpu.times.values())
    last = max(times[-1] for gpu in gpus for times in gpu.times.values())
    readings = tuple(
        GpuReading(
            _info(gpu),
            {
                name: Series(tuple(time - first for time in times), tuple(gpu.values[name]))
                for name, times in gpu.times.items()
            },
        )
        for gpu in gpus
    )
    return Telemetry(readings, 0, last - first)


def _info(gpu: _Gpu) -> GpuInfo:
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
    )


def _from_table(rows: Sequence[TableRow], shown: str) -> Telemetry:
    """The telemetry of tables; each print of the table is one reading, a nominal period after the one before."""
    gpus: dict[str, _Gpu] = {}
    for table_row in rows:
        row = {"index": str(table_row.index), "name": table_row.name, "power.draw": table_row.power_w}
        row |= {"power.limit": table_row.power_limit_w, "memory.used": table_row.memory_used_mib}
        row |= {"memory.total": table_row.memory_total_mib, "utilization.gpu": table_row.util_percent}
        row |= {"temperature.gpu": table_row.temperature_c, "pstate": table_row.pstate, "pci.bus_id": table_row.bus_id}
        _add_row(_gpu_of(row, gpus), row, None)
    if not gpus:
        raise UsageError(f"{shown}: an nvidia-smi table without a GPU that could be read", f"expected {_EXPECTED}")
    return _telemetry(sorted(gpus.values(), key=lambda gpu: gpu.index))
