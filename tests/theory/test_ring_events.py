"""The event simulation of the slot ring, and how far the closed form agrees with it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bubblewatch.theory.ring import Ring, even_ring, steady
from bubblewatch.theory.ring_events import simulate, work_spans
from tests.theory.study_table import TOY


@pytest.mark.parametrize(("kernel_ms", "launch_ms", "depth", "filled", "duty"), TOY)
def test_duties_of_the_study_come_out(kernel_ms, launch_ms, depth, filled, duty):
    ring = even_ring(8, kernel_ms / 1e3, launch_ms / 1e3, host_s=0.6e-3, hop_s=10e-6, depth=depth, filled=filled)
    assert simulate(ring).duty[0] == pytest.approx(duty, abs=0.03)


@st.composite
def even_rings(draw):
    stages = draw(st.integers(4, 10))
    depth = draw(st.integers(0, 3))
    kernel_s = draw(st.floats(1e-3, 0.02))
    return even_ring(
        stages,
        kernel_s,
        kernel_s * draw(st.sampled_from([0.0, 0.0, 0.5, 2.0, 4.0])),
        hop_s=kernel_s * draw(st.floats(0, 0.04)),
        host_s=kernel_s * draw(st.floats(0, 0.33)),
        depth=depth,
        filled=draw(st.integers(1, stages + depth)),
    )


@settings(max_examples=60, deadline=None)
@given(even_rings())
def test_closed_form_agrees_on_equal_stages(ring):
    for simulated, summed in zip(simulate(ring).duty, steady(ring).duty, strict=True):
        assert simulated == pytest.approx(summed, abs=0.06)


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(st.floats(0.6, 1.7), min_size=4, max_size=10),
    host=st.floats(0, 0.3),
    depth=st.integers(0, 2),
    data=st.data(),
)
def test_closed_form_bounds_the_lap_of_unequal_stages(weights, host, depth, data):
    filled = data.draw(st.integers(1, len(weights) + depth))
    kernel_s = tuple(0.005 * w for w in weights)
    ring = Ring(kernel_s, (0.0,) * len(weights), 50e-6, 0.005 * host, depth, filled)
    assert 0.9 * steady(ring).lap_s <= simulate(ring).lap_s <= 1.35 * steady(ring).lap_s


def test_a_full_ring_of_unequal_stages_runs_at_the_pace_of_the_heaviest():
    ring = Ring((0.007,) * 7 + (0.012,), (0.0,) * 8, filled=8)
    assert simulate(ring).duty[0] == pytest.approx(7 / 12, abs=0.02)


def test_at_depth_0_the_last_stage_exposes_its_host_work_and_the_first_does_not():
    heavy_last = simulate(Ring((0.008,) * 7 + (0.012,), (0.0,) * 8, host_s=0.003, filled=8))
    heavy_first = simulate(Ring((0.012,) + (0.008,) * 7, (0.0,) * 8, host_s=0.003, filled=8))
    assert heavy_last.slot_s == pytest.approx(0.015, rel=0.02)
    assert heavy_first.slot_s == pytest.approx(0.012, rel=0.02)


def test_spans_of_a_stage_do_not_overlap_and_go_down_the_pipeline():
    stages = work_spans(even_ring(4, 0.01, hop_s=1e-4, filled=2), laps=5)
    for spans in stages:
        assert len(spans) == 10
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    firsts = [spans[0][0] for spans in stages]
    assert firsts == sorted(firsts)
    assert firsts[1] - firsts[0] == pytest.approx(0.0101, abs=1e-4)
