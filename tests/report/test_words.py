"""Figures and names as people read them."""

from __future__ import annotations

import math

import pytest

from bubblewatch.model.findings import Gain
from bubblewatch.model.signals import Evidence, EvidenceKind
from bubblewatch.report.words import (
    demand_words,
    duration,
    evidence_words,
    figure,
    gain_words,
    joined,
    measured_words,
    sentence,
    shape_words,
)
from tests.support.snapshots import signals


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (95.6, "95.6"), (1540.0, "1,540"), (0, "0"), (math.nan, "?"), (math.inf, "?")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0837, "83.7 ms"), (3.35, "3.35 s"), (30, "30 s"), (900, "15 min"), (8040, "2 h 14 min"), (math.nan, "?")],
)
def test_durations_have_a_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, "requests unknown"),
        ({"demand.state": "none"}, "nothing running"),
        ({"demand.state": "running"}, "running, number unknown, queue unknown"),
        ({"demand.state": "running", "demand.running_min": 8, "demand.queued": 2}, "at least 8 running, 2 queued"),
        ({"demand.state": "running", "demand.running": 8}, "8 running, queue unknown"),
    ],
)
def test_demand_says_what_is_unknown(known: dict[str, bool | int | float | str], text: str) -> None:
    assert demand_words(signals(known)) == text


def test_a_rate_says_what_it_is_of_what_memory_allows() -> None:
    limit: dict[str, bool | int | float | str] = {"roofline.tps": 448.0, "roofline.ratio": 0.2134}
    assert measured_words(signals({"throughput.gen_tps": 95.6, **limit})) == (
        "95.6 tok/s (21 % of the 448 that memory bandwidth allows)"
    )
    assert measured_words(signals({"throughput.gen_tps": 95.6, "roofline.tps": 448.0})) == "95.6 tok/s"


def test_work_names_its_basis() -> None:
    values: dict[str, bool | int | float | str] = {"pipeline.stages": 8, "pipeline.stages_busy": 0.5}

    assert measured_words(signals({**values, "pipeline.basis": "prior"})) == (
        "0.5 of 8 stages at work (S by power, guessed levels)"
    )
    assert (
        measured_words(signals({"duty.median": 0.81}, basis="util")) == "GPUs at work 81 % of the time by utilization"
    )
    assert measured_words(signals({})) == ""


def test_shape_shows_what_is_unknown_of_it() -> None:
    assert shape_words(signals({"parallel.pp": 8})) == "PP8 x TP?"
    assert shape_words(signals({"parallel.pp": 1, "parallel.tp": 4, "parallel.dp": 2})) == "PP1 x TP4 x DP2"
    assert shape_words(signals({})) == ""


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (Gain("model", 115.0, 190.0, now=95.6), "95.6 -> 115-190 tok/s (model)"),
        (Gain("full ring", 1.0, 1.25, unit="x"), "x1-1.25 (full ring)"),
        (Gain("", 120.0, 120.0), "120 tok/s"),
        (Gain("measure it"), "uncertain: measure it"),
        (Gain("uncertain: measure it"), "uncertain: measure it"),
    ],
)
def test_gains_are_ranges_with_their_assumption(gain: Gain, text: str) -> None:
    assert gain_words(gain) == text


def test_a_short_place_is_the_label_of_its_fact_and_a_long_one_follows_it() -> None:
    argv = Evidence(EvidenceKind.SETTING, "argv", "--disable-cuda-graph")
    unit = Evidence(EvidenceKind.SETTING, "k26.service:14", "--disable-cuda-graph")

    assert evidence_words(argv, 99) == ("argv", "--disable-cuda-graph")
    assert evidence_words(unit, 99) == ("set", "--disable-cuda-graph  (k26.service:14)")
    assert evidence_words(unit, 6) == ("set", "--dis…  (k26.service:14)")


def test_sentences_and_lists() -> None:
    assert sentence(" graphs are off ") == "Graphs are off."
    assert sentence("") == ""
    assert joined([]) == ""
    assert joined(["a", "b", "c"]) == "a, b and c"
