"""Telemetry of this host's GPUs, sampled in a process of its own (why: sampling.py) and read from shared memory.

A call that hangs in the driver is seen by the heartbeat and never waited for. Threading: one thread at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import AccessDenied, BubblewatchError, SourceUnavailable, UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.telemetry import GpuInfo, Telemetry
from bubblewatch.runtime.sampler_grip import Child
from bubblewatch.runtime.sampler_status import Options, Processes, Status
from bubblewatch.runtime.shared_ring import KEPT_S, Word
from bubblewatch.runtime.telemetry_join import joined

NAME = "nvml"
REPLACE_S = 60.0
"""A sampler that hangs this long is killed, and another one starts once it is really gone."""
BACK_OFF_S = (1.0, 60.0)
"""A sampler that ended is started again after the first; each one without a reading doubles that, up to the second."""
MAX_RATE_HZ = 200.0
"""Ten times what today's sensors refresh at."""
SEE_DMESG = "see dmesg for NVRM and Xid lines"
NEVER_NS = 2**63
"""Later than any monotonic time."""


@dataclass(frozen=True, slots=True)
class SamplerCost:
    """What watching costs, since the child of now started. Latencies are over all its calls, None before the first."""

    pid: int | None = None
    rate_hz: float = 0.0
    ticks: int = 0
    late_ticks: int = 0
    skipped_ticks: int = 0
    calls: int = 0
    call_p50_s: float | None = None
    call_p99_s: float | None = None
    cpu_s: float = 0.0
    restarts: int = 0


class SamplerProcess:
    """A TelemetrySource that reads NVML ten times a second, or at `rate_hz`, in a process of its own.

    `only` and `exclude` name GPUs by index or uuid; one that is excluded gets no call (how strictly: `choose` in
    nvml_device.py). `clock` must tell the machine's monotonic time. `environ` is that of the child, which starts at
    once; `wait` for its first readings. It ends with this process, however that ends.
    """

    def __init__(
        self,
        clock: Clock,
        environ: Mapping[str, str],
        rate_hz: float = 10.0,
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
        *,
        sm_activity: bool = True,
    ) -> None:
        if not 0 < rate_hz <= MAX_RATE_HZ:
            raise UsageError(f"a sampling rate of {rate_hz:g} Hz", f"above 0, at most {MAX_RATE_HZ:g}")
        self._clock = clock
        self._environ = dict(environ)
        chosen = None if only is None else tuple(sorted(only))
        self._options = Options(-1, rate_hz, chosen, tuple(sorted(exclude)), sm_activity)
        self._past = Telemetry()
        self._end: BubblewatchError | None = None
        self._retry_ns: int | None = None
        self._back_off_s = BACK_OFF_S[0]
        self._restarts = 0
        self._closed = False
        self._child = self._start(Status())

    @property
    def gpus(self) -> tuple[GpuInfo, ...]:
        """GPUs that are watched; none before the first readings."""
        return self._child.status.gpus

    @property
    def unsupported(self) -> Mapping[str, Mapping[str, str]]:
        """GPU uuid -> field that it does not deliver -> why."""
        return self._child.status.unsupported

    def processes(self) -> Processes:
        """Who uses each GPU, at most half a minute old. An absent uuid = not known."""
        return self._child.status.processes

    def window(self, since_ns: int) -> Telemetry:
        """Readings from `since_ns` to now, ten minutes at most; those of samplers that ended are still there."""
        self.supervise()
        now_ns = self._clock.monotonic_ns()
        since_ns = max(since_ns, now_ns - KEPT_S * NS)
        offset_ns = self._clock.wall_ns() - now_ns
        if self._past.end_ns < now_ns - KEPT_S * NS:
            self._past = Telemetry()
        if self._retry_ns is not None:  # the child of now is dead, and what it has read is in the past
            return joined(self._past, Telemetry((), now_ns, now_ns, offset_ns), since_ns)
        return joined(self._past, self._child.telemetry(since_ns, now_ns, offset_ns), since_ns)

    def wait(self, timeout_s: float) -> bool:
        """True once there are readings, False when `timeout_s` went by or the sampler failed (`health` says why).

        UsageError when `only` names a GPU that is not there.
        """
        deadline_ns = self._clock.monotonic_ns() + round(timeout_s * NS)
        while self._clock.monotonic_ns() < deadline_ns:
            self.supervise()
            if isinstance(self._end, UsageError):
                raise self._end
            if self._end is not None or self._child.has_read:
                break
            self._clock.sleep(0.005)
        return self._end is None and self._child.has_read

    def supervise(self) -> None:
        """Replace a sampler that ended or hangs, with growing pauses. Costs microseconds; `window` does it too."""
        if self._closed:
            return
        now_ns = self._clock.monotonic_ns()
        if self._retry_ns is not None:
            if now_ns >= self._retry_ns:
                self._retry_ns = None
                self._restarts += 1
                self._child = self._start(self._child.status)
        elif self._child.process.poll() is not None:
            self._bury(now_ns)
        elif self._child.has_read and not self._child.hangs(now_ns):
            self._end = None
        elif self._child.hangs(now_ns) and self._child.silent_s(now_ns) > REPLACE_S:
            self._child.process.kill()

    def health(self) -> SourceHealth:
        """How it fares: OK, DEGRADED (starting, hanging, some GPUs gone), or why there is nothing."""
        self.supervise()
        child, now_ns = self._child, self._clock.monotonic_ns()
        ticks = child.page.get(Word.TICKS)
        if self._closed:
            return SourceHealth(NAME, Health.OFF, "closed", read_count=ticks)
        if self._end is not None:
            return SourceHealth(NAME, _health_of(self._end), self._end.what, self._end.hint or "", ticks)
        if child.hangs(now_ns):
            return SourceHealth(NAME, Health.DEGRADED, self._hang_words(now_ns), SEE_DMESG, ticks)
        if not child.has_read:
            return SourceHealth(NAME, Health.DEGRADED, f"starting since {child.silent_s(now_ns):.0f} s")
        return self._health_of_readings(child.status, ticks)

    def cost(self) -> SamplerCost:
        """What the sampler costs, for metrics."""
        page = self._child.page
        period_ns = page.get(Word.PERIOD_NS)
        return SamplerCost(
            pid=self._child.process.pid if self._child.process.returncode is None else None,
            rate_hz=NS / period_ns if period_ns else 0.0,
            ticks=page.get(Word.TICKS),
            late_ticks=page.get(Word.LATE_TICKS),
            skipped_ticks=page.get(Word.SKIPPED_TICKS),
            calls=page.get(Word.CALLS),
            call_p50_s=page.call_quantile_s(0.5),
            call_p99_s=page.call_quantile_s(0.99),
            cpu_s=page.get(Word.CPU_NS) / NS,
            restarts=self._restarts,
        )

    def close(self) -> None:
        """End the sampler. Takes a second at the most, even when a call hangs in the driver."""
        if not self._closed:
            self._closed = True
            self._child.stop()

    def _start(self, before: Status) -> Child:
        return Child(self._options, self._environ, self._clock.monotonic_ns(), replace(before, failure=None))

    def _bury(self, now_ns: int) -> None:
        """Keep what an ended sampler has read, say why it ended, and set the time of the next one."""
        child = self._child
        since_ns = now_ns - KEPT_S * NS
        self._past = joined(self._past, child.telemetry(since_ns, now_ns, 0), since_ns)
        self._end = child.why_ended()
        if child.has_read:
            self._back_off_s = BACK_OFF_S[0]
        # A GPU that the user named and that is not there will not come by asking again.
        hopeless = isinstance(self._end, UsageError)
        self._retry_ns = NEVER_NS if hopeless else now_ns + round(self._back_off_s * NS)
        self._back_off_s = min(self._back_off_s * 2, BACK_OFF_S[1])

    def _hang_words(self, now_ns: int) -> str:
        silent = f"NVML has not answered for {self._child.silent_s(now_ns):.0f} s"
        busy = self._child.page.get(Word.BUSY_GPU)
        gpus = self.gpus
        return f"{silent}: a call hangs on GPU {gpus[busy - 1].index}" if 0 < busy <= len(gpus) else silent

    def _health_of_readings(self, status: Status, ticks: int) -> SourceHealth:
        cost = self.cost()
        asked_hz = self._options.rate_hz
        slower = "" if cost.rate_hz > 0.9 * asked_hz else f" of {asked_hz:g} asked, the driver is slow"
        what = f"{len(status.gpus)} GPUs, driver {status.driver_version}, {cost.rate_hz:.3g} Hz{slower}"
        what = "; ".join((what, *dict.fromkeys(note for notes in status.notes.values() for note in notes)))
        index = {gpu.uuid: str(gpu.index) for gpu in status.gpus}
        gone = {**status.absent, **{index[uuid]: reason for uuid, reason in status.lost.items()}}
        if not gone:
            return SourceHealth(NAME, Health.OK, what, read_count=ticks)
        reasons = "; ".join(f"GPU {name}: {reason}" for name, reason in sorted(gone.items()))
        health = Health.LOST if len(status.lost) == len(status.gpus) else Health.DEGRADED
        return SourceHealth(NAME, health, f"{what}; {reasons}", SEE_DMESG, ticks)


class NullTelemetry:
    """No telemetry, because the user asked for none."""

    def window(self, since_ns: int) -> Telemetry:
        return Telemetry(start_ns=since_ns, end_ns=since_ns)

    def processes(self) -> Processes:
        return {}

    def health(self) -> SourceHealth:
        return SourceHealth(NAME, Health.OFF, "switched off by --no-nvml")

    def close(self) -> None:
        """Nothing is open."""


def _health_of(error: BubblewatchError) -> Health:
    if isinstance(error, AccessDenied):
        return Health.DENIED
    return Health.ABSENT if isinstance(error, SourceUnavailable | UsageError) else Health.LOST
