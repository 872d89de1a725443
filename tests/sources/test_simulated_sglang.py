"""The lines of the simulated SGLang, read by the real parser of its version."""

import re
import statistics
from itertools import pairwise

import pytest

from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.logs import (
    Access,
    DecodeStep,
    GraphCaptured,
    OverlapOff,
    PoolSized,
    PrefillStep,
    Ready,
    SettingsSeen,
)
from bubblewatch.servers.registry import by_name
from bubblewatch.sources.simulated import SCENARIOS, SimulatedHost

SGLANG = by_name("sglang")


def read(name, seconds=0.0):
    clock = ManualClock()
    log = SimulatedHost(SCENARIOS[name], clock).log("sglang-k26.service")
    clock.sleep(seconds)
    return log.read()


def events(name, kind, seconds=60.0):
    return [e for line in read(name, seconds) for e in SGLANG.parse(line) if isinstance(e, kind)]


def test_the_story_prints_one_slot_of_eight_every_40_steps_on_each_rank():
    steps = events("pp8-story", DecodeStep)
    assert {s.running for s in steps} == {8}
    assert {s.cuda_graph for s in steps} == {False}
    assert {s.rank.pp for s in steps} == set(range(8))
    for stage in range(8):
        mine = [s for s in steps if s.rank.pp == stage]
        gaps = [(b.time_ns - a.time_ns) / NS for a, b in pairwise(mine)]
        assert statistics.median(gaps) == pytest.approx(3.35, rel=0.03)
        assert statistics.median(s.gen_tps for s in mine) == pytest.approx(95.6, rel=0.03)


def test_a_decode_line_is_written_as_0_5_10_writes_it():
    text = next(line.text for line in read("pp8-story", 10) if "PP3] Decode batch" in line.text)
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d PP3\] Decode batch, #running-req: 8, #token: \d+, token usage: 0\.0\d, "
        r"cuda graph: False, gen throughput \(token/s\): \d+\.\d\d, #queue-req: 0",
        text,
    )


def test_a_full_ring_prints_one_slot_and_the_rate_of_all():
    steps = events("pp8-filled", DecodeStep, 20)
    assert {s.running for s in steps} == {4}
    assert {s.cuda_graph for s in steps} == {True}
    assert statistics.median(s.gen_tps for s in steps) > 700


def test_tensor_parallelism_prints_on_its_first_rank_alone():
    steps = events("tp8", DecodeStep)
    assert {(s.rank.pp, s.rank.tp) for s in steps} == {(0, 0)}
    assert {s.running for s in steps} == {64}
    assert statistics.median(s.gen_tps for s in steps) > 1500


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_start_up_is_whole_and_says_what_was_set(name):
    scenario, found = SCENARIOS[name], read(name)
    parsed = [e for line in found for e in SGLANG.parse(line)]
    (settings,) = [e.settings for e in parsed if isinstance(e, SettingsSeen)]
    assert settings.get("pp_size") == scenario.pp
    assert settings.get("tp_size") == scenario.tp
    assert settings.get("disable_cuda_graph") is not scenario.graphs
    assert settings.get("pp_async_batch_depth") == scenario.depth
    assert settings.get("max_running_requests") == scenario.max_running
    assert len([e for e in parsed if isinstance(e, Ready)]) == 1
    ended = [e for e in parsed if isinstance(e, GraphCaptured) and not e.begin and e.seconds]
    assert len(ended) == (8 if scenario.graphs else 0)
    assert any(isinstance(e, OverlapOff) for e in parsed) is (scenario.pp > 1)
    assert any(isinstance(e, PoolSized) and e.max_running == scenario.max_running for e in parsed)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_lines_come_in_order_of_time_with_the_time_of_their_text(name):
    found = read(name, 30)
    assert all(a.time_ns <= b.time_ns for a, b in pairwise(found))
    assert all(line.time_exact and line.unit == "sglang-k26.service" for line in found)
    assert found[0].text.startswith("[2025-12-31 23:")
    assert all(line.time_ns <= ManualClock().wall_ns() + 30 * NS for line in found)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_reading_in_small_steps_gives_the_same_lines_as_reading_once(name):
    clock = ManualClock()
    log = SimulatedHost(SCENARIOS[name], clock).log("sglang-k26")
    steps = list(log.read())
    for pause in (0.3, 1.7, 0.01, 9.0, 4.99, 14.0):
        clock.sleep(pause)
        steps.extend(log.read())
    whole = read(name, 30.0)
    assert [(line.text, line.pid) for line in steps] == [(line.text, line.pid) for line in whole]


def test_a_wave_begins_with_a_prefill_and_ends_with_its_answers():
    prefills = events("pp8-story", PrefillStep, 60)
    assert {p.new_seqs for p in prefills} == {1, 8}
    answers = [a for a in events("pp8-story", Access, 60) if a.path == "/v1/chat/completions"]
    assert len(answers) % 8 == 0
    assert answers


def test_without_demand_only_probes_come_in_after_the_last_answer():
    last = max(a.time_ns for a in events("no-demand", DecodeStep))
    assert ManualClock().wall_ns() - last > 240 * NS
    later = [a for a in events("no-demand", Access) if a.time_ns > last + 10 * NS]
    assert {a.path for a in later} == {"/metrics", "/health"}


def test_a_hung_server_is_silent_for_ten_minutes():
    last = max(line.time_ns for line in read("hung", 60))
    assert (ManualClock().wall_ns() + 60 * NS - last) / NS == pytest.approx(660, abs=5)
