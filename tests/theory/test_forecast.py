"""Requests over the slots of a pipeline, before anything runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.forecast import Fill, forecast


def test_a_burst_of_the_story_fits_in_one_slot():
    expected = forecast(8, stages=8, ring=8, capacity=8, max_running=64)
    assert expected is not None
    assert expected.burst == Fill(1.0, 1 / 8)
    assert expected.staggered is not None
    assert expected.staggered.slots == pytest.approx(5.25, abs=0.01)
    assert (expected.admitted, expected.waiting, expected.batch) == (8, 0, 8)


def test_a_slot_of_one_spreads_the_burst():
    expected = forecast(8, stages=8, ring=8, capacity=1, max_running=64)
    assert expected is not None
    assert expected.burst == expected.staggered == Fill(8.0, 1.0)
    assert expected.batch == 1


def test_small_slots_bound_what_is_admitted():
    expected = forecast(100, stages=4, ring=5, capacity=4, max_running=64)
    assert expected is not None
    assert (expected.admitted, expected.waiting) == (20, 80)
    assert expected.burst == Fill(5.0, 1.0)


def test_an_unknown_limit_leaves_a_burst_in_one_slot():
    expected = forecast(32, stages=4, ring=4, capacity=None, max_running=None)
    assert expected is not None
    assert expected.burst == Fill(1.0, 1 / 4)
    assert (expected.admitted, expected.waiting) == (None, None)


def test_one_stage_has_no_slots():
    expected = forecast(32, stages=1, ring=None, capacity=None, max_running=16)
    assert expected is not None
    assert (expected.ring, expected.burst, expected.staggered) == (None, None, None)
    assert (expected.admitted, expected.waiting, expected.batch) == (16, 16, 16)


def test_replicas_share_the_requests():
    expected = forecast(10, stages=2, ring=2, capacity=8, max_running=32, replicas=4)
    assert expected is not None
    assert (expected.per_replica, expected.admitted) == (3, 3)


def test_without_requests_there_is_nothing_to_expect():
    assert forecast(0, stages=8, ring=8, capacity=8, max_running=64) is None


@given(
    st.integers(1, 5000),
    st.integers(2, 16),
    st.integers(0, 4),
    st.none() | st.integers(1, 512),
    st.none() | st.integers(1, 4096),
    st.integers(1, 8),
)
def test_no_more_is_filled_than_there_is(concurrency, stages, depth, capacity, max_running, replicas):
    expected = forecast(
        concurrency, stages=stages, ring=stages + depth, capacity=capacity, max_running=max_running, replicas=replicas
    )
    assert expected is not None
    assert expected.burst is not None
    assert expected.staggered is not None
    runs = expected.per_replica if expected.admitted is None else expected.admitted
    assert 1 <= expected.burst.slots <= expected.staggered.slots <= min(stages + depth, runs)
    assert 0 < expected.burst.duty_at_most <= expected.staggered.duty_at_most <= 1
    assert expected.batch is not None
    assert expected.batch * expected.burst.slots >= runs
    assert expected.waiting is None or expected.waiting >= 0
