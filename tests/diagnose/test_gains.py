"""Expected gains from the signals of a server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bubblewatch.diagnose.gains import expected_gain
from bubblewatch.diagnose.rule import GainModel
from bubblewatch.model.findings import Gain
from bubblewatch.model.signals import SignalValue
from tests.diagnose.make import STORY, signals


def graphs(**more: SignalValue) -> Gain:
    values = {**STORY, **{name.replace("_", ".", 1): value for name, value in more.items()}}
    gain = expected_gain(GainModel.GRAPHS, signals(values))
    assert gain is not None
    return gain


def test_no_gain_above_what_memory_bandwidth_allows() -> None:
    free, cut = graphs(), graphs(roofline_tps=150.0)
    assert free.high == pytest.approx(191, abs=2)
    assert (cut.low, cut.high) == (free.low, 150.0)
    assert cut.assumption == free.assumption + "; cut at the 150 tok/s that memory bandwidth allows"


def test_a_limit_that_is_far_away_changes_nothing() -> None:
    assert graphs(roofline_tps=450.0) == graphs()


def test_a_rate_just_above_the_limit_is_no_loss_to_come() -> None:
    gain = graphs(roofline_tps=90.0)
    assert (gain.now, gain.low, gain.high) == (95.6, 95.6, 95.6)


def test_what_is_uncertain_stays_so() -> None:
    uncertain = expected_gain(GainModel.UNCERTAIN, signals({**STORY, "roofline.tps": 150.0}))
    assert uncertain is not None
    assert replace(uncertain, assumption="") == Gain("", None, None, now=95.6)
    assert expected_gain(GainModel.NONE, signals(STORY)) is None
