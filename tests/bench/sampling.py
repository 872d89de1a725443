"""What sampling costs, beside a bare loop in C and beside other monitors; how well it keeps its pace; how it grows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.model.clock import SystemClock
from bubblewatch.runtime.sampler import SamplerProcess
from bubblewatch.runtime.sampler_cost import SamplerCost
from tests.bench import rig as bench
from tests.bench.rig import Rig
from tests.nvml_shim.shim import calls_made

READINGS = ("power_instant_w", "util_ratio")
"""What a distinct reading is, for everyone alike: of power, and of utilization."""
SENSOR_HZ = {"nvmlDeviceGetPowerUsage": 10.0, "nvmlDeviceGetUtilizationRates": 5.0}
"""What each sensor of the feed gives a second: more calls than that read the same again."""
SETTLE_S = 5.0
"""Until the start-up measurement of the sensors is over, in seconds."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one contender took over a while."""

    name: str
    cpu_share: float
    calls_per_s: float
    distinct_per_s: float
    pss_mb: float

    def row(self) -> Sequence[object]:
        us_each = self.cpu_share / self.distinct_per_s * 1e6 if self.distinct_per_s else float("nan")
        return (self.name, 100 * self.cpu_share, self.calls_per_s, self.distinct_per_s, us_each, self.pss_mb)


def calls_of(cost: SamplerCost) -> int:
    return sum(stats.calls for stats in cost.calls.values())


def distinct_of(cost: SamplerCost) -> int:
    return sum(cost.distinct[field] for field in READINGS)


def sampler_cost(host: Rig, rate_hz: float, seconds: float) -> tuple[Cost, float, float]:
    """Our sampler, the rate that it had, and the share of its ticks that were neither late nor left out."""
    sampler = SamplerProcess(SystemClock(), host.environ(), rate_hz)
    try:
        if not sampler.wait(20):
            raise SystemExit(f"the sampler does not start: {sampler.health().detail}")
        time.sleep(SETTLE_S)
        pid = sampler.cost().pid
        assert pid is not None
        before, cpu_before, began = sampler.cost(), bench.cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        after, cpu_after, took_s = sampler.cost(), bench.cpu_s(pid), time.monotonic() - began
        ticks = after.ticks - before.ticks
        missed = after.late_ticks - before.late_ticks + after.skipped_ticks - before.skipped_ticks
        cost = Cost(
            f"bubblewatch sampler, {rate_hz:g} Hz",
            (cpu_after - cpu_before) / took_s,
            (calls_of(after) - calls_of(before)) / took_s,
            (distinct_of(after) - distinct_of(before)) / took_s,
            bench.pss_mb(pid),
        )
        return cost, ticks / took_s, 1 - missed / max(ticks, 1)
    finally:
        sampler.close()


def loop_and_sampler(host: Rig, rate_hz: float, seconds: float) -> tuple[Cost, Cost]:
    """The bare loop in C and our sampler at the same time, so that whatever else runs here is the same for both."""
    with ThreadPoolExecutor(1) as beside:
        loop = beside.submit(loop_cost, host, rate_hz, SETTLE_S + seconds)
        sampler, _, _ = sampler_cost(host, rate_hz, seconds)
        return loop.result(), sampler


def loop_cost(host: Rig, rate_hz: float, seconds: float) -> Cost:
    """The bare loop in C."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "nvml_loop"
        source = Path(__file__).with_name("nvml_loop.c")
        subprocess.run(["cc", "-O2", "-w", "-o", str(program), str(source), "-ldl"], check=True)
        command = [str(program), str(rate_hz), str(seconds)]
        with subprocess.Popen(command, env=host.environ(), stdout=subprocess.PIPE, text=True) as running:
            time.sleep(seconds / 2)
            pss_mb = bench.pss_mb(running.pid)
            said, _ = running.communicate()
    cpu_s, calls, distinct = map(float, said.split())
    return Cost(f"bare C loop, {rate_hz:g} Hz", cpu_s / seconds, calls / seconds, distinct / seconds, pss_mb)


def peers() -> Mapping[str, list[str]]:
    """Other monitors that are installed here, each at its fastest rate -> its command. nvtop draws on a terminal."""
    found: dict[str, list[str]] = {}
    beside = Path(sys.executable).parent

    def program(name: str) -> str | None:
        return str(beside / name) if (beside / name).exists() else shutil.which(name)

    exporter, gpustat, nvtop, script = (program(one) for one in ("nvitop-exporter", "gpustat", "nvtop", "script"))
    if exporter:
        found["nvitop-exporter, 0.25 s"] = [exporter, "--interval", "0.25", "--port", "9797"]
    if gpustat:
        found["gpustat, 0.1 s"] = [gpustat, "--interval", "0.1", "--no-color"]
    if nvtop and script:
        found["nvtop, 0.1 s"] = [script, "-qfc", f"stty rows 50 cols 160; exec {nvtop} -d 1", "/dev/null"]
    return found


def peer_cost(host: Rig, name: str, command: list[str], seconds: float) -> Cost:
    """Another monitor: its calls in one run, its CPU time in another, since counting calls costs time."""
    log = host.folder / "calls"
    log.write_text("")
    environ = {"TERM": "xterm-256color"}
    with bench.running(command, {**host.environ(calls=log), **environ}, SETTLE_S):
        before = calls_made(log)
        time.sleep(seconds)
        made = Counter(dict.fromkeys(SENSOR_HZ, 0))
        for (function, _), count in (calls_made(log) - before).items():
            made[function] += count
    with bench.running(command, {**host.environ(), **environ}, SETTLE_S) as pid:
        pids = [pid, *bench.children(pid)] if "script" in command[0] else [pid]
        worker = pids[-1]
        cpu_before, began = bench.cpu_s(worker), time.monotonic()
        time.sleep(seconds)
        cpu_share = (bench.cpu_s(worker) - cpu_before) / (time.monotonic() - began)
        pss_mb = bench.pss_mb(worker)
    distinct = sum(min(made[function] / seconds, host.gpus * hz) for function, hz in SENSOR_HZ.items())
    return Cost(name, cpu_share, sum(made.values()) / seconds, distinct, pss_mb)


HEAD = ("8 GPUs", "% of a core", "calls/s", "distinct/s", "us CPU per distinct", "PSS MB")


def costs(seconds: float) -> None:
    """The table of costs."""
    with bench.rig(8) as host:
        rows: list[Cost] = []
        for rate_hz in (10.0, 100.0):
            rows += loop_and_sampler(host, rate_hz, seconds)
        found = peers()
        rows += [peer_cost(host, name, command, seconds) for name, command in found.items()]
    bench.table("CPU and memory (driver calls cost nothing here)", HEAD, [row.row() for row in rows])
    print("  distinct: new readings of power and of utilization, of which the feed has 10 and 5 a second a GPU")
    for name in ("nvitop-exporter", "gpustat", "nvtop"):
        if not any(known.startswith(name) for known in found):
            print(f"  {name} is not installed here: left out")


def jitter(seconds: float) -> None:
    """How late the ticks are, alone and beside processes that compute."""
    cores = os.cpu_count() or 1
    rows = []
    with bench.rig(8) as host:
        for rate_hz in (10.0, 100.0, 1000.0):
            for load in (0, cores):
                with bench.busy(load):
                    command = [sys.executable, "-m", "tests.bench.jitter_child", str(rate_hz), str(seconds)]
                    said = subprocess.run(
                        command, env=host.environ(), cwd=bench.ROOT, capture_output=True, text=True, check=True
                    ).stdout
                p50, p99, worst, kept = map(float, said.split())
                rows.append((f"{rate_hz:g} Hz, {load} busy processes", p50, p99, worst, 100 * kept))
    head = (f"8 GPUs, {cores} cores", "late p50 ms", "p99 ms", "worst ms", "% of ticks kept")
    bench.table("Pace: how long after its deadline a tick begins", head, rows)
    print("  kept: begun within half a period of their deadline")


def growth(seconds: float) -> None:
    """How cost grows with GPUs and rate."""
    rows = []
    for gpus in (1, 8, 64):
        with bench.rig(gpus) as host:
            for rate_hz in (10.0, 100.0, 1000.0):
                cost, reached_hz, kept = sampler_cost(host, rate_hz, seconds)
                us_each = cost.cpu_share / max(cost.distinct_per_s, 1e-9) * 1e6
                rows.append(
                    (f"{gpus} GPUs, {rate_hz:g} Hz", reached_hz, 100 * cost.cpu_share, cost.calls_per_s,
                     cost.distinct_per_s, us_each, 100 * kept, cost.pss_mb)
                )  # fmt: skip
    head = ("asked", "Hz reached", "% of a core", "calls/s", "distinct/s", "us per distinct", "% kept", "PSS MB")
    bench.table("Growth (the governor holds driver calls to 2 % of the time)", head, rows)


def memory(seconds: float) -> None:
    """The daemon and its sampler together."""
    with bench.rig(8) as host:
        command = [sys.executable, "-m", "bubblewatch", "run", "--listen", "127.0.0.1:9798"]
        with bench.running(command, host.environ(), SETTLE_S) as pid:
            samplers = [one for one in bench.children(pid) if "sampler_child" in bench.command_of(one)]
            began, cpu_before = time.monotonic(), {one: bench.cpu_s(one) for one in (pid, *samplers)}
            time.sleep(seconds)
            took_s = time.monotonic() - began
            rows = [
                ("daemon" if one == pid else "sampler", bench.pss_mb(one), 100 * (bench.cpu_s(one) - before) / took_s)
                for one, before in cpu_before.items()
            ]
    rows.append(("together", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    bench.table("bubblewatch run, 8 GPUs, default rate, no server", ("", "PSS MB", "% of a core"), rows)


def soak(seconds: float) -> None:
    """Memory and pace of the sampler over a long run."""
    rows = []
    with bench.rig(8) as host:
        sampler = SamplerProcess(SystemClock(), host.environ())
        try:
            sampler.wait(20)
            began = time.monotonic()
            for part in range(7):
                time.sleep(max(began + part * seconds / 6 - time.monotonic(), 0))
                cost = sampler.cost()
                sampler.window(time.monotonic_ns() - 30 * 10**9)
                assert cost.pid is not None
                rows.append(
                    (f"{time.monotonic() - began:.0f} s", bench.pss_mb(cost.pid), cost.ticks, cost.late_ticks,
                     cost.skipped_ticks, distinct_of(cost))
                )  # fmt: skip
        finally:
            sampler.close()
    bench.table("Soak, 8 GPUs, default rate", ("after", "PSS MB", "ticks", "late", "left out", "distinct"), rows)
