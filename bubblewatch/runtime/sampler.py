"""Telemetry of this host's GPUs, sampled in a process of its own (why: sampling.py) and read from shared memory.

A call that hangs in the driver is seen by the heartbeat and never waited for. Threading: one thread at a time, except
for `cost`, which any thread may ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.telemetry import GpuInfo, Telemetry
from bubblewatch.runtime.sampler_cost import SamplerCost
from bubblewatch.runtime.sampler_grip import Patience
from bubblewatch.runtime.sampler_health import NAME, health_of
from bubblewatch.runtime.sampler_lives import Lives
from bubblewatch.runtime.sampler_status import Options, Processes
from bubblewatch.runtime.shared_ring import KEPT_S, Word

MAX_RATE_HZ = 1000.0
"""A period of one ms, below which the wake-up alone costs more than all calls. No known sensor gives more than 50."""


class SamplerProcess:
    """A TelemetrySource that reads NVML in a process of its own, `rate_hz` times a second.

    None reads ten times a second at first and then as often as the sensors turn out to refresh. `only` and `exclude`
    name GPUs by index or uuid; one that is excluded gets no call (how strictly: `choose` in nvml_choose.py). `clock`
    must tell the machine's monotonic time. `environ` is that of the child, which starts at once; `wait` for its first
    readings. It ends with this process, however that ends.
    """

    def __init__(
        self,
        clock: Clock,
        environ: Mapping[str, str],
        rate_hz: float | None = None,
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
        *,
        sm_activity: bool = True,
        patience: Patience | None = None,
    ) -> None:
        if rate_hz is not None and not 0 < rate_hz <= MAX_RATE_HZ:
            raise UsageError(f"a sampling rate of {rate_hz:g} Hz", f"above 0, at most {MAX_RATE_HZ:g}")
        self._clock = clock
        self._asked_hz = rate_hz
        self._closed = False
        chosen = None if only is None else tuple(sorted(only))
        options = Options(-1, rate_hz, chosen, tuple(sorted(exclude)), sm_activity)
        self._lives = Lives(options, environ, clock.monotonic_ns(), patience or Patience())

    @property
    def gpus(self) -> tuple[GpuInfo, ...]:
        """GPUs that are watched; none before the first readings."""
        return self._lives.child.status.gpus

    @property
    def unsupported(self) -> Mapping[str, Mapping[str, str]]:
        """GPU uuid -> field that it does not deliver -> why."""
        return self._lives.child.status.unsupported

    def processes(self) -> Processes:
        """Who uses each GPU, at most half a minute old. An absent uuid = not known."""
        return self._lives.child.status.processes

    def window(self, since_ns: int) -> Telemetry:
        """Readings from `since_ns` to now, ten minutes at most; those of samplers that ended are still there."""
        self.supervise()
        now_ns = self._clock.monotonic_ns()
        offset_ns = self._clock.wall_ns() - now_ns
        return self._lives.telemetry(max(since_ns, now_ns - KEPT_S * NS), now_ns, offset_ns)

    def wait(self, timeout_s: float) -> bool:
        """True once there are readings, False when `timeout_s` went by or the sampler failed (`health` says why).

        UsageError when `only` names a GPU that is not there.
        """
        deadline_ns = self._clock.monotonic_ns() + round(timeout_s * NS)
        while self._clock.monotonic_ns() < deadline_ns:
            self.supervise()
            if isinstance(self._lives.end, UsageError):
                raise self._lives.end
            if self._lives.end is not None or self._lives.child.has_read:
                break
            self._clock.sleep(0.005)
        return self._lives.end is None and self._lives.child.has_read

    def supervise(self) -> None:
        """Replace a sampler that ended or hangs, with growing pauses. Costs microseconds; `window` does it too."""
        if not self._closed:
            self._lives.supervise(self._clock.monotonic_ns())

    def health(self) -> SourceHealth:
        """How it fares: OK, DEGRADED (starting, hanging, some GPUs gone), or why there is nothing."""
        if self._closed:
            ticks = self._lives.child.page.get(Word.TICKS)
            return SourceHealth(NAME, Health.OFF, "closed", read_count=ticks)
        self.supervise()
        return health_of(self._lives, self._asked_hz, self._clock.monotonic_ns())

    def cost(self) -> SamplerCost:
        """What the sampler costs, for metrics."""
        child = self._lives.child
        period_ns = child.page.get(Word.PERIOD_NS)
        return replace(
            self._lives.cost(),
            pid=child.process.pid if child.process.returncode is None else None,
            rate_hz=NS / period_ns if period_ns else 0.0,
            rate_reason=child.status.rate_reason,
            refresh_s=child.status.refresh_s,
        )

    def want_sm_activity(self, wanted: bool) -> None:
        """Have SM activity sampled from now on, or not. The counters cost idle power on some cards (A100: 50 W)."""
        self._lives.want_activity(wanted)

    def close(self) -> None:
        """End the sampler. Takes a second at the most, even when a call hangs in the driver."""
        if not self._closed:
            self._closed = True
            self._lives.close()


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
