"""What a pipeline would do with other settings, from what it is measured to do now.

The measured lap calibrates what cannot be measured (launch time of an eager forward, or host work with graphs), so
that the model says about now exactly what is seen. How long a smaller or larger micro-batch takes on the GPU is not
known: between just as long (bound by reading the weights) and in proportion (bound by arithmetic or by experts).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bubblewatch.theory.ring import Ring, even_ring, filled_at_most, ring_slots, steady

HOP_S = 0.1e-3
"""Time to hand a micro-batch to the next stage, in seconds. As in `theory/story`: plausible, not measured."""

HOST_S = 1.1e-3
"""Host work of a stage for one slot, in seconds, where launches hide it. As in `theory/story`."""

MOST_S = 10.0
"""Upper end of the search for a launch or host time, in seconds: no stage takes that long."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A decode load as it is seen. `step_s` is the time between two decode forwards of one stage, `duty` the mean work
    duty of the stages 0..1, `filled` the filled slots, `running` the requests in all of them.
    """

    stages: int
    step_s: float
    filled: int
    running: float
    duty: float
    graphs: bool
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change brings, each as (low, high): S in stages, tokens a second; lap in seconds."""

    change: str
    stages_busy: tuple[float, float]
    gen_tps: tuple[float, float]
    lap_s: tuple[float, float]


def outcomes(now: Measured, *, depth_available: bool) -> tuple[Outcome, ...]:
    """What each change brings on top of those before it, in the order of advice; () when there is nothing to change or
    the measured numbers fit no pipeline.
    """
    try:
        ring = calibrated(now)
    except ValueError:
        return ()
    batch, found = now.running / now.filled, []
    if not now.graphs:
        ring = replace(ring, launch_s=(0.0,) * now.stages)
        found.append(_outcome("graphs on", ring, ring, now.running))
    filled = filled_at_most(int(now.running), ring_slots(now.stages, now.depth))
    slow = quick = ring
    if filled > now.filled:
        slow, quick = _refilled(ring, filled, batch, now.running)
        found.append(_outcome(f"{filled} slots filled", slow, quick, now.running))
    if now.depth == 0 and depth_available and filled >= now.stages:
        more = filled_at_most(int(now.running), ring_slots(now.stages, 1))
        slow, quick = (replace(one, depth=1) for one in _refilled(replace(ring, depth=1), more, batch, now.running))
        found.append(_outcome("depth 1", slow, quick, now.running))
    return tuple(found)


def calibrated(now: Measured) -> Ring:
    """The ring that has the measured lap. Raises ValueError when none has."""
    if now.filled < 1 or now.stages < 2 or not 0 < now.duty <= 1 or now.step_s <= 0 or now.running < now.filled:
        raise ValueError("no pipeline decodes like that")
    # Each stage runs one kernel of duty x step in every step.
    plain = even_ring(now.stages, now.duty * now.step_s, hop_s=HOP_S, host_s=HOST_S, depth=now.depth, filled=now.filled)
    lap_s = now.step_s * now.filled
    if now.graphs:
        return _fitting(lambda value: replace(plain, host_s=value), lap_s)
    return _fitting(lambda value: replace(plain, launch_s=(value,) * now.stages), lap_s)


def _fitting(ring_with: Callable[[float], Ring], lap_s: float) -> Ring:
    """The ring whose unknown time makes this lap, by bisection; with none of it when even that lap is longer."""
    low, high = 0.0, MOST_S
    if steady(ring_with(low)).lap_s >= lap_s:
        return ring_with(low)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if steady(ring_with(middle)).lap_s < lap_s else (low, middle)
    return ring_with(high)


def _refilled(ring: Ring, filled: int, batch: float, running: float) -> tuple[Ring, Ring]:
    """The ring with its requests spread over `filled` slots: with kernels as long as now, and in proportion to them."""
    kernel_s = ring.kernel_s[0]
    ratio = (running / filled) / batch
    ends = sorted((kernel_s, kernel_s * ratio), reverse=True)
    slow, quick = (replace(ring, kernel_s=(k,) * ring.stages, filled=filled) for k in ends)
    return slow, quick


def _outcome(change: str, slow: Ring, quick: Ring, running: float) -> Outcome:
    a, b = steady(slow), steady(quick)
    busy = sorted((a.stages_busy, b.stages_busy))
    rates = sorted((a.tokens_per_s(running), b.tokens_per_s(running)))
    laps = sorted((a.lap_s, b.lap_s))
    return Outcome(change, (busy[0], busy[1]), (rates[0], rates[1]), (laps[0], laps[1]))
