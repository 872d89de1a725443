"""What the host does for the GPUs: time of its steps, CPU of its processes."""

from __future__ import annotations

import statistics

from bubblewatch.model.logs import StepTimes
from bubblewatch.model.signals import Confidence
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.recent import counted, recent

MIN_STEPS = 5
"""Steps with times below which their median says nothing: the first ones compile and capture."""

_NOT_READ = "the CPU use of the server's processes was not read"
_FROM_PROCESSES = (
    "host.engine_cpu_ratio",
    "host.frontend_cpu_ratio",
    "host.throttled_ratio",
    "host.pressure_ratio",
    "host.threads_per_core",
)


def write_host(book: Notebook, evidence: ServerEvidence) -> None:
    """Write host.step_ratio from the server's own step times; the rest of host.* is missing, with the reason."""
    for name in _FROM_PROCESSES:
        book.lack(name, _NOT_READ)
    steps = [s for s in recent(evidence, StepTimes) if s.decode_only is not False and s.scheduled != 0]
    host = [s.host_s for s in steps if s.host_s is not None]
    device = [s.device_s for s in steps if s.device_s is not None]
    if min(len(host), len(device)) < MIN_STEPS:
        book.lack("host.step_ratio", f"{MIN_STEPS} steps with times of host and device are needed")
        return
    on_host, on_device = statistics.median(host), statistics.median(device)
    if on_device <= 0:
        book.lack("host.step_ratio", "the server says that the device takes no time")
        return
    text = f"a step takes {on_host * 1e3:.1f} ms of the host and {on_device * 1e3:.1f} ms of the device"
    book.know("host.step_ratio", on_host / on_device, "log", Confidence.HIGH, [counted(text)])
