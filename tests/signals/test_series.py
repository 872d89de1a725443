import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import Series
from bubblewatch.signals import series
from bubblewatch.signals.series import Interval


def at(*seconds: float) -> tuple[int, ...]:
    return tuple(round(s * NS) for s in seconds)


def test_a_reading_weighs_as_long_as_it_was_shown() -> None:
    shown = Series(at(0, 1, 4), (0.0, 1.0, 0.0))
    assert series.mean(shown, at(5)[0]) == pytest.approx(3 / 5)


def test_readings_at_an_even_pace_give_the_plain_mean() -> None:
    assert series.mean(Series(at(0, 1, 2, 3), (80.0, 20.0, 80.0, 20.0)), at(3)[0]) == pytest.approx(50.0)


def test_what_the_device_did_not_say_does_not_count() -> None:
    assert series.mean(Series(at(0, 1, 2), (math.nan, 0.5, math.nan)), at(3)[0]) == 0.5
    assert series.mean(Series(at(0), (math.nan,)), at(1)[0]) is None
    assert series.mean(Series(), 0) is None


def test_a_reading_does_not_speak_for_a_silence_of_minutes() -> None:
    fast = Series(at(0, 1, 2, 600, 601), (1.0, 1.0, 1.0, 0.0, 0.0))
    assert series.mean(fast, at(602)[0]) == pytest.approx(7 / 9)


def test_only_the_chosen_time_counts() -> None:
    shown = Series(at(0, 1, 2, 3), (0.0, 1.0, 1.0, 0.0))
    assert series.mean(shown, at(4)[0], [Interval(*at(1, 3))]) == 1.0
    assert series.mean(shown, at(4)[0], [Interval(*at(50, 60))]) is None


def test_a_counter_gives_its_rate_between_changes_only() -> None:
    energy = Series(at(0, 0.5, 1.0, 1.5, 2.0), (5.0, 5.0, 105.0, 155.0, 205.0))
    assert series.rate(energy) == pytest.approx(100.0)


def test_a_counter_that_was_reset_gives_no_rate() -> None:
    assert series.rate(Series(at(0, 1, 2), (900.0, 950.0, 3.0))) is None


def test_a_counter_that_stands_still_has_rate_zero_and_one_change_none() -> None:
    assert series.rate(Series(at(0, 1, 2), (7.0, 7.0, 7.0))) == 0.0
    assert series.rate(Series(at(0, 1, 2), (7.0, 7.0, 8.0))) is None


@given(st.lists(st.tuples(st.floats(0.01, 30), st.floats(0, 1)), min_size=1, max_size=40))
def test_the_mean_lies_within_the_readings(steps: list[tuple[float, float]]) -> None:
    times, now = [], 0
    for gap, _ in steps:
        now += round(gap * NS)
        times.append(now)
    values = [value for _, value in steps]
    found = series.mean(Series(times, values), now + NS)
    assert found is not None
    assert min(values) - 1e-9 <= found <= max(values) + 1e-9
