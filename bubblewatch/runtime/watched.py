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
        self.index = sensors.info.index
        self.failure: Failure | None = None
        self._clock = clock
        whole_module = any("module" in note for note in sensors.notes)
        self._recorder = Recorder(page, position, Gate(ceiling_w(sensors.info, whole_module=whole_module)))
        now_ns = clock.monotonic_ns()
        self._util = Cadence(UTIL_NS, now_ns)
        self._samples = Cadence(SAMPLES_NS, slow_first_ns)
        self._slow = Cadence(SLOW_NS, slow_first_ns)
        self._due_ns = 0
        self._driver_clock = DriverClock()
        self._samples_speak = False
        self._retry_ns = 0
        self._pause_ns = RETRY_FIRST_NS
        self.refresh = Refresh()
        self.is_measured = False

    def ask(self, now_ns: int, slack_ns: int) -> int:
        """Ask what is due now, and say when the last answer came.

        Never raises for a GPU that fails: it is unknown from then on, and asked again later.
        """
        if self.failure is not None and now_ns < self._retry_ns:
            return now_ns
        try:
            answered_ns = self._store(self.sensors.read_fast())
            if now_ns + slack_ns >= self._due_ns:
                answered_ns = self._ask_more(now_ns, slack_ns)
        except SourceError as error:
            return self._fail(error)
        if self.failure is not None:
            self.failure, self._pause_ns = None, RETRY_FIRST_NS
        return answered_ns

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

    def _ask_more(self, now_ns: int, slack_ns: int) -> int:
        """What is not due at each tick. Utilization by the driver's samples, by the plain call while it has none."""
        if self._samples.is_due(now_ns, slack_ns):
            self._store_samples(self.sensors.read_samples())
        if not self._samples_speak and self._util.is_due(now_ns, slack_ns):
            self._store(self.sensors.read_util())
        if self._slow.is_due(now_ns, slack_ns):
            self._store(self.sensors.read_slow())
        self._due_ns = min(self._samples.next_ns, self._slow.next_ns)
        if not self._samples_speak:
            self._due_ns = min(self._due_ns, self._util.next_ns)
        return self._clock.monotonic_ns()

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

    def _store(self, values: Mapping[str, float]) -> int:
        now_ns = self._clock.monotonic_ns()
        self._recorder.store(now_ns, values)
        if self.is_measured:
            self.refresh.saw(now_ns, values)
        return now_ns

    def _fail(self, error: SourceError) -> int:
        now_ns = self._clock.monotonic_ns()
        self.failure = Failure.of(error)
        pause_ns = RETRY_LOST_NS if isinstance(error, SourceLost) else self._pause_ns
        self._retry_ns = now_ns + pause_ns
        self._pause_ns = min(self._pause_ns * 2, RETRY_LOST_NS)
        self._recorder.store_silence(now_ns)
        return now_ns
