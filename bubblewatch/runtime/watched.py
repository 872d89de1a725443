"""One GPU under watch: what is due, what becomes of the answers, and what happens when it does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import SourceError, SourceLost
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.pace import Cadence, DriverClock, Refresh
from bubblewatch.runtime.recorder import Gate, Recorder, ceiling_w
from bubblewatch.runtime.sampler_status import Failure
from bubblewatch.runtime.shared_ring import SharedPage

UTIL_NS = 200_000_000
"""Utilization is read five times a second: no known driver refreshes it faster than every 167 ms."""
SAMPLES_NS = NS
"""The driver's own samples of it are drained once a second; it keeps ten seconds."""
SLOW_NS = NS
"""Clocks, memory, temperature, link and SM activity are read once a second."""
RETRY_LOST_NS = 10 * NS
"""A GPU that is lost is asked again this often: it may have been reset."""
RETRY_FIRST_NS = NS
"""One that failed otherwise is asked again after this long at first, then after twice as long each time."""

Samples = Mapping[str, tuple[tuple[int, float], ...]]


class Sensors(Protocol):
    """One GPU as the loop asks it. `bubblewatch.sources.nvml_device.Device` is the real one."""

    info: GpuInfo
    unsupported: dict[str, str]
    notes: list[str]

    def read_fast(self) -> Mapping[str, float]: ...

    def read_util(self) -> Mapping[str, float]: ...

    def read_samples(self) -> Samples: ...

    def read_slow(self) -> Mapping[str, float]: ...

    def processes(self) -> tuple[tuple[int, int | None], ...]: ...

    def refresh(self) -> None: ...


class Watched:
    """Asks one GPU and stores its answers. `failure` says why it does not answer now, None when it does.

    While `is_measured`, `refresh` takes note of every change of its sensors.
    """

    def __init__(self, sensors: Sensors, page: SharedPage, position: int, clock: Clock, slow_first_ns: int) -> None:
        self.sensors = sensors
        self.failure: Failure | None = None
        self._clock = clock
        whole_module = any("module" in note for note in sensors.notes)
        self._recorder = Recorder(page, position, Gate(ceiling_w(sensors.info, whole_module=whole_module)))
        now_ns = clock.monotonic_ns()
        self._util = Cadence(UTIL_NS, now_ns)
        self._samples = Cadence(SAMPLES_NS, slow_first_ns)
        self._slow = Cadence(SLOW_NS, slow_first_ns)
        self._driver_clock = DriverClock()
        self._samples_speak = False
        self._retry_ns = 0
        self._pause_ns = RETRY_FIRST_NS
        self.refresh = Refresh()
        self.is_measured = False

    def ask(self, slack_ns: int) -> None:
        """Ask what is due. Never raises for a GPU that fails: it is unknown from then on, and asked again later."""
        now_ns = self._clock.monotonic_ns()
        if self.failure is not None and now_ns < self._retry_ns:
            return
        try:
            self._store(self.sensors.read_fast())
            self._ask_util(now_ns, slack_ns)
            if self._slow.is_due(now_ns, slack_ns):
                self._store(self.sensors.read_slow())
        except SourceError as error:
            self._fail(error)
        else:
            self.failure, self._pause_ns = None, RETRY_FIRST_NS

    def burst(self) -> None:
        """Ask for power and utilization alone."""
        try:
            values = self.sensors.read_fast()
            if not self._samples_speak:
                values = {**values, **self.sensors.read_util()}
        except SourceError as error:
            self._fail(error)
            return
        self._store(values)

    def _ask_util(self, now_ns: int, slack_ns: int) -> None:
        """Utilization by the driver's own samples; by the plain call while it has none."""
        if self._samples.is_due(now_ns, slack_ns):
            self._store_samples(self.sensors.read_samples())
        if not self._samples_speak and self._util.is_due(now_ns, slack_ns):
            self._store(self.sensors.read_util())

    def _store_samples(self, drained: Samples) -> None:
        self._samples_speak = bool(drained)
        if not drained:
            return
        now_ns = self._clock.monotonic_ns()
        self._driver_clock.saw(now_ns, max(samples[-1][0] for samples in drained.values()))
        for field, samples in drained.items():
            self.refresh.saw_samples(field, tuple(at_us for at_us, _ in samples))
            ours = [(self._driver_clock.ours_ns(at_us), value) for at_us, value in samples]
            self._recorder.store_samples(field, ours)

    def _store(self, values: Mapping[str, float]) -> None:
        now_ns = self._clock.monotonic_ns()
        self._recorder.store(now_ns, values)
        if self.is_measured:
            self.refresh.saw(now_ns, values)

    def _fail(self, error: SourceError) -> None:
        now_ns = self._clock.monotonic_ns()
        self.failure = Failure.of(error)
        pause_ns = RETRY_LOST_NS if isinstance(error, SourceLost) else self._pause_ns
        self._retry_ns = now_ns + pause_ns
        self._pause_ns = min(self._pause_ns * 2, RETRY_LOST_NS)
        self._recorder.store_silence(now_ns)
