"""Servers that restart, break, loop, go and come back, and a clock that is set: what is known follows the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from bubblewatch.app.demo import scenarios
from bubblewatch.app.rules import rules_in_force
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.findings import Health, Snapshot, SourceHealth, State
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import ProcessSeen
from bubblewatch.model.server import Epoch, Launch
from bubblewatch.runtime.memory import Memory
from bubblewatch.runtime.sampler import NullTelemetry
from bubblewatch.runtime.server_set import KEEP_BROKEN_S
from bubblewatch.runtime.state_store import decoded, encoded
from bubblewatch.runtime.watch import Watcher, WatchOptions
from bubblewatch.servers import registry
from bubblewatch.sources.simulated import SimulatedHost

ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "m", "--tp-size", "8", "--disable-cuda-graph")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FATAL = "[2026-01-01 00:00:00] Scheduler hit an exception: Traceback (most recent call last):"
READY = "[2026-01-01 00:00:00] The server is fired up and ready to roll!"
DECODE = (
    "[2026-01-01 00:00:00 TP0] Decode batch, #running-req: {}, #token: 3000, token usage: 0.02, cuda graph: False, "
    "gen throughput (token/s): {:.2f}, #queue-req: 0"
)


class SteppedClock(ManualClock):
    """A clock whose wall time can be set."""

    def step(self, seconds: float) -> None:
        self._offset_ns += round(seconds * NS)


@dataclass
class Host:
    """Processes and logs by unit, as the test writes them."""

    clock: SteppedClock = field(default_factory=SteppedClock)
    running: dict[str, ProcessSeen] = field(default_factory=dict)
    lines: dict[str, list[LogLine]] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)

    def start(self, unit: str = "sglang.service", pid: int = 100, argv: tuple[str, ...] = ARGV) -> None:
        launch = Launch(argv, env={}, where=f"pid {pid}")
        self.running[unit] = ProcessSeen(pid, Epoch("boot", pid, pid), launch, unit=unit)

    def stop(self, unit: str = "sglang.service") -> None:
        del self.running[unit]

    def say(self, *texts: str, unit: str = "sglang.service") -> None:
        now = self.clock.wall_ns()
        self.lines.setdefault(unit, []).extend(LogLine(text, now, True, "journal", unit) for text in texts)

    def scan(self) -> Sequence[ProcessSeen]:
        return list(self.running.values())

    def health(self) -> SourceHealth:
        return SourceHealth("processes", Health.OK)

    def watcher(self, rules: Sequence[Rule], memory: Memory | None = None) -> Watcher:
        return Watcher(
            clock=self.clock,
            telemetry=NullTelemetry(),
            processes=self,
            recognise=registry.recognise,
            open_log=lambda seen: UnitLines(self.lines.setdefault(seen.unit or "", []), self.gaps),
            open_endpoint=lambda _seen, _kind: None,
            rules=rules,
            options=WatchOptions(one_shot=False),
            memory=memory,
        )


class UnitLines:
    """The lines of one unit as they come."""

    def __init__(self, lines: list[LogLine], gaps: list[str]) -> None:
        self._lines = lines
        self._gaps = gaps
        self._read = 0

    def read(self) -> Sequence[LogLine]:
        new = self._lines[self._read :]
        self._read = len(self._lines)
        return new

    def health(self) -> SourceHealth:
        return SourceHealth("journal", Health.OK, read_count=self._read, gaps=tuple(self._gaps))

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(scope="module")
def rules() -> tuple[Rule, ...]:
    return rules_in_force()


def firing(snapshot: Snapshot) -> set[str]:
    return {f.name for f in snapshot.findings if f.state is State.FIRING}


def ticks(watcher: Watcher, host: Host, seconds: float, step_s: float = 1.0) -> Snapshot:
    snapshot = watcher.tick()
    for _ in range(round(seconds / step_s)):
        host.clock.sleep(step_s)
        snapshot = watcher.tick()
    return snapshot


def test_the_last_words_of_a_server_that_broke_are_read_and_shown_for_a_while(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    watcher = host.watcher(rules)
    ticks(watcher, host, 3)
    host.say(READY, OOM, FATAL)
    host.stop()

    snapshot = ticks(watcher, host, 8)
    assert "out-of-memory" in firing(snapshot)
    assert {v.server.key for v in snapshot.views if v.server} == {"sglang"}
    gone = ticks(watcher, host, KEEP_BROKEN_S + 10, 10)
    assert [v.server for v in gone.views] == [None]


def test_a_server_that_was_stopped_on_purpose_is_gone(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    host.say(READY)
    watcher = host.watcher(rules)
    ticks(watcher, host, 6)
    host.stop()

    assert [v.server for v in ticks(watcher, host, 6).views] == [None]


def test_restarts_are_counted_and_three_in_a_quarter_of_an_hour_are_a_loop(rules: tuple[Rule, ...]) -> None:
    host = Host()
    watcher = host.watcher(rules)
    for life in range(4):
        host.start(pid=100 + life)
        host.say("[2026-01-01 00:00:00] Load weight begin. avail mem=78.4 GB", OOM, FATAL)
        snapshot = ticks(watcher, host, 12)

    assert "crash-loop" in firing(snapshot)
    assert snapshot.views[0].signals.number("server.restarts") == 3
    later = ticks(watcher, host, 1500, 10)
    assert "crash-loop" not in firing(later)


def test_a_new_life_keeps_the_lines_that_it_wrote_before_it_was_noticed(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    host.say("[2026-01-01 00:00:00] Load weight begin. avail mem=78.4 GB", READY)
    watcher = host.watcher(rules)
    watcher._born_ns = lambda seen: host.clock.wall_ns() - 3 * NS if seen.pid == 101 else None
    ticks(watcher, host, 6)
    host.start(pid=101)
    host.clock.sleep(1)
    host.say("[2026-01-01 00:00:00] Load weight begin. avail mem=12.3 GB")
    watcher.tick()
    host.clock.sleep(1)
    ticks(watcher, host, 5)

    (server,) = watcher.servers
    assert server.server().birth is not None
    assert [line for line in server.server().birth.lines if "12.3" in line]  # type: ignore[union-attr]


def test_findings_of_two_servers_stay_apart_when_they_swap_their_gpus(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start("a.service", 1)
    host.start("b.service", 2, ARGV[:-1])
    host.running["a.service"] = replace(host.running["a.service"], workers={"GPU-0": "", "GPU-1": ""})
    host.running["b.service"] = replace(host.running["b.service"], workers={"GPU-1": "", "GPU-2": ""})
    watcher = host.watcher(rules)
    before = ticks(watcher, host, 3)
    workers = host.running["a.service"].workers
    host.running["a.service"] = replace(host.running["a.service"], workers=host.running["b.service"].workers)
    host.running["b.service"] = replace(host.running["b.service"], workers=workers)
    after = ticks(watcher, host, 6)

    for snapshot in (before, after):
        targets = {f.target.id for f in snapshot.findings if f.name == "cuda-graph-disabled"}
        assert targets == {"a"}
    assert {v.server.key: set(v.server.gpus) for v in after.views if v.server}["a"] == {"GPU-1", "GPU-2"}


def test_two_processes_of_one_launch_are_two_servers() -> None:
    host = Host()
    host.running["x"] = ProcessSeen(1, Epoch("boot", 1, 1), Launch(ARGV))
    host.running["y"] = ProcessSeen(2, Epoch("boot", 2, 2), Launch(ARGV))
    watcher = host.watcher(())
    watcher.tick()

    keys = [server.key for server in watcher.servers]
    assert keys[1] == f"{keys[0]}#2"


def test_a_restart_of_the_daemon_goes_on_with_findings_and_start_up_lines(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    host.say(READY)
    watcher = host.watcher(rules)
    before = ticks(watcher, host, 30)
    since = {f.name: f.since_ns for f in before.findings}
    memory = decoded(encoded(watcher.memory()))
    host.lines["sglang.service"].clear()  # as if the journal had been rotated away
    host.clock.sleep(5)

    again = host.watcher(rules, memory)
    after = again.tick()
    assert "cuda-graph-disabled" in firing(after)
    assert {f.name: f.since_ns for f in after.findings}["cuda-graph-disabled"] == since["cuda-graph-disabled"]
    (server,) = again.servers
    assert server.server().birth is not None
    assert READY in "".join(server.server().birth.lines)  # type: ignore[union-attr]


def test_a_restart_of_both_drops_the_findings_of_the_life_before(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    watcher = host.watcher(rules)
    ticks(watcher, host, 5)
    memory = watcher.memory()
    host.start(pid=200, argv=ARGV[:-1])

    again = host.watcher(rules, memory)
    assert "cuda-graph-disabled" not in {f.name for f in ticks(again, host, 5).findings}
    assert again.memory().servers["sglang"].starts_ns


def test_lines_that_were_lost_in_the_middle_are_a_finding_and_never_health(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    host.say("[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', tp_size=8)", READY)
    watcher = host.watcher(rules)
    assert "evidence-lost" not in firing(ticks(watcher, host, 3))
    host.gaps.append("journald's rate limit dropped 4711 lines")

    snapshot = ticks(watcher, host, 3)
    (lost,) = [f for f in snapshot.findings if f.name == "evidence-lost"]
    assert any("4711" in e.text for e in lost.evidence)


def decode(host: Host, watcher: Watcher, seconds: int, rate: float, running: int = 8) -> Snapshot:
    snapshot = watcher.tick()
    for _ in range(seconds):
        host.clock.sleep(1.0)
        host.say(DECODE.format(running, rate))
        snapshot = watcher.tick()
    return snapshot


def test_slower_than_before_the_restart_is_found_at_the_same_demand_only(rules: tuple[Rule, ...]) -> None:
    host = Host()
    host.start()
    host.say(READY)
    watcher = host.watcher(rules)
    decode(host, watcher, 200, 100.0)
    host.start(pid=101)
    ticks(watcher, host, 6)
    host.say(READY)

    other = decode(host, watcher, 500, 20.0, running=1)
    assert "regressed-since-restart" not in firing(other)
    slower = decode(host, watcher, 700, 60.0)
    assert "regressed-since-restart" in firing(slower)
    assert slower.views[0].signals.number("epoch.rate_ratio") == pytest.approx(0.6, abs=0.02)
    memory = decoded(encoded(watcher.memory())).servers["sglang"]
    assert len(memory.before[8]) >= 24


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 86_400.0, -7200.0])
def test_a_clock_that_is_set_leaves_the_windows_right(rules: tuple[Rule, ...], step_s: float) -> None:
    clock = SteppedClock()
    host = SimulatedHost(scenarios()["pp8-story"], clock)
    watcher = Watcher(
        clock=clock,
        telemetry=host.telemetry,
        processes=host.processes,
        recognise=registry.recognise,
        open_log=lambda seen: host.log(seen.unit or ""),
        open_endpoint=lambda _seen, _kind: None,
        rules=rules,
        options=WatchOptions(one_shot=False),
    )
    for _ in range(90):
        clock.sleep(1.0)
        before = watcher.tick()
    clock.step(step_s)
    clock.sleep(1.0)
    after = watcher.tick()

    assert firing(after) >= firing(before) != set()
    for name in ("demand.state", "demand.running", "throughput.gen_tps", "pipeline.stages_busy"):
        was, now = before.views[0].signals.known[name].value, after.views[0].signals.known[name].value
        assert now == (pytest.approx(was, rel=0.15) if isinstance(was, float) else was), name


def test_a_pace_is_compared_only_with_enough_of_both_lives() -> None:
    from bubblewatch.runtime.life_paces import ENOUGH, LifePaces, demand_of

    few = LifePaces({8: (100.0,) * (ENOUGH - 1)})
    few.new_life()
    assert few.before == {}
    enough = LifePaces({8: (100.0,) * ENOUGH})
    enough.new_life()
    assert enough.ratio(8) is None
    assert LifePaces({8: (50.0,) * ENOUGH}, enough.before).ratio(7) == 0.5
    assert LifePaces({8: (50.0,) * ENOUGH}, enough.before).ratio(9) is None
    assert [demand_of(n) for n in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]
