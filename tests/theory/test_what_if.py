"""What changes would bring: the model says about now what is measured, and about a change what the ring says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.ring import Ring, steady
from bubblewatch.theory.story import StageCost, pipeline
from bubblewatch.theory.what_if import Measured, outcomes


def measured(ring: Ring, running: float, *, graphs: bool) -> Measured:
    """What sensors and log would show of this ring."""
    state = steady(ring)
    duty = state.stages_busy / ring.stages
    return Measured(ring.stages, state.slot_s, ring.filled, running, duty, graphs, ring.depth)


def test_the_story_gets_graphs_then_slots_then_depth() -> None:
    now = measured(pipeline(8, graphs=False), 8, graphs=False)
    graphs, slots, depth = outcomes(now, depth_available=True)
    assert [graphs.change, slots.change, depth.change] == ["graphs on", "8 slots filled", "depth 1"]
    true = steady(pipeline(8, graphs=True))
    assert graphs.gen_tps[0] == pytest.approx(true.tokens_per_s(8), rel=0.02)
    assert graphs.stages_busy[0] == pytest.approx(true.stages_busy, rel=0.02)


def test_the_span_of_more_slots_holds_the_truth() -> None:
    now = measured(pipeline(8, graphs=True), 8, graphs=True)
    slots = outcomes(now, depth_available=False)[0]
    true = steady(pipeline(1, filled=8, graphs=True))
    assert slots.gen_tps[0] <= true.tokens_per_s(8) <= slots.gen_tps[1]
    assert slots.stages_busy[0] <= true.stages_busy <= slots.stages_busy[1]


def test_a_full_ring_with_graphs_and_depth_has_nothing_left_to_change() -> None:
    now = measured(pipeline(4, filled=9, depth=1, graphs=True), 36, graphs=True)
    assert outcomes(now, depth_available=True) == ()


def test_depth_is_named_only_where_the_version_has_it() -> None:
    now = measured(pipeline(4, filled=8, graphs=True), 32, graphs=True)
    assert [one.change for one in outcomes(now, depth_available=True)] == ["depth 1"]
    assert outcomes(now, depth_available=False) == ()


@pytest.mark.parametrize(
    "now",
    [
        Measured(1, 0.01, 1, 8, 0.5, graphs=True),
        Measured(8, 0.0, 1, 8, 0.5, graphs=True),
        Measured(8, 0.01, 0, 8, 0.5, graphs=True),
        Measured(8, 0.01, 4, 2, 0.5, graphs=True),
        Measured(8, 0.01, 1, 8, 0.0, graphs=True),
        Measured(8, 0.01, 20, 80, 0.5, graphs=True),
    ],
)
def test_numbers_that_fit_no_pipeline_promise_nothing(now: Measured) -> None:
    assert outcomes(now, depth_available=True) == ()


@given(batch=st.integers(1, 32), filled=st.integers(1, 8), graphs=st.booleans(), shared_ms=st.floats(0.3, 8.0))
def test_graphs_never_slow_down_and_spans_are_in_order(batch: int, filled: int, graphs: bool, shared_ms: float) -> None:
    cost = StageCost(shared_s=shared_ms / 1000)
    running = batch * filled
    now = measured(pipeline(batch, filled=filled, graphs=graphs, cost=cost), running, graphs=graphs)
    rate = running / (now.step_s * now.filled)
    for one in outcomes(now, depth_available=True):
        assert one.gen_tps[0] <= one.gen_tps[1]
        assert 0 < one.stages_busy[0] <= one.stages_busy[1] <= now.stages + 1e-9
        if one.change == "graphs on":
            assert one.gen_tps[1] >= rate * (1 - 1e-6)
