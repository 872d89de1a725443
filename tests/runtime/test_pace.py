"""Cadences, the governor, the refresh of sensors, the rate that follows, and the driver's clock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.runtime.pace import (
    BUDGET,
    DEFAULT_HZ,
    SLOWEST_NS,
    Cadence,
    DriverClock,
    Refresh,
    chosen_rate_hz,
    governed_period_ns,
)

MS = 1_000_000


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
    period_ms=st.integers(40, 500),
    jitter_ms=st.lists(st.integers(-3, 3), min_size=8, max_size=30),
    poll_ms=st.integers(5, 12),
)
def test_the_refresh_of_a_sensor_is_the_median_gap_between_its_changes(
    period_ms: int, jitter_ms: list[int], poll_ms: int
) -> None:
    changes_ms = [0]
    for wobble in jitter_ms:
        changes_ms.append(changes_ms[-1] + period_ms + wobble)
    refresh = Refresh()
    for now_ms in range(0, changes_ms[-1] + poll_ms, poll_ms):
        shown = sum(change <= now_ms for change in changes_ms)
        refresh.saw(now_ms * MS, {"power_instant_w": float(shown)})

    assert refresh.periods_s()["power_instant_w"] == pytest.approx(period_ms / 1e3, abs=(3 + poll_ms) / 1e3)


def test_a_sensor_that_hardly_changed_has_no_known_refresh() -> None:
    refresh = Refresh()
    for at in range(200):
        refresh.saw(at * 10 * MS, {"power_average_w": float(at // 80), "util_ratio": math.nan})

    assert refresh.periods_s() == {}


def test_the_refresh_of_utilization_is_told_by_the_drivers_own_samples() -> None:
    refresh = Refresh()
    refresh.saw_samples("util_ratio", tuple(range(0, 2_000_000, 200_000)))

    assert refresh.periods_s() == {"util_ratio": pytest.approx(0.2)}


@pytest.mark.parametrize(
    ("period_s", "rate_hz"),
    [(None, 10), (0.1, 10), (0.104, 10), (0.09, 10), (0.02, 20), (0.5, 2), (1.0, 2), (0.06, 1 / 0.06)],
)
def test_the_rate_follows_the_fastest_sensor_within_bounds(period_s: float | None, rate_hz: float) -> None:
    assert chosen_rate_hz(period_s, 20.0) == pytest.approx(rate_hz)
    assert DEFAULT_HZ == 10.0


@given(
    ages_ms=st.lists(st.integers(0, 200), min_size=10, max_size=40),
    ahead_us=st.integers(-(10**12), 10**15),
)
def test_times_of_the_drivers_clock_are_never_in_the_future_and_get_near(ages_ms: list[int], ahead_us: int) -> None:
    clock, now_ns = DriverClock(), 2 * 10**12 * 1000
    for age_ms in ages_ms:
        now_ns += NS
        newest_us = (now_ns - age_ms * MS) // 1000 + ahead_us
        clock.saw(now_ns, newest_us)
        ours_ns = clock.ours_ns(newest_us)
        assert ours_ns <= now_ns + 1000

    true_ns = now_ns - ages_ms[-1] * MS
    assert ours_ns - true_ns == pytest.approx(min(ages_ms) * MS, abs=1000)


def test_a_drivers_clock_that_is_set_back_is_followed() -> None:
    clock = DriverClock()
    clock.saw(100 * NS, 5_000_000_000)
    clock.saw(101 * NS, 1_000_000_000)

    assert clock.ours_ns(1_000_000_000) == 101 * NS
