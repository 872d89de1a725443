"""The story's figures from its stated inputs."""

import pytest

from bubblewatch.theory.ring import filled_by_burst, slot_capacity, steady
from bubblewatch.theory.ring_events import simulate
from bubblewatch.theory.story import StageCost, pipeline, tensor_parallel


@pytest.mark.parametrize("solve", [steady, simulate])
def test_one_request_takes_a_lap_of_40_ms_a_token(solve):
    state = solve(pipeline(1, graphs=False))
    assert state.lap_s == pytest.approx(40.5e-3, rel=0.02)
    assert state.tokens_per_s(1) == pytest.approx(24.7, rel=0.02)
    assert state.stages_busy <= 1


@pytest.mark.parametrize("solve", [steady, simulate])
def test_eight_requests_share_one_slot_and_the_stages_work_half_of_their_turns(solve):
    assert filled_by_burst(8, slot_capacity(64, 8), 8) == 1
    state = solve(pipeline(8, graphs=False))
    assert state.lap_s == pytest.approx(83.7e-3, rel=0.02)
    assert state.tokens_per_s(8) == pytest.approx(95.6, rel=0.02)
    assert 0.45 <= state.stages_busy <= 0.6
    assert 40 * state.slot_s == pytest.approx(3.35, rel=0.02)


def test_graphs_alone_leave_the_bubble_and_a_full_ring_ends_it():
    graphs = steady(pipeline(8, graphs=True))
    assert 115 <= graphs.tokens_per_s(8) <= 191
    assert graphs.stages_busy <= 1
    full = steady(pipeline(4, filled=8, graphs=True))
    assert full.duty[0] == pytest.approx(0.78, abs=0.02)
    deep = steady(pipeline(4, filled=9, depth=1, graphs=True))
    assert deep.duty[0] > 0.9


def test_tensor_parallelism_reaches_what_the_cards_can_do():
    assert tensor_parallel(1).tokens_per_s(1) == pytest.approx(65, rel=0.03)
    assert tensor_parallel(64).tokens_per_s(64) > 1500


def test_a_batch_touches_more_experts_but_never_more_than_there_are():
    cost = StageCost()
    assert cost.expert_growth(1) == pytest.approx(1)
    assert 7 < cost.expert_growth(8) < 8
    assert cost.expert_growth(10_000) == pytest.approx(48)
