"""Levels over time and their integrals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.activity import Spans, SquareWave, mean, merged


@given(
    period=st.floats(0.001, 1),
    on=st.floats(0, 1),
    offset=st.floats(-2, 2),
    level=st.floats(0, 1),
    turns=st.integers(1, 50),
)
def test_a_square_wave_has_its_duty_over_whole_periods(period, on, offset, level, turns):
    wave = SquareWave(period, on * period, offset, level)
    assert mean(wave.integral, 3.0, 3.0 + turns * period) == pytest.approx(on * level, abs=1e-6)


@given(st.floats(0, 5), st.floats(0, 5))
def test_integrals_never_fall(a, b):
    low, high = sorted((a, b))
    for activity in (SquareWave(0.1, 0.03, 0.02), Spans(((0.1, 0.4), (1.0, 3.0)), 0.5)):
        assert activity.integral(low) <= activity.integral(high) + 1e-12


def test_spans_count_exactly_what_lies_inside():
    spans = Spans(((1.0, 2.0), (3.0, 5.0)), level=0.5)
    assert spans.integral(0.5) == 0
    assert spans.integral(1.5) == pytest.approx(0.25)
    assert spans.integral(2.5) == pytest.approx(0.5)
    assert spans.integral(99) == pytest.approx(1.5)
    assert mean(spans.integral, 1.5, 3.5) == pytest.approx(0.25)


def test_a_span_of_no_length_has_no_mean():
    assert mean(SquareWave(1, 1).integral, 2.0, 2.0) == 0


@pytest.mark.parametrize("spans", [((0.0, 2.0), (1.0, 3.0)), ((2.0, 1.0),), ((3.0, 4.0), (1.0, 2.0))])
def test_overlapping_spans_are_refused(spans):
    with pytest.raises(ValueError):
        Spans(spans)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), max_size=20))
def test_merged_spans_cover_the_same_time_once(raw):
    spans = merged((start, start + length) for start, length in raw)
    Spans(spans)
    for start, length in raw:
        assert any(a <= start and start + length <= b for a, b in spans)
