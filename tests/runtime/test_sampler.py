"""The sampler process over the compiled stand-in of NVML: a real child, real shared memory, real pynvml."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS, SystemClock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Health
from bubblewatch.model.telemetry import FIELDS
from bubblewatch.runtime.sampler import NullTelemetry, SamplerProcess
from bubblewatch.runtime.sampler_grip import Patience
from bubblewatch.runtime.sampler_lives import BackOff
from tests.nvml_shim.shim import Feed, FeedThread, build, calls_made, control, environment, uuid_of

PATIENCE_S = 20.0
"""How long a test waits for what must come: far beyond what it takes, for a busy machine."""
HANGING = "latency 3600000000\n"


HASTE = Patience(hang_s=0.4, start_s=10.0, replace_s=0.8, back_off_s=(0.2, 0.8), trial_s=(0.3, 5.0), trial_for_s=1.5)
"""What waits for minutes in earnest is due within a second."""


class Host:
    """A host with three stand-in GPUs, and the samplers that a test starts on it."""

    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls"
        self.control = folder / "control"
        self.clock = SystemClock()
        self.feed = Feed(folder / "feed", count=3)
        self._started: list[SamplerProcess] = []

    def environ(self, init_code: int = 0) -> dict[str, str]:
        return {**os.environ, **environment(build(), self.feed.path, self.control, self.calls, init_code)}

    def start(self, **options: object) -> SamplerProcess:
        options = {"environ": self.environ(), "rate_hz": 50.0, "patience": HASTE, **options}
        sampler = SamplerProcess(self.clock, **options)  # type: ignore[arg-type]
        self._started.append(sampler)
        return sampler

    def running(self, **options: object) -> SamplerProcess:
        sampler = self.start(**options)
        assert sampler.wait(PATIENCE_S), sampler.health()
        return sampler

    def close(self) -> None:
        for sampler in self._started:
            sampler.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def indices(sampler: SamplerProcess) -> list[int]:
    """The GPUs that are watched, after the parent has done what is due."""
    sampler.supervise()
    return [gpu.index for gpu in sampler.gpus]


def pid_of(sampler: SamplerProcess) -> int:
    pid = sampler.cost().pid
    assert pid is not None
    return pid


def test_readings_of_every_field_reach_the_parent(host: Host) -> None:
    host.feed.set(1, power_instant_w=412.5, util_ratio=0.5, sm_active_ratio=0.25)

    sampler = host.running()
    until(lambda: all(len(reading.series) == len(FIELDS) for reading in sampler.window(0).gpus))
    telemetry = sampler.window(0)

    assert [reading.gpu.uuid for reading in telemetry.gpus] == [uuid_of(0), uuid_of(1), uuid_of(2)]
    latest = {field: series.values[-1] for field, series in telemetry.gpus[1].series.items()}
    assert (latest["power_instant_w"], latest["util_ratio"], latest["sm_active_ratio"]) == (412.5, 0.5, 0.25)
    assert sampler.gpus[2].power_limit_w == 600.0


def test_a_window_holds_what_lies_in_it_on_the_clocks_of_this_machine(host: Host) -> None:
    sampler = host.running()
    since_ns = time.monotonic_ns()
    host.feed.set(0, power_instant_w=300.0)
    until(lambda: len(sampler.window(since_ns).gpus[0].series.get("power_instant_w", ())) > 0)

    telemetry = sampler.window(since_ns)

    series = telemetry.gpus[0].series["power_instant_w"]
    assert since_ns <= series.times_ns[0] <= series.times_ns[-1] <= telemetry.end_ns
    assert series.values[-1] == 300.0
    assert telemetry.start_ns == since_ns
    assert telemetry.wall_offset_ns == pytest.approx(time.time_ns() - time.monotonic_ns(), abs=NS)


def test_a_window_does_not_claim_time_before_the_first_reading(host: Host) -> None:
    before_ns = time.monotonic_ns()
    sampler = host.running()

    assert sampler.window(before_ns - 100 * NS).start_ns > before_ns


def test_each_refresh_of_a_sensor_is_one_distinct_reading(host: Host) -> None:
    sampler = host.running(rate_hz=100.0)
    since_ns = time.monotonic_ns()
    shown = [200.0 + step for step in range(8)]
    for watts in shown:
        host.feed.set(0, power_instant_w=watts)
        until(lambda: sampler.window(0).gpus[0].series["power_instant_w"].values[-1] == watts)  # noqa: B023 - used at once

    values = list(sampler.window(since_ns).gpus[0].series["power_instant_w"].values)

    assert [value for value in values if value in shown] == shown


def test_the_rate_is_kept(host: Host) -> None:
    sampler = host.running(rate_hz=20.0)
    start_ticks, start = sampler.cost().ticks, time.monotonic()
    until(lambda: sampler.cost().ticks >= start_ticks + 20)
    seconds = time.monotonic() - start

    cost = sampler.cost()
    # Deadlines are absolute: every one of them was met or counted, however busy this machine is.
    deadlines = cost.ticks - start_ticks + cost.skipped_ticks
    assert deadlines >= 20
    assert seconds > 0.9
    assert cost.rate_hz == pytest.approx(20.0)


def test_health_says_what_of_a_high_rate_the_sensors_fill(host: Host) -> None:
    """XuehaiPan/nvitop#65, wookayin/gpustat#76: more reads are not more readings."""

    def sensor_state(gpu: int, time_ns: int) -> dict[str, float]:
        return {"power_instant_w": 100.0 + time_ns // (NS // 5) % 7}

    with FeedThread(host.feed, sensor_state, time.monotonic_ns):
        sampler = host.running(rate_hz=100.0)
        until(lambda: "of which the sensors fill" in sampler.health().detail)

    assert "100 Hz, of which the sensors fill" in sampler.health().detail
    assert "power_instant_w 2" in sampler.health().detail  # 200 ms, give or take a busy machine


def test_health_names_gpus_driver_and_rate(host: Host) -> None:
    sampler = host.running()

    health = sampler.health()

    assert (health.name, health.health) == ("nvml", Health.OK)
    assert health.detail.startswith("3 GPUs, driver 570.133.20, 50 Hz")
    assert health.read_count > 0


@pytest.mark.parametrize(("rate_hz", "is_urgent"), [(None, False), (20.0, False), (50.0, True)])
def test_only_high_rates_that_were_asked_for_take_real_time_priority(
    host: Host, rate_hz: float | None, is_urgent: bool
) -> None:
    sampler = host.running(rate_hz=rate_hz)

    assert ("real-time priority" in sampler.health().detail) == is_urgent
    if os.geteuid() == 0 or not is_urgent:
        urgent = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        assert os.sched_getscheduler(pid_of(sampler)) == (urgent if is_urgent else os.SCHED_OTHER)


def test_health_says_when_power_is_that_of_the_module(host: Host) -> None:
    control(host.control, "module 0\nmodule 1\n")

    detail = host.running().health().detail

    assert detail.count("power is that of the whole module") == 1


def test_own_cost_is_known(host: Host) -> None:
    sampler = host.running()
    until(lambda: sampler.cost().ticks > 5)

    cost = sampler.cost()

    fields = cost.calls["nvmlDeviceGetFieldValues"]
    assert fields.calls > 5 * 3
    p50_s, p99_s = fields.quantile_s(0.5), fields.quantile_s(0.99)
    assert p50_s is not None
    assert p99_s is not None
    assert 0 < p50_s <= p99_s
    assert cost.cpu_s > 0
    assert cost.distinct["power_instant_w"] >= 3
    assert (cost.restarts, cost.rate_reason) == (0, "as asked")


def test_processes_are_known_with_the_first_readings(host: Host) -> None:
    host.feed.processes(0, [(4711, 1000), (4712, 2000)])

    sampler = host.running()

    assert sampler.processes() == {
        uuid_of(0): ((4711, 1000 * 2**20), (4712, 2000 * 2**20)),
        uuid_of(1): (),
        uuid_of(2): (),
    }


@pytest.mark.parametrize("options", [{"exclude": ["1"]}, {"only": ["0", uuid_of(2)]}])
def test_gpus_that_were_not_chosen_get_no_call(host: Host, options: dict[str, object]) -> None:
    sampler = host.running(**options)
    until(lambda: sampler.cost().ticks > 60)

    assert [gpu.index for gpu in sampler.gpus] == [0, 2]
    assert {gpu for _, gpu in calls_made(host.calls)} == {None, 0, 2}


def test_a_gpu_that_is_not_there_is_the_users_error_and_is_not_asked_for_again(host: Host) -> None:
    sampler = host.start(only=["7"], patience=Patience(back_off_s=(0.0, 0.0)))

    with pytest.raises(UsageError, match="no GPU 7"):
        sampler.wait(PATIENCE_S)

    for _ in range(3):
        sampler.supervise()
    assert sampler.cost().restarts == 0
    assert sampler.health().health is Health.ABSENT


@pytest.mark.parametrize("rate_hz", [0.0, -1.0, 1001.0, math.nan])
def test_a_rate_that_cannot_be_is_the_users_error(host: Host, rate_hz: float) -> None:
    with pytest.raises(UsageError, match="rate"):
        host.start(rate_hz=rate_hz)


@pytest.mark.parametrize(
    ("init_code", "health", "words"),
    [(9, Health.ABSENT, "modprobe"), (18, Health.ABSENT, "reboot"), (4, Health.DENIED, "/dev/nvidia")],
)
def test_a_driver_that_does_not_start_is_said_with_what_to_do(
    host: Host, init_code: int, health: Health, words: str
) -> None:
    sampler = host.start(environ=host.environ(init_code))

    assert not sampler.wait(PATIENCE_S)
    assert sampler.health().health is health
    assert words in sampler.health().mend
    assert sampler.window(0).gpus == ()


def test_no_library_is_absent_and_not_an_error(host: Host, tmp_path: Path) -> None:
    sampler = host.start(environ={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})

    assert not sampler.wait(PATIENCE_S)
    assert sampler.health().health is Health.ABSENT
    assert "libnvidia-ml.so.1" in sampler.health().detail


def test_a_driver_without_gpus_is_absent(host: Host) -> None:
    sampler = host.start(environ={**host.environ(), "FAKE_NVML_FEED": ""})

    assert not sampler.wait(PATIENCE_S)
    assert sampler.health().health is Health.ABSENT
    assert "no GPU" in sampler.health().detail


def test_a_driver_that_comes_later_is_found(host: Host) -> None:
    control(host.control, "error nvmlDeviceGetCount_v2 9\n")
    sampler = host.start()
    assert not sampler.wait(PATIENCE_S)

    control(host.control, "")
    until(lambda: sampler.health().health is Health.OK)

    assert len(sampler.gpus) == 3


def test_a_lost_gpu_degrades_and_the_others_are_still_read(host: Host) -> None:
    sampler = host.running()
    control(host.control, "lost 1\n")
    until(lambda: sampler.health().health is Health.DEGRADED)
    since_ns = time.monotonic_ns()
    host.feed.set(0, power_instant_w=222.0)
    until(lambda: "power_instant_w" in sampler.window(since_ns).gpus[0].series)

    assert "GPU 1" in sampler.health().detail
    assert "lost" in sampler.health().detail
    assert math.isnan(sampler.window(0).gpus[1].series["power_instant_w"].values[-1])
    assert sampler.window(since_ns).gpus[0].series["power_instant_w"].values[-1] == 222.0


def test_all_gpus_lost_is_lost(host: Host) -> None:
    sampler = host.running()
    control(host.control, "lost 0\nlost 1\nlost 2\n")

    until(lambda: sampler.health().health is Health.LOST)


def test_a_call_that_hangs_is_seen_and_close_does_not_wait_for_it(host: Host) -> None:
    sampler = host.running()
    pid = pid_of(sampler)
    control(host.control, HANGING)
    until(lambda: sampler.window(time.monotonic_ns() - NS // 10).gpus[0].series.keys() == set())

    until(lambda: sampler.health().health is Health.DEGRADED)
    health = sampler.health()
    sampler.close()

    assert health.health is Health.DEGRADED
    assert "a call hangs on GPU" in health.detail
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert sampler.health().health is Health.OFF


def quiet(sampler: SamplerProcess) -> None:
    """Wait until GPU 0 has not been read for a tenth of a second."""
    until(lambda: not any(gpu.series for gpu in sampler.window(time.monotonic_ns() - NS // 10).gpus[:1]))


def test_a_gpu_on_which_a_call_hangs_is_left_out_and_the_others_go_on(host: Host) -> None:
    """NVIDIA/gpu-monitoring-tools#188, microsoft/pai#889: a hung query, and stale values served under a green light."""
    sampler = host.running()
    first = pid_of(sampler)
    began_ns = sampler.window(0).gpus[0].series["power_instant_w"].times_ns[0]
    control(host.control, "hang 1\n")
    quiet(sampler)
    until(lambda: len(indices(sampler)) == 2)
    until(lambda: sampler.health().health is Health.DEGRADED)
    since_ns = time.monotonic_ns()
    host.feed.set(0, power_instant_w=222.0)
    until(lambda: "power_instant_w" in sampler.window(since_ns).gpus[0].series)

    assert [gpu.index for gpu in sampler.gpus] == [0, 2]
    assert "GPU 1: a call on it does not come back from the driver" in sampler.health().detail
    assert "dmesg" in sampler.health().mend
    assert sampler.window(0).gpus[0].series["power_instant_w"].times_ns[0] == began_ns
    until(lambda: not Path(f"/proc/{first}").exists())


def test_a_gpu_that_hung_comes_back_without_a_gap_for_the_others(host: Host) -> None:
    sampler = host.running()
    control(host.control, "hang 1\n")
    quiet(sampler)
    until(lambda: len(indices(sampler)) == 2 and sampler.health().health is Health.DEGRADED)
    until(lambda: indices(sampler) == [0, 2] and len(children_of(os.getpid())) == 2)  # a trial, which hangs as well
    assert len(sampler.gpus) == 2
    control(host.control, "")
    until(lambda: sampler.health().health is Health.OK)

    assert [gpu.index for gpu in sampler.gpus] == [0, 1, 2]
    times_ns = sampler.window(0).gpus[0].series["power_instant_w"].times_ns
    assert list(times_ns) == sorted(set(times_ns))


def test_a_trial_that_hangs_is_given_up_and_tried_again_later(host: Host) -> None:
    """utkuozdemir/nvidia_gpu_exporter#405: many processes that ask a hung GPU."""
    sampler = host.running()
    control(host.control, "hang 1\n")
    until(lambda: indices(sampler) == [0, 2])
    trials = set()

    def two_trials_were_seen() -> bool:
        sampler.supervise()
        alive = children_of(os.getpid())
        assert len(alive) <= 3
        trials.update(alive - {pid_of(sampler)})
        return len(trials) >= 2 and sampler.health().health is Health.DEGRADED

    until(two_trials_were_seen)
    assert [gpu.index for gpu in sampler.gpus] == [0, 2]


@pytest.mark.parametrize("fault", ["hang", "crash"])
def test_the_only_gpu_that_fails_is_asked_again_until_it_answers(host: Host, fault: str) -> None:
    sampler = host.running(only=["1"])
    control(host.control, f"{fault} 1\n")
    until(lambda: "left out: GPU 1" in sampler.health().detail)
    assert sampler.health().health is Health.LOST
    assert "dmesg" in sampler.health().mend
    control(host.control, "")

    until(lambda: sampler.health().health is Health.OK)


def test_a_library_that_crashes_on_one_gpu_costs_that_gpu_alone(host: Host) -> None:
    """XuehaiPan/nvitop#145: a segmentation fault with one GPU in Unknown Error."""
    sampler = host.running()
    control(host.control, "crash 2\n")
    until(lambda: "signal 11" in sampler.health().detail)
    until(lambda: len(indices(sampler)) == 2)

    assert [gpu.index for gpu in sampler.gpus] == [0, 1]
    assert "GPU 2: the driver's library crashed" in sampler.health().detail


def test_a_gpu_that_was_reset_is_read_again_by_a_fresh_process(host: Host) -> None:
    """A handle from before the reset stays lost; the stand-in plays that by the process that asks."""
    sampler = host.running()
    first = pid_of(sampler)
    control(host.control, f"lost 1 {first}\n")
    until(lambda: sampler.health().health is Health.DEGRADED)
    until(lambda: sampler.health().health is Health.OK)

    assert pid_of(sampler) != first
    assert sampler.cost().restarts == 1
    assert sampler.cost().calls["nvmlInitWithFlags"].calls == 2
    assert len(sampler.gpus) == 3


def test_versions_that_differ_after_an_upgrade_are_named_and_survived(host: Host) -> None:
    """mozilla/translations#1143: a mismatch while the program runs."""
    sampler = host.running()
    control(host.control, "error * 18\nerror nvmlInitWithFlags 18\n")
    until(lambda: sampler.health().health is Health.LOST)
    health = sampler.health()
    control(host.control, "")
    until(lambda: sampler.health().health is Health.OK)

    assert "mismatch" in health.detail
    assert "reboot" in health.mend


def test_unknown_error_from_every_gpu_is_lost_and_comes_back(host: Host) -> None:
    """NVIDIA/nvidia-container-toolkit#48: Unknown Error in containers after systemctl daemon-reload."""
    sampler = host.running()
    control(host.control, "error * 999\n")
    until(lambda: sampler.health().health is Health.LOST)

    assert "Unknown Error" in sampler.health().detail
    assert math.isnan(sampler.window(0).gpus[0].series["power_instant_w"].values[-1])
    control(host.control, "")
    until(lambda: sampler.health().health is Health.OK)


def test_one_gpu_in_unknown_error_leaves_the_others_alone(host: Host) -> None:
    control(host.control, "error * 999 1\n")

    sampler = host.running()

    assert [gpu.index for gpu in sampler.gpus] == [0, 2]
    assert sampler.health().health is Health.DEGRADED
    assert "GPU 1" in sampler.health().detail


def test_blanks_after_an_error_are_unknown_and_end_without_a_restart(host: Host) -> None:
    """NVIDIA/DCGM#202: blanks that persist until the monitor is restarted."""
    sampler = host.running()
    host.feed.set(0, power_instant_w=-1.0)
    until(lambda: math.isnan(sampler.window(0).gpus[0].series["power_instant_w"].values[-1]))
    host.feed.set(0, power_instant_w=99.0)
    until(lambda: sampler.window(0).gpus[0].series["power_instant_w"].values[-1] == 99.0)

    assert sampler.cost().restarts == 0


def test_handles_are_kept_and_slow_calls_stay_out_of_the_loop(host: Host) -> None:
    """wookayin/gpustat#54 (handles fetched again), flightlessmango/MangoHud#2104 (process lists at 40 Hz)."""
    sampler = host.running(rate_hz=100.0)
    until(lambda: sampler.cost().ticks > 150)

    calls = calls_made(host.calls)
    assert calls["nvmlDeviceGetHandleByIndex_v2", 0] == 1
    assert calls["nvmlDeviceGetComputeRunningProcesses_v3", 0] == 1
    assert not any("PcieThroughput" in function or "Graphics" in function for function, _ in calls)


def test_utilization_is_drained_from_the_drivers_samples(host: Host) -> None:
    with FeedThread(host.feed, lambda gpu, _: {"util_ratio": 0.5 + gpu / 10}, time.monotonic_ns, 0.02, 0.2):
        sampler = host.running(rate_hz=20.0)
        until(lambda: sampler.cost().calls["nvmlDeviceGetSamples"].calls >= 12)
        plain = sampler.cost().calls["nvmlDeviceGetUtilizationRates"].calls
        until(lambda: sampler.cost().calls["nvmlDeviceGetSamples"].calls >= 18)

    cost = sampler.cost()
    assert cost.distinct["util_ratio"] >= 3 * 5
    assert cost.calls["nvmlDeviceGetUtilizationRates"].calls == plain
    assert sampler.window(0).gpus[2].series["util_ratio"].values[-1] == 0.7


def test_sm_activity_rests_while_nobody_wants_it(host: Host) -> None:
    sampler = host.running()
    until(lambda: "nvmlGpmMetricsGet" in sampler.cost().calls)
    sampler.want_sm_activity(False)
    calm_ns = time.monotonic_ns() + NS // 5
    until(lambda: time.monotonic_ns() > calm_ns)
    before = sampler.cost().calls["nvmlGpmSampleGet"].calls
    slow = sampler.cost().calls["nvmlDeviceGetTemperature"].calls
    until(lambda: sampler.cost().calls["nvmlDeviceGetTemperature"].calls >= slow + 3)

    assert sampler.cost().calls["nvmlGpmSampleGet"].calls == before
    sampler.want_sm_activity(True)
    until(lambda: sampler.cost().calls["nvmlGpmSampleGet"].calls > before)


def children_of(pid: int) -> set[int]:
    """Processes of this one that are alive."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    states = {int(child): Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in listed}
    return {child for child, state in states.items() if state != "Z"}


def test_totals_of_cost_go_on_over_a_restart(host: Host) -> None:
    sampler = host.running()
    until(lambda: sampler.cost().ticks > 20)
    os.kill(pid_of(sampler), signal.SIGKILL)
    until(lambda: "signal 9" in sampler.health().detail)
    between = sampler.cost()
    until(lambda: sampler.health().health is Health.OK)

    after = sampler.cost()
    assert between.ticks > 20
    assert after.ticks > between.ticks
    assert after.calls["nvmlInitWithFlags"].calls == 2
    assert after.cpu_s > between.cpu_s
    assert (between.pid, after.restarts) == (None, 1)


def test_a_killed_sampler_is_started_again_and_its_readings_stay(host: Host) -> None:
    sampler = host.running()
    began_ns = sampler.window(0).gpus[0].series["power_instant_w"].times_ns[0]
    os.kill(pid_of(sampler), signal.SIGKILL)
    until(lambda: "signal 9" in sampler.health().detail)
    between = sampler.window(0)
    until(lambda: sampler.health().health is Health.OK)
    host.feed.set(0, power_instant_w=333.0)
    until(lambda: sampler.window(0).gpus[0].series["power_instant_w"].values[-1] == 333.0)

    series = sampler.window(0).gpus[0].series["power_instant_w"]
    assert sampler.cost().restarts == 1
    between_ns = list(between.gpus[0].series["power_instant_w"].times_ns)
    assert between_ns[0] == began_ns
    assert between_ns == sorted(set(between_ns))
    assert series.times_ns[0] == began_ns
    assert list(series.times_ns) == sorted(set(series.times_ns))
    assert [gpu.index for gpu in sampler.gpus] == [0, 1, 2]


def test_a_sampler_that_cannot_start_is_tried_again_and_again(host: Host) -> None:
    """utkuozdemir/nvidia_gpu_exporter#65, leptonai/gpud#1180: never recovers, or exits."""
    sampler = host.start(environ=host.environ(init_code=9))

    until(lambda: sampler.health().health is Health.ABSENT and sampler.cost().restarts >= 2)


@given(failures=st.integers(1, 30))
def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_success(failures: int) -> None:
    pause = BackOff(1.0, 60.0)
    waited = [pause.next_ns(0) / NS for _ in range(failures)]
    pause.reset()

    assert waited == [min(2.0**number, 60.0) for number in range(failures)]
    assert pause.next_ns(0) == NS


def test_a_sampler_that_does_not_react_is_killed(host: Host) -> None:
    sampler = host.running()
    pid = pid_of(sampler)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "State:\tT" in Path(f"/proc/{pid}/status").read_text())

    sampler.close()

    assert not Path(f"/proc/{pid}").exists()


def test_ctrl_c_in_the_terminal_is_not_for_the_sampler(host: Host) -> None:
    sampler = host.running()

    assert os.getpgid(pid_of(sampler)) != os.getpgid(0)


PARENT = """
import os, sys, time
from bubblewatch.model.clock import SystemClock
from bubblewatch.runtime.sampler import SamplerProcess
sampler = SamplerProcess(SystemClock(), os.environ)
sampler.wait(20)
print(sampler.cost().pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("faults", ["", HANGING])
def test_the_sampler_ends_with_its_parent_even_in_a_call_that_hangs(host: Host, faults: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], env=host.environ(), stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        control(host.control, faults)
        parent.kill()

    until(lambda: not Path(f"/proc/{pid}").exists())


def test_the_sampler_imports_nothing_from_the_working_directory(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text("raise SystemExit('not me')")
    monkeypatch.chdir(tmp_path)

    assert host.start().wait(PATIENCE_S)


def test_a_simulated_host_speaks_through_the_stand_in(host: Host) -> None:
    def sensor_state(gpu: int, time_ns: int) -> dict[str, float]:
        tenths = time_ns // (NS // 10)
        return {"power_instant_w": 100.0 + gpu + tenths % 7, "energy_j": tenths * 10.0, "util_ratio": 0.25}

    with FeedThread(host.feed, sensor_state, time.monotonic_ns):
        sampler = host.running()
        until(lambda: len(sampler.window(0).gpus[2].series["energy_j"]) >= 8)
        telemetry = sampler.window(0)

    assert telemetry.gpus[2].series.keys() == {"power_instant_w", "energy_j", "util_ratio", "mem_util_ratio"}
    energy = telemetry.gpus[2].series["energy_j"]
    assert list(energy.values) == sorted(energy.values)
    assert sampler.unsupported[uuid_of(0)].keys() >= {"sm_active_ratio", "temperature_c"}


def test_no_telemetry_when_none_was_asked_for() -> None:
    none = NullTelemetry()

    assert none.window(5).gpus == ()
    assert none.processes() == {}
    assert none.health().health is Health.OFF
    none.close()
