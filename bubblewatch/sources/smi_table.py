"""The table that plain `nvidia-smi` prints, as people paste it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_HEADER = re.compile(r"NVIDIA-SMI\s+[\w.]+.*(?:Driver|KMD) Version")
"""Examples: `| NVIDIA-SMI 580.173.02    Driver Version: 580.173.02 …`, `| NVIDIA-SMI 610.43.02    KMD Version: …`."""

_FIRST_LINE = re.compile(
    r"^\W*\|\s+(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)"
)
"""Example (nvidia-smi 580): `|   0  NVIDIA H200 NVL                On  |   00000000:06:00.0 Off |            0 |`."""

_SECOND_LINE = re.compile(
    r"\|\s*(?:\d+%|N/A|\[?ERR!\]?)\s+(?P<temperature>\S+)\s+(?P<pstate>P\d+|N/A|ERR!)\s+"
    r"(?P<power>\d+W|\S+)\s*/\s*(?P<limit>\d+W|\S+)\s*\|\s*(?:(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB|N/A)\s*\|\s*(?P<util>\d+%|\S+)"
)
"""Example (nvidia-smi 580): `| N/A   35C    P0     78W /  600W |     741MiB / 143771MiB |      3%      Default |`."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One GPU of one print of the table, every cell as text without its unit; `[N/A]` where it said nothing."""

    index: int
    name: str
    bus_id: str
    power_w: str
    power_limit_w: str
    memory_used_mib: str
    memory_total_mib: str
    util_percent: str
    temperature_c: str
    pstate: str


def is_table(text: str) -> bool:
    """Whether `text` is, or begins after a prompt with, the table (nvidia-smi 390 and newer)."""
    return _HEADER.search(text[:4000]) is not None


def read_table(text: str) -> Sequence[TableRow]:
    """Every GPU of every table in `text`, in order; lines that are not of the two-line form are passed over."""
    rows: list[TableRow] = []
    first: re.Match[str] | None = None
    for line in text.splitlines():
        if found := _FIRST_LINE.search(line):
            first = found
        elif first is not None and (second := _SECOND_LINE.search(line)):
            rows.append(_row(first, second))
            first = None
    return rows


def _row(first: re.Match[str], second: re.Match[str]) -> TableRow:
    return TableRow(
        index=int(first["index"]),
        name=first["name"].removesuffix("..."),
        bus_id=first["bus"],
        power_w=_bare(second["power"], "W"),
        power_limit_w=_bare(second["limit"], "W"),
        memory_used_mib=second["used"] or "[N/A]",
        memory_total_mib=second["total"] or "[N/A]",
        util_percent=_bare(second["util"], "%"),
        temperature_c=_bare(second["temperature"], "C"),
        pstate=second["pstate"],
    )


def _bare(cell: str, unit: str) -> str:
    number = cell.removesuffix(unit)
    return number if number.isdigit() else "[N/A]"
