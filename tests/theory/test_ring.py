"""The slot ring in closed form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.ring import (
    Ring,
    TensorParallel,
    allreduce_s,
    even_ring,
    filled_at_most,
    filled_by_burst,
    filled_when_staggered,
    ring_slots,
    slot_capacity,
    steady,
)
from tests.theory.study_table import TOY


@pytest.mark.parametrize(("kernel_ms", "launch_ms", "depth", "filled", "duty"), TOY)
def test_duties_of_the_study_come_out(kernel_ms, launch_ms, depth, filled, duty):
    ring = even_ring(8, kernel_ms / 1e3, launch_ms / 1e3, host_s=0.6e-3, depth=depth, filled=filled)
    assert steady(ring).duty[0] == pytest.approx(duty, abs=0.03)


def test_one_filled_slot_keeps_one_stage_busy_whatever_the_depth():
    for depth in (0, 1, 4):
        assert steady(even_ring(8, 0.01, depth=depth)).stages_busy == pytest.approx(1.0)


def test_depth_gains_only_with_a_full_ring():
    def lap(depth, filled):
        return steady(even_ring(8, 2e-3, host_s=0.6e-3, depth=depth, filled=filled)).lap_s

    assert lap(1, 9) / 9 < lap(0, 8) / 8
    assert lap(1, 4) > lap(0, 4)


def test_depth_gains_nothing_where_launches_are_the_limit():
    full = [even_ring(8, 1.5e-3, 6e-3, host_s=0.6e-3, depth=d, filled=8 + d) for d in (0, 1, 4)]
    assert [steady(r).stages_busy for r in full] == pytest.approx([steady(full[0]).stages_busy] * 3, rel=0.01)


def test_graphs_shorten_the_lap_to_the_kernels():
    eager, graphs = steady(even_ring(8, 5e-3, 10e-3)), steady(even_ring(8, 5e-3))
    assert eager.lap_s == pytest.approx(0.08)
    assert graphs.lap_s == pytest.approx(0.04)


def test_the_heaviest_stage_bounds_the_others():
    heavy = Ring((7e-3,) * 7 + (12e-3,), (0.0,) * 8, filled=8)
    assert steady(heavy).duty[0] == pytest.approx(7 / 12)
    assert steady(heavy).duty[-1] == pytest.approx(1.0)


@given(
    kernel=st.lists(st.floats(1e-4, 0.05), min_size=1, max_size=12),
    launch=st.floats(0, 0.05),
    hop=st.floats(0, 1e-3),
    host=st.floats(0, 5e-3),
    depth=st.integers(0, 4),
    data=st.data(),
)
def test_duties_are_ratios_and_throughput_follows_from_the_lap(kernel, launch, hop, host, depth, data):
    filled = data.draw(st.integers(1, len(kernel) + depth))
    ring = Ring(tuple(kernel), (launch,) * len(kernel), hop, host, depth, filled)
    state = steady(ring)
    assert all(0 < duty <= 1 for duty in state.duty)
    assert state.stages_busy <= min(filled, len(kernel)) + 1e-9
    assert state.lap_s >= sum(kernel) - 1e-12
    assert state.tokens_per_s(3) == pytest.approx(3 / state.lap_s)


@pytest.mark.parametrize(
    "broken",
    [
        {"kernel_s": (), "launch_s": ()},
        {"kernel_s": (0.1,), "launch_s": (0.0, 0.0)},
        {"kernel_s": (-0.1,), "launch_s": (0.0,)},
        {"kernel_s": (0.0,), "launch_s": (0.0,)},
        {"kernel_s": (float("nan"),), "launch_s": (0.0,)},
        {"kernel_s": (0.1,), "launch_s": (0.0,), "filled": 2},
        {"kernel_s": (0.1,), "launch_s": (0.0,), "filled": 0},
        {"kernel_s": (0.1,), "launch_s": (0.0,), "depth": -1},
    ],
)
def test_a_ring_that_cannot_be_is_refused(broken):
    with pytest.raises(ValueError):
        Ring(**broken)


def test_capacity_divides_by_the_stages_and_not_by_the_ring():
    assert slot_capacity(64, 8) == 8
    assert slot_capacity(64, 8, micro_batch=4) == 4
    assert slot_capacity(4, 8) == 1
    assert ring_slots(8, 1) == 9


@pytest.mark.parametrize(
    ("running", "capacity", "slots", "filled"),
    [(8, 8, 8, 1), (9, 8, 8, 2), (32, 4, 8, 8), (100, 4, 8, 8), (1, 8, 8, 1)],
)
def test_a_burst_fills_slots_in_order(running, capacity, slots, filled):
    assert filled_by_burst(running, capacity, slots) == filled


@pytest.mark.parametrize(("running", "filled"), [(1, 1.0), (2, 1.9), (4, 3.3), (8, 5.3), (16, 7.1), (32, 7.9)])
def test_staggered_arrivals_fill_as_many_slots_as_the_study_says(running, filled):
    assert filled_when_staggered(running, 8) == pytest.approx(filled, abs=0.05)


@given(running=st.integers(1, 500), capacity=st.integers(1, 64), slots=st.integers(1, 16))
def test_no_way_of_arriving_fills_more_than_the_bound(running, capacity, slots):
    bound = filled_at_most(running, slots)
    assert 1 <= filled_by_burst(running, capacity, slots) <= bound
    assert 1 - 1e-9 <= filled_when_staggered(running, slots) <= bound + 1e-9


def test_tensor_parallelism_divides_the_work_and_pays_for_its_collectives():
    split = TensorParallel(model_s=0.08, gpus=8, allreduces=100, allreduce_s=1e-4)
    assert split.step_s == pytest.approx(0.02)
    assert split.duty == pytest.approx(0.5)
    assert split.tokens_per_s(4) == pytest.approx(200)
    assert allreduce_s(1e-4, 8e6, 8, 40e9) == pytest.approx(1e-4 + 1.75 * 2e-4)
