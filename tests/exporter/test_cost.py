"""The sampler's own cost as metrics."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from bubblewatch.exporter.catalogue import CATALOGUE
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.cost import cost_samples
from bubblewatch.model.clock import ManualClock
from bubblewatch.runtime.call_table import TABLE_BYTES, CallTable
from bubblewatch.runtime.hub import Hub
from bubblewatch.runtime.sampler_cost import SamplerCost

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def cost() -> SamplerCost:
    table = CallTable(memoryview(bytearray(TABLE_BYTES)))
    for latency_ns in [3_000] * 90 + [150_000] * 10:
        table.count("nvmlDeviceGetFieldValues", latency_ns)
    table.count("nvmlDeviceGetName", 20_000_000_000)
    return SamplerCost(
        rate_hz=10.0,
        rate_reason="the fastest sensor refreshes every 100 ms",
        ticks=100,
        late_ticks=2,
        skipped_ticks=1,
        rejected=3,
        calls=table.read(),
        distinct={"energy_j": 100, "util_ratio": 50},
        refresh_s={"NVIDIA H200": {"energy_j": 0.1}},
        restarts=1,
    )


def values() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {(one.metric.name + one.suffix, frozenset(one.labels.items())): one.value for one in cost_samples(cost())}


def value(name: str, **labels: str) -> float:
    return values()[f"bubblewatch_sampler_{name}", frozenset(labels.items())]


def test_pace_and_its_reason_are_told() -> None:
    assert value("rate_hertz") == 10
    assert value("info", reason="the fastest sensor refreshes every 100 ms") == 1
    assert [value(f"{kind}ticks_total") for kind in ("", "late_", "skipped_")] == [100, 2, 1]
    assert value("refresh_seconds", model="NVIDIA H200", field="energy_j") == 0.1


def test_calls_are_counted_by_function_and_readings_by_field() -> None:
    assert value("calls_total", function="nvmlDeviceGetFieldValues") == 100
    assert value("distinct_readings_total", field="util_ratio") == 50
    assert value("rejected_answers_total") == 3
    assert value("restarts_total") == 1


def test_the_histogram_of_call_latency_is_cumulative_and_whole() -> None:
    def bucket(edge: str) -> float:
        return value("call_duration_seconds_bucket", le=edge)

    assert [bucket(edge) for edge in ("1e-06", "1e-05", "0.00025", "10.0", "+Inf")] == [0, 90, 100, 100, 101]
    assert value("call_duration_seconds_count") == 101
    assert value("call_duration_seconds_sum") == pytest.approx(20.00177)


def test_before_the_first_tick_there_is_no_rate() -> None:
    names = {one.metric.name for one in cost_samples(SamplerCost())}

    assert "bubblewatch_sampler_rate_hertz" not in names
    assert "bubblewatch_sampler_ticks_total" in names


def test_every_metric_is_in_the_catalogue() -> None:
    assert {one.metric.name for one in cost_samples(cost())} <= CATALOGUE.keys()


def test_openmetrics_parses_the_histogram() -> None:
    body, _ = Exposition(Hub(ManualClock()), "0.1.0", cost).render(OPENMETRICS)
    families = {family.name: family for family in parse_openmetrics(body.decode())}

    assert families["bubblewatch_sampler_call_duration_seconds"].type == "histogram"
