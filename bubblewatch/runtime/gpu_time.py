"""The books: counters of the GPUs' time and energy and of the servers' lives, kept over the ticks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bubblewatch.model.accounts import Accounts, GpuAccount, GpuState, ServerAccount
from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Scope, State, TargetView
from bubblewatch.model.server import Epoch
from bubblewatch.model.telemetry import GpuReading, Series, Telemetry
from bubblewatch.signals.gpu_seconds import Phase, attribute, phase_of, shares
from bubblewatch.signals.gpus import activity
from bubblewatch.signals.series import Interval, last

FORGET_S = 3600.0
"""Time in seconds after which a GPU or server that is gone is forgotten: long enough to count the lives of a server
that comes and goes, short enough that names which never come back do not pile up."""

_IDLE = (GpuState.RESIDENT_LOW, GpuState.NOT_RESIDENT)


@dataclass(slots=True)
class _Gpu:
    seen_ns: int
    time_ns: dict[GpuState, int] = field(default_factory=lambda: dict.fromkeys(GpuState, 0))
    energy_j: float | None = None
    counter_j: float | None = None

    def idle_ns(self) -> int:
        return sum(self.time_ns[state] for state in _IDLE)


@dataclass(slots=True)
class _Server:
    seen_ns: int
    epoch: Epoch | None
    starts: int = 0
    lost_ns: dict[str, int] = field(default_factory=dict)


class GpuTime:
    """Adds up what each tick saw. Called from the one thread that ticks; times are of its monotonic clock."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._gpus: dict[str, _Gpu] = {}
        self._servers: dict[str, _Server] = {}

    def step(self, now_ns: int, telemetry: Telemetry, views: Sequence[TargetView]) -> Accounts:
        """The books at `now_ns`. The time since the last call is given to what `telemetry` and `views` say now.

        A GPU that is known and not read any more goes on in state unknown.
        """
        span = Interval(self._last_ns if self._last_ns is not None else now_ns, now_ns)
        self._last_ns = now_ns
        phases = _phases(views)
        idle_before = {uuid: gpu.idle_ns() for uuid, gpu in self._gpus.items()}
        read = {reading.gpu.uuid: reading for reading in telemetry.gpus}
        for uuid in {*self._gpus, *read}:
            self._add_gpu(uuid, read.get(uuid), phases.get(uuid, Phase.UNKNOWN), span)
        for view in views:
            if view.target.scope is Scope.SERVER:
                self._add_server(view, _own_gpus(view, views), idle_before, span)
        self._forget(now_ns)
        return Accounts(
            {uuid: GpuAccount(dict(gpu.time_ns), gpu.energy_j) for uuid, gpu in self._gpus.items()},
            {key: ServerAccount(dict(server.lost_ns), server.starts) for key, server in self._servers.items()},
        )

    def _add_gpu(self, uuid: str, reading: GpuReading | None, phase: Phase, span: Interval) -> None:
        gpu = self._gpus.get(uuid)
        if gpu is None:
            # Nothing is said of the time before it was first seen.
            self._gpus[uuid] = gpu = _Gpu(span.end_ns)
            span = Interval(span.end_ns, span.end_ns)
        left_ns = total_ns = span.end_ns - span.start_ns
        if reading is not None:
            gpu.seen_ns = span.end_ns
            recent = GpuReading(reading.gpu, {name: _from(s, span.start_ns) for name, s in reading.series.items()})
            seen = activity(recent, span.end_ns, (span,), min_readings=1)
            _add_energy(gpu, recent, seen.power_w, total_ns / NS)
            for state, share in shares(phase, seen.util, seen.work).items():
                part_ns = min(round(share * total_ns), left_ns)
                gpu.time_ns[state] += part_ns
                left_ns -= part_ns
        gpu.time_ns[GpuState.UNKNOWN] += left_ns

    def _add_server(
        self, view: TargetView, uuids: Sequence[str], idle_before: Mapping[str, int], span: Interval
    ) -> None:
        epoch = view.server.epoch if view.server is not None else None
        server = self._servers.setdefault(view.target.id, _Server(span.end_ns, epoch))
        server.seen_ns = span.end_ns
        if epoch is not None and server.epoch is not None and epoch != server.epoch:
            server.starts += 1
        server.epoch = epoch or server.epoch
        known = [uuid for uuid in uuids if uuid in idle_before]
        idle_ns = sum(self._gpus[uuid].idle_ns() - idle_before[uuid] for uuid in known)
        total_ns = (span.end_ns - span.start_ns) * len(known)
        for cause, part_ns in attribute(idle_ns, total_ns, view.signals, _firing(view)).items():
            server.lost_ns[cause] = server.lost_ns.get(cause, 0) + part_ns

    def _forget(self, now_ns: int) -> None:
        oldest_ns = now_ns - round(FORGET_S * NS)
        self._gpus = {uuid: gpu for uuid, gpu in self._gpus.items() if gpu.seen_ns >= oldest_ns}
        self._servers = {key: server for key, server in self._servers.items() if server.seen_ns >= oldest_ns}


def _phases(views: Sequence[TargetView]) -> Mapping[str, Phase]:
    """What the servers that use it are doing, by GPU."""
    phases: dict[str, Phase] = {}
    for view in views:
        phase = phase_of(view.signals, _firing(view))
        for uuid in view.server.gpus if view.server is not None else ():
            phases[uuid] = max(phase, phases.get(uuid, phase))
    return phases


def _firing(view: TargetView) -> set[str]:
    return {finding.name for finding in view.findings if finding.state in (State.FIRING, State.OBSERVED)}


def _own_gpus(view: TargetView, views: Sequence[TargetView]) -> list[str]:
    """The GPUs that this server shares with none: what a shared one lost cannot be put down to one of them."""
    own = view.server.gpus if view.server is not None else {}
    others = {uuid for other in views if other is not view and other.server is not None for uuid in other.server.gpus}
    return [uuid for uuid in own if uuid not in others]


def _from(series: Series, start_ns: int) -> Series:
    """The readings from `start_ns` on, beginning with the one that held then."""
    first = max(bisect_right(series.times_ns, start_ns) - 1, 0)
    return Series(series.times_ns[first:], series.values[first:])


def _add_energy(gpu: _Gpu, reading: GpuReading, power_w: float | None, seconds: float) -> None:
    """By the device's own counter where it has one that went on, else mean power times time."""
    counter_j = last(reading.series.get("energy_j", Series()))
    before_j, gpu.counter_j = gpu.counter_j, counter_j
    if counter_j is not None and before_j is not None and counter_j >= before_j:
        added_j = counter_j - before_j
    elif power_w is not None:
        added_j = max(power_w, 0.0) * seconds
    elif counter_j is not None:
        added_j = 0.0
    else:
        return
    gpu.energy_j = (gpu.energy_j or 0.0) + added_j
