"""What sensors show of a pipeline: the effects that the measurement study found, reproduced from the models."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.activity import Spans, SquareWave, mean
from bubblewatch.theory.ring import even_ring
from bubblewatch.theory.ring_events import work_spans
from bubblewatch.theory.sensors import (
    SENSORS,
    PowerDraw,
    WaitMode,
    Window,
    as_utilization,
    last_refresh_s,
    resident_spans,
    shown_mean,
    shown_utilization,
    sm_activity,
)


def readings(integral, sensor, phase_s=0.013, seconds=10):
    return [
        shown_mean(integral, 2 + k * sensor.update_s, sensor, phase_s) for k in range(int(seconds / sensor.update_s))
    ]


def test_a_quarter_window_aliases_with_a_beat_near_its_period_and_a_full_one_does_not():
    half = SquareWave(0.1044, 0.0522)  # the load of the public A100 trace: 50 % duty, period 104.4 ms
    quarter = readings(half.integral, SENSORS["ga100"].power_instant)
    seconds = [statistics.fmean(quarter[i : i + 10]) for i in range(0, 100, 10)]
    assert max(seconds) - min(seconds) > 0.5
    average = readings(half.integral, SENSORS["hopper"].power_average)
    assert max(average) - min(average) < 0.06


def test_utilization_is_the_duty_within_a_point_whatever_the_architecture():
    lockstep = SquareWave(0.1, 0.0125)
    for sensors in SENSORS.values():
        shown = [shown_utilization(lockstep.integral, 2 + 0.171 * k, sensors.utilization, 0.05) for k in range(200)]
        assert statistics.fmean(shown) == pytest.approx(0.125, abs=0.015)


def test_a_sensor_holds_its_value_until_the_next_refresh():
    wave, sensor = SquareWave(0.37, 0.1), Window(0.1, 0.1)
    assert shown_mean(wave.integral, 1.05, sensor, 0.02) == shown_mean(wave.integral, 1.11, sensor, 0.02)
    assert last_refresh_s(1.05, 0.1, 0.02) == pytest.approx(1.02)


@given(t=st.floats(0, 1e5), update=st.floats(0.01, 2), phase=st.floats(0, 2))
def test_the_last_refresh_is_never_in_the_future_and_never_older_than_a_period(t, update, phase):
    assert -1e-6 <= t - last_refresh_s(t, update, phase) <= update + 1e-6


@given(st.floats(-1, 2))
def test_utilization_comes_in_whole_percent_between_0_and_1(ratio):
    shown = as_utilization(ratio)
    assert 0 <= shown <= 1
    assert shown * 100 == pytest.approx(round(shown * 100))


def utilizations(mode):
    ring = even_ring(8, 0.0125, hop_s=0.0, host_s=0.0)
    stages = work_spans(ring, laps=40)
    steps = [start for start, _ in stages[0]]
    end_s = stages[-1][-1][1]
    return [
        mean(resident_spans(mode, stage, spans, steps, end_s).integral, 0.5, 3.5) for stage, spans in enumerate(stages)
    ]


def test_the_three_ways_of_waiting_show_the_patterns_of_the_study():
    host, cascade, spin = (utilizations(mode) for mode in (WaitMode.HOST, WaitMode.CASCADE, WaitMode.SPIN))
    assert host == pytest.approx([0.125] * 8, abs=0.01)
    assert cascade == pytest.approx([0.125 * (stage + 1) for stage in range(8)], abs=0.03)
    assert spin == pytest.approx([0.125] + [1.0] * 7, abs=0.01)


def test_sm_activity_sees_through_a_spinning_kernel():
    assert sm_activity(0.0, 1.0) == pytest.approx(0.02)
    assert sm_activity(1.0, 0.0) == pytest.approx(0.75)
    assert sm_activity(5.0, 5.0) == 1.0


def test_power_lies_between_its_levels():
    draw = PowerDraw(idle_w=85, busy_w=400, awake_w=65, spin_w=20)
    assert draw.watts(0) == 85
    assert draw.watts(1, awake=1) == 400
    assert draw.watts(0, awake=1) == 150
    assert draw.watts(0, spin=1) == 105


def test_old_cards_offer_no_average():
    assert SENSORS["ga100"].power_average is None
    assert SENSORS["volta"].power_average is None
    assert SENSORS["blackwell"].power_average == Window(0.1, 1.0)


def test_energy_over_a_window_is_mean_power_whatever_the_beat():
    work = Spans(tuple((0.1 * k, 0.1 * k + 0.04) for k in range(200)))
    draw = PowerDraw(100, 500)
    energy_j = 100 * 10 + 400 * (work.integral(15) - work.integral(5))
    assert energy_j / 10 == pytest.approx(draw.watts(0.4), rel=0.01)
