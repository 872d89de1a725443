"""The columns of `nvidia-smi --query-gpu`: what each means, and how its cells read. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from bubblewatch.model.clock import NS

_MIB = 1024.0**2


@dataclass(frozen=True, slots=True)
class Column:
    """Where a column of the query goes: a telemetry field or an attribute of GpuInfo, times `scale`."""

    to: str
    scale: float = 1.0


SM_ACTIVE = "gpm.sm_activity"
"""Our own name in this table: the query has no such column, but `dmon --gpm-metrics 2` does."""

FIELDS: Mapping[str, Column] = MappingProxyType(
    {
        "power.draw": Column("power_average_w"),
        "power.draw.average": Column("power_average_w"),
        "power.draw.instant": Column("power_instant_w"),
        "utilization.gpu": Column("util_ratio", 0.01),
        "utilization.memory": Column("mem_util_ratio", 0.01),
        "clocks.sm": Column("sm_clock_mhz"),
        "clocks.current.sm": Column("sm_clock_mhz"),
        "memory.used": Column("memory_used_bytes", _MIB),
        "temperature.gpu": Column("temperature_c"),
        "clocks_throttle_reasons.active": Column("event_reasons"),
        "clocks_event_reasons.active": Column("event_reasons"),
        "pcie.link.gen.current": Column("pcie_gen"),
        "pcie.link.gen.gpucurrent": Column("pcie_gen"),
        "pcie.link.width.current": Column("pcie_width"),
        "pstate": Column("pstate"),
        SM_ACTIVE: Column("sm_active_ratio", 0.01),
    }
)
"""Columns of `--query-gpu` (nvidia-smi 535..580, `--help-query-gpu`) that are telemetry."""

FACTS: Mapping[str, Column] = MappingProxyType(
    {
        "power.limit": Column("power_limit_w"),
        "enforced.power.limit": Column("power_limit_w"),
        "power.default_limit": Column("power_default_limit_w"),
        "memory.total": Column("memory_total_bytes", _MIB),
        "clocks.max.sm": Column("sm_clock_max_mhz"),
        "pcie.link.gen.max": Column("pcie_gen_max"),
        "pcie.link.width.max": Column("pcie_width_max"),
    }
)
"""Columns that do not change while the GPU is there."""

SWITCHES: Mapping[str, str] = MappingProxyType({"persistence_mode": "persistence"})
"""Columns that read `Enabled` or `Disabled` and do not change -> attribute of GpuInfo."""

_NAMES = frozenset({"index", "timestamp", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"})
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}

_TIME = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
"""Example (nvidia-smi 535): `2026/01/01 12:00:00.123`, local time of the machine that printed it."""

_DAY_TIME = re.compile(r"(?:(\d{4})(\d\d)(\d\d) )?(\d\d):(\d\d):(\d\d)")
"""Example (nvidia-smi 535, `dmon -o DT`): `20240104 13:54:35`; `-o T` leaves the day out."""

_DATE_LINE = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})")
"""Example (nvidia-smi 580, above the table and in `-q`): `Sat Sep  5 17:26:06 2026`."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_NUMBER = re.compile(r"P?(-?\d+(?:\.\d+)?)\s*(?:W|MiB|MHz|%|C|x)?")
_MASK = re.compile(r"0x[0-9a-fA-F]+")
LOAD_FIELDS = frozenset({"util_ratio", "power_average_w", "power_instant_w"})
"""Fields without which there is nothing to judge."""


def column_name(cell: str) -> str:
    """`power.draw [W]` -> `power.draw`."""
    name = re.sub(r"\s*\[[^\]]*\]$", "", cell.strip().lower())
    return _ALIASES.get(name, name)


def is_header(cells: Sequence[str]) -> bool:
    names = [column_name(cell) for cell in cells]
    return any(name in FIELDS or name in FACTS or name in _NAMES or name in SWITCHES for name in names)


def tells_load(header: Sequence[str]) -> bool:
    """Whether one of the columns says what the GPU does: its utilization or its power."""
    return any(name in FIELDS and FIELDS[name].to in LOAD_FIELDS for name in header)


def guess_header(cells: Sequence[str]) -> list[str] | None:
    """Columns of a text without a header, where units and forms tell them (`--format=csv,noheader`).

    None when they do not: which number is which cannot be told without units.
    """
    header = []
    by_unit = {"%": ["utilization.gpu", "utilization.memory"], "W": ["power.draw", "power.limit"]}
    by_unit |= {"MiB": ["memory.used", "memory.total"], "MHz": ["clocks.sm", "clocks.max.sm"]}
    for position, cell in enumerate(cells):
        unit = re.fullmatch(r"-?[\d.]+ (%|W|MiB|MHz)", cell)
        if _TIME.match(cell):
            header.append("timestamp")
        elif cell.startswith("GPU-"):
            header.append("uuid")
        elif re.fullmatch(r"\d{1,3}", cell) and "index" not in header and position <= 1:
            header.append("index")
        elif re.fullmatch(r"P\d{1,2}", cell):
            header.append("pstate")
        elif unit and by_unit[unit[1]]:
            header.append(by_unit[unit[1]].pop(0))
        else:
            header.append(f"unknown {position}")
    return header if tells_load(header) else None


def time_of(text: str) -> int | None:
    """Nanoseconds of a timestamp on its machine's own wall clock, None when there is none.

    A time without a day counts from the start of the epoch: only differences mean something.
    """
    if found := _TIME.match(text):
        seconds = _seconds(*found.groups()[:6])
        return None if seconds is None else seconds * NS + int((found[7] or "0").ljust(9, "0"))
    if found := _DAY_TIME.fullmatch(text):
        year, month, day, *clock = found.groups()
        seconds = _seconds(year or "1970", month or "1", day or "1", *clock)
    elif (found := _DATE_LINE.match(text)) and found[1] in _MONTHS:
        month, day, hour, minute, second, year = found.groups()
        seconds = _seconds(year, str(_MONTHS.index(month) + 1), day, hour, minute, second)
    else:
        return None
    return None if seconds is None else seconds * NS


def _seconds(*parts: str) -> int | None:
    """Seconds since 1970 of year, month, day, hour, minute and second; None for a date that no calendar has."""
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
    except ValueError:
        return None


def number_of(cell: str) -> float:
    """`83.21 W` -> 83.21, `P0` -> 0, `0x0004` -> 4; NaN for `[N/A]`, `[Not Supported]`, `ERR!` and all else."""
    if _MASK.fullmatch(cell):
        return float(int(cell, 16))
    found = _NUMBER.fullmatch(cell)
    return float(found[1]) if found else math.nan
