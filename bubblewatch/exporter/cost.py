"""What watching costs -> samples, by the catalogue. Pure: knows nothing of the Prometheus client."""

from __future__ import annotations

from collections.abc import Iterator

from bubblewatch.exporter import catalogue
from bubblewatch.exporter.families import Sample, sample
from bubblewatch.runtime.call_table import together
from bubblewatch.runtime.sampler_cost import SamplerCost

CALL_BUCKETS_S = (1e-6, 1e-5, 5e-5, 1e-4, 2.5e-4, 1e-3, 2.5e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Edges in seconds: a shared page answers in 3 us, firmware in 150 us to some ms, a process list in 5 ms, and a driver
that hangs for a while in seconds."""


def cost_samples(cost: SamplerCost) -> Iterator[Sample]:
    """Every sample that tells the sampler's cost. Before its first tick only counters that are 0."""
    if cost.rate_hz:
        yield sample(catalogue.SAMPLER_INFO, 1, reason=cost.rate_reason)
        yield sample(catalogue.SAMPLER_RATE, cost.rate_hz)
    yield sample(catalogue.SAMPLER_TICKS, cost.ticks)
    yield sample(catalogue.SAMPLER_LATE_TICKS, cost.late_ticks)
    yield sample(catalogue.SAMPLER_SKIPPED_TICKS, cost.skipped_ticks)
    yield sample(catalogue.SAMPLER_REJECTED, cost.rejected)
    yield sample(catalogue.SAMPLER_RESTARTS, cost.restarts)
    for function, stats in cost.calls.items():
        yield sample(catalogue.SAMPLER_CALLS, stats.calls, function=function)
    for field, count in cost.distinct.items():
        yield sample(catalogue.SAMPLER_DISTINCT, count, field=field)
    for model, by_field in cost.refresh_s.items():
        for field, period_s in by_field.items():
            yield sample(catalogue.SAMPLER_REFRESH, period_s, model=model, field=field)
    yield from _call_durations(cost)


def _call_durations(cost: SamplerCost) -> Iterator[Sample]:
    stats = together(cost.calls.values())
    metric = catalogue.SAMPLER_CALL_DURATION
    for edge_s in CALL_BUCKETS_S:
        yield Sample(metric, {"le": str(edge_s)}, stats.below(edge_s), "_bucket")
    total = sum(stats.buckets)
    yield Sample(metric, {"le": "+Inf"}, total, "_bucket")
    yield Sample(metric, {}, total, "_count")
    yield Sample(metric, {}, stats.seconds, "_sum")
