"""The sampling loop: absolute deadlines, a start-up measurement of the sensors, and a governor for slow drivers.

It runs in the sampler process (sampler_child.py) and nowhere else: beside other Python work a 10 Hz tick moves by
16 ms at the median, and the gaps that this program looks for are 50 to 250 ms long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import SourceError
from bubblewatch.runtime.pace import (
    BURST_BUDGET,
    BURST_FOR_NS,
    BURST_NS,
    DEFAULT_HZ,
    Cadence,
    chosen_rate_hz,
    governed_period_ns,
)
from bubblewatch.runtime.sampler_status import Failure, Processes, Status
from bubblewatch.runtime.shared_ring import AUTOMATIC_HZ, SharedPage, Word
from bubblewatch.runtime.watched import SLOW_NS, Sensors, Watched

PROCESSES_NS = 30 * NS
"""Who uses a GPU, and its power limit: a list call takes milliseconds (4.5 ms seen on a laptop RTX 4090)."""
NEWS_NS = NS
"""The status is told this often when there is something new in it, and at once when a GPU fails or is back."""
GOVERNOR_NS = 2 * NS
"""The cost of the calls is judged over this long."""
FOREIGN_PIDS = "its processes belong to another pid namespace: run with --pid=host to see whose they are"

SLOWED = "slowed down: the driver's answers would take more than 2 % of the time"

AllForeign = Callable[[Iterable[int]], bool]
"""Whether none of these processes can be seen from here."""


class SamplingLoop:
    """Reads GPUs at a rate into a shared page, and tells its status there. `base` is what of it does not change.

    `rate_hz` None begins with DEFAULT_HZ and takes what the sensors turn out to refresh at.
    """

    def __init__(
        self,
        devices: Sequence[Sensors],
        page: SharedPage,
        clock: Clock,
        rate_hz: float | None,
        base: Status,
        all_foreign: AllForeign = lambda _: False,
    ) -> None:
        self._page = page
        self._clock = clock
        self._base = base
        self._all_foreign = all_foreign
        self._asked_hz = rate_hz
        self._rate_reason = "as asked" if rate_hz else "until the sensors are measured"
        self._wished_ns = round(NS / (rate_hz or DEFAULT_HZ))
        self._period_ns = self._wished_ns
        now_ns = clock.monotonic_ns()
        self._next_ns = now_ns
        # The once-a-second calls of the GPUs are spread over the second, so that no tick has them all.
        self._watched = [
            Watched(device, page, at, clock, now_ns + at * SLOW_NS // len(devices)) for at, device in enumerate(devices)
        ]
        self._to_measure: list[Watched] = []
        self._burst_ends_ns = 0
        self._burst_call_ns = 0
        self._refresh_s: dict[str, dict[str, float]] = {}
        self._news = Cadence(NEWS_NS, now_ns)
        self._housekeeping = Cadence(PROCESSES_NS, now_ns)
        self._processes: Processes = {}
        self._told: Status | None = None
        self._told_failures: list[Failure | None] = []
        self._judged_ns = now_ns
        self._judged_call_ns = page.calls.total_ns()
        page.set(Word.BEGAN_NS, now_ns)

    def run(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Tick at every deadline while `goes_on`."""
        while goes_on():
            self.wait()
            self.tick()

    def wait(self) -> None:
        """Return at the next deadline. Deadlines that went by are counted and dropped, never caught up with."""
        while self._to_measure and self._burst():
            pass
        now_ns = self._sleep_until(self._next_ns)
        late_ns = now_ns - self._next_ns
        skipped = max(0, late_ns // self._period_ns)
        self._page.add(Word.SKIPPED_TICKS, skipped)
        self._page.add(Word.LATE_TICKS, int(late_ns > self._period_ns // 2))
        self._next_ns += (skipped + 1) * self._period_ns

    def tick(self) -> None:
        """Ask every GPU what is due."""
        page, slack_ns = self._page, self._period_ns // 2
        busy, heartbeat = Word.BUSY_GPU, Word.HEARTBEAT_NS
        now_ns = self._clock.monotonic_ns()
        for watched in self._watched:
            page.set(busy, watched.index + 1)
            now_ns = watched.ask(now_ns, slack_ns)
            page.set(heartbeat, now_ns)
        if self._told is None and self._wished_ns <= NS / DEFAULT_HZ:  # not when the user wants it slow
            self._to_measure = first_of_each_model(self._watched)
        if self._to_measure:
            self._go_on_measuring(now_ns)
        if self._housekeeping.is_due(now_ns):
            self._keep_house()
        self._page.set(Word.BUSY_GPU, 0)
        self._page.set(Word.PERIOD_NS, self._period_ns)
        if self._news.is_due(now_ns) or self._told_failures != [one.failure for one in self._watched]:
            self._tell()
        self._page.add(Word.TICKS)
        if now_ns - self._judged_ns >= GOVERNOR_NS:
            self._govern(now_ns)

    def _sleep_until(self, deadline_ns: int) -> int:
        now_ns = self._clock.monotonic_ns()
        if now_ns < deadline_ns:
            self._clock.sleep((deadline_ns - now_ns) / NS)
            now_ns = self._clock.monotonic_ns()
        return now_ns

    def _beat(self) -> int:
        """Leave a sign of life, and say when that was."""
        now_ns = self._clock.monotonic_ns()
        self._page.set(Word.HEARTBEAT_NS, now_ns)
        return now_ns

    def _burst(self) -> bool:
        """Between two ticks, read the GPU that is being measured once more; False when there is no time for that."""
        now_ns = self._clock.monotonic_ns()
        if now_ns + BURST_NS >= self._next_ns:
            return False
        self._sleep_until(now_ns + BURST_NS)
        watched = self._to_measure[0]
        self._page.set(Word.BUSY_GPU, watched.index + 1)
        watched.burst()
        self._page.set(Word.BUSY_GPU, 0)
        self._go_on_measuring(self._beat())
        return True

    def _go_on_measuring(self, now_ns: int) -> None:
        """Begin to measure the first GPU that waits for it, or end that when it took long enough."""
        watched = self._to_measure[0]
        if not watched.is_measured:
            watched.is_measured = True
            self._burst_ends_ns, self._burst_call_ns = now_ns + BURST_FOR_NS, self._page.calls.total_ns()
            return
        spent_ns = self._page.calls.total_ns() - self._burst_call_ns
        if now_ns < self._burst_ends_ns and spent_ns < BURST_BUDGET * BURST_FOR_NS and not watched.failure:
            return
        watched.is_measured = False
        self._to_measure.pop(0)
        self._judged_ns, self._judged_call_ns = now_ns, self._page.calls.total_ns()
        self._measured()
        if not self._to_measure and self._asked_hz is None:
            self._choose_rate()

    def _measured(self) -> None:
        """Take what the measurements say, in whole ms: no more is true of them."""
        periods = {one.sensors.info.name: one.refresh.periods_s() for one in first_of_each_model(self._watched)}
        self._refresh_s = {
            name: {field: round(period_s, 3) for field, period_s in of_model.items()}
            for name, of_model in periods.items()
            if of_model
        }

    def _choose_rate(self) -> None:
        # Utilization does not count: the driver keeps every reading of it, whatever the rate.
        periods_s = [
            period_s
            for of_model in self._refresh_s.values()
            for field, period_s in of_model.items()
            if not field.endswith("util_ratio")
        ]
        fastest_s = min(periods_s, default=None)
        self._wished_ns = self._period_ns = round(NS / chosen_rate_hz(fastest_s, AUTOMATIC_HZ))
        self._rate_reason = (
            "the usual one: no sensor changed often enough to be measured"
            if fastest_s is None
            else f"the fastest sensor refreshes every {fastest_s * 1e3:.0f} ms"
        )

    def _keep_house(self) -> None:
        processes: dict[str, tuple[tuple[int, int | None], ...]] = {}
        for watched in self._watched:
            if watched.failure is not None:
                continue
            sensors = watched.sensors
            self._page.set(Word.BUSY_GPU, watched.index + 1)
            try:
                processes[sensors.info.uuid] = sensors.processes()
                sensors.refresh()
            except SourceError:
                continue  # no list this time: the uuid is absent, which is not "no process"
            finally:
                self._beat()
            foreign = self._all_foreign(pid for pid, _ in processes[sensors.info.uuid])
            if foreign and FOREIGN_PIDS not in sensors.notes:
                sensors.notes.append(FOREIGN_PIDS)
        self._processes = processes
        if not self._to_measure:
            self._measured()

    def _tell(self) -> None:
        """Publish the status when it is news. Compared by value: ten times a second costs microseconds."""
        sensors = [watched.sensors for watched in self._watched]
        status = replace(
            self._base,
            gpus=tuple(one.info for one in sensors),
            lost={one.sensors.info.uuid: one.failure for one in self._watched if one.failure is not None},
            unsupported={one.info.uuid: dict(one.unsupported) for one in sensors if one.unsupported},
            notes={one.info.uuid: tuple(one.notes) for one in sensors if one.notes},
            processes=self._processes,
            refresh_s=self._refresh_s,
            rate_reason=self._rate_reason if self._period_ns <= self._wished_ns else SLOWED,
        )
        if status != self._told:
            self._page.publish(status.encode())
            self._told = status
        self._told_failures = [one.failure for one in self._watched]

    def _govern(self, now_ns: int) -> None:
        call_ns = self._page.calls.total_ns()
        share = (call_ns - self._judged_call_ns) / (now_ns - self._judged_ns)
        self._period_ns = governed_period_ns(self._period_ns, self._wished_ns, share)
        self._judged_ns, self._judged_call_ns = now_ns, call_ns


def first_of_each_model(watched: Sequence[Watched]) -> list[Watched]:
    """The first GPU of each model that answers, in order; parts of a divided one have no sensors to measure."""
    whole = [one for one in watched if not one.sensors.info.is_mig and one.failure is None]
    return list({one.sensors.info.name: one for one in reversed(whole)}.values())[::-1]
