"""How many stages work at once, as the sensors see it: S, the bubble, imbalance, spin."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bubblewatch.model.server import Rank
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.gpus import Duty, GpuActivity, few_readings

_BASIS_WORDS: Mapping[str, str] = {
    "sm": "SM activity",
    "util": "utilization",
    "power": "power between this card's usual levels",
    "prior": "power against a guessed busy level",
}

LOCKSTEP_MIN = 1.3
"""S up to this is one stage at a time whatever the number of stages: one filled slot reads at most 1.3
with calibrated power (measurement study T1c), two read 1.9."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The GPUs of one server by pipeline stage. `reason` says why the stages are not known; then `by_stage` is
    empty.
    """

    by_stage: Sequence[Sequence[GpuActivity]] = ()
    reason: str = ""


def lockstep_limit(stages: int) -> float:
    """S at or below which stages are said to take turns: max(1.3, p/4) (design §5)."""
    return max(LOCKSTEP_MIN, stages / 4)


def own_gpus(
    seen: Sequence[GpuActivity], assigned: Mapping[str, Rank | None], world: int | None
) -> tuple[Sequence[GpuActivity], str]:
    """The GPUs that belong to the server, in index order, and why none do when that cannot be told.

    With an assignment by process only those count. Without one (evidence files) all GPUs count, if they are not more
    than the launch uses.
    """
    if assigned:
        mine = [g for g in seen if g.uuid in assigned]
        return sorted(mine, key=lambda g: g.index), "" if mine else "the GPUs of its processes were not read"
    if not seen:
        return (), "no GPU telemetry"
    if world is not None and len(seen) > world:
        return (), f"{len(seen)} GPUs were read and the launch uses {world}: which ones is not known"
    return sorted(seen, key=lambda g: g.index), ""


def stages_of(seen: Sequence[GpuActivity], assigned: Mapping[str, Rank | None], pp: int, tp: int, dp: int) -> Stages:
    """GPUs by stage: by the ranks of the processes, else in index order when the number of GPUs fits.

    The tensor ranks of a stage are neighbours, as SGLang and vLLM place them.
    """
    ranks = {uuid: rank for uuid, rank in assigned.items() if rank is not None}
    if ranks and all(g.uuid in ranks for g in seen):
        by_stage = [[g for g in seen if ranks[g.uuid].pp == stage] for stage in range(pp)]
        missing = [stage for stage, members in enumerate(by_stage) if not members]
        if missing:
            return Stages(reason=f"stages {', '.join(map(str, missing))} of {pp} are not on this host or were not read")
        return Stages(by_stage)
    if len(seen) != pp * tp * dp:
        return Stages(reason=f"{len(seen)} GPUs were read and the launch uses {pp * tp * dp}: stages are not known")
    if dp != 1:
        return Stages(reason="which GPUs hold which data-parallel replica is not known")
    return Stages([seen[stage * tp : (stage + 1) * tp] for stage in range(pp)])


def _stage_duties(stages: Stages) -> list[Duty] | None:
    """One duty a stage: the mean over its members, as sure as the least sure; None when a member is not known."""
    duties = []
    for members in stages.by_stage:
        known = [g.work for g in members if g.work is not None]
        if len(known) != len(members) or not known:
            return None
        weakest = min(known, key=lambda d: d.confidence)
        duties.append(Duty(statistics.fmean(d.value for d in known), weakest.basis, weakest.confidence))
    return duties


def _util_sum(stages: Stages) -> float | None:
    total = 0.0
    for members in stages.by_stage:
        utils = [g.util for g in members]
        if not utils or any(u is None for u in utils):
            return None
        total += statistics.fmean(u for u in utils if u is not None)
    return total


def write_pipeline(book: Notebook, stages: Stages, pp: int, seconds: float) -> None:
    """Write S and what follows from it. S is written only from enough readings of every stage.

    S by power against a guessed busy level is replaced by the sum of utilizations where that alone is already at the
    lockstep limit: utilization is an upper bound of work, so it proves a low S, whatever the card draws.
    """
    book.know("pipeline.stages", pp, "launch", Confidence.CERTAIN)
    names = ("pipeline.stages_busy", "pipeline.busy_ratio", "pipeline.bubble_ratio", "pipeline.basis",
             "pipeline.basis_tells", "pipeline.imbalance")  # fmt: skip
    if not stages.by_stage:
        for name in names:
            book.lack(name, stages.reason or "no GPU telemetry")
        return
    duties = _stage_duties(stages)
    if duties is None:
        count = min(g.readings for members in stages.by_stage for g in members)
        for name in names:
            book.lack(name, few_readings(count) if count < 5 else "some GPUs reported neither utilization nor power")
        return
    weakest = min(duties, key=lambda d: d.confidence)
    busy, basis, sure = sum(d.value for d in duties), weakest.basis, weakest.confidence
    util = _util_sum(stages)
    if basis in ("prior", "power") and util is not None and util <= lockstep_limit(pp):
        busy, basis, sure = min(util, busy) if basis == "power" else util, "util", Confidence.HIGH
    text = (
        f"S {busy:.1f} of {pp} by {_BASIS_WORDS[basis]} over {seconds:.0f} s (lockstep up to {lockstep_limit(pp):.1f})"
    )
    evidence = [Evidence(EvidenceKind.TELEMETRY, "GPUs", text)]
    tells = basis in ("sm", "power") or (basis == "util" and busy <= max(lockstep_limit(pp), pp / 2))
    book.know("pipeline.stages_busy", busy, basis, sure, evidence)
    book.know("pipeline.busy_ratio", busy / pp, basis, sure, evidence)
    book.know("pipeline.bubble_ratio", max(1 - busy / pp, 0.0), basis, sure, evidence)
    book.know("pipeline.basis", basis, basis, sure)
    book.know("pipeline.basis_tells", tells, basis, Confidence.HIGH)
    mean = busy / pp
    if mean > 0:
        book.know("pipeline.imbalance", max(d.value for d in duties) / mean, basis, sure)


def write_gpus(book: Notebook, mine: Sequence[GpuActivity], reason: str, seconds: float) -> None:
    """Write what holds over the server's GPUs together; `reason` says why there are none."""
    names = ("duty.median", "duty.min", "duty.max", "util.median", "util.min", "util.max", "util.ramp",
             "power.median_w", "power.limit_ratio", "spin.median", "spin.max")  # fmt: skip
    if not mine:
        for name in (*names, "telemetry.readings", "telemetry.seconds"):
            book.lack(name, reason or "no GPU telemetry")
        return
    count = min(g.readings for g in mine)
    book.know("telemetry.readings", count, "count", Confidence.CERTAIN)
    book.know("telemetry.seconds", seconds, "clock", Confidence.CERTAIN)
    works = [g.work for g in mine if g.work is not None]
    if len(works) == len(mine):
        weakest = min(works, key=lambda d: d.confidence)
        values = [d.value for d in works]
        evidence = [Evidence(EvidenceKind.TELEMETRY, "GPUs", _spread("work duty", values, weakest.basis))]
        book.know("duty.median", statistics.median(values), weakest.basis, weakest.confidence, evidence)
        book.know("duty.min", min(values), weakest.basis, weakest.confidence, evidence)
        book.know("duty.max", max(values), weakest.basis, weakest.confidence, evidence)
    else:
        for name in ("duty.median", "duty.min", "duty.max", "spin.median", "spin.max"):
            book.lack(name, few_readings(count) if count < 5 else "some GPUs reported neither utilization nor power")
    _write_util(book, mine, seconds)
    powers = [g.power_w for g in mine if g.power_w is not None]
    if len(powers) == len(mine):
        evidence = [Evidence(EvidenceKind.TELEMETRY, "GPUs", f"power {min(powers):.0f}-{max(powers):.0f} W")]
        book.know("power.median_w", statistics.median(powers), "power", evidence=evidence)
        ratios = [g.power_w / g.power_limit_w for g in mine if g.power_w is not None and g.power_limit_w]
        if len(ratios) == len(mine):
            book.know("power.limit_ratio", statistics.median(ratios), "power", evidence=evidence)


def _write_util(book: Notebook, mine: Sequence[GpuActivity], seconds: float) -> None:
    utils = [g.util for g in mine if g.util is not None]
    if len(utils) != len(mine):
        return
    evidence = [Evidence(EvidenceKind.TELEMETRY, "GPUs", _spread("utilization", utils, f"{seconds:.0f} s"))]
    book.know("util.median", statistics.median(utils), "util", evidence=evidence)
    book.know("util.min", min(utils), "util", evidence=evidence)
    book.know("util.max", max(utils), "util", evidence=evidence)
    spins = [max(g.util - g.work.value, 0.0) for g in mine if g.util is not None and g.work is not None]
    works = [g.work for g in mine if g.work is not None]
    if len(spins) == len(mine):
        weakest = min(works, key=lambda d: d.confidence)
        book.know("spin.median", statistics.median(spins), weakest.basis, weakest.confidence, evidence)
        book.know("spin.max", max(spins), weakest.basis, weakest.confidence, evidence)
    if len(utils) >= 3 and max(utils) > min(utils):
        book.know("util.ramp", _rank_correlation(utils), "util", Confidence.MEDIUM)


def _rank_correlation(values: Sequence[float]) -> float:
    """Spearman correlation of the values with their position, -1..1 (ties share their mean rank)."""
    ordered = sorted(values)
    ranks = [statistics.fmean(i for i, v in enumerate(ordered) if v == value) for value in values]
    return statistics.correlation(list(range(len(values))), ranks)


def _spread(what: str, values: Sequence[float], note: str) -> str:
    low, high = min(values), max(values)
    span = f"{low:.0%}" if round(low, 2) == round(high, 2) else f"{low:.0%}-{high:.0%}"
    return f"{what} {span} on {len(values)} GPU{'s' if len(values) > 1 else ''} ({note})"
