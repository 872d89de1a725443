"""Where a GPU's time goes: shares of a moment by state, and which finding explains the idle ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum

from bubblewatch.model.accounts import GpuState
from bubblewatch.model.signals import Confidence, Signals
from bubblewatch.signals.gpus import Duty

HUNG = "server-hung"
BUBBLE = "pipeline-bubble"
INSIDE_A_TURN = ("launch-bound", "host-bound", "frontend-bound", "tp-comm-bound")
"""Findings that explain why a GPU that has its turn does not work."""

UNSPLIT = "unsplit"
"""Idle time that no finding explains, or that several do."""

CAUSES = (HUNG, BUBBLE, *INSIDE_A_TURN, UNSPLIT)
"""Every name that idle time may be given to."""


class Phase(IntEnum):
    """What a server is doing. Of several servers on one GPU the largest one counts."""

    NO_REQUEST = 0
    START_UP = 1
    UNKNOWN = 2
    RUNNING = 3


def phase_of(signals: Signals, firing: Collection[str]) -> Phase:
    """What the server is doing by its signals and the names of its findings.

    A server that runs requests has started, whatever it printed; one that hangs has requests, though none shows.
    """
    demand = signals.value("demand.state")
    if demand == "running" or HUNG in firing:
        return Phase.RUNNING
    if signals.value("server.ready") is False:
        return Phase.START_UP
    return Phase.NO_REQUEST if demand == "none" else Phase.UNKNOWN


def shares(phase: Phase, util: float | None, work: Duty | None) -> Mapping[GpuState, float]:
    """Shares 0..1 of one moment by state, at most 1 in all; what is left of it is unknown.

    `util` and `work` are means over that moment, None = not read. A duty that rests on a prior counts as not read.
    Without knowing whether requests run, only work proves anything: idle may be right.
    """
    if phase in (Phase.NO_REQUEST, Phase.START_UP):
        return {GpuState.NO_REQUEST if phase is Phase.NO_REQUEST else GpuState.START_UP: 1.0}
    active = _ratio(work.value) if work is not None and work.confidence > Confidence.POSSIBLE else None
    if phase is Phase.UNKNOWN:
        return {} if active is None else {GpuState.ACTIVE: active}
    if util is None:
        return {} if active is None else {GpuState.ACTIVE: active}
    if active is None:
        return {GpuState.NOT_RESIDENT: 1.0 - _ratio(util)}
    resident = max(_ratio(util), active)
    return {
        GpuState.ACTIVE: active,
        GpuState.RESIDENT_LOW: resident - active,
        GpuState.NOT_RESIDENT: 1.0 - resident,
    }


def _ratio(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def attribute(idle_ns: int, total_ns: int, signals: Signals, firing: Collection[str]) -> Mapping[str, int]:
    """`idle_ns` by the finding that explains it (`CAUSES`); the parts add up to it exactly.

    `total_ns` is all the time of the same GPUs, `firing` the names of the server's findings. A stage of p cannot work
    longer than its M filled slots allow, M / p of the time: the rest is the bubble's. What is missing from its turns
    goes to the one finding that speaks of them; when none does, or several do, it is not split.
    """
    if idle_ns <= 0:
        return {}
    if HUNG in firing:
        return {HUNG: idle_ns}
    bubble_ns = min(idle_ns, _bubble_ns(total_ns, signals)) if BUBBLE in firing else 0
    rest = _only(name for name in INSIDE_A_TURN if name in firing) or UNSPLIT
    parts = {BUBBLE: bubble_ns, rest: idle_ns - bubble_ns}
    return {cause: part for cause, part in parts.items() if part}


def _bubble_ns(total_ns: int, signals: Signals) -> int:
    stages = signals.number("pipeline.stages") or 1.0
    filled = max(signals.number("slots.filled") or 1.0, 1.0)
    return round(total_ns * max(1.0 - filled / stages, 0.0))


def _only(names: Iterable[str]) -> str | None:
    """The name, when there is exactly one."""
    found = list(names)
    return found[0] if len(found) == 1 else None
