"""The books add up: every nanosecond of every GPU in one state, every life of a server counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.rules import rules_in_force
from bubblewatch.model.accounts import Accounts, GpuState
from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.findings import Answer, Finding, Scope, Severity, State, Target, TargetView
from bubblewatch.model.server import Epoch, Server
from bubblewatch.model.signals import Confidence, Signal, Signals
from bubblewatch.model.telemetry import GpuInfo, GpuReading, Series, Telemetry
from bubblewatch.runtime.gpu_time import FORGET_S, GpuTime

RUNNING = Signals({"demand.state": Signal("running")})


def reading(uuid: str, *, at_s: float, util: float = 0.25, sm: float = 0.15, **fields: float) -> GpuReading:
    values: Mapping[str, float] = {"util_ratio": util, "sm_active_ratio": sm, **fields}
    series = {name: Series((round(at_s * NS),), (value,)) for name, value in values.items()}
    return GpuReading(GpuInfo(uuid, 0, "any card"), series)


def view(key: str, *uuids: str, pid: int = 1, signals: Signals = RUNNING, firing: tuple[str, ...] = ()) -> TargetView:
    target = Target(Scope.SERVER, key)
    findings = tuple(
        Finding("BW1", name, Severity.WARNING, Confidence.HIGH, target, State.FIRING, "it is so") for name in firing
    )
    server = Server("sglang", key, gpus=dict.fromkeys(uuids), epoch=Epoch("boot", pid, 1))
    return TargetView(target, Answer.FINDINGS, signals, findings, server)


def seconds(accounts: Accounts, uuid: str) -> dict[str, float]:
    return {state.value: ns / NS for state, ns in accounts.gpus[uuid].time_ns.items() if ns}


def stepped(books: GpuTime, at_s: float, *gpus: GpuReading, views: tuple[TargetView, ...] = ()) -> Accounts:
    return books.step(round(at_s * NS), Telemetry(gpus, 0, round(at_s * NS)), views)


@pytest.mark.parametrize("name", ["pp8-story", "no-demand", "hung", "tp8"])
def test_states_sum_to_the_elapsed_time_of_all_gpus(name: str) -> None:
    clock = ManualClock()
    watcher = simulated_watcher(scenarios()[name], clock, rules_in_force(), (), one_shot=False)
    started_ns = clock.monotonic_ns()
    accounts = watcher.tick().accounts
    for pause_s in (1.0, 1.0, 0.3, 2.7, 1.0, 7.0):
        clock.sleep(pause_s)
        accounts = watcher.tick().accounts

    total_ns = sum(sum(gpu.time_ns.values()) for gpu in accounts.gpus.values())
    assert total_ns == 8 * (clock.monotonic_ns() - started_ns)


def test_a_moment_goes_to_the_states_of_that_moment() -> None:
    books = GpuTime()
    first = stepped(books, 10, reading("GPU-a", at_s=9), views=(view("k26", "GPU-a"),))
    second = stepped(books, 14, reading("GPU-a", at_s=9), views=(view("k26", "GPU-a"),))

    assert seconds(first, "GPU-a") == {}
    assert seconds(second, "GPU-a") == pytest.approx({"active": 0.8, "resident-low": 0.2, "not-resident": 3.0})


def test_a_gpu_that_no_server_uses_is_known_only_as_far_as_it_works() -> None:
    books = GpuTime()
    stepped(books, 0, reading("GPU-a", at_s=0))
    after = stepped(books, 10, reading("GPU-a", at_s=6))

    assert seconds(after, "GPU-a") == pytest.approx({"active": 2.0, "unknown": 8.0})


def test_a_gpu_that_is_not_read_any_more_goes_on_unknown_and_is_forgotten_in_the_end() -> None:
    books = GpuTime()
    stepped(books, 0, reading("GPU-a", at_s=0))

    assert seconds(stepped(books, 5), "GPU-a") == {"unknown": 5.0}
    assert stepped(books, FORGET_S + 6).gpus == {}


def test_lost_time_is_what_the_servers_own_gpus_lost() -> None:
    books = GpuTime()
    gpus = [reading(uuid, at_s=0) for uuid in ("GPU-a", "GPU-b")]
    views = (view("k26", "GPU-a", "GPU-b", firing=("launch-bound",)), view("other", "GPU-b"))
    stepped(books, 0, *gpus, views=views)
    after = stepped(books, 5, *gpus, views=views)

    assert {key: dict(server.lost_ns) for key, server in after.servers.items()} == {
        "k26": {"launch-bound": 4 * NS},
        "other": {},
    }


def test_a_finding_that_does_not_fire_yet_explains_nothing() -> None:
    books = GpuTime()
    pending = view("k26", "GPU-a", firing=("launch-bound",))
    pending = replace(pending, findings=tuple(replace(f, state=State.PENDING) for f in pending.findings))
    stepped(books, 0, reading("GPU-a", at_s=0), views=(pending,))
    after = stepped(books, 5, reading("GPU-a", at_s=0), views=(pending,))

    assert after.servers["k26"].lost_ns == {"unsplit": 4 * NS}


def test_a_restart_is_counted_when_the_same_key_has_a_new_life_even_after_a_gap() -> None:
    books = GpuTime()
    stepped(books, 0, views=(view("k26", pid=1),))
    stepped(books, 1, views=(view("k26", pid=2),))
    stepped(books, 2)
    after = stepped(books, 300, views=(view("k26", pid=3),))

    assert after.servers["k26"].starts == 2


def test_energy_is_by_the_counter_and_by_power_while_there_is_none() -> None:
    books = GpuTime()
    stepped(books, 0, reading("GPU-a", at_s=0, energy_j=5000.0, power_average_w=100.0))
    counted = stepped(books, 2, reading("GPU-a", at_s=2, energy_j=5300.0, power_average_w=100.0))
    reset = stepped(books, 4, reading("GPU-a", at_s=2, energy_j=10.0, power_average_w=100.0))
    dark = stepped(books, 5, reading("GPU-b", at_s=5))

    assert counted.gpus["GPU-a"].energy_j == pytest.approx(300.0)
    assert reset.gpus["GPU-a"].energy_j == pytest.approx(500.0)
    assert dark.gpus["GPU-b"].energy_j is None


def test_every_state_is_always_there() -> None:
    assert set(stepped(GpuTime(), 0, reading("GPU-a", at_s=0)).gpus["GPU-a"].time_ns) == set(GpuState)
