"""Recordings for tests: fresh ones of simulated hosts, and those that are stored in the tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.record import Recording
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import ManualClock
from bubblewatch.model.findings import Snapshot
from bubblewatch.runtime.flight_recorder import Bounds
from bubblewatch.sources.simulated import Scenario

STORED = Path(__file__).resolve().parents[1] / "recording" / "stored"


def record(
    folder: Path,
    rules: tuple[Rule, ...],
    seconds: int,
    scenario: Scenario | None = None,
    *,
    bounds: Bounds | None = None,
    clock: ManualClock | None = None,
    compact: bool = True,
) -> Snapshot:
    """Record so many simulated seconds of the story or another scenario; gives the last picture."""
    scenario, clock = scenario or scenarios()["pp8-story"], clock or ManualClock()
    with Recording(
        folder, clock, 30.0, one_shot=True, scenario=scenario.name, bounds=bounds, compact=compact
    ) as recording:
        watcher = simulated_watcher(scenario, clock, rules, (), witness=recording.recorder)
        snapshot = watcher.tick()
        for _ in range(seconds):
            clock.sleep(1.0)
            snapshot = watcher.tick()
        watcher.close()
    return snapshot


def with_load(name: str, running: int) -> Scenario:
    """A scenario with another number of requests in flight."""
    return replace(scenarios()[name], running=running)
