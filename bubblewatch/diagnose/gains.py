"""What a change should bring, by the theory, from the signals of one target."""

from __future__ import annotations

from bubblewatch.diagnose.rule import GainModel
from bubblewatch.model.findings import Gain
from bubblewatch.model.signals import Signals
from bubblewatch.theory.gain import Gain as Estimate
from bubblewatch.theory.gain import depth_gain, graphs_gain, slots_gain
from bubblewatch.theory.roofline import capped

FULL_RING = 0.8
"""Share of the stages that must have a filled slot each before the ring counts as full (design §5)."""

_NOT_ENOUGH = "uncertain: not enough was measured for an estimate"


def expected_gain(model: GainModel, signals: Signals) -> Gain | None:
    """The gain by `model`, in tokens a second, never more than memory bandwidth allows; None when the rule claims none.
    Uncertain without the needed numbers.
    """
    if model is GainModel.NONE:
        return None
    now_tps = signals.number("throughput.gen_tps")
    estimate = _estimate(model, signals, now_tps) or Estimate(_NOT_ENOUGH)
    most = signals.number("roofline.tps")
    ceiling = None if most is None else max(most, now_tps or 0.0)  # a rate just above the limit is not a loss to come
    low, high = capped(estimate.low, estimate.high, ceiling)
    cut = f"; cut at the {ceiling:.0f} tok/s that memory bandwidth allows" if high != estimate.high else ""
    return Gain(estimate.assumption + cut, low, high, "tok/s", now_tps)


def _estimate(model: GainModel, signals: Signals, now_tps: float | None) -> Estimate | None:
    if model is GainModel.UNCERTAIN:
        return slots_gain(signals.number("demand.running") or 0.0)
    stages, filled = signals.number("parallel.pp"), signals.number("slots.filled")
    # S by a basis that cannot tell work from waiting promises nothing.
    stages_busy = signals.number("pipeline.stages_busy") if signals.value("pipeline.basis_tells") is True else None
    if model is GainModel.GRAPHS:
        return graphs_gain(now_tps, stages_busy, filled, stages)
    if not stages or not filled or stages_busy is None:
        return None
    return depth_gain(now_tps, stages_busy / stages, ring_full=filled >= FULL_RING * stages)
