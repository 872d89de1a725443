"""How the sampler fares, in words for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bubblewatch.model.clock import NS
from bubblewatch.model.errors import AccessDenied, BubblewatchError, SourceUnavailable, UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.runtime.call_table import CallStats
from bubblewatch.runtime.sampler_grip import SEE_DMESG
from bubblewatch.runtime.sampler_lives import Lives
from bubblewatch.runtime.sampler_status import Failure, Status
from bubblewatch.runtime.shared_ring import SharedPage, Word

NAME = "nvml"
NEARLY = 0.9
"""Share of the rate in force above which the pace counts as kept."""
MUCH_FASTER = 1.5
"""Times the refresh of the fastest sensor from which a rate reads the same thing again and again."""


def health_of(lives: Lives, asked_hz: float | None, now_ns: int) -> SourceHealth:
    """OK, DEGRADED (starting, hanging, some GPUs gone), or why there is nothing."""
    child = lives.child
    ticks = child.page.get(Word.TICKS)
    if lives.end is not None:
        stuck = f"; process {lives.stuck[0]} is stuck in the driver" if lives.stuck else ""
        return SourceHealth(NAME, _health_of(lives.end), f"{lives.end.what}{stuck}", lives.end.hint or "", ticks)
    if child.hangs(now_ns):
        hang = child.hang(now_ns)
        return SourceHealth(NAME, Health.DEGRADED, hang.what, hang.hint or "", ticks)
    if not child.has_read:
        return SourceHealth(NAME, Health.DEGRADED, f"starting since {child.silent_s(now_ns):.0f} s")
    status = child.status
    words = "; ".join((_pace_words(status, child.page, asked_hz), *_remarks(status)))
    gone = _gone(status, lives)
    if not gone:
        return SourceHealth(NAME, Health.OK, words, read_count=ticks)
    reasons = "; ".join(f"GPU {name}: {failure.what}" for name, failure in sorted(gone.items()))
    mend = next((failure.hint for failure in gone.values() if failure.hint), SEE_DMESG)
    health = Health.DEGRADED if child.readable else Health.LOST
    return SourceHealth(NAME, health, f"{words}; {reasons}", mend, ticks)


def _health_of(error: BubblewatchError) -> Health:
    if isinstance(error, AccessDenied):
        return Health.DENIED
    return Health.ABSENT if isinstance(error, SourceUnavailable | UsageError) else Health.LOST


def _pace_words(status: Status, page: SharedPage, asked_hz: float | None) -> str:
    period_ns, calls = page.get(Word.PERIOD_NS), page.calls.read()
    rate_hz = NS / period_ns if period_ns else 0.0
    words = [f"{len(status.gpus)} GPUs, driver {status.driver_version}, {rate_hz:.3g} Hz"]
    if asked_hz is not None and rate_hz < NEARLY * asked_hz:
        words.append(f" of {asked_hz:g} asked, {status.rate_reason}")
    fastest_s = min((period_s for by_field in status.refresh_s.values() for period_s in by_field.values()), default=0.0)
    if rate_hz * fastest_s > MUCH_FASTER:
        words.append(f", of which the sensors fill {1 / fastest_s:.3g}")
    parts = ["".join(words), _latency_words(calls), _refresh_words(status.refresh_s)]
    return "; ".join(part for part in parts if part)


def _latency_words(calls: Mapping[str, CallStats]) -> str:
    """How long the call of the fast loop takes, by which the governor sets the pace."""
    stats = calls.get("nvmlDeviceGetFieldValues")
    p50_s, p99_s = (stats.quantile_s(0.5), stats.quantile_s(0.99)) if stats else (None, None)
    if p50_s is None or p99_s is None:
        return ""
    return f"the driver answers in {p50_s * 1e6:.0f} us, 99 of 100 times within {p99_s * 1e6:.0f} us"


def _refresh_words(refresh_s: Mapping[str, Mapping[str, float]]) -> str:
    """What the sensors really give, per model when there are several."""
    several = len(refresh_s) > 1
    parts = []
    for model, by_field in refresh_s.items():
        periods = ", ".join(f"{field} {period_s * 1e3:.0f} ms" for field, period_s in by_field.items())
        if periods:
            parts.append(f"sensors refresh every {periods}" + (f" ({model})" if several else ""))
    return "; ".join(parts)


def _remarks(status: Status) -> Sequence[str]:
    """Each note once, with the GPUs it is about unless it is about all."""
    about: dict[str, list[int]] = {}
    for gpu in status.gpus:
        for note in status.notes.get(gpu.uuid, ()):
            about.setdefault(note, []).append(gpu.index)
    notes = [
        note if len(indices) == len(status.gpus) else f"GPU {', '.join(map(str, indices))}: {note}"
        for note, indices in about.items()
    ]
    return (*status.remarks, *notes)


def _gone(status: Status, lives: Lives) -> Mapping[str, Failure]:
    index = {gpu.uuid: str(gpu.index) for gpu in status.gpus}
    left_out = {str(at): Failure("SourceError", why, SEE_DMESG) for at, why in lives.left_out.items()}
    return {**left_out, **status.absent, **{index[uuid]: failure for uuid, failure in status.lost.items()}}
