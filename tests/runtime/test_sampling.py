"""The sampling loop, on a clock that moves only when told."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import pytest

from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import SourceError, SourceLost
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.pace import BUDGET
from bubblewatch.runtime.sampler_status import Status
from bubblewatch.runtime.sampling import FOREIGN_PIDS, SamplingLoop
from bubblewatch.runtime.shared_ring import SharedPage, Word


class PlayedGpu:
    """A GPU whose sensors show what the test says, each answer taking `latency_s` of the clock."""

    def __init__(self, index: int, clock: ManualClock, page: SharedPage) -> None:
        self.info = GpuInfo(uuid=f"GPU-{index}", index=index, name="played")
        self.unsupported: dict[str, str] = {}
        self.notes: list[str] = []
        self.latency_s = 0.0
        self.power_w = 100.0
        self.lost = False
        self.no_process_list = False
        self.asked: dict[str, int] = {}
        self.failing: SourceError | None = None
        self.power_period_s: float | None = None
        self.kept: dict[str, tuple[tuple[int, float], ...]] = {}
        self._clock = clock
        self._page = page

    def _answer(self, what: str, **values: float) -> Mapping[str, float]:
        self.asked[what] = self.asked.get(what, 0) + 1
        self._clock.sleep(self.latency_s)
        self._page.count_call(what, round(self.latency_s * NS))
        if self.lost:
            raise SourceLost("GPU is lost", "reboot")
        if self.failing:
            raise self.failing
        return values

    def read_fast(self) -> Mapping[str, float]:
        shown_w = self.power_w
        if self.power_period_s:
            shown_w += self._clock.monotonic_ns() // round(self.power_period_s * NS) % 7
        return self._answer("fast", power_instant_w=shown_w)

    def read_util(self) -> Mapping[str, float]:
        return self._answer("util", util_ratio=0.5)

    def read_samples(self) -> Mapping[str, tuple[tuple[int, float], ...]]:
        self._answer("samples")
        return self.kept

    def read_slow(self) -> Mapping[str, float]:
        return self._answer("slow", sm_clock_mhz=2000.0)

    def processes(self) -> tuple[tuple[int, int | None], ...]:
        self._answer("processes")
        if self.no_process_list:
            raise SourceError("no list")
        return ((4711, 1024),)

    def refresh(self) -> None:
        return


class Bench:
    """A loop over played GPUs, with the parent's view of its memory."""

    def __init__(self, gpus: int = 2, rate_hz: float | None = 10.0, foreign: bool = False) -> None:
        self.clock = ManualClock()
        self.clock.sleep(1000)
        self.page, fd = SharedPage.create(rate_hz)
        writer = SharedPage(fd, rate_hz, writable=True)
        os.close(fd)
        self.gpus = [PlayedGpu(index, self.clock, writer) for index in range(gpus)]
        self.loop = SamplingLoop(
            self.gpus, writer, self.clock, rate_hz, Status(driver_version="570"), lambda pids: foreign and any(pids)
        )

    def run(self, seconds: float) -> None:
        end_ns = self.clock.monotonic_ns() + round(seconds * NS)
        self.loop.run(lambda: self.clock.monotonic_ns() < end_ns)

    def times_s(self, field: str, gpu: int = 0) -> list[float]:
        return [time_ns / NS - 1000 for time_ns in self.page.ring(gpu, field).since(0).times_ns]

    def values(self, field: str, gpu: int = 0) -> list[float]:
        return list(self.page.ring(gpu, field).since(0).values)

    def status(self) -> Status:
        text = self.page.status()
        assert text is not None
        return Status.decode(text)


def test_each_kind_of_reading_is_asked_at_its_own_pace() -> None:
    bench = Bench()

    bench.run(20)

    asked = bench.gpus[1].asked
    assert asked["fast"] == pytest.approx(200, abs=2)
    assert asked["util"] == pytest.approx(100, abs=2)
    assert asked["slow"] == pytest.approx(20, abs=1)
    assert asked["processes"] == 1


def test_deadlines_are_absolute_so_that_slow_answers_do_not_stretch_the_period() -> None:
    bench = Bench(gpus=1)
    bench.gpus[0].latency_s = 0.0005

    bench.run(30)

    assert bench.page.get(Word.TICKS) == pytest.approx(300, abs=2)
    assert bench.page.get(Word.LATE_TICKS) == 0


def test_a_stall_is_counted_and_not_caught_up_with() -> None:
    bench = Bench(gpus=1)
    bench.run(1)
    ticks = bench.page.get(Word.TICKS)

    bench.gpus[0].latency_s = 0.35
    bench.loop.wait()
    bench.loop.tick()
    bench.gpus[0].latency_s = 0.0
    bench.loop.wait()

    assert bench.page.get(Word.TICKS) == ticks + 1
    assert bench.page.get(Word.SKIPPED_TICKS) >= 2
    assert bench.page.get(Word.LATE_TICKS) >= 1


def test_repeats_are_dropped_but_no_second_is_without_a_reading() -> None:
    bench = Bench()

    bench.run(10)

    gaps = [
        later - earlier
        for earlier, later in zip(bench.times_s("power_instant_w"), bench.times_s("power_instant_w")[1:], strict=False)
    ]
    assert len(gaps) < 15
    assert max(gaps) <= 1.0


def test_a_change_is_stored_at_the_tick_that_sees_it() -> None:
    bench = Bench()
    bench.run(1)
    bench.gpus[0].power_w = 300.0

    bench.run(0.2)

    assert bench.values("power_instant_w")[-1] == 300.0
    assert bench.values("power_instant_w", gpu=1)[-1] == 100.0


def test_a_lost_gpu_is_nan_from_then_on_and_the_others_go_on() -> None:
    bench = Bench()
    bench.run(2)
    bench.gpus[0].lost = True

    bench.run(2)

    assert math.isnan(bench.values("power_instant_w")[-1])
    assert math.isnan(bench.values("sm_clock_mhz")[-1])
    assert bench.values("power_instant_w", gpu=1)[-1] == 100.0
    lost = bench.status().lost
    assert lost.keys() == {"GPU-0"}
    assert (lost["GPU-0"].what, lost["GPU-0"].hint) == ("GPU is lost", "reboot")


def test_a_lost_gpu_is_asked_rarely_and_welcomed_back() -> None:
    bench = Bench()
    bench.gpus[0].lost = True
    bench.run(9)
    asked = dict(bench.gpus[0].asked)
    bench.gpus[0].lost = False

    bench.run(3)

    assert asked == {"fast": 1}
    assert bench.values("power_instant_w")[-1] == 100.0
    assert bench.status().lost == {}


def test_processes_are_told_at_the_start_and_every_half_minute() -> None:
    bench = Bench()
    bench.gpus[1].no_process_list = True

    bench.run(65)

    assert bench.gpus[0].asked["processes"] == 3
    assert bench.status().processes == {"GPU-0": ((4711, 1024),)}


def test_the_status_is_there_before_the_first_tick_is_counted() -> None:
    bench = Bench()

    bench.loop.wait()
    bench.loop.tick()

    assert bench.page.get(Word.TICKS) == 1
    assert [gpu.uuid for gpu in bench.status().gpus] == ["GPU-0", "GPU-1"]
    assert bench.status().driver_version == "570"


def test_the_status_is_written_only_when_it_is_news() -> None:
    bench = Bench()
    bench.run(1)
    written = bench.page.get(Word.STATUS_SEQUENCE)

    bench.run(5)

    assert bench.page.get(Word.STATUS_SEQUENCE) == written


def test_the_governor_slows_down_for_a_slow_driver_and_comes_back() -> None:
    bench = Bench(gpus=4)
    for gpu in bench.gpus:
        gpu.latency_s = 0.004
    bench.run(60)
    spent_before, start_ns = bench.page.calls.total_ns(), bench.clock.monotonic_ns()
    bench.run(60)
    share = (bench.page.calls.total_ns() - spent_before) / (bench.clock.monotonic_ns() - start_ns)
    slow_period_ns = bench.page.get(Word.PERIOD_NS)
    for gpu in bench.gpus:
        gpu.latency_s = 0.0
    bench.run(60)

    assert slow_period_ns > 0.5 * NS
    assert share < 1.5 * BUDGET
    assert bench.page.get(Word.PERIOD_NS) == 0.1 * NS


def test_utilization_comes_from_the_drivers_own_samples_and_the_plain_call_rests() -> None:
    bench = Bench(gpus=1)
    gpu = bench.gpus[0]
    epoch_us = 77_000_000
    for second in range(1, 11):
        newest_us = epoch_us + bench.clock.monotonic_ns() // 1000
        samples = tuple((newest_us - (4 - at) * 200_000, second / 20) for at in range(5))
        gpu.kept = {"util_ratio": samples, "mem_util_ratio": samples}
        bench.run(1)

    assert gpu.asked["samples"] == pytest.approx(10, abs=1)
    assert gpu.asked.get("util", 0) <= 2
    assert set(bench.values("util_ratio")) == {second / 20 for second in range(1, 11)}
    assert bench.status().refresh_s["played"]["util_ratio"] == 0.2


def test_a_driver_without_samples_is_asked_plainly_as_when_the_gpu_is_idle() -> None:
    """autowarefoundation/autoware_universe#11285: no samples while idle is no error."""
    bench = Bench(gpus=1)

    bench.run(5)

    assert bench.gpus[0].asked["samples"] == pytest.approx(5, abs=1)
    assert bench.gpus[0].asked["util"] >= 25
    assert bench.status().lost == {}


def test_a_gpu_that_fails_is_asked_again_after_growing_pauses() -> None:
    bench = Bench()
    bench.run(3)
    bench.gpus[0].failing = SourceError("NVML nvmlDeviceGetFieldValues: Unknown Error")
    before = bench.gpus[0].asked["fast"]

    bench.run(60)
    asked = bench.gpus[0].asked["fast"] - before
    bench.gpus[0].failing = None
    bench.run(11)

    assert 6 <= asked <= 12
    assert bench.gpus[1].asked["fast"] > 600
    assert bench.values("power_instant_w")[-1] == 100.0
    assert bench.status().lost == {}


@pytest.mark.parametrize(
    ("refresh_s", "rate_hz", "reason"),
    [
        (0.1, 10, "the fastest sensor refreshes every 100 ms"),
        (0.05, 20, "the fastest sensor refreshes every 50 ms"),
        (0.5, 2, "the fastest sensor refreshes every 500 ms"),
        (None, 10, "the usual one: no sensor changed often enough to be measured"),
    ],
)
def test_the_rate_is_that_of_the_sensors_unless_asked_for(refresh_s: float | None, rate_hz: float, reason: str) -> None:
    bench = Bench(rate_hz=None)
    for gpu in bench.gpus:
        gpu.power_period_s = refresh_s

    bench.run(10)

    assert NS / bench.page.get(Word.PERIOD_NS) == pytest.approx(rate_hz)
    assert bench.status().rate_reason == reason


@pytest.mark.parametrize("rate_hz", [10.0, 100.0, 500.0])
def test_the_refresh_of_the_sensors_is_measured_at_any_rate(rate_hz: float) -> None:
    """wookayin/gpustat#76: 2,743 reads a second of a sensor with a few distinct values."""
    bench = Bench(gpus=3, rate_hz=rate_hz)
    for gpu in bench.gpus:
        gpu.power_period_s = 0.1

    bench.run(4)

    assert bench.status().refresh_s == {"played": {"power_instant_w": pytest.approx(0.1, abs=0.011)}}
    assert bench.status().rate_reason == "as asked"
    assert bench.page.distinct("power_instant_w") == pytest.approx(3 * 40, abs=6)


def test_only_one_gpu_of_a_model_is_read_in_a_burst_and_only_at_the_start() -> None:
    bench = Bench(gpus=3)

    bench.run(10)

    first, *others = [gpu.asked["fast"] for gpu in bench.gpus]
    assert first == pytest.approx(100 + 180, abs=10)
    assert others == [pytest.approx(100, abs=2)] * 2


def test_a_slow_driver_ends_the_burst_early() -> None:
    """NVIDIA/open-gpu-kernel-modules#1248: each read stalls the machine for 4 to 5 ms."""
    bench = Bench(gpus=1)
    bench.gpus[0].latency_s = 0.004

    bench.run(1.5)

    assert bench.gpus[0].asked["fast"] < 50


def test_a_user_who_wants_it_slow_gets_no_burst() -> None:
    bench = Bench(gpus=1, rate_hz=1.0)

    bench.run(10)

    assert bench.gpus[0].asked["fast"] == pytest.approx(10, abs=1)


def test_processes_of_another_pid_namespace_are_said_with_what_to_do() -> None:
    """wookayin/gpustat#117, NVIDIA/nvidia-docker#1483: the host's process ids inside a container."""
    bench = Bench(foreign=True)
    bench.run(3)

    assert bench.status().notes == {"GPU-0": (FOREIGN_PIDS,), "GPU-1": (FOREIGN_PIDS,)}


def test_no_drift_and_no_growth_over_an_hour() -> None:
    """NVIDIA/dcgm-exporter#68: values that went wrong after 18 hours."""
    bench = Bench(gpus=2)
    for gpu in bench.gpus:
        gpu.power_period_s = 0.1
    bench.run(60)
    ticks, names = bench.page.get(Word.TICKS), len(bench.page.calls.read())

    bench.run(3540)

    assert bench.page.get(Word.TICKS) - ticks == pytest.approx(35_400, abs=3)
    assert bench.page.get(Word.LATE_TICKS) == 0
    assert len(bench.page.calls.read()) == names
    assert len(bench.page.ring(0, "power_instant_w").since(0)) < 6000
