"""The table that plain `nvidia-smi` prints, as people paste it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bubblewatch.sources.smi_collect import Row

_HEADER = re.compile(r"NVIDIA-SMI\s{1,4}[\w.]{1,30}.{0,80}?(?:Driver|KMD) Version")
"""Examples: `| NVIDIA-SMI 580.173.02    Driver Version: 580.173.02 …`, `| NVIDIA-SMI 610.43.02    KMD Version: …`."""

_FIRST_LINE = re.compile(
    r"^\W*\|\s+(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?P<mode>On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)"
)
"""Example (nvidia-smi 580): `|   0  NVIDIA H200 NVL                On  |   00000000:06:00.0 Off |            0 |`."""

_LONGEST_LINE = 400
"""Characters; the table is 91 wide. A longer line is none of it, and would cost the patterns much time."""

_DATE_LINE = re.compile(r"^\W*(?P<date>[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4})\s*$")
"""Example (nvidia-smi 580, above each table): `Sat Sep  5 17:26:06 2026`."""

_SECOND_LINE = re.compile(
    r"\|\s*(?:\d+%|N/A|\[?ERR!\]?)\s+(?P<temperature>\S+)\s+(?P<pstate>P\d+|N/A|ERR!)\s+"
    r"(?P<power>\d+W|\S+)\s*/\s*(?P<limit>\d+W|\S+)\s*\|\s*"
    r"(?:(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB|N/A|Not Supported|ERR!)\s*\|\s*(?P<util>\d+%|\S+)"
)
"""Example (nvidia-smi 580): `| N/A   35C    P0     78W /  600W |     741MiB / 143771MiB |      3%      Default |`."""


def is_table(text: str) -> bool:
    """Whether the table is in the text (nvidia-smi 390 and newer)."""
    return _HEADER.search(text) is not None


def table_rows(text: str) -> Iterator[Row]:
    """Every GPU of every table in `text`, in order; lines that are not of the two-line form are passed over.

    A GPU that is split into MIG instances has no utilization; its power is that of the whole card.
    """
    first: re.Match[str] | None = None
    stamp = ""
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        if date := _DATE_LINE.match(line):
            stamp = date["date"]
        elif found := _FIRST_LINE.search(line):
            first = found
        elif first is not None and (second := _SECOND_LINE.search(line)):
            yield {**_row(first, second), **({"timestamp": stamp} if stamp else {})}
            first = None


def _row(first: re.Match[str], second: re.Match[str]) -> dict[str, str]:
    modes = {"On": "Enabled", "Off": "Disabled"}
    return {
        "index": first["index"],
        "name": first["name"].removesuffix("..."),
        "persistence_mode": modes.get(first["mode"], "[N/A]"),
        "pci.bus_id": first["bus"],
        "power.draw": _bare(second["power"], "W"),
        "power.limit": _bare(second["limit"], "W"),
        "memory.used": second["used"] or "[N/A]",
        "memory.total": second["total"] or "[N/A]",
        "utilization.gpu": _bare(second["util"], "%"),
        "temperature.gpu": _bare(second["temperature"], "C"),
        "pstate": second["pstate"],
    }


def _bare(cell: str, unit: str) -> str:
    number = cell.removesuffix(unit)
    return number if number.isdigit() else "[N/A]"
