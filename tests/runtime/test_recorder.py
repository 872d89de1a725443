"""What of a GPU's answers reaches the rings."""

from __future__ import annotations

import math
import os
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.recorder import ANY_CARD_W, KEEP_NS, Gate, Recorder, ceiling_w
from bubblewatch.runtime.shared_ring import SharedPage, Word
from bubblewatch.signals.series import mean

TENTH = NS // 10


def recorder(most_w: float = 900.0) -> tuple[Recorder, SharedPage]:
    """A recorder for GPU 0 and the reader's view of what it stores."""
    reader, fd = SharedPage.create(10.0)
    writer = SharedPage(fd, 10.0, writable=True)
    os.close(fd)
    return Recorder(writer, 0, Gate(most_w)), reader


def stored(page: SharedPage, field: str) -> list[tuple[int, float]]:
    series = page.ring(0, field).since(0)
    return list(zip(series.times_ns, series.values, strict=True))


@given(
    st.lists(
        st.tuples(st.integers(1, NS), st.sampled_from([1.0, 1.5, math.nan])),
        min_size=1,
        max_size=40,
    )
)
def test_the_recorder_keeps_every_change_and_a_repeat_in_time(steps: list[tuple[int, float]]) -> None:
    one, reader = recorder()
    shown: list[tuple[int, float]] = []
    for step_ns, value in steps:
        shown.append(((shown[-1][0] if shown else NS) + step_ns, value))
        one.store(shown[-1][0], {"temperature_c": value})
    series = reader.ring(0, "temperature_c").since(0)
    kept = dict(zip(series.times_ns, series.values, strict=True))

    holding, held_ns = None, 0
    for time_ns, value in shown:
        if time_ns in kept:
            holding, held_ns = kept[time_ns], time_ns
        assert holding is not None
        assert holding == value or (math.isnan(holding) and math.isnan(value))
        assert time_ns - held_ns < KEEP_NS


def test_the_very_same_answer_is_stored_only_to_show_that_it_was_read() -> None:
    one, page = recorder()
    answer = {"power_instant_w": 100.0, "energy_j": 5.0}
    for at in range(30):
        one.store(NS + at * TENTH, answer)

    times_ns = [time_ns for time_ns, _ in stored(page, "energy_j")]
    gaps = [later - earlier for earlier, later in pairwise(times_ns)]
    assert 3 <= len(gaps) <= 4
    assert max(gaps) <= NS
    assert page.distinct("energy_j") == 1


def test_only_distinct_readings_are_counted_as_such() -> None:
    one, page = recorder()
    for at in range(100):
        one.store(NS + at * TENTH // 10, {"power_instant_w": 100.0 + at // 10})

    assert page.distinct("power_instant_w") == 10
    assert len(stored(page, "power_instant_w")) == 10


def test_a_power_that_cannot_be_is_dropped_and_counted() -> None:
    """intel/xpumanager#130: one-sample spikes of terawatts."""
    one, page = recorder()
    for at, watts in enumerate([300.0, 3.7e12, 310.0]):
        one.store(NS + at * TENTH, {"power_instant_w": watts})

    assert [value for _, value in stored(page, "power_instant_w")] == [300.0, 310.0]
    assert page.get(Word.REJECTED) == 1


def test_an_energy_counter_that_jumps_for_one_reading_is_dropped_and_one_that_was_set_anew_is_taken() -> None:
    one, page = recorder()
    shown = [1000.0, 1030.0, 9e15, 1090.0, 0.0, 30.0, 60.0]
    for at, joules in enumerate(shown):
        one.store(NS + at * TENTH, {"energy_j": joules})

    assert [value for _, value in stored(page, "energy_j")] == [1000.0, 1030.0, 1090.0, 30.0, 60.0]
    assert page.get(Word.REJECTED) == 2


@given(st.lists(st.floats(0, 900), min_size=2, max_size=60))
def test_the_gate_admits_whatever_a_card_can_draw(watts: list[float]) -> None:
    gate, energy_j = Gate(900.0), 0.0
    for at, power_w in enumerate(watts):
        energy_j += power_w * 0.1
        assert gate.admits("power_instant_w", at * TENTH, power_w)
        assert gate.admits("energy_j", at * TENTH, energy_j)


def test_the_gate_admits_unknown() -> None:
    assert Gate(900.0).admits("power_average_w", NS, math.nan)
    assert Gate(900.0).admits("energy_j", NS, math.nan)


def test_the_ceiling_follows_the_higher_limit() -> None:
    capped = GpuInfo("GPU-0", 0, "card", power_limit_w=200.0, power_default_limit_w=600.0)

    assert ceiling_w(capped) == 900.0
    assert ceiling_w(capped, whole_module=True) == 1800.0
    assert ceiling_w(GpuInfo("GPU-0", 0, "card")) == ANY_CARD_W


def test_the_drivers_samples_keep_their_times_and_late_ones_are_left_out() -> None:
    one, page = recorder()
    one.store(5 * NS, {"util_ratio": 0.5})
    one.store_samples("util_ratio", [(4 * NS, 0.9), (6 * NS, 0.25), (6 * NS + TENTH, 0.25), (7 * NS, 0.25)])

    assert stored(page, "util_ratio") == [(5 * NS, 0.5), (6 * NS, 0.25), (7 * NS, 0.25)]
    assert page.distinct("util_ratio") == 4


@given(
    seed=st.lists(st.tuples(st.integers(60, 400), st.floats(50, 600)), min_size=5, max_size=40),
    poll_ms=st.integers(1, 50),
)
def test_the_time_weighted_mean_of_what_is_stored_is_that_of_the_sensor(
    seed: list[tuple[int, float]], poll_ms: int
) -> None:
    """However often it is read: each value counts for as long as the sensor showed it, give or take one read."""
    one, page = recorder()
    ends_ms, total = 0, 0.0
    steps: list[tuple[int, float]] = []
    for hold_ms, watts in seed:
        ends_ms += hold_ms
        total += hold_ms * watts
        steps.append((ends_ms, watts))
    for now_ms in range(0, ends_ms, poll_ms):
        shown = next(watts for end_ms, watts in steps if now_ms < end_ms)
        one.store(NS + now_ms * 1_000_000, {"power_instant_w": shown})

    found = mean(page.ring(0, "power_instant_w").since(0), NS + ends_ms * 1_000_000)
    assert found is not None
    assert abs(found - total / ends_ms) <= 600 * poll_ms * len(steps) / ends_ms
