"""Where a moment of a GPU goes, and to which finding its idle time is put down."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.accounts import GpuState
from bubblewatch.model.signals import Confidence, Signal, Signals
from bubblewatch.signals.gpu_seconds import CAUSES, Phase, attribute, phase_of, shares
from bubblewatch.signals.gpus import Duty

PIPELINE = Signals({"pipeline.stages": Signal(8), "slots.filled": Signal(1.0)})

duties = st.none() | st.builds(
    Duty, st.floats(-0.1, 1.3), st.sampled_from(["sm", "util", "prior"]), st.sampled_from(Confidence)
)


@given(st.sampled_from(Phase), st.none() | st.floats(-0.1, 1.1), duties)
def test_shares_are_never_negative_and_never_more_than_the_moment(
    phase: Phase, util: float | None, work: Duty | None
) -> None:
    parts = shares(phase, util, work)

    assert all(part >= 0 for part in parts.values())
    assert sum(parts.values()) <= 1 + 1e-9
    assert GpuState.UNKNOWN not in parts


def test_a_busy_kernel_that_does_no_work_is_resident_but_low() -> None:
    parts = shares(Phase.RUNNING, 1.0, Duty(0.25, "sm", Confidence.HIGH))

    assert parts == {GpuState.ACTIVE: 0.25, GpuState.RESIDENT_LOW: 0.75, GpuState.NOT_RESIDENT: 0.0}


def test_work_against_a_guessed_level_is_not_called_active() -> None:
    assert shares(Phase.RUNNING, 0.5, Duty(0.25, "prior", Confidence.POSSIBLE)) == {GpuState.NOT_RESIDENT: 0.5}


def test_an_idle_gpu_is_not_called_lost_while_nobody_knows_whether_requests_run() -> None:
    assert shares(Phase.UNKNOWN, 0.1, Duty(0.1, "sm", Confidence.HIGH)) == {GpuState.ACTIVE: 0.1}
    assert shares(Phase.UNKNOWN, 0.1, None) == {}


@pytest.mark.parametrize(("phase", "state"), [(0, GpuState.NO_REQUEST), (1, GpuState.START_UP)])
def test_spinning_without_requests_is_no_work(phase: int, state: GpuState) -> None:
    assert shares(Phase(phase), 1.0, Duty(0.4, "util", Confidence.HIGH)) == {state: 1.0}


@pytest.mark.parametrize(
    ("signals", "firing", "phase"),
    [
        ({"demand.state": "running", "server.ready": False}, (), Phase.RUNNING),
        ({"server.ready": False, "demand.state": "none"}, (), Phase.START_UP),
        ({"demand.state": "none"}, (), Phase.NO_REQUEST),
        ({"server.ready": True}, (), Phase.UNKNOWN),
        ({}, ("server-hung",), Phase.RUNNING),
    ],
)
def test_the_phase_follows_what_is_known(signals: dict[str, str | bool], firing: tuple[str, ...], phase: Phase) -> None:
    assert phase_of(Signals({name: Signal(value) for name, value in signals.items()}), firing) is phase


def test_the_story_is_mostly_the_bubble_and_the_rest_of_a_turn_is_launches() -> None:
    parts = attribute(744, 800, PIPELINE, {"pipeline-bubble", "launch-bound", "cuda-graph-disabled"})

    assert parts == {"pipeline-bubble": 700, "launch-bound": 44}


def test_what_two_findings_explain_is_not_split() -> None:
    assert attribute(300, 800, PIPELINE, {"launch-bound", "host-bound"}) == {"unsplit": 300}
    assert attribute(300, 800, PIPELINE, set()) == {"unsplit": 300}


def test_a_hung_server_loses_all_of_it_to_that() -> None:
    assert attribute(800, 800, PIPELINE, {"server-hung", "pipeline-bubble"}) == {"server-hung": 800}


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.floats(0, 64),
    st.integers(1, 64),
    st.sets(st.sampled_from(CAUSES[:-1])),
)
def test_the_parts_add_up_exactly(more: int, idle: int, filled: float, stages: int, firing: set[str]) -> None:
    known = Signals({"pipeline.stages": Signal(stages), "slots.filled": Signal(filled)})
    parts = attribute(idle, idle + more, known, firing)

    assert sum(parts.values()) == idle
    assert set(parts) <= set(CAUSES)
    assert all(part > 0 and math.isfinite(part) for part in parts.values())
