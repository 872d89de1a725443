"""What each GPU did: duties by three bases, each with what it may be trusted for (measurement study §B.2, §B.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bubblewatch.model.findings import Scope
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signals
from bubblewatch.model.telemetry import GpuReading, Series
from bubblewatch.signals import series
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.series import Interval
from bubblewatch.theory.cards import PowerLevels, power_levels
from bubblewatch.theory.sensors import SM_ACTIVE_AT_WORK

MIN_READINGS = 5
"""Fewer distinct moments than this are a snapshot: nothing about time can be said (design §6)."""

MIN_SWING_W = 60.0
"""Least distance between idle and busy power, in W, at which power carries a duty: below it the error of the floor
(about 3.6 W) moves the sum over eight stages by more than half a stage (measurement study T9)."""

MAY_SPIN_UTIL = 0.9
"""Utilization from which a kernel may simply stay resident all the time: spinning ranks read 98 to 100 %."""

MAX_DUTY = 1.2
"""A power duty above this is cut: the busy level was taken too low."""


@dataclass(frozen=True, slots=True)
class Duty:
    """Work duty of one GPU, 0..1, with the basis it rests on: sm, util, power (levels of the card) or prior."""

    value: float
    basis: str
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """What one GPU did in the window. None = its sensors did not say."""

    uuid: str
    index: int
    readings: int
    util: float | None
    sm: float | None
    power_w: float | None
    power_limit_w: float | None
    power_duty: float | None
    levels: PowerLevels | None
    work: Duty | None


_EMPTY = Series()


def _mean_power(reading: GpuReading, end_ns: int, within: Sequence[Interval] | None) -> float | None:
    """Mean power in W by the field that covers all the time, if there is one."""
    for name in ("power_average_w", "power_instant_w"):
        value = series.mean(reading.series.get(name, _EMPTY), end_ns, within)
        if value is not None:
            return value
    return series.rate(reading.series.get("energy_j", _EMPTY))


def _power_duty(power_w: float | None, levels: PowerLevels | None) -> float | None:
    if power_w is None or levels is None or levels.busy_w - levels.idle_w < MIN_SWING_W:
        return None
    return min(max((power_w - levels.idle_w) / (levels.busy_w - levels.idle_w), 0.0), MAX_DUTY)


def _work(util: float | None, sm: float | None, power_duty: float | None, levels: PowerLevels | None) -> Duty | None:
    """The best statement on useful work: SM activity, else the lower of utilization and power duty, else utilization.

    Utilization is an upper bound of work, so a low one speaks for itself. Where power is lower, the statement is as
    good as the busy level that it was read against; a guessed level says something only where utilization may be
    spinning.
    """
    if sm is not None:
        return Duty(min(sm / SM_ACTIVE_AT_WORK, 1.0), "sm", Confidence.HIGH)
    if power_duty is not None and levels is not None and (util is None or power_duty < util):
        if levels.basis == "card":
            return Duty(min(power_duty, 1.0), "power", Confidence.MEDIUM)
        if util is None or util >= MAY_SPIN_UTIL:
            return Duty(min(power_duty, 1.0), "prior", Confidence.POSSIBLE)
    if util is not None:
        return Duty(util, "util", Confidence.HIGH)
    return None


def activity(
    reading: GpuReading, end_ns: int, within: Sequence[Interval] | None = None, min_readings: int = MIN_READINGS
) -> GpuActivity:
    """What this GPU did, over all of the block or only `within` intervals of it.

    Below `min_readings` distinct moments no work duty is given.
    """
    gpu = reading.gpu
    count = max((series.readings(reading.series.get(n, _EMPTY)) for n in ("util_ratio", *_POWER_FIELDS)), default=0)
    util = series.mean(reading.series.get("util_ratio", _EMPTY), end_ns, within)
    sm = series.mean(reading.series.get("sm_active_ratio", _EMPTY), end_ns, within)
    power_w = _mean_power(reading, end_ns, within)
    levels = power_levels(gpu.name, gpu.power_limit_w)
    power_duty = _power_duty(power_w, levels)
    return GpuActivity(
        uuid=gpu.uuid,
        index=gpu.index,
        readings=count,
        util=util,
        sm=sm,
        power_w=power_w,
        power_limit_w=gpu.power_limit_w,
        power_duty=power_duty,
        levels=levels,
        work=_work(util, sm, power_duty, levels) if count >= min_readings else None,
    )


_POWER_FIELDS = ("power_average_w", "power_instant_w", "energy_j")


def gpu_signals(reading: GpuReading, seen: GpuActivity, end_ns: int) -> Signals:
    """Signals of scope gpu for one GPU."""
    book = Notebook(Scope.GPU)
    where = f"GPU {reading.gpu.index}"
    evidence = Evidence(EvidenceKind.TELEMETRY, where, _sentence(seen))
    absent = "the device did not report it"
    book.know("gpu.readings", seen.readings, "count")
    book.know("gpu.util_ratio", seen.util, "util", evidence=[evidence], otherwise=absent)
    book.know("gpu.sm_active_ratio", seen.sm, "sm", evidence=[evidence], otherwise=absent)
    book.know("gpu.power_w", seen.power_w, "power", evidence=[evidence], otherwise=absent)
    book.know("gpu.power_limit_w", seen.power_limit_w, "limit", otherwise=absent)
    if seen.levels is not None:
        sure = Confidence.MEDIUM if seen.levels.basis == "card" else Confidence.POSSIBLE
        book.know("gpu.power_idle_w", seen.levels.idle_w, seen.levels.basis, sure)
        book.know("gpu.power_busy_w", seen.levels.busy_w, seen.levels.basis, sure)
        book.know("gpu.power_duty", seen.power_duty, seen.levels.basis, sure, otherwise="power carries no duty here")
    if seen.work is not None:
        book.know("gpu.work_duty", seen.work.value, seen.work.basis, seen.work.confidence, [evidence])
        if seen.util is not None:
            book.know("gpu.spin_ratio", max(seen.util - seen.work.value, 0.0), seen.work.basis, seen.work.confidence)
    else:
        book.lack("gpu.work_duty", few_readings(seen.readings))
    for name, field in (
        ("gpu.mem_util_ratio", "mem_util_ratio"),
        ("gpu.sm_clock_mhz", "sm_clock_mhz"),
    ):
        book.know(name, series.mean(reading.series.get(field, _EMPTY), end_ns), "mean", otherwise=absent)
    for name, field in (("gpu.memory_used_bytes", "memory_used_bytes"), ("gpu.temperature_c", "temperature_c")):
        book.know(name, series.last(reading.series.get(field, _EMPTY)), "last", otherwise=absent)
    return book.signals()


def few_readings(count: int) -> str:
    """Why so few readings cannot be judged."""
    if count == 0:
        return "no readings of utilization or power"
    return f"{count} reading{'s' if count > 1 else ''} only: a snapshot says nothing about time"


def _sentence(seen: GpuActivity) -> str:
    parts = []
    if seen.util is not None:
        parts.append(f"utilization {seen.util:.0%}")
    if seen.sm is not None:
        parts.append(f"SM activity {seen.sm:.0%}")
    if seen.power_w is not None:
        limit = f" of {seen.power_limit_w:.0f}" if seen.power_limit_w else ""
        parts.append(f"{seen.power_w:.0f}{limit} W")
    return ", ".join(parts) or "no readings"
