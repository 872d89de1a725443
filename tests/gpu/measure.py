"""Measures a real GPU: what its sensors refresh at and cost, and how well duties are read off them.

    python -m tests.gpu.measure --output FOLDER [--seconds S] [--gpu INDEX]

Needs an NVIDIA GPU, its driver and PyTorch; ten minutes. It was written without a GPU at hand and has never been run:
take its first results with care. It answers, in this order, what is open about today's sensors:

1. refresh period and call latency of each field (is the 500 ms page of workstation boards seen?);
2. whether the 1 s average of power covers all of the time: square waves at 104 ms must read flat, and by the energy
   counter too;
3. power, memory utilization and SM activity of a kernel that spins, against idle with a context and against work;
4. whether SM activity can be had by this user;
5. duties by each basis against CUDA events, for waves of several periods, decode steps with and without CUDA graphs.

FOLDER gets `results.json`, and the readings of each load as `KIND.json`, small enough to be test data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bubblewatch.model.clock import NS, SystemClock
from bubblewatch.model.telemetry import GpuReading, Telemetry
from bubblewatch.runtime.sampler import SamplerProcess
from bubblewatch.signals import series
from tests.bench.rig import ROOT, table

WAVES = [(period_ms, duty) for period_ms in (50, 104, 200, 400, 1000) for duty in (0.1, 0.5, 0.9)]
FIELDS = ("util_ratio", "mem_util_ratio", "sm_active_ratio", "power_instant_w", "power_average_w")
RISE_S = 1.5
"""Until the 1 s average of power has risen, in seconds."""


def loads(seconds: float) -> Sequence[tuple[str, list[str]]]:
    """(name, arguments of loads.py) of every load."""
    waves = [
        (f"wave-{period_ms}ms-{duty:g}", ["wave", str(seconds), str(period_ms), str(duty)]) for period_ms, duty in WAVES
    ]
    return [*waves, *((kind, [kind, str(seconds)]) for kind in ("decode", "graph", "spin"))]


def run_load(arguments: list[str], gpu: int) -> Mapping[str, Any]:
    """What the load said of itself when it was done."""
    command = [sys.executable, "-m", "tests.gpu.loads", *arguments]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def means(reading: GpuReading, end_ns: int) -> Mapping[str, float | None]:
    """Time-weighted mean of each field, and the power by the energy counter."""
    found = {name: series.mean(reading.series[name], end_ns) for name in FIELDS if name in reading.series}
    energy = reading.series.get("energy_j")
    return {**found, "power_by_energy_w": series.rate(energy) if energy else None}


def between(telemetry: Telemetry, start_ns: int, end_ns: int) -> Telemetry:
    """The part of the readings that lies in this time."""
    kept = []
    for gpu in telemetry.gpus:
        parts = {}
        for name, one in gpu.series.items():
            pairs = [(at, value) for at, value in zip(one.times_ns, one.values, strict=True) if start_ns <= at < end_ns]
            parts[name] = type(one)([at for at, _ in pairs], [value for _, value in pairs])
        kept.append(GpuReading(gpu.gpu, parts))
    return Telemetry(tuple(kept), start_ns, end_ns, telemetry.wall_offset_ns)


def recording(telemetry: Telemetry, truth: Mapping[str, Any]) -> Mapping[str, Any]:
    """Readings and truth as plain JSON, times in ms from the start."""
    (reading,) = telemetry.gpus
    rows = {
        name: [
            [round((at - telemetry.start_ns) / 1e6, 1), value]
            for at, value in zip(one.times_ns, one.values, strict=True)
        ]
        for name, one in reading.series.items()
    }
    return {"gpu": reading.gpu.name, "power_limit_w": reading.gpu.power_limit_w, "truth": dict(truth), "series": rows}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.measure", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gpu", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    sampler = SamplerProcess(SystemClock(), os.environ, 50.0, only=[str(options.gpu)])
    if not sampler.wait(30):
        raise SystemExit(str(sampler.health()))
    time.sleep(4)  # the start-up measurement takes two
    results: dict[str, Any] = {"health": sampler.health().detail, "unsupported": dict(sampler.unsupported), "loads": {}}
    print(results["health"], results["unsupported"], sep="\n")
    rows = []
    for name, arguments in [("idle", []), *loads(options.seconds)]:
        if arguments:
            truth = run_load(arguments, options.gpu)
        else:
            began_s = time.monotonic()
            time.sleep(options.seconds)
            truth = {"kind": "idle", "duty": 0.0, "began_s": began_s, "took_s": options.seconds}
        start_ns = round((truth["began_s"] + RISE_S) * NS)
        end_ns = round((truth["began_s"] + truth["took_s"]) * NS)
        telemetry = between(sampler.window(start_ns), start_ns, end_ns)
        found = means(telemetry.gpus[0], end_ns)
        results["loads"][name] = {"truth": truth, "means": found}
        (options.output / f"{name}.json").write_text(json.dumps(recording(telemetry, truth)))
        rows.append((name, truth["duty"], *(found.get(field) for field in (*FIELDS, "power_by_energy_w"))))
    cost = sampler.cost()
    results["calls"] = {
        function: {"calls": stats.calls, "p50_s": stats.quantile_s(0.5), "p99_s": stats.quantile_s(0.99)}
        for function, stats in cost.calls.items()
    }
    results["refresh_s"] = {model: dict(periods) for model, periods in cost.refresh_s.items()}
    sampler.close()
    (options.output / "results.json").write_text(json.dumps(results, indent=1))
    table("Duties and sensors", ("load", "true duty", *FIELDS, "power_by_energy_w"), rows)
    latencies = [
        (function, one["calls"], one["p50_s"] * 1e6, one["p99_s"] * 1e6) for function, one in results["calls"].items()
    ]
    table("Calls", ("function", "calls", "p50 us", "p99 us"), latencies)


if __name__ == "__main__":
    main()
