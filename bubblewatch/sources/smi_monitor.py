"""The scrolling monitors of nvidia-smi: `dmon` (a line per GPU) and `pmon` (a line per process). Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bubblewatch.sources.smi_collect import Row
from bubblewatch.sources.smi_columns import SM_ACTIVE, number_of

_HEADER = re.compile(r"^[ \t]*#[ \t]*(?:Date[ ,\t]+)?(?:Time[ ,\t]+)?gpu[ ,\t]", re.MULTILINE)
"""Examples (nvidia-smi 535): `# gpu    pwr  gtemp  mtemp     sm …`, `#Date       Time        gpu     fb   bar1 …`."""

_COLUMNS: Mapping[str, str] = {
    "gpu": "index",
    "pwr": "power.draw",
    "gtemp": "temperature.gpu",
    "sm": "utilization.gpu",
    "mem": "utilization.memory",
    "pclk": "clocks.sm",
    "fb": "memory.used",
    "smutil": SM_ACTIVE,
}
"""Columns of `dmon` -> those of the query (nvidia-smi 535..580, `dmon --help`; `fb` is in MiB, `smutil` GPM metric 2).
`sm` is the plain utilization: a kernel was resident."""


def is_monitor(text: str) -> bool:
    """Whether a header of `dmon` or `pmon` is in the text."""
    return _HEADER.search(text) is not None


def monitor_rows(text: str) -> Iterator[Row]:
    """A row for each line of `dmon`; for `pmon` one for each GPU and moment, its processes summed up.

    Headers may repeat and change. `-` means that the monitor had no sample, and stays unknown.
    """
    header: list[str] = []
    moment = _Moment()
    for line in text.splitlines():
        words = line.replace(",", " ").strip().lstrip("#").split()
        if line.lstrip().startswith("#") and "gpu" in words:
            header = [word.lower() for word in words]
        elif header and words and _is_data(words, header):
            cells = dict(zip(header, words, strict=False))
            if "pid" in header:
                yield from moment.add(cells)
            else:
                yield _row(cells)
    yield from moment.rows()


def _is_data(words: list[str], header: list[str]) -> bool:
    """Whether the words fill the header's columns. The command at the end of `pmon` may have spaces in it."""
    enough = len(words) >= len(header) if "pid" in header else len(words) == len(header)
    return enough and words[header.index("gpu")].isdigit()


def _row(cells: Mapping[str, str]) -> Row:
    row = {to: cells[name] for name, to in _COLUMNS.items() if name in cells}
    if "time" in cells:
        row["timestamp"] = " ".join(cells[name] for name in ("date", "time") if name in cells)
    return row


@dataclass(slots=True)
class _Moment:
    """The processes of one print of `pmon`: it ends where the same process comes again, or GPU numbers start over."""

    seen: set[tuple[str, str]] = field(default_factory=set)
    latest: int = -1
    sums: dict[str, dict[str, float]] = field(default_factory=dict)
    stamp: str = ""

    def add(self, cells: Mapping[str, str]) -> list[Row]:
        """Take one process in; the rows of the moment before when this one begins another."""
        process, gpu = (cells["gpu"], cells["pid"]), int(cells["gpu"])
        done = self.rows() if process in self.seen or gpu < self.latest else []
        self.seen.add(process)
        self.latest = gpu
        self.stamp = _row(cells).get("timestamp", "")
        sums = self.sums.setdefault(cells["gpu"], {})
        for name in ("sm", "fb"):
            number = number_of(cells.get(name, "-"))
            if not math.isnan(number):
                sums[name] = sums.get(name, 0.0) + number
        return done

    def rows(self) -> list[Row]:
        """One row for each GPU of the moment in hand, which ends here."""
        rows: list[Row] = [
            {
                "index": gpu,
                "utilization.gpu": f"{min(sums['sm'], 100.0):.0f}" if "sm" in sums else "-",
                **({"memory.used": f"{sums['fb']:.0f}"} if "fb" in sums else {}),
                **({"timestamp": self.stamp} if self.stamp else {}),
            }
            for gpu, sums in self.sums.items()
        ]
        self.seen, self.sums, self.latest = set(), {}, -1
        return rows
