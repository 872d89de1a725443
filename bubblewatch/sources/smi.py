"""Telemetry that people hand over: whatever `nvidia-smi` printed, as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from bubblewatch.model.errors import UsageError
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.sources.smi_collect import NOMINAL_PERIOD_S, GpuRows, collect, telemetry_of
from bubblewatch.sources.smi_csv import EXPECTED, csv_rows, has_header
from bubblewatch.sources.smi_monitor import is_monitor, monitor_rows
from bubblewatch.sources.smi_report import is_report, report_rows
from bubblewatch.sources.smi_table import is_table, table_rows
from bubblewatch.sources.smi_topology import links_of
from bubblewatch.sources.text_file import STDIN, read_text

__all__ = ["NOMINAL_PERIOD_S", "read_telemetry", "telemetry_from_text"]

_FAILED = re.compile(r"^.*(?:NVIDIA-SMI has failed|couldn't find libnvidia-ml|No devices were found).*$", re.MULTILINE)
"""Example (nvidia-smi 535): `NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make …`."""


def read_telemetry(path: str, stdin: BinaryIO | None = None) -> Telemetry:
    """The readings in the file `path`, or on standard input for `-`.

    Read are the CSV of `--query-gpu`, `dmon`, `pmon` (its processes summed up for each GPU), the table, `-q` and `topo
    -m`. Of several in one text the one with the most readings counts, and the others say what does not change.
    Every row counts as one reading, also when its values repeat. Times start at 0 and come from the text, else rows of
    one GPU are NOMINAL_PERIOD_S apart. `wall_offset_ns` is None: the text names no time zone. `[N/A]`, `ERR!` and `-`
    become NaN. A GPU without a uuid is called `index-N`. Raises UsageError in one sentence for text that holds no
    utilization and no power; a matrix of links alone gives telemetry without GPUs.
    """
    shown = "standard input" if path == STDIN else path
    return telemetry_from_text(read_text(path, EXPECTED, stdin), shown)


def telemetry_from_text(text: str, shown: str) -> Telemetry:
    """As `read_telemetry`, of a text; `shown` names it in errors."""
    forms = _forms(text)
    links = links_of(text)
    if not forms and not links:
        _refuse_failure(text, shown)
    if has_header(text) or not (forms or links):
        forms.insert(0, collect(csv_rows(text, shown)))
    telling = [gpus for gpus in forms if any(gpu.tells_load for gpu in gpus)]
    if telling:
        return telemetry_of(_richest(telling, forms), links)
    if links:
        return Telemetry(links=links)
    if is_table(text):
        raise UsageError(f"{shown}: an nvidia-smi table without a GPU that could be read", f"expected {EXPECTED}")
    raise UsageError(f"{shown}: no reading of utilization or power in it", f"expected {EXPECTED}")


def _forms(text: str) -> list[list[GpuRows]]:
    """The GPUs by each form of output that the text holds, CSV aside."""
    forms = []
    if is_monitor(text):
        forms.append(collect(monitor_rows(text)))
    if is_table(text):
        forms.append(collect(table_rows(text)))
    if is_report(text):
        forms.append(collect(report_rows(text)))
    return forms


def _richest(telling: Sequence[list[GpuRows]], forms: Sequence[list[GpuRows]]) -> list[GpuRows]:
    """The GPUs of the form with the most readings, completed by what the others say of them."""
    best = max(telling, key=lambda gpus: sum(len(series) for gpu in gpus for series in gpu.values.values()))
    for other in (gpu for gpus in forms if gpus is not best for gpu in gpus):
        for gpu in best:
            if gpu.index == other.index:
                gpu.learn(other)
    return [gpu for gpu in best if gpu.tells_load]


def _refuse_failure(text: str, shown: str) -> None:
    if text.lstrip().startswith(("<?xml", "<nvidia_smi_log")):
        raise UsageError(f"{shown}: XML output is not understood", f"expected {EXPECTED}")
    if failed := _FAILED.search(text):
        raise UsageError(f"{shown}: nvidia-smi itself failed: {failed.group().strip()[:160]}")
