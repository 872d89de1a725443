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
from bubblewatch.model.accounts import Accounts, GpuAccount, GpuState, ServerAccount
from bubblewatch.model.findings import Finding, Gain, Health, Scope, Severity, Snapshot, SourceHealth, State, Target
from bubblewatch.model.server import Launch, Origin, Setting, Settings
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


def test_one_blind_source_of_two_is_not_hidden_by_the_other() -> None:
    sources = (
        SourceHealth("journal", Health.OK, read_count=4),
        SourceHealth("journal", Health.LOST, read_count=3),
    )
    snapshot = replace(snapshots.story(), sources=sources)

    assert value(snapshot, "source_up", source="journal") == 0
    assert value(snapshot, "source_reads_total", source="journal") == 7


def test_the_server_is_described_on_its_info_metric() -> None:
    info = next(one for one in snapshot_samples(snapshots.story()) if one.metric.name == "bubblewatch_server_info")

    assert info.labels == {"server": KEY, "kind": "sglang", "version": "0.5.10", "unit": KEY, "pipeline": KEY}


def info_labels(snapshot: Snapshot, name: str, host: str = "") -> dict[str, str]:
    return next(dict(s.labels) for s in snapshot_samples(snapshot, host) if s.metric.name == f"bubblewatch_{name}")


def with_server(**changes: object) -> Snapshot:
    story = snapshots.story()
    changed = replace(snapshots.server(gpus=story.gpus), **changes)  # type: ignore[arg-type]  # Server's own fields
    return replace(story, views=(replace(story.views[0], server=changed),))


def settings_of(**values: str | int) -> Settings:
    return Settings({name: Setting(name, value, Origin.ARGV) for name, value in values.items()})


def test_two_hosts_of_one_server_publish_the_same_pipeline_and_two_servers_of_one_name_do_not() -> None:
    together = with_server(settings=settings_of(nnodes=2, dist_init_addr="10.0.0.1:5000"))
    alone = with_server(settings=settings_of(nnodes=1, dist_init_addr="10.0.0.1:5000"), port=30000)

    assert [info_labels(together, "server_info", host)["pipeline"] for host in ("a", "b")] == ["10.0.0.1:5000"] * 2
    assert info_labels(alone, "server_info", "a")["pipeline"] == f"a/{KEY}"
    assert info_labels(alone, "server_info", "b")["pipeline"] == f"b/{KEY}"
    assert info_labels(alone, "server_info", "a")["target"] == "a:30000"
    assert "target" not in info_labels(alone, "server_info")


def test_settings_are_told_by_meaning_and_a_changed_launch_by_its_fingerprint() -> None:
    one, other = (
        info_labels(with_server(launch=Launch(("serve", flag), {"TOKEN": "planted"})), "server_settings_info")
        for flag in ("--a", "--b")
    )

    assert one.pop("launch") != other.pop("launch")
    assert one == other == {"server": KEY, "pp": "8", "tp": "1", "async_depth": "0", "graphs": "off"}


def test_the_counters_of_the_books_are_there_in_seconds_and_joules() -> None:
    books = Accounts(
        {"GPU-0003": GpuAccount({GpuState.ACTIVE: 1_500_000_000, GpuState.UNKNOWN: 0}, energy_j=12.5)},
        {KEY: ServerAccount({"pipeline-bubble": 2_000_000_000}, starts=3), "gone": ServerAccount(starts=1)},
    )
    snapshot = replace(snapshots.story(), accounts=books)

    assert value(snapshot, "gpu_time_seconds_total", uuid="GPU-0003", state="active") == 1.5
    assert value(snapshot, "gpu_time_seconds_total", uuid="GPU-0003", state="unknown") == 0
    assert value(snapshot, "gpu_energy_joules_total", uuid="GPU-0003") == 12.5
    assert value(snapshot, "gpu_energy_joules_total", uuid="GPU-0004") is None
    assert value(snapshot, "server_lost_gpu_seconds_total", server=KEY, cause="pipeline-bubble") == 2
    assert value(snapshot, "server_lost_gpu_seconds_total", server=KEY, cause="unsplit") == 0
    assert value(snapshot, "server_restarts_total", server=KEY) == 3
    assert value(snapshot, "server_restarts_total", server="gone") == 1


@pytest.mark.parametrize(
    ("gain", "low", "high"),
    [
        (Gain("model", 120.0, 180.0, now=100.0), 1.2, 1.8),
        (Gain("full ring", 1.0, 1.25, unit="x"), 1.0, 1.25),
        (Gain("uncertain"), None, None),
        (Gain("no rate now", 120.0, 180.0), None, None),
    ],
)
def test_an_expected_gain_is_a_ratio_and_absent_when_uncertain(gain: Gain, low: float, high: float) -> None:
    labels = {"server": KEY, "rule": "cuda-graph-disabled"}
    snapshot = with_findings(replace(snapshots.GRAPHS_OFF, expected_gain=gain))

    assert value(snapshot, "finding_expected_gain_low_ratio", **labels) == low
    assert value(snapshot, "finding_expected_gain_high_ratio", **labels) == high


def test_since_when_is_told_of_findings_that_fire() -> None:
    labels = {"server": KEY, "rule": "cuda-graph-disabled"}
    since = replace(snapshots.GRAPHS_OFF, since_ns=1_700_000_000_500_000_000)

    assert value(with_findings(since), "finding_start_timestamp_seconds", **labels) == 1_700_000_000.5
    resolved = with_findings(replace(since, state=State.RESOLVED))
    assert value(resolved, "finding_start_timestamp_seconds", **labels) is None


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
    books = Accounts(
        {gpu.uuid: GpuAccount(dict.fromkeys(GpuState, 1), 1.0) for gpu in story.gpus}, {KEY: ServerAccount()}
    )
    full = replace(story, views=(view,), gpu_signals={g.uuid: all_known for g in story.gpus}, accounts=books)

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
