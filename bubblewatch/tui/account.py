"""Where the GPU-seconds of a server went: what was measured, and what the idle part of it is put down to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bubblewatch.model.findings import TargetView
from bubblewatch.model.signals import Confidence, Signals


class Part(StrEnum):
    """Measured, disjoint, together all of the time (design §6)."""

    ACTIVE = "active"
    LOW = "resident, low"
    ABSENT = "not resident"
    NOBODY = "no request"
    STARTING = "starting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the idle time and what it is put down to: `share` of all GPU-seconds, 0..1."""

    name: str
    share: float
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Account:
    """GPU-seconds of one server over the window: in all, the share of each part, and causes of the idle ones."""

    gpu_seconds: float
    shares: Mapping[Part, float]
    causes: tuple[Cause, ...] = ()

    @property
    def idle(self) -> float:
        """Share of the time in which requests ran and no work was done, 0..1."""
        return self.shares[Part.LOW] + self.shares[Part.ABSENT]


def account_of(view: TargetView, gpus: Sequence[Signals], window_s: float) -> Account:
    """The account of the server whose GPUs have these signals, over so many seconds.

    While requests run, duties hold for the time in which they ran, and the rest has no request. Without known demand
    the duties hold for all of the time, and an idle GPU is just that.
    """
    signals = view.signals
    shares = dict.fromkeys(Part, 0.0)
    if not gpus:
        shares[Part.UNKNOWN] = 1.0
        return Account(0.0, shares)
    total_s = window_s * len(gpus)
    if signals.value("server.ready") is False:
        shares[Part.STARTING] = 1.0
        return Account(total_s, shares)
    state = signals.value("demand.state")
    share = signals.number("demand.share") if state == "running" else None
    loaded = 1.0 if share is None else min(max(share, 0.0), 1.0)
    for one in gpus:
        for part, value in _split(one, nobody_asks=state == "none").items():
            shares[part] += loaded * value / len(gpus)
    shares[Part.NOBODY] += 1 - loaded
    return Account(total_s, shares, _causes(signals, shares, loaded))


def _split(gpu: Signals, *, nobody_asks: bool) -> dict[Part, float]:
    """One GPU's time in parts that sum to 1."""
    duty, util = gpu.number("gpu.work_duty"), gpu.number("gpu.util_ratio")
    if duty is None:
        return {Part.UNKNOWN: 1.0}
    duty = min(max(duty, 0.0), 1.0)
    if util is None:
        return {Part.ACTIVE: duty, Part.UNKNOWN: 1 - duty}
    resident = min(max(util, duty), 1.0)
    rest = Part.NOBODY if nobody_asks else Part.ABSENT
    return {Part.ACTIVE: duty, Part.LOW: resident - duty, rest: 1 - resident}


def _causes(signals: Signals, shares: Mapping[Part, float], loaded: float) -> tuple[Cause, ...]:
    """What the idle time of a pipeline is put down to: turns that no micro-batch fills, and idle time within a turn.

    With M of p slots filled a stage has its turn for M/p of the time: the rest is the bubble. What is idle beyond that
    lies within turns: launch gaps where decode runs eager, else host work and hops.
    """
    idle = shares[Part.LOW] + shares[Part.ABSENT]
    if signals.value("demand.state") != "running" or idle <= 0:
        return ()
    stages, filled = signals.number("pipeline.stages"), signals.known.get("slots.filled")
    value = signals.number("slots.filled")
    if stages is None or stages < 2 or filled is None or value is None or not math.isfinite(value):
        return (Cause("not split", idle, Confidence.LOW),)
    bubble = min(max(1 - value / stages, 0.0) * loaded, idle)
    rest = idle - bubble
    eager = signals.value("graphs.decode_enabled") is False
    within = Cause("launch gaps" if eager else "host work, hops", rest, Confidence.MEDIUM if eager else Confidence.LOW)
    causes = (Cause("pipeline bubble", bubble, filled.confidence), within)
    return tuple(cause for cause in causes if cause.share >= 0.005)
