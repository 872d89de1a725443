"""What `nvidia-smi -q` prints: sections and values by indentation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bubblewatch.sources.smi_collect import Row

_GPU = re.compile(r"GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\b")
"""Example (nvidia-smi 470..580): `GPU 00000000:06:00.0`."""

_LINE = re.compile(r"(?P<indent> *)(?P<key>\S[^:]*?) *(?:: (?P<value>.*))?$")

_LONGEST_LINE = 1000
"""Characters; keys and values are short, and a longer line would cost the pattern much time."""

_COLUMNS: Mapping[tuple[str, str], str] = {
    ("", "Product Name"): "name",
    ("", "GPU UUID"): "uuid",
    ("", "Persistence Mode"): "persistence_mode",
    ("", "Performance State"): "pstate",
    ("PCIe Generation", "Current"): "pcie.link.gen.current",
    ("PCIe Generation", "Max"): "pcie.link.gen.max",
    ("Link Width", "Current"): "pcie.link.width.current",
    ("Link Width", "Max"): "pcie.link.width.max",
    ("FB Memory Usage", "Total"): "memory.total",
    ("FB Memory Usage", "Used"): "memory.used",
    ("Utilization", "Gpu"): "utilization.gpu",
    ("Utilization", "GPU"): "utilization.gpu",
    ("Utilization", "Memory"): "utilization.memory",
    ("Temperature", "GPU Current Temp"): "temperature.gpu",
    ("Power Readings", "Power Draw"): "power.draw",
    ("Power Readings", "Enforced Power Limit"): "power.limit",
    ("Power Readings", "Default Power Limit"): "power.default_limit",
    ("GPU Power Readings", "Power Draw"): "power.draw",
    ("GPU Power Readings", "Average Power Draw"): "power.draw.average",
    ("GPU Power Readings", "Instantaneous Power Draw"): "power.draw.instant",
    ("GPU Power Readings", "Current Power Limit"): "power.limit",
    ("GPU Power Readings", "Default Power Limit"): "power.default_limit",
    ("Clocks", "SM"): "clocks.sm",
    ("Max Clocks", "SM"): "clocks.max.sm",
}
"""(section, key) -> column of the query. The power section is called `Power Readings` up to driver 525 and `GPU Power
Readings` from 530 on; one draw became an average and an instantaneous one with 560."""

_REASONS: Mapping[tuple[str, str], int] = {
    ("Idle", ""): 0x1,
    ("Applications Clocks Setting", ""): 0x2,
    ("SW Power Cap", ""): 0x4,
    ("HW Slowdown", ""): 0x8,
    ("Sync Boost", ""): 0x10,
    ("SW Thermal Slowdown", ""): 0x20,
    ("HW Thermal Slowdown", "HW Slowdown"): 0x40,
    ("HW Power Brake Slowdown", "HW Slowdown"): 0x80,
    ("Display Clock Setting", ""): 0x100,
}
"""(reason, what it stands under) -> its bit in the mask (NVML 12, nvmlClocksEventReasons)."""

_REASON_SECTIONS = frozenset({"Clocks Event Reasons", "Clocks Throttle Reasons"})
"""New name since driver 535, and the old one."""


def is_report(text: str) -> bool:
    """Whether output of `nvidia-smi -q` is in the text."""
    return "NVSMI LOG" in text or re.search(r"^Attached GPUs\s+: \d", text, re.MULTILINE) is not None


def report_rows(text: str) -> Iterator[Row]:
    """One row for each GPU of each print (`-q -l` prints again and again)."""
    row: dict[str, str] = {}
    stamp, index = "", 0
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            if row:
                yield row
            row = {"index": str(index), "pci.bus_id": gpu["bus"], **({"timestamp": stamp} if stamp else {})}
            path, index = [], index + 1
            continue
        found = _LINE.match(line.rstrip()) if len(line) <= _LONGEST_LINE else None
        if found is None:
            continue
        indent, key, value = len(found["indent"]), found["key"], (found["value"] or "").strip()
        if indent == 0 and key == "Timestamp":
            stamp, index = value, 0
        while path and path[-1][0] >= indent:
            path.pop()
        if row and indent and value:
            _take(row, [name for _, name in path], key, value)
        path.append((indent, key))
    if row:
        yield row


def _take(row: dict[str, str], sections: list[str], key: str, value: str) -> None:
    """Put one value where it belongs; the first of several of one name counts."""
    parent = sections[-1] if sections else ""
    column = _COLUMNS.get((parent, key)) or (_COLUMNS.get(("", key)) if parent in ("", "Performance") else None)
    if column is not None:
        row.setdefault(column, value)
    elif _REASON_SECTIONS & set(sections):
        bit = _REASONS.get((key, "" if parent in _REASON_SECTIONS else parent), 0)
        mask = int(row.get("clocks_event_reasons.active", "0x0"), 16)
        row["clocks_event_reasons.active"] = f"{mask | (bit if value == 'Active' else 0):#x}"
