"""Expected gains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.gain import depth_gain, graphs_gain, slots_gain
from bubblewatch.theory.ring import steady
from bubblewatch.theory.story import StageCost, pipeline

positive = st.floats(0.01, 1e5)


def test_graphs_gain_of_the_story_is_the_range_that_its_answer_shows():
    gain = graphs_gain(95.6, 0.5, 1, 8)
    assert gain is not None
    assert gain.low == pytest.approx(115, abs=2)
    assert gain.high == pytest.approx(191, abs=2)
    assert "1 of 8 slots" in gain.assumption


def test_the_ring_itself_gains_within_the_promised_range():
    eager, graphs = pipeline(8, graphs=False), pipeline(8, graphs=True)
    now, after = steady(eager).tokens_per_s(8), steady(graphs).tokens_per_s(8)
    gain = graphs_gain(now, steady(eager).stages_busy, 1, 8)
    assert gain is not None
    assert gain.low <= after <= gain.high


@pytest.mark.parametrize(
    "missing", [(None, 0.5, 1, 8), (95.6, None, 1, 8), (95.6, 0.5, None, 8), (95.6, 0.5, 1, None), (95.6, 0.0, 1, 8)]
)
def test_no_figure_without_all_the_inputs(missing):
    assert graphs_gain(*missing) is None


@given(now=positive, busy=st.floats(0.001, 20), filled=st.floats(0.1, 20), stages=st.integers(1, 16))
def test_graphs_never_cost_and_never_promise_more_than_fourfold(now, busy, filled, stages):
    gain = graphs_gain(now, busy, filled, stages)
    assert gain is not None
    assert now * (1 - 1e-9) <= gain.low <= gain.high <= 4 * now * (1 + 1e-9)


def test_depth_gains_what_host_work_hides_at_most_a_quarter():
    assert depth_gain(800, 0.9, ring_full=True).high == pytest.approx(800 / 0.9)
    assert depth_gain(800, 0.5, ring_full=True).high == pytest.approx(1000)
    assert depth_gain(800, 0.78, ring_full=True).low == 800


def test_depth_promises_nothing_when_the_ring_is_not_full_or_unknown():
    assert depth_gain(800, 0.8, ring_full=False) is None
    assert depth_gain(None, 0.8, ring_full=True) is None
    assert depth_gain(800, None, ring_full=True) is None


def test_more_slots_are_uncertain_without_a_model_of_the_stage():
    gain = slots_gain(8)
    assert gain.low is gain.high is None
    assert "uncertain" in gain.assumption


def test_more_slots_pay_where_small_batches_are_fast_and_cost_nothing_else():
    cost = StageCost()
    gain = slots_gain(8, pipeline(8, graphs=True), cost.kernel_s, filled=4)
    assert gain.high > 1.5 * gain.low
    flat = slots_gain(8, pipeline(8, graphs=True), lambda batch: cost.kernel_s(8), filled=8)
    assert flat.high > flat.low
