"""What a change should bring, as a range with the assumption under which it holds. None = no figure can be given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bubblewatch.theory.ring import Ring, steady

LEAST_GAP_SHARE = 1 / 3
"""Share of the idle part of a turn that launch gaps make up at least, once graphs are known to be off. The rest may be
hops, host work and waits, which graphs do not remove. A judgement, not a measurement."""

MOST_GRAPHS_GAIN = 4.0
"""Highest factor that is promised for CUDA graphs: reports give 2.4 (SGLang #24047, batch 1, TP8) and 2.7 (#14044), and
a sensor that under-reads work would promise any number."""

MOST_DEPTH_GAIN = 1.25
"""Highest factor that is promised for asynchronous depth: what removing host work of a quarter of a stage brings
(0.78 to 0.98 duty in the model of the SGLang study §2.3). Nobody has published a measured one."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Expected tokens a second after the change, `low` to `high`. Both None = uncertain, only `assumption` speaks."""

    assumption: str
    low: float | None = None
    high: float | None = None


def graphs_gain(
    now_tps: float | None, stages_busy: float | None, filled: float | None, stages: float | None
) -> Gain | None:
    """Tokens a second with decode in CUDA graphs; None when one of the inputs is not known.

    With M filled slots a stage has its turn for M/p of the time, and works for S/p of the time. Without launch gaps
    the turn can shrink to the work in it: at most M/S faster. At least, a third of the idle part of the turn goes.
    """
    if not now_tps or not stages_busy or not filled or not stages or stages_busy <= 0 or now_tps <= 0:
        return None
    turns = min(max(filled, 1.0), stages)
    working = min(stages_busy / turns, 1.0)
    high = min(1 / working, MOST_GRAPHS_GAIN)
    low = min(1 / (1 - LEAST_GAP_SHARE * (1 - working)), high)
    assumption = (
        f"model: a stage works {working:.0%} of its turn with {turns:.0f} of {stages:.0f} slots filled; launch gaps "
        f"are a third to all of the rest, so x{high:.1f} at most while that many slots are filled"
    )
    return Gain(assumption, now_tps * low, now_tps * high)


def depth_gain(now_tps: float | None, stage_duty: float | None, *, ring_full: bool) -> Gain | None:
    """Tokens a second with asynchronous depth 1; None with a ring that is not full, or when an input is not known.

    A stage with duty u spends t on the GPU and o on host work, u = t / (t + o); depth hides o behind t.
    """
    if not ring_full or not now_tps or not stage_duty or now_tps <= 0 or stage_duty <= 0:
        return None
    high = min(max(1 / min(stage_duty, 1.0), 1.0), MOST_DEPTH_GAIN)
    assumption = (
        f"model: the idle {1 - min(stage_duty, 1.0):.0%} of a stage is host work between two slots, which depth hides "
        f"behind kernels while the ring is full; x{MOST_DEPTH_GAIN:.2f} at most, no measured gain is published"
    )
    return Gain(assumption, now_tps, now_tps * high)


def slots_gain(
    running: float,
    ring: Ring | None = None,
    kernel_s: Callable[[float], float] | None = None,
    filled: int | None = None,
) -> Gain:
    """Tokens a second when `running` requests are spread over `filled` slots instead of those of `ring`.

    `kernel_s` gives the GPU time of one stage for a micro-batch of b. Without that model the gain is uncertain: more
    slots keep more stages busy, but each reads the weights again.
    """
    if ring is None or kernel_s is None or filled is None:
        return Gain("uncertain: busier is not faster; more slots help only where a smaller micro-batch is a faster one")
    target = max(1, min(filled, ring.slots))
    spread = replace(ring, kernel_s=tuple(kernel_s(running / target) for _ in ring.kernel_s), filled=target)
    after = steady(spread).tokens_per_s(running)
    now = steady(ring).tokens_per_s(running)
    return Gain("model: stage time by micro-batch as stated", min(now, after), max(now, after))
