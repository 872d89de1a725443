"""A simulated host with eight GPUs and one SGLang, behind the same protocols as a real one.

Everything that it shows is a function of the scenario and of the time since the server's start, so that a run on a
`ManualClock` is the same every time. The host was started some minutes before it is constructed: the start-up lines lie
in the past. Its objects belong to one thread; `sensor_state` may be called from any.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import ProcessSeen
from bubblewatch.model.server import Epoch, Launch
from bubblewatch.model.telemetry import GpuInfo, GpuReading, Series, Telemetry
from bubblewatch.sources.simulated_gpus import PERIOD_S, GpuSensors, gpu_info
from bubblewatch.sources.simulated_load import Load
from bubblewatch.sources.simulated_scenarios import SCENARIOS, Expect, Scenario
from bubblewatch.sources.simulated_sglang import SglangLog
from bubblewatch.sources.simulated_startup import MAIN_PID, PORT, UNIT, VERSION, argv, worker_titles

__all__ = ["SCENARIOS", "Expect", "Scenario", "SimulatedHost"]

RING_S = 600.0
"""Seconds of readings that are kept, as the sampler's ring does."""

HEARTBEAT_S = 1.0
"""A value that does not change is kept once in this many seconds."""

_BOOT = "5171a7ed-0000-4000-8000-000000000001"
_WORKER_PIDS = MAIN_PID + 200
_START_TICKS = 25_920_000
"""When the server started, in clock ticks since boot: after three days at 100 a second."""


@dataclass(frozen=True, slots=True)
class _Times:
    """How host time, in seconds since the server's start, lies on the clock."""

    clock: Clock
    origin_ns: int
    wall_offset_ns: int

    def now_s(self) -> float:
        return self.host_s(self.clock.monotonic_ns())

    def host_s(self, monotonic_ns: int) -> float:
        return (monotonic_ns - self.origin_ns) / NS

    def monotonic_ns(self, host_s: float) -> int:
        return self.origin_ns + round(host_s * NS)

    def wall_ns(self, host_s: float) -> int:
        return self.monotonic_ns(host_s) + self.wall_offset_ns


class SimulatedHost:
    """The host of one scenario. `telemetry`, `processes` and `log` play the parts that `model/protocols` names."""

    def __init__(self, scenario: Scenario, clock: Clock) -> None:
        now_ns = clock.monotonic_ns()
        times = _Times(clock, now_ns - round(scenario.up_s * NS), clock.wall_ns() - now_ns)
        load = Load(scenario)
        self.scenario = scenario
        self.gpus: tuple[GpuInfo, ...] = tuple(gpu_info(index) for index in range(scenario.gpus))
        self._times = times
        self._sensors = tuple(GpuSensors(load, index) for index in range(scenario.gpus))
        self._printed = SglangLog(load)
        self.telemetry = SimulatedTelemetry(self.gpus, self._sensors, times)
        self.processes = SimulatedProcesses(scenario, self.gpus, load, times)

    def log(self, unit_or_key: str) -> SimulatedLog:
        """The log of the server with this unit or key, from its start. SourceUnavailable for any other name."""
        if unit_or_key.removesuffix(".service") != UNIT.removesuffix(".service"):
            raise SourceUnavailable(f"the simulated host has no unit {unit_or_key}", f"its server is {UNIT}")
        return SimulatedLog(self._printed, self._times)

    def sensor_state(self, gpu_index: int, time_ns: int) -> Mapping[str, float]:
        """What each sensor of a GPU shows at a moment of the host's monotonic clock, by the names of `FIELDS`."""
        sensors, at_s = self._sensors[gpu_index], self._times.host_s(time_ns)
        return {name: sensors.shown(name, sensors.refresh(name, at_s)) for name in PERIOD_S}


@dataclass(slots=True)
class _Recording:
    """Distinct readings of one field so far, as a sampler keeps them."""

    next_refresh: int
    times_ns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, time_ns: int, value: float) -> None:
        is_due = not self.times_ns or time_ns - self.times_ns[-1] >= HEARTBEAT_S * NS
        if (is_due or value != self.values[-1]) and (not self.times_ns or time_ns > self.times_ns[-1]):
            self.times_ns.append(time_ns)
            self.values.append(value)

    def drop_before(self, time_ns: int) -> None:
        first = bisect.bisect_left(self.times_ns, time_ns)
        del self.times_ns[:first], self.values[:first]


class SimulatedTelemetry:
    """Readings of the simulated GPUs from the moment of construction on: a `TelemetrySource`."""

    def __init__(self, gpus: Sequence[GpuInfo], sensors: Sequence[GpuSensors], times: _Times) -> None:
        self._gpus = gpus
        self._sensors = sensors
        self._times = times
        self._begun_ns = times.clock.monotonic_ns()
        begun_s = times.host_s(self._begun_ns)
        self._kept = [{name: _Recording(s.refresh(name, begun_s)) for name in PERIOD_S} for s in sensors]
        self._reads = 0

    def window(self, since_ns: int) -> Telemetry:
        """Readings from `since_ns` to now; at most the last ten minutes, and none from before the construction."""
        now_ns = self._times.clock.monotonic_ns()
        self._record(now_ns)
        start_ns = max(since_ns, self._begun_ns, now_ns - round(RING_S * NS))
        readings = tuple(
            GpuReading(gpu, {name: _cut(kept, start_ns) for name, kept in fields.items()})
            for gpu, fields in zip(self._gpus, self._kept, strict=True)
        )
        return Telemetry(readings, start_ns, now_ns, self._times.wall_offset_ns)

    def _record(self, now_ns: int) -> None:
        oldest_ns = now_ns - round(RING_S * NS)
        now_s, oldest_s = self._times.host_s(now_ns), self._times.host_s(oldest_ns)
        for sensors, fields in zip(self._sensors, self._kept, strict=True):
            for name, kept in fields.items():
                last = sensors.refresh(name, now_s)
                for number in range(max(kept.next_refresh, sensors.refresh(name, oldest_s)), last + 1):
                    at_ns = max(self._times.monotonic_ns(sensors.refresh_s(name, number)), self._begun_ns)
                    kept.add(at_ns, sensors.shown(name, number))
                    self._reads += 1
                kept.next_refresh = max(last + 1, kept.next_refresh)
                kept.drop_before(oldest_ns)

    def health(self) -> SourceHealth:
        detail = f"{len(self._gpus)} simulated GPUs, 10 readings a second, SM activity once a second"
        return SourceHealth("telemetry", Health.OK, detail, read_count=self._reads)

    def close(self) -> None:
        """Nothing is held."""


def _cut(kept: _Recording, start_ns: int) -> Series:
    """The readings from `start_ns` on, beginning with the one that held then."""
    first = max(bisect.bisect_right(kept.times_ns, start_ns) - 1, 0)
    times_ns = tuple(max(at_ns, start_ns) for at_ns in kept.times_ns[first:])
    return Series(times_ns, tuple(kept.values[first:]))


class SimulatedProcesses:
    """The one server process of the host: a `ProcessSource`."""

    def __init__(self, scenario: Scenario, gpus: Sequence[GpuInfo], load: Load, times: _Times) -> None:
        self._scenario = scenario
        self._gpus = gpus
        self._load = load
        self._times = times

    def scan(self) -> Sequence[ProcessSeen]:
        """The main process as it is now, with its open connections."""
        words = argv(self._scenario)
        uuids = (gpu.uuid for gpu in self._gpus)
        seen = ProcessSeen(
            pid=MAIN_PID,
            epoch=Epoch(_BOOT, MAIN_PID, _START_TICKS),
            launch=Launch(words, _environment(self._scenario), f"pid {MAIN_PID}"),
            title=" ".join(words),
            unit=UNIT,
            port=PORT,
            connections=self._load.connections(self._times.now_s()),
            version_hint=VERSION,
            workers=dict(zip(uuids, worker_titles(self._scenario), strict=True)),
        )
        return (seen,)

    def health(self) -> SourceHealth:
        return SourceHealth("processes", Health.OK, "1 simulated server", read_count=1)


def _environment(scenario: Scenario) -> Mapping[str, str]:
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in range(scenario.gpus))}
    if "/health" in scenario.probe_paths:
        # without it each /health of an idle server runs a one-token request (0.5.6 and later)
        visible["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] = "false"
    return visible


class SimulatedLog:
    """The server's lines since its start: a `LogSource` with its own place in the log."""

    def __init__(self, printed: SglangLog, times: _Times) -> None:
        self._printed = printed
        self._times = times
        self._read_s = -1.0
        self._count = 0

    def read(self) -> Sequence[LogLine]:
        """Lines that came since the last call; the first call gives all since the start-up."""
        now_s = self._times.now_s()
        lines = []
        for line in self._printed.between(self._read_s, now_s):
            wall_ns = self._times.wall_ns(line.at_s)
            self._count += 1
            lines.append(
                LogLine(
                    text=line.text(wall_ns),
                    time_ns=wall_ns,
                    time_exact=True,
                    source="journal",
                    unit=UNIT,
                    pid=MAIN_PID if line.rank is None else _WORKER_PIDS + line.rank,
                    cursor=f"simulated:{self._count}",
                    number=self._count,
                )
            )
        self._read_s = now_s
        return lines

    def health(self) -> SourceHealth:
        return SourceHealth("journal", Health.OK, f"{UNIT}, simulated, {self._count} lines", read_count=self._count)

    def close(self) -> None:
        """Nothing is held."""
