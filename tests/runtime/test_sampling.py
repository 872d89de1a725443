"""The sampling loop, on a clock that moves only when told."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import SourceError, SourceLost
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.sampler_status import Status
from bubblewatch.runtime.sampling import (
    BUDGET,
    KEEP_NS,
    SLOWEST_NS,
    Cadence,
    Recorder,
    SamplingLoop,
    governed_period_ns,
)
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
        self._clock = clock
        self._page = page

    def _answer(self, what: str, **values: float) -> Mapping[str, float]:
        self.asked[what] = self.asked.get(what, 0) + 1
        self._clock.sleep(self.latency_s)
        self._page.count_call(round(self.latency_s * NS))
        if self.lost:
            raise SourceLost("GPU is lost")
        return values

    def read_fast(self) -> Mapping[str, float]:
        return self._answer("fast", power_instant_w=self.power_w)

    def read_util(self) -> Mapping[str, float]:
        return self._answer("util", util_ratio=0.5)

    def read_slow(self) -> Mapping[str, float]:
        return self._answer("slow", sm_clock_mhz=2000.0)

    def processes(self) -> tuple[tuple[int, int | None], ...]:
        self._answer("processes")
        if self.no_process_list:
            raise SourceError("no list")
        return ((4711, 1024),)

    def refresh_limits(self) -> None:
        return


class Bench:
    """A loop over played GPUs, with the parent's view of its memory."""

    def __init__(self, gpus: int = 2, rate_hz: float = 10.0) -> None:
        self.clock = ManualClock()
        self.clock.sleep(1000)
        self.page, fd = SharedPage.create(rate_hz)
        writer = SharedPage(fd, rate_hz, writable=True)
        os.close(fd)
        self.gpus = [PlayedGpu(index, self.clock, writer) for index in range(gpus)]
        self.loop = SamplingLoop(self.gpus, writer, self.clock, rate_hz, Status(driver_version="570"))

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
    assert bench.status().lost == {"GPU-0": "GPU is lost"}


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
    spent_before, start_ns = bench.page.get(Word.CALL_NS), bench.clock.monotonic_ns()
    bench.run(60)
    share = (bench.page.get(Word.CALL_NS) - spent_before) / (bench.clock.monotonic_ns() - start_ns)
    slow_period_ns = bench.page.get(Word.PERIOD_NS)
    for gpu in bench.gpus:
        gpu.latency_s = 0.0
    bench.run(60)

    assert slow_period_ns > 0.5 * NS
    assert share < 1.5 * BUDGET
    assert bench.page.get(Word.PERIOD_NS) == 0.1 * NS


@given(
    period_ns=st.integers(5_000_000, SLOWEST_NS),
    wished_ns=st.integers(5_000_000, NS),
    share=st.floats(0, 1),
)
def test_the_governed_period_is_never_faster_than_wished_and_never_slower_than_allowed(
    period_ns: int, wished_ns: int, share: float
) -> None:
    period_ns = max(period_ns, wished_ns)

    governed_ns = governed_period_ns(period_ns, wished_ns, share)

    assert wished_ns <= governed_ns <= max(SLOWEST_NS, wished_ns)
    assert share <= BUDGET or governed_ns >= period_ns or governed_ns == SLOWEST_NS
    assert share > 0 or governed_ns <= period_ns


@given(every_ns=st.integers(1, 1000), steps=st.lists(st.integers(1, 3000), max_size=60))
def test_a_cadence_is_due_as_often_as_time_allows(every_ns: int, steps: list[int]) -> None:
    cadence, now_ns, due = Cadence(every_ns, 0), 0, 0
    for step in steps:
        now_ns += step
        due += cadence.is_due(now_ns)

    assert due <= now_ns // every_ns + 1
    assert due <= len(steps)
    if steps and max(steps) <= every_ns:
        assert due >= now_ns // every_ns - 1


@given(
    st.lists(
        st.tuples(st.integers(1, NS), st.sampled_from([1.0, 2.0, math.nan])),
        min_size=1,
        max_size=40,
    )
)
def test_the_recorder_keeps_every_change_and_a_repeat_in_time(steps: list[tuple[int, float]]) -> None:
    reader, fd = SharedPage.create(10.0)
    recorder = Recorder(SharedPage(fd, 10.0, writable=True), 0)
    os.close(fd)
    shown: list[tuple[int, float]] = []
    for step_ns, value in steps:
        shown.append(((shown[-1][0] if shown else NS) + step_ns, value))
        recorder.store(shown[-1][0], {"energy_j": value})
    series = reader.ring(0, "energy_j").since(0)
    kept = dict(zip(series.times_ns, series.values, strict=True))

    holding, held_ns = None, 0
    for time_ns, value in shown:
        if time_ns in kept:
            holding, held_ns = kept[time_ns], time_ns
        assert holding is not None
        assert holding == value or (math.isnan(holding) and math.isnan(value))
        assert time_ns - held_ns < KEEP_NS
