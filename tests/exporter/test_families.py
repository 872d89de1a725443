"""Which series a snapshot becomes: present when known, absent when unknown, and few."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from bubblewatch.exporter.catalogue import CATALOGUE, Kind
from bubblewatch.exporter.families import LABEL_LENGTH, Sample, snapshot_samples
from bubblewatch.model.findings import Finding, Health, Scope, Severity, Snapshot, SourceHealth, State, Target
from bubblewatch.model.signals import Signal, Signals
from bubblewatch.signals.vocabulary import VOCABULARY, Spec
from tests.support import snapshots
from tests.support.strategies import snapshots as any_snapshot

PER_GPU, PER_SERVER = 25, 100
"""Most series of a GPU and of a server (UX.md, labels)."""


def series(snapshot: Snapshot) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {(one.metric.name, frozenset(one.labels.items())): one.value for one in snapshot_samples(snapshot)}


def value(snapshot: Snapshot, name: str, **labels: str) -> float | None:
    """Value of the series, None when it is absent."""
    return series(snapshot).get((f"bubblewatch_{name}", frozenset(labels.items())))


def with_findings(*findings: Finding) -> Snapshot:
    story = snapshots.story()
    return replace(story, views=(replace(story.views[0], findings=findings, judged_clear={}),))


KEY = "sglang-k26.service"


def finding_value(*findings: Finding) -> float | None:
    return value(with_findings(*findings), "finding", server=KEY, rule="cuda-graph-disabled", severity="warning")


def test_known_signals_are_there_in_base_units() -> None:
    story = snapshots.story()

    assert value(story, "pipeline_stages_busy", server=KEY) == 0.5
    assert value(story, "requests_running", server=KEY) == 8
    assert value(story, "decode_step_seconds", server=KEY) == 0.0837
    assert value(story, "cuda_graphs_enabled", server=KEY) == 0
    assert value(story, "gpu_sm_clock_hertz", uuid="GPU-0003") == 2.43e9
    assert value(story, "gpu_memory_total_bytes", uuid="GPU-0003") == 96 * 2**30


def test_unknown_signals_are_absent() -> None:
    story = snapshots.story()

    assert value(story, "kv_cache_usage_ratio", server=KEY) is None
    assert value(story, "gpu_power_busy_watts", uuid="GPU-0003") is None
    assert value(snapshots.cannot_judge(), "server_requests_active", server="unknown") is None
    assert value(snapshots.cannot_judge(), "server_judged", server="unknown") == 0


@pytest.mark.parametrize(("make", "active"), [(snapshots.story, 1), (snapshots.quiet, 0)])
def test_demand_is_one_or_zero_when_known(make: Callable[[], Snapshot], active: float) -> None:
    assert value(make(), "server_requests_active", server=KEY) == active


def test_a_number_that_is_not_finite_is_absent() -> None:
    story = snapshots.story()
    odd = Signals({"throughput.gen_tps": Signal(math.nan), "pipeline.stages_busy": Signal("half")})
    odd_snapshot = replace(story, views=(replace(story.views[0], signals=odd),))

    assert value(odd_snapshot, "generation_tokens_per_second", server=KEY) is None
    assert value(odd_snapshot, "pipeline_stages_busy", server=KEY) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": State.OBSERVED}, 1),
        ({"state": State.FIRING}, 1),
        ({"state": State.RESOLVED}, 0),
        ({"state": State.PENDING}, None),
        ({"ignored": True}, None),
        ({"held_back_by": ("low-concurrency",)}, None),
    ],
)
def test_a_finding_is_one_when_it_fires_and_absent_when_it_is_not_to_be_acted_on(
    changes: dict[str, object], expected: float | None
) -> None:
    changed = replace(snapshots.GRAPHS_OFF, **changes)  # type: ignore[arg-type]  # the keywords are Finding's own

    assert finding_value(changed) == expected


def test_a_rule_that_was_judged_clear_is_zero_and_one_that_was_not_judged_is_absent() -> None:
    story = snapshots.story()

    assert value(story, "finding", server=KEY, rule="low-concurrency", severity="warning") == 0
    assert not any("server-hung" in dict(labels).values() for _, labels in series(story))


def test_the_same_rule_on_two_ranks_is_one_series_that_fires() -> None:
    first, second = (
        replace(snapshots.GRAPHS_OFF, target=Target(Scope.RANK, f"pp{stage}"), state=state)
        for stage, state in enumerate((State.RESOLVED, State.FIRING))
    )

    assert finding_value(first, second) == finding_value(second, first) == 1


def test_a_finding_about_a_gpu_is_labelled_by_its_uuid() -> None:
    of_gpu = replace(snapshots.GRAPHS_OFF, name="straggler-gpu", target=Target(Scope.GPU, "GPU-0003"))
    snapshot = with_findings(of_gpu)

    assert value(snapshot, "finding", uuid="GPU-0003", rule="straggler-gpu", severity="warning") == 1


def test_a_shared_gpu_is_assigned_to_nobody() -> None:
    two = snapshots.two_servers()
    good, bad = two.views
    shared = replace(good, server=snapshots.server("good.service", two.gpus[:5], tp=5))
    snapshot = replace(two, views=(shared, bad))

    owners = {labels["uuid"]: labels["server"] for labels in assignments(snapshot)}

    assert owners["GPU-0000"] == "good.service"
    assert "GPU-0004" not in owners
    assert owners["GPU-0005"] == KEY


def assignments(snapshot: Snapshot) -> list[dict[str, str]]:
    return [dict(one.labels) for one in snapshot_samples(snapshot) if one.metric.name == "bubblewatch_gpu_assignment"]


def test_a_gpu_that_is_gone_has_no_series_left() -> None:
    story = snapshots.story()
    lost = replace(story, gpus=story.gpus[:-1])

    assert not any(("uuid", "GPU-0007") in labels for _, labels in series(lost))
    assert len(assignments(lost)) == 7


def test_a_source_that_is_switched_off_is_neither_up_nor_down() -> None:
    sources = (SourceHealth("nvml", Health.OK), SourceHealth("gpm", Health.OFF), SourceHealth("journal", Health.DENIED))
    snapshot = replace(snapshots.story(), sources=sources)

    assert [value(snapshot, "source_up", source=name) for name in ("nvml", "gpm", "journal")] == [1, None, 0]


def test_the_server_is_described_on_its_info_metric() -> None:
    info = next(one for one in snapshot_samples(snapshots.story()) if one.metric.name == "bubblewatch_server_info")

    assert info.labels == {"server": KEY, "kind": "sglang", "version": "0.5.10", "unit": KEY}


def test_neither_pid_nor_argv_nor_log_is_in_any_label() -> None:
    texts = " ".join(text for one in snapshot_samples(snapshots.story()) for text in one.labels.values())

    assert "48121" not in texts
    assert "--disable-cuda-graph" not in texts
    assert "decode lines" not in texts


def test_the_number_of_series_stays_within_the_budget_with_every_signal_known() -> None:
    story = snapshots.story()
    all_known = Signals({name: Signal(_some_value(spec)) for name, spec in VOCABULARY.items()})
    rules = {f"rule-{number}": Severity.WARNING for number in range(60)}
    view = replace(story.views[0], signals=all_known, judged_clear=rules)
    full = replace(story, views=(view,), gpu_signals={gpu.uuid: all_known for gpu in story.gpus})

    per_target = Counter(text for _, labels in series(full) for label, text in labels if label in ("uuid", "server"))

    assert per_target["GPU-0000"] <= PER_GPU
    assert per_target[KEY] - len(story.gpus) <= PER_SERVER


def _some_value(spec: Spec) -> bool | int | float | str:
    values: dict[str, bool | int | float | str] = {"bool": True, "int": 3, "double": 0.5, "string": "running"}
    return values[spec.type]


def test_the_catalogue_names_real_signals_and_keeps_to_the_naming_rules() -> None:
    for metric in CATALOGUE.values():
        assert re.fullmatch(r"bubblewatch_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
        assert metric.help.endswith(".")
        if metric.signal:
            assert VOCABULARY[metric.signal].type != "string"


UNIT_SUFFIXES = {"s": "_seconds", "W": "_watts", "bytes": "_bytes", "ratio": "_ratio", "MHz": "_hertz", "C": "_celsius"}


def test_a_metric_carries_the_base_unit_of_its_signal_as_suffix() -> None:
    for metric in CATALOGUE.values():
        unit = VOCABULARY[metric.signal].unit if metric.signal else ""
        assert metric.name.endswith(UNIT_SUFFIXES.get(unit, ""))


def test_hostile_labels_are_printable_and_bounded() -> None:
    for one in snapshot_samples(snapshots.hostile()):
        assert all(text.isprintable() and len(text) <= LABEL_LENGTH for text in one.labels.values())


@settings(max_examples=150)
@given(any_snapshot)
def test_any_snapshot_gives_unique_finite_series_of_the_catalogue(snapshot: Snapshot) -> None:
    samples = snapshot_samples(snapshot)

    assert len(series(snapshot)) == len(samples)
    assert all(_is_proper(one) for one in samples)


def _is_proper(one: Sample) -> bool:
    return (
        CATALOGUE[one.metric.name] is one.metric
        and set(one.labels) <= set(one.metric.labels)
        and math.isfinite(one.value)
        and all(text and text.isprintable() for text in one.labels.values())
    )
