"""The work of a simulated server over time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.sources.simulated_load import Load
from bubblewatch.sources.simulated_noise import noise
from bubblewatch.sources.simulated_scenarios import SCENARIOS

LOADS = {name: Load(scenario) for name, scenario in SCENARIOS.items()}
names = st.sampled_from(sorted(SCENARIOS))


@given(name=names, gpu=st.integers(0, 7), times=st.tuples(st.floats(0, 5000), st.floats(0, 5000)))
def test_work_and_waiting_never_fall_and_never_fill_more_than_the_time(name, gpu, times):
    load, (early, late) = LOADS[name], sorted(times)
    work = load.work(gpu, late) - load.work(gpu, early)
    waiting = load.waiting(gpu, late) - load.waiting(gpu, early)
    assert work >= -1e-9
    assert waiting >= -1e-9
    assert work + waiting <= 1.04 * (late - early) + 1e-6
    assert load.awake(late) - load.awake(early) <= late - early + 1e-9


@given(name=names, host_s=st.floats(120, 5000))
def test_host_time_is_the_inverse_of_work_time(name, host_s):
    load = LOADS[name]
    stop_s = load.stop_host_s
    if stop_s is None or host_s < stop_s - 1:
        assert load.host_time(load.work_time(host_s)) == pytest.approx(host_s, abs=1e-5)


@given(name=names, stage=st.integers(0, 7), number=st.integers(1, 20_000))
def test_forwards_end_in_order_and_are_counted_when_they_have_ended(name, stage, number):
    load = LOADS[name]
    stage = min(stage, load.scenario.pp - 1)
    end_s, slot, tokens = load.forward_end(stage, number)
    assert end_s <= load.forward_end(stage, number + 1)[0]
    assert load.forwards_done(stage, end_s + 1e-6) >= number
    assert slot < load.slots_filled
    assert tokens >= 1


@pytest.mark.parametrize("name", ["pp8-story", "pp8-graphs-on", "pp8-filled", "pp8-depth1", "single-stream"])
def test_the_duty_over_a_minute_is_that_of_the_ring(name):
    from bubblewatch.theory import story
    from bubblewatch.theory.ring import steady

    load, scenario = LOADS[name], SCENARIOS[name]
    batch = scenario.running / load.slots_filled
    ring = story.pipeline(batch, filled=load.slots_filled, depth=scenario.depth, graphs=scenario.graphs)
    for gpu in range(8):
        duty = (load.work(gpu, 360) - load.work(gpu, 300)) / 60
        assert duty == pytest.approx(steady(ring).duty[gpu], rel=0.12)


@pytest.mark.parametrize(
    ("name", "filled"),
    [("pp8-story", 1), ("pp8-graphs-on", 1), ("pp8-filled", 8), ("pp8-depth1", 9), ("single-stream", 1), ("tp8", 1)],
)
def test_slots_fill_as_a_burst_fills_them(name, filled):
    assert LOADS[name].slots_filled == filled
    assert sum(LOADS[name].batches) == SCENARIOS[name].running


def test_nothing_works_after_the_end_and_only_a_frozen_server_keeps_its_connections():
    for name in ("no-demand", "idle-spin", "hung"):
        load = LOADS[name]
        stop_s = load.stop_host_s
        assert stop_s is not None
        assert stop_s <= load.scenario.up_s - load.scenario.quiet_s + 1e-6
        assert load.work(3, stop_s) == pytest.approx(load.work(3, 5000))
        assert load.connections(stop_s - 1) == 8
    assert LOADS["no-demand"].connections(5000) == LOADS["idle-spin"].connections(5000) == 0
    assert LOADS["hung"].connections(5000) == 8


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=4))
def test_noise_is_bounded_and_the_same_for_the_same_place(place):
    assert -1 <= noise(*place) < 1
    assert noise(*place) == noise(*place)


def test_noise_has_no_bias_and_differs_from_place_to_place():
    values = [noise(1, 2, k) for k in range(4000)]
    assert abs(sum(values) / len(values)) < 0.05
    assert len(set(values)) == len(values)
