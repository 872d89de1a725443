"""The simulated host behind the protocols of a real one."""

import statistics
from itertools import pairwise

import pytest

from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.model.findings import Answer, Health
from bubblewatch.model.telemetry import FIELDS
from bubblewatch.servers.registry import by_name
from bubblewatch.sources.simulated import SCENARIOS, SimulatedHost

BUSY = ("pp8-story", "pp8-graphs-on", "pp8-filled", "pp8-depth1", "tp8", "single-stream")


def window(name, seconds=20.0):
    clock = ManualClock()
    host = SimulatedHost(SCENARIOS[name], clock)
    clock.sleep(seconds)
    return host.telemetry.window(0)


def mean(reading, field):
    return statistics.fmean(reading.series[field].values)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_series_are_distinct_readings_with_a_heartbeat(name):
    telemetry = window(name)
    assert len(telemetry.gpus) == 8
    for reading in telemetry.gpus:
        assert set(reading.series) <= set(FIELDS)
        for series in reading.series.values():
            gaps = [b - a for a, b in pairwise(series.times_ns)]
            assert all(0 < gap <= 2.1 * NS for gap in gaps)
            assert all(a != b or gap >= NS for (a, b), gap in zip(pairwise(series.values), gaps, strict=True))
            assert 0 <= series.times_ns[0] <= 1.1 * NS


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_energy_agrees_with_average_power(name):
    for reading in window(name, 30).gpus:
        energy = reading.series["energy_j"]
        watts = (energy.values[-1] - energy.values[0]) / ((energy.times_ns[-1] - energy.times_ns[0]) / NS)
        assert watts == pytest.approx(mean(reading, "power_average_w"), rel=0.03)


def test_the_story_draws_150_to_200_w_and_shows_less_than_a_tenth_of_utilization():
    for reading in window("pp8-story", 30).gpus:
        assert 150 <= mean(reading, "power_average_w") <= 200
        assert 0.05 <= mean(reading, "util_ratio") <= 0.10
        assert mean(reading, "sm_active_ratio") < mean(reading, "util_ratio")


def test_without_demand_every_card_shows_0_percent_at_its_idle_draw():
    for reading in window("no-demand").gpus:
        assert set(reading.series["util_ratio"].values) == {0.0}
        assert 82 <= mean(reading, "power_average_w") <= 90
        assert set(reading.series["event_reasons"].values) == {1.0}


def test_a_spinning_kernel_shows_full_utilization_without_work():
    readings = window("idle-spin").gpus
    assert mean(readings[0], "util_ratio") == 0
    for reading in readings[1:]:
        assert mean(reading, "util_ratio") == pytest.approx(1)
        assert mean(reading, "sm_active_ratio") == pytest.approx(0.02)
        assert mean(reading, "mem_util_ratio") == 0
        assert 145 <= mean(reading, "power_average_w") <= 160


def test_a_hung_server_holds_half_of_its_cards_near_idle_power():
    readings = window("hung").gpus
    assert [round(mean(r, "util_ratio")) for r in readings] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert all(mean(r, "power_average_w") < 100 for r in readings)


def test_tensor_ranks_are_always_resident_and_work_alike():
    readings = window("tp8").gpus
    assert all(mean(r, "util_ratio") > 0.97 for r in readings)
    activity = [mean(r, "sm_active_ratio") for r in readings]
    assert max(activity) - min(activity) < 0.01
    assert min(activity) > 0.35


def test_the_same_scenario_is_the_same_in_every_run():
    assert window("pp8-filled", 7.3) == window("pp8-filled", 7.3)


def test_many_small_windows_record_what_one_large_window_does():
    clock = ManualClock()
    host = SimulatedHost(SCENARIOS["pp8-story"], clock)
    for _ in range(40):
        clock.sleep(0.5)
        host.telemetry.window(clock.monotonic_ns() - NS)
    assert host.telemetry.window(0) == window("pp8-story", 20.0)


def test_a_window_begins_with_the_value_that_held_then():
    clock = ManualClock()
    host = SimulatedHost(SCENARIOS["pp8-story"], clock)
    clock.sleep(20)
    since = 10 * NS + 1
    telemetry = host.telemetry.window(since)
    assert (telemetry.start_ns, telemetry.end_ns) == (since, 20 * NS)
    for reading in telemetry.gpus:
        for series in reading.series.values():
            assert series.times_ns[0] == since


def test_the_ring_forgets_after_ten_minutes():
    clock = ManualClock()
    host = SimulatedHost(SCENARIOS["no-demand"], clock)
    host.telemetry.window(0)
    clock.sleep(3600)
    telemetry = host.telemetry.window(0)
    assert telemetry.seconds == pytest.approx(600)
    assert telemetry.gpus[0].series["pstate"].times_ns[0] >= telemetry.start_ns


def test_sensor_state_is_what_the_telemetry_shows_at_that_moment():
    clock = ManualClock()
    host = SimulatedHost(SCENARIOS["pp8-graphs-on"], clock)
    clock.sleep(5)
    telemetry = host.telemetry.window(0)
    for gpu in (0, 7):
        shown = host.sensor_state(gpu, clock.monotonic_ns())
        assert set(shown) == set(FIELDS)
        for field, series in telemetry.gpus[gpu].series.items():
            assert shown[field] == series.values[-1], field


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_process_is_a_server_that_the_real_knowledge_recognises(name):
    scenario = SCENARIOS[name]
    (seen,) = SimulatedHost(scenario, ManualClock()).processes.scan()
    sglang = by_name("sglang")
    assert sglang.matches(seen.launch, seen.title)
    settings = sglang.settings(seen.launch, seen.version_hint)
    assert settings.problems == ()
    assert (settings.get("pp_size"), settings.get("tp_size")) == (scenario.pp, scenario.tp)
    assert settings.flag("disable_cuda_graph") is not scenario.graphs
    ranks = [sglang.gpu_rank(title) for title in seen.workers.values()]
    assert [(r.pp, r.tp) for r in ranks] == [(i // scenario.tp, i % scenario.tp) for i in range(8)]
    assert seen.unit == "sglang-k26.service"


@pytest.mark.parametrize("name", BUSY)
def test_each_running_request_holds_a_connection(name):
    (seen,) = SimulatedHost(SCENARIOS[name], ManualClock()).processes.scan()
    assert seen.connections == SCENARIOS[name].running


def test_a_log_of_another_unit_is_not_there():
    with pytest.raises(SourceUnavailable, match=r"nginx\.service"):
        SimulatedHost(SCENARIOS["pp8-story"], ManualClock()).log("nginx.service")


def test_every_source_says_that_it_is_well():
    host = SimulatedHost(SCENARIOS["pp8-story"], ManualClock())
    healths = [host.telemetry.health(), host.processes.health(), host.log("sglang-k26").health()]
    assert {h.health for h in healths} == {Health.OK}


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_expectations_are_consistent(name):
    expect = SCENARIOS[name].expect
    assert (
        expect.exit_code
        == {Answer.FINDINGS: 1, Answer.HEALTHY: 0, Answer.QUIET: 0, Answer.CANNOT_JUDGE: 3}[expect.answer]
    )
    assert not set(expect.present) & set(expect.absent)
    assert expect.first not in expect.absent
