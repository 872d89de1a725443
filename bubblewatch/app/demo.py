"""The demo: a simulated host through the same watcher, rules and reports as a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.live import Live

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import Clock, ManualClock, SystemClock
from bubblewatch.model.findings import Snapshot
from bubblewatch.report.table import live_table
from bubblewatch.runtime.watch import Watcher, WatchOptions
from bubblewatch.runtime.witness import Witness
from bubblewatch.servers import registry
from bubblewatch.sources.simulated import SCENARIOS, Scenario, SimulatedHost

WATCH_S = 30
"""Simulated seconds that a printed diagnosis watches: what `diagnose` does by default."""

TICK_S = 1.0
"""Seconds between two pictures of the live table."""


def scenarios() -> Mapping[str, Scenario]:
    """The scenarios by name, the story first."""
    return SCENARIOS


def simulated_watcher(
    scenario: Scenario,
    clock: Clock,
    rules: Sequence[Rule],
    ignore: Sequence[str],
    *,
    one_shot: bool = True,
    witness: Witness | None = None,
) -> Watcher:
    """A watcher on the simulated host, on this clock; `witness` sees what it sees."""
    host = SimulatedHost(scenario, clock)
    return Watcher(
        clock=clock,
        telemetry=host.telemetry,
        processes=host.processes,
        recognise=registry.recognise,
        open_log=lambda seen: host.log(seen.unit or ""),
        open_endpoint=lambda _seen, _kind: None,
        rules=rules,
        options=WatchOptions(window_s=float(WATCH_S), ignore=tuple(ignore), one_shot=one_shot),
        witness=witness,
    )


def demo_snapshot(scenario: Scenario, rules: Sequence[Rule], ignore: Sequence[str] = ()) -> Snapshot:
    """What a diagnosis of this scenario says after its usual time of watching; simulated time costs no real time."""
    clock = ManualClock()
    watcher = simulated_watcher(scenario, clock, rules, ignore)
    snapshot = watcher.tick()
    for _ in range(WATCH_S):
        clock.sleep(1.0)
        snapshot = watcher.tick()
    watcher.close()
    return snapshot


def play(
    scenario: Scenario, rules: Sequence[Rule], ignore: Sequence[str], speed: float, seconds: float | None
) -> Snapshot:
    """Draw the scenario as a live table until Ctrl-C or for so many simulated seconds; gives the last picture."""
    clock = ManualClock(pace=(SystemClock(), speed))
    watcher = simulated_watcher(scenario, clock, rules, ignore)
    snapshot = watcher.tick()
    try:
        with Live(live_table(snapshot), console=Console(), auto_refresh=False, transient=True) as screen:
            while seconds is None or snapshot.watched_s < seconds:
                clock.sleep(TICK_S * min(speed, 10))
                snapshot = watcher.tick()
                screen.update(live_table(snapshot), refresh=True)
    except KeyboardInterrupt:
        pass
    watcher.close()
    return snapshot
