"""Six hours of history of one daemon, as blocks that a real Prometheus loads: its own page, with the counters moved on.

Queries that look back for hours then have something to see, and a restart with a new version and launch lies in it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.rules import rules_in_force
from bubblewatch.exporter.collector import Exposition
from bubblewatch.model.clock import ManualClock
from bubblewatch.runtime.call_table import TABLE_BYTES, CallTable
from bubblewatch.runtime.hub import Hub
from bubblewatch.runtime.sampler_cost import SamplerCost

SECONDS = 6 * 3600
STEP_S = 120
"""Time between two samples: below the five minutes for which Prometheus takes one as the present."""

WATCHED_S = 60
"""Simulated seconds behind the page, by which its counters are scaled."""

COUNTED = ("_total", "_bucket", "_count", "_sum")
"""Ends of the names of what only grows."""

OLD = {"bubblewatch_server_info": {"version": "0.5.6"}, "bubblewatch_server_settings_info": {"launch": "00000000"}}
"""Labels before the restart."""

RECORDED = {
    "bubblewatch_requests_running": "pipeline:bubblewatch_requests_running:max",
    "bubblewatch_generation_tokens_per_second": "pipeline:bubblewatch_generation_tokens_per_second:max",
}
"""Metric -> the recorded series of the same value; what Prometheus would have recorded had it been there."""


def cost() -> SamplerCost:
    """What the sampler process of a live daemon would tell; its process is played by this one."""
    table = CallTable(memoryview(bytearray(TABLE_BYTES)))
    for latency_ns in (3_000, 4_000, 150_000):
        table.count("nvmlDeviceGetFieldValues", latency_ns)
    return SamplerCost(
        pid=os.getpid(),
        rate_hz=10.0,
        rate_reason="asked for",
        ticks=600,
        late_ticks=3,
        skipped_ticks=1,
        calls=table.read(),
        distinct={"power_instant_w": 4800},
        refresh_s={"any card": {"power_instant_w": 0.1}},
    )


def page(scenario: str, host: str) -> str:
    """The OpenMetrics page of a daemon that has watched this scenario for a minute."""
    clock = ManualClock()
    hub = Hub(clock)
    watcher = simulated_watcher(scenarios()[scenario], clock, rules_in_force(), (), one_shot=False)
    hub.publish(watcher.tick())
    for _ in range(WATCHED_S):
        clock.sleep(1.0)
        hub.publish(watcher.tick())
    exposition = Exposition(hub, "0.1.0", cost, host=host)
    body, _ = exposition.render("application/openmetrics-text")
    return body.decode()


def write_blocks(folder: Path, promtool: str, scenario: str, instance: str, host: str, end_s: float) -> None:
    """Blocks in `folder` that end at `end_s` (Unix time)."""
    text = folder.parent / f"history-{host}.txt"
    with text.open("w") as out:
        for line in _lines(page(scenario, host), instance, f"{host}/sglang-k26", end_s):
            out.write(line)
        out.write("# EOF\n")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _lines(text: str, instance: str, pipeline: str, end_s: float) -> Iterator[str]:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    start_s = end_s - SECONDS
    restart_s = start_s + SECONDS / 2
    for step in range(SECONDS // STEP_S + 1):
        at_s = start_s + step * STEP_S
        is_old = at_s < restart_s
        for sample in samples:
            labels = {**sample.labels, "instance": instance, "job": "bubblewatch"}
            value = float(sample.value)
            if is_old:
                labels |= OLD.get(sample.name, {})
            if sample.name == "bubblewatch_server_restarts_total":
                value = float(not is_old)
            elif sample.name.endswith(COUNTED):
                value *= (at_s - start_s) / WATCHED_S
            yield _line(sample.name, labels, value, at_s)
            if sample.name in RECORDED:
                yield _line(RECORDED[sample.name], {"pipeline": pipeline}, value, at_s)
        yield _line("pipeline:bubblewatch_joules_per_token:ratio", {"pipeline": pipeline}, 14.0, at_s)


def _line(name: str, labels: dict[str, str], value: float, at_s: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value} {at_s:.3f}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
