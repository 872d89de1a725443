"""Snapshot -> samples, by the catalogue. Pure: knows nothing of the Prometheus client."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bubblewatch.exporter import catalogue
from bubblewatch.exporter.catalogue import Metric
from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Answer, Finding, Health, Scope, Snapshot, State, TargetView
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.model.visible import visible

LABEL_LENGTH = 128
"""Characters of a label value: systemd unit names reach 255, but what tells units apart comes first."""

MODEL_SETTINGS = ("served_model_name", "model_path", "model")
"""Settings that name the model, the name that clients use first (SGLang and vLLM write them alike)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric. Labels that are not known are absent, which is what Prometheus takes empty ones for."""

    metric: Metric
    labels: Mapping[str, str]
    value: float


def snapshot_samples(snapshot: Snapshot) -> list[Sample]:
    """Every sample that the snapshot supports: each series once, all values finite, in the order of the snapshot."""
    unique: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for one in _all_samples(snapshot):
        key = (one.metric.name, tuple(one.labels.items()))
        known = unique.get(key)
        # Two ranks of one server may have the same finding: the series says that one of them fires.
        if math.isfinite(one.value) and (known is None or one.value > known.value):
            unique[key] = one
    return list(unique.values())


def _all_samples(snapshot: Snapshot) -> Iterator[Sample]:
    yield sample(catalogue.SNAPSHOT_TIME, snapshot.time_ns / NS)
    for source in snapshot.sources:
        if source.health is not Health.OFF:
            yield sample(catalogue.SOURCE_UP, source.health in (Health.OK, Health.DEGRADED), source=source.name)
            yield sample(catalogue.SOURCE_READS, source.read_count, source=source.name)
    for view in snapshot.views:
        yield from _view_samples(view)
    yield from _assignments(snapshot)
    for gpu in snapshot.gpus:
        yield from _gpu_samples(gpu, snapshot.gpu_signals.get(gpu.uuid, Signals()))


def sample(metric: Metric, value: float, **labels: str | None) -> Sample:
    """A sample with its labels cleaned, bounded and in the order of the catalogue; empty ones are left out."""
    cleaned = {name: visible(labels[name] or "", LABEL_LENGTH) for name in metric.labels if name in labels}
    return Sample(metric, {name: text for name, text in cleaned.items() if text}, float(value))


def _view_samples(view: TargetView) -> Iterator[Sample]:
    if view.target.scope is Scope.SERVER:
        key = view.target.id
        yield from _server_samples(view, key)
        for metric in catalogue.SERVER_SIGNALS:
            yield from _signal_sample(metric, view.signals, "server", key)
    for finding in view.findings:
        value = _finding_value(finding)
        if value is not None:
            yield sample(
                catalogue.FINDING, value, rule=finding.name, severity=finding.severity.word, **_about(finding, view)
            )
    about = {"server": view.target.id} if view.target.scope is Scope.SERVER else {}
    for rule, severity in view.judged_clear.items():
        yield sample(catalogue.FINDING, 0, rule=rule, severity=severity.word, **about)


def _server_samples(view: TargetView, key: str) -> Iterator[Sample]:
    server = view.server
    if server is not None:
        yield sample(
            catalogue.SERVER_INFO,
            1,
            server=key,
            kind=server.kind,
            version=server.version,
            model_name=_model_name(server),
            unit=server.unit,
            container=server.container,
        )
    yield sample(catalogue.SERVER_JUDGED, view.answer not in (Answer.CANNOT_JUDGE, Answer.ERROR), server=key)
    yield sample(
        catalogue.SERVER_LOUD, sum(_fires(finding) and finding.is_loud for finding in view.findings), server=key
    )
    state = view.signals.value("demand.state")
    if state in ("running", "none"):
        yield sample(catalogue.SERVER_ACTIVE, state == "running", server=key)


def _model_name(server: Server) -> str | None:
    names = (server.settings.get(name) for name in MODEL_SETTINGS)
    return next((name for name in names if isinstance(name, str) and name), None)


def _about(finding: Finding, view: TargetView) -> dict[str, str]:
    if finding.target.scope is Scope.GPU:
        return {"uuid": finding.target.id}
    if view.target.scope is Scope.SERVER:
        return {"server": view.target.id}
    return {}


def _fires(finding: Finding) -> bool:
    return finding.state in (State.OBSERVED, State.FIRING)


def _finding_value(finding: Finding) -> float | None:
    """1 fires, 0 judged clear; None = neither can be said, or the finding is not to be acted on now."""
    if finding.state is State.RESOLVED:
        return 0.0
    if not _fires(finding) or finding.ignored or finding.held_back_by:
        return None
    return 1.0


def _assignments(snapshot: Snapshot) -> Iterator[Sample]:
    servers = [(view.target.id, view.server) for view in snapshot.views if view.server is not None]
    users = Counter(uuid for _, server in servers for uuid in server.gpus)
    here = {gpu.uuid for gpu in snapshot.gpus}
    for key, server in servers:
        for uuid, rank in server.gpus.items():
            if users[uuid] == 1 and uuid in here:
                stage = None if rank is None else str(rank.pp)
                yield sample(catalogue.GPU_ASSIGNMENT, 1, uuid=uuid, server=key, stage=stage)


def _gpu_samples(gpu: GpuInfo, signals: Signals) -> Iterator[Sample]:
    yield sample(catalogue.GPU_INFO, 1, uuid=gpu.uuid, gpu=str(gpu.index), model=gpu.name)
    if gpu.memory_total_bytes is not None:
        yield sample(catalogue.GPU_MEMORY_TOTAL, gpu.memory_total_bytes, uuid=gpu.uuid)
    for metric in catalogue.GPU_SIGNALS:
        yield from _signal_sample(metric, signals, "uuid", gpu.uuid)


def _signal_sample(metric: Metric, signals: Signals, label: str, target: str) -> Iterator[Sample]:
    value = signals.value(metric.signal)
    if isinstance(value, bool | int | float):
        yield sample(metric, value * metric.factor, **{label: target})
