"""What sampling costs and how well it keeps its pace, for metrics and for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import FIELDS
from bubblewatch.runtime.call_table import CallStats, together
from bubblewatch.runtime.shared_ring import SharedPage, Word


@dataclass(frozen=True, slots=True)
class SamplerCost:
    """Totals of all sampler processes since the start, so that counters never go back; `pid` and the rate are of now.

    `calls` is driver function -> its calls. `distinct` is field -> distinct readings over all GPUs: what the calls
    were good for. `refresh_s` is GPU model -> field -> seconds between two refreshes of its sensor.
    """

    pid: int | None = None
    rate_hz: float = 0.0
    rate_reason: str = ""
    ticks: int = 0
    late_ticks: int = 0
    skipped_ticks: int = 0
    rejected: int = 0
    calls: Mapping[str, CallStats] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    refresh_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cpu_s: float = 0.0
    restarts: int = 0


class Ledger:
    """Adds up what processes that have ended have cost. One thread closes pages, any may ask for the total."""

    def __init__(self) -> None:
        self._closed: tuple[SamplerCost, SharedPage | None] = (SamplerCost(), None)

    def close(self, page: SharedPage) -> None:
        """Take over the totals of a process that ended."""
        self._closed = (self.total(page), page)

    def total(self, page: SharedPage) -> SamplerCost:
        """Those of the ended ones and of the one that writes this page, which may be the last that ended."""
        before, closed = self._closed
        if page is closed:
            return before
        calls = dict(before.calls)
        for function, stats in page.calls.read().items():
            known = calls.get(function)
            calls[function] = stats if known is None else together((known, stats))
        return SamplerCost(
            ticks=before.ticks + page.get(Word.TICKS),
            late_ticks=before.late_ticks + page.get(Word.LATE_TICKS),
            skipped_ticks=before.skipped_ticks + page.get(Word.SKIPPED_TICKS),
            rejected=before.rejected + page.get(Word.REJECTED),
            calls=calls,
            distinct={name: before.distinct.get(name, 0) + page.distinct(name) for name in FIELDS},
            cpu_s=before.cpu_s + page.get(Word.CPU_NS) / NS,
        )
