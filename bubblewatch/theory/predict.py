"""What a pipeline would do with other settings: each as the range that the unknowns leave.

The measured load calibrates the slot ring (`what_if.calibrated`). What stays unknown widens the range:

- how the GPU time of a stage, and the launches of an eager forward, depend on the micro-batch: between not at all
  (bound by reading weights) and in proportion (bound by arithmetic, or by experts that each token adds);
- what the stages really work: the sensors are good to `DUTY_ERROR`;
- how much of an eager forward's gaps are launches: a third to all of it (`gain.LEAST_GAP_SHARE`);
- what depth hides: nothing to all host work between two slots, `gain.MOST_DEPTH_GAIN` at the most.

No range goes above what memory bandwidth allows, where that is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from bubblewatch.theory.gain import LEAST_GAP_SHARE, MOST_DEPTH_GAIN
from bubblewatch.theory.ring import Ring, filled_at_most, filled_by_burst, ring_slots, steady
from bubblewatch.theory.what_if import Measured, calibrated

DUTY_ERROR = 0.05
"""Relative error of a measured duty: SM activity counts cycles with a warp, not with work."""

TOGETHER = "all of these"
"""Name of the changes that can help, all made at once."""

Span = tuple[float, float]
"""From the least to the most."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings to predict for. `micro_batch` is the number of requests that a slot may hold, None = as now.

    `layers` counts the layers of each stage, () = as they are now.
    """

    running: int
    graphs: bool
    depth: int = 0
    micro_batch: int | None = None
    layers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a plan brings. `filled` slots of `batch` requests; duty 0..1 is the mean over the stages; `token_s` is the
    time between two tokens of one request; `capped`: memory bandwidth cuts the range.
    """

    plan: Plan
    admitted: int
    filled: int
    batch: float
    duty: Span
    gen_tps: Span
    token_s: Span
    capped: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """A measured load. `capacity`: requests that one slot may hold now, None = not known. `layers` of each stage now,
    () = not known. `most_tps`: tokens a second that memory bandwidth allows at `now.running`, None = not known.
    """

    now: Measured
    capacity: int | None = None
    layers: tuple[int, ...] = ()
    most_tps: float | None = None

    @property
    def plan(self) -> Plan:
        """The settings of now."""
        return Plan(round(self.now.running), self.now.graphs, self.now.depth)

    def most_at(self, running: float) -> float:
        """Upper bound of tokens a second at another number of requests.

        A step never reads less for more requests, so the limit grows at most in proportion, and it does not fall.
        """
        if self.most_tps is None:
            return math.inf
        return self.most_tps * max(running / self.now.running, 1.0)


def predict(base: Base, plan: Plan) -> Prediction | None:
    """What the plan brings; None when the measured numbers fit no pipeline, when the layers do not fit the stages, or
    for graphs to be switched off: the launch time of an eager forward was not measured then.
    """
    if plan.running < 1 or (base.now.graphs and not plan.graphs):
        return None
    shares = _layer_shares(base, plan)
    if shares is None:
        return None
    admitted, filled = _filled(base, plan)
    batch = admitted / filled
    try:
        ends = [
            steady(_planned(calibrated(now), now, plan, filled, scale, shares))
            for now, scale in product(_readings(base, plan), _scales(base, plan, batch))
        ]
    except ValueError:
        return None
    rates = [end.tokens_per_s(admitted) for end in ends]
    busy = [end.stages_busy / base.now.stages for end in ends]
    low, high = min(rates), max(rates)
    if plan.depth > base.now.depth:
        without = predict(base, replace(plan, depth=base.now.depth))
        if without is not None:
            low, high = min(low, without.gen_tps[0]), min(high, without.gen_tps[1] * MOST_DEPTH_GAIN)
            high = max(high, low)
    most = max(base.most_at(admitted), _measured_tps(base.now) if plan == base.plan else 0.0)
    capped = high > most
    low, high = min(low, most), min(high, most)
    return Prediction(
        plan, admitted, filled, batch, (min(busy), max(busy)), (low, high), (admitted / high, admitted / low), capped
    )


def _measured_tps(now: Measured) -> float:
    return now.running / (now.step_s * now.filled)


def _filled(base: Base, plan: Plan) -> tuple[int, int]:
    """Requests that are admitted, and slots that they fill in a burst."""
    slots = ring_slots(base.now.stages, plan.depth)
    if plan.micro_batch is None and plan.running == round(base.now.running):
        return plan.running, filled_at_most(base.now.filled, slots)
    now_batch = math.ceil(base.now.running / base.now.filled)
    capacity = plan.micro_batch if plan.micro_batch is not None else base.capacity or now_batch
    admitted = min(plan.running, capacity * slots)
    return admitted, filled_by_burst(admitted, capacity, slots)


@dataclass(frozen=True, slots=True)
class _Scale:
    """What becomes of the times of now: factors of GPU time and of launch time, and the share of gaps that stays."""

    kernel: float
    launch: float
    gaps: float


def _readings(base: Base, plan: Plan) -> Sequence[Measured]:
    """The load as measured, and with its duty as far off as it may be; nothing changes for the settings of now."""
    now = base.now
    if plan == base.plan:
        return (now,)
    return tuple(replace(now, duty=min(now.duty * (1 + off), 1.0)) for off in (-DUTY_ERROR, 0.0, DUTY_ERROR))


def _scales(base: Base, plan: Plan, batch: float) -> Sequence[_Scale]:
    """As now and in proportion to the micro-batch, for kernels and launches; with each share of launches that stays."""
    ratio = batch / (base.now.running / base.now.filled)
    gaps = (1.0,) if plan.graphs == base.now.graphs else (0.0, 1.0 - LEAST_GAP_SHARE)
    launches = {1.0, ratio} if not plan.graphs else {1.0}
    return [_Scale(*each) for each in product(sorted({1.0, ratio}), sorted(launches), gaps)]


def _planned(ring: Ring, now: Measured, plan: Plan, filled: int, scale: _Scale, shares: Sequence[float]) -> Ring:
    kernels = tuple(ring.kernel_s[0] * scale.kernel * share for share in shares)
    launch_s = tuple(launch * scale.launch for launch in ring.launch_s)
    if plan.graphs != now.graphs:
        gap_s = scale.gaps * max(ring.launch_s[0] - ring.kernel_s[0], 0.0)
        launch_s = tuple(kernel + gap_s if gap_s else 0.0 for kernel in kernels)
    return replace(ring, kernel_s=kernels, launch_s=launch_s, depth=plan.depth, filled=filled)


def _layer_shares(base: Base, plan: Plan) -> Sequence[float] | None:
    """How long a forward of each stage takes over that of the mean stage; None when the layers are not its own."""
    layers = plan.layers or base.layers
    if not layers:
        return (1.0,) * base.now.stages
    if len(layers) != base.now.stages or min(layers) < 1:
        return None
    if plan.layers and base.layers and sum(plan.layers) != sum(base.layers):
        return None
    mean = sum(layers) / len(layers)
    return tuple(count / mean for count in layers)


def single_changes(base: Base, *, depth_available: bool) -> tuple[tuple[str, Plan], ...]:
    """Changes of one thing at the same demand, in the order of advice, then all of those that can help together."""
    now, plan = base.now, base.plan
    running, slots = round(now.running), ring_slots(now.stages, now.depth)
    found: list[tuple[str, Plan]] = []
    together = plan
    if not now.graphs:
        found.append(("CUDA graphs on", replace(plan, graphs=True)))
        together = replace(together, graphs=True)
    wanted = filled_at_most(running, slots)
    if wanted > now.filled:
        for filled in sorted({wanted, max(wanted // 2, now.filled + 1)}):
            size = math.ceil(running / filled)
            found.append((f"micro-batch {size} ({math.ceil(running / size)} slots)", replace(plan, micro_batch=size)))
        together = replace(together, micro_batch=math.ceil(running / wanted))
    if depth_available and now.depth == 0 and wanted >= now.stages:
        together = replace(together, depth=1)
        if now.filled >= now.stages:  # with empty slots it only costs
            found.append(("async depth 1", replace(plan, depth=1)))
    if base.layers and max(base.layers) - min(base.layers) > 1:
        found.append(("even layers", replace(plan, layers=even_layers(sum(base.layers), now.stages))))
    if len(found) > 1:
        found.append((TOGETHER, together))
    return tuple(found)


def at_loads(base: Base, loads: Iterable[int]) -> tuple[tuple[str, Plan], ...]:
    """The settings of now at other numbers of requests."""
    return tuple((f"{load} running", replace(base.plan, running=load)) for load in loads)


def even_layers(count: int, stages: int) -> tuple[int, ...]:
    """`count` layers over `stages` as evenly as can be, the longer ones first."""
    each, rest = divmod(count, stages)
    return tuple(each + (stage < rest) for stage in range(stages))


def best_first(base: Base, options: Iterable[tuple[str, Prediction]]) -> tuple[str, Prediction] | None:
    """What to try first at the demand of now: what gains most for sure, else what can gain most without a risk to lose;
    None when there is neither. A single change comes before all of them together, so that its effect can be seen.
    """
    now_tps = _measured_tps(base.now)
    single = [(name, found) for name, found in options if name != TOGETHER]
    sure = [one for one in single if one[1].gen_tps[0] > now_tps * 1.02]
    if sure:
        return max(sure, key=lambda one: one[1].gen_tps[0])
    safe = [one for one in single if one[1].gen_tps[0] > now_tps * 0.98 and one[1].gen_tps[1] > now_tps * 1.02]
    return max(safe, key=lambda one: one[1].gen_tps[1], default=None)
