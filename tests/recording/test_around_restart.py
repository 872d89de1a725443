"""A restart inside one recording: before and after it, without being told when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bubblewatch.app.compare import CompareRequest, compare_recordings
from bubblewatch.app.demo import scenarios
from bubblewatch.app.record import Recording
from bubblewatch.model.clock import ManualClock
from bubblewatch.model.findings import SourceHealth
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import ProcessSeen
from bubblewatch.model.server import Epoch
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.report.compare import Outcome
from bubblewatch.report.frames import RecordingFrames
from bubblewatch.report.summary import summary
from bubblewatch.runtime.watch import Watcher, WatchOptions
from bubblewatch.servers import registry
from bubblewatch.sources.simulated import SimulatedHost

RESTART_S = 125
"""At a scan of the watcher, so that process and log change in the same tick."""


class Restarted:
    """A host that runs one scenario and, after a while, another one under the same unit."""

    def __init__(self, first: SimulatedHost, second: SimulatedHost, clock: ManualClock) -> None:
        self.hosts, self.clock = (first, second), clock
        self.unit = first.processes.scan()[0].unit or ""
        self._logs = tuple(host.log(self.unit) for host in self.hosts)

    @property
    def _now(self) -> int:
        return int(self.clock.monotonic_ns() >= RESTART_S * 1_000_000_000)

    def scan(self) -> Sequence[ProcessSeen]:
        (seen,) = self.hosts[self._now].processes.scan()
        epoch = Epoch(seen.epoch.boot_id, seen.epoch.pid + self._now, seen.epoch.start_ticks + self._now)
        return (replace(seen, epoch=epoch),)

    def window(self, since_ns: int) -> Telemetry:
        windows = [host.telemetry.window(since_ns) for host in self.hosts]
        return windows[self._now]

    def read(self) -> Sequence[LogLine]:
        return self._logs[self._now].read()

    def health(self) -> SourceHealth:
        return self.hosts[0].processes.health()

    def close(self) -> None: ...


def test_the_stretches_before_and_after_the_last_restart_are_compared(tmp_path: Path) -> None:
    clock = ManualClock()
    hosts = [SimulatedHost(scenarios()[name], clock) for name in ("pp8-story", "pp8-graphs-on")]
    host = Restarted(hosts[0], hosts[1], clock)
    with Recording(tmp_path, clock, 30.0, one_shot=True) as recording:
        watcher = Watcher(
            clock=clock,
            telemetry=host,
            processes=host,
            recognise=registry.recognise,
            open_log=lambda _seen: host,
            open_endpoint=lambda _seen, _kind: None,
            rules=(),
            options=WatchOptions(),
            witness=recording.recorder,
        )
        for _ in range(315):
            watcher.tick()
            clock.sleep(1.0)
        watcher.close()
    found = compare_recordings(CompareRequest(tmp_path, around_restart="sglang-k26"), 0)
    assert found.outcome is Outcome.BETTER, found.reason
    assert "disable_cuda_graph" in {name for name, before, after in found.settings if before == "True"}
    shown = summary(RecordingFrames(tmp_path))
    assert [key for _, key in shown.restarts] == ["sglang-k26"]
