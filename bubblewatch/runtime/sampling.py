"""The sampling loop: absolute deadlines, distinct readings into the rings, and a governor for slow drivers.

It runs in the sampler process (sampler_child.py) and nowhere else: beside other Python work a 10 Hz tick moves by
16 ms at the median, and the gaps that this program looks for are 50 to 250 ms long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import SourceError, SourceLost
from bubblewatch.model.telemetry import FIELDS, GpuInfo
from bubblewatch.runtime.sampler_status import Processes, Status
from bubblewatch.runtime.shared_ring import Ring, SharedPage, Word

KEEP_NS = 750_000_000
"""A value that repeats is stored again after this long: late ticks included, no second is without a reading."""
UTIL_NS = 200_000_000
"""Utilization is read five times a second: no known driver refreshes it faster than every 167 ms."""
SLOW_NS = NS
"""Clocks, memory, temperature, link and SM activity are read once a second."""
PROCESSES_NS = 30 * NS
"""Who uses a GPU, and its power limit: a list call takes milliseconds (4.5 ms seen on a laptop RTX 4090)."""
RETRY_LOST_NS = 10 * NS
"""A GPU that is lost is asked again this often: it may have been reset."""
GOVERNOR_NS = 2 * NS
"""The cost of the calls is judged over this long."""
BUDGET = 0.02
"""Share of the time that driver calls may take: 2 % of one core, and of the driver's lock, which the server needs."""
SLOWEST_NS = 5 * NS
"""The governor never goes below one tick in five seconds."""


class Sensors(Protocol):
    """One GPU as the loop asks it. `bubblewatch.sources.nvml_device.Device` is the real one."""

    info: GpuInfo
    unsupported: dict[str, str]
    notes: list[str]

    def read_fast(self) -> Mapping[str, float]: ...

    def read_util(self) -> Mapping[str, float]: ...

    def read_slow(self) -> Mapping[str, float]: ...

    def processes(self) -> tuple[tuple[int, int | None], ...]: ...

    def refresh_limits(self) -> None: ...


class Recorder:
    """Stores one GPU's readings: each change, and a repeat when the last one stored is KEEP_NS old."""

    def __init__(self, page: SharedPage, gpu: int) -> None:
        self._rings: dict[str, Ring] = {field: page.ring(gpu, field) for field in FIELDS}
        self._last: dict[str, tuple[int, float]] = {}

    def store(self, time_ns: int, values: Mapping[str, float]) -> None:
        for field, value in values.items():
            last_ns, last = self._last.get(field, (0, math.inf))
            repeats = value == last or (math.isnan(value) and math.isnan(last))
            if not repeats or time_ns - last_ns >= KEEP_NS:
                self._rings[field].push(time_ns, value)
                self._last[field] = (time_ns, value)

    def store_silence(self, time_ns: int) -> None:
        """Every field that was ever delivered is unknown from now on."""
        self.store(time_ns, dict.fromkeys(self._last, math.nan))


class Cadence:
    """Says when something that happens every so often is due, without drifting."""

    def __init__(self, every_ns: int, first_ns: int) -> None:
        self._every_ns = every_ns
        self._next_ns = first_ns

    def is_due(self, now_ns: int, slack_ns: int = 0) -> bool:
        """Whether it is due, at most `slack_ns` too early; asking counts as doing it."""
        if now_ns + slack_ns < self._next_ns:
            return False
        self._next_ns += self._every_ns
        if self._next_ns <= now_ns:
            self._next_ns = now_ns + self._every_ns
        return True


def governed_period_ns(period_ns: int, wished_ns: int, share: float) -> int:
    """The period with which calls that took `share` of the time at `period_ns` take BUDGET at most.

    Never shorter than `wished_ns`; changes by a factor of 4 at most, so that one stall does not silence the sampler.
    """
    fitting = period_ns * share / BUDGET
    return round(min(max(fitting, period_ns / 4, wished_ns), period_ns * 4, max(SLOWEST_NS, wished_ns)))


class _Watched:
    """One GPU with its recorder and cadences."""

    def __init__(self, sensors: Sensors, recorder: Recorder, slow_first_ns: int, now_ns: int) -> None:
        self.sensors = sensors
        self.recorder = recorder
        self.util = Cadence(UTIL_NS, now_ns)
        self.slow = Cadence(SLOW_NS, slow_first_ns)
        self.lost: str | None = None
        self.retry_ns = 0


class SamplingLoop:
    """Reads GPUs at a rate into a shared page, and tells its status there. `base` is what of it does not change."""

    def __init__(
        self, devices: Sequence[Sensors], page: SharedPage, clock: Clock, rate_hz: float, base: Status
    ) -> None:
        self._page = page
        self._clock = clock
        self._base = base
        self._wished_ns = round(NS / rate_hz)
        self._period_ns = self._wished_ns
        now_ns = clock.monotonic_ns()
        self._next_ns = now_ns
        # The once-a-second calls of the GPUs are spread over the second, so that no tick has them all.
        self._watched = [
            _Watched(device, Recorder(page, at), now_ns + at * SLOW_NS // len(devices), now_ns)
            for at, device in enumerate(devices)
        ]
        self._housekeeping = Cadence(PROCESSES_NS, now_ns)
        self._processes: Processes = {}
        self._told: Status | None = None
        self._judged_ns = now_ns
        self._judged_call_ns = page.get(Word.CALL_NS)
        page.set(Word.BEGAN_NS, now_ns)

    def run(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Tick at every deadline while `goes_on`."""
        while goes_on():
            self.wait()
            self.tick()

    def wait(self) -> None:
        """Return at the next deadline. Deadlines that went by are counted and dropped, never caught up with."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._next_ns:
            self._clock.sleep((self._next_ns - now_ns) / NS)
            now_ns = self._clock.monotonic_ns()
        late_ns = now_ns - self._next_ns
        skipped = max(0, late_ns // self._period_ns)
        self._add(Word.SKIPPED_TICKS, skipped)
        self._add(Word.LATE_TICKS, int(late_ns > self._period_ns // 2))
        self._next_ns += (skipped + 1) * self._period_ns

    def tick(self) -> None:
        """Ask every GPU once."""
        for position, watched in enumerate(self._watched):
            self._page.set(Word.BUSY_GPU, position + 1)
            self._ask(watched)
            self._beat()
        now_ns = self._beat()
        if self._housekeeping.is_due(now_ns):
            self._keep_house()
        self._page.set(Word.BUSY_GPU, 0)
        self._page.set(Word.PERIOD_NS, self._period_ns)
        self._tell()
        self._add(Word.TICKS, 1)
        if now_ns - self._judged_ns >= GOVERNOR_NS:
            self._govern(now_ns)

    def _beat(self) -> int:
        """Leave a sign of life, and say when that was."""
        now_ns = self._clock.monotonic_ns()
        self._page.set(Word.HEARTBEAT_NS, now_ns)
        return now_ns

    def _ask(self, watched: _Watched) -> None:
        now_ns = self._clock.monotonic_ns()
        if watched.lost is not None and now_ns < watched.retry_ns:
            return
        slack_ns = self._period_ns // 2
        try:
            self._store(watched, watched.sensors.read_fast())
            if watched.util.is_due(now_ns, slack_ns):
                self._store(watched, watched.sensors.read_util())
            if watched.slow.is_due(now_ns, slack_ns):
                self._store(watched, watched.sensors.read_slow())
            watched.lost = None
        except SourceLost as error:
            watched.lost = str(error)
            watched.retry_ns = now_ns + RETRY_LOST_NS
            watched.recorder.store_silence(self._clock.monotonic_ns())

    def _store(self, watched: _Watched, values: Mapping[str, float]) -> None:
        watched.recorder.store(self._clock.monotonic_ns(), values)

    def _keep_house(self) -> None:
        processes: dict[str, tuple[tuple[int, int | None], ...]] = {}
        for position, watched in enumerate(self._watched):
            if watched.lost is not None:
                continue
            self._page.set(Word.BUSY_GPU, position + 1)
            try:
                processes[watched.sensors.info.uuid] = watched.sensors.processes()
                watched.sensors.refresh_limits()
            except SourceError:
                continue  # no list this time: the uuid is absent, which is not "no process"
            self._beat()
        self._processes = processes

    def _tell(self) -> None:
        """Publish the status when it is news. Compared by value: ten times a second costs microseconds."""
        sensors = [watched.sensors for watched in self._watched]
        status = Status(
            driver_version=self._base.driver_version,
            gpus=tuple(one.info for one in sensors),
            absent=self._base.absent,
            lost={watched.sensors.info.uuid: watched.lost for watched in self._watched if watched.lost is not None},
            unsupported={one.info.uuid: dict(one.unsupported) for one in sensors if one.unsupported},
            notes={one.info.uuid: tuple(one.notes) for one in sensors if one.notes},
            processes=self._processes,
        )
        if status != self._told:
            self._page.publish(status.encode())
            self._told = status

    def _govern(self, now_ns: int) -> None:
        call_ns = self._page.get(Word.CALL_NS)
        share = (call_ns - self._judged_call_ns) / (now_ns - self._judged_ns)
        self._period_ns = governed_period_ns(self._period_ns, self._wished_ns, share)
        self._judged_ns, self._judged_call_ns = now_ns, call_ns

    def _add(self, word: Word, amount: int) -> None:
        self._page.set(word, self._page.get(word) + amount)
