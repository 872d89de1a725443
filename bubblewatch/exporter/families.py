"""Snapshot -> samples, by the catalogue. Pure: knows nothing of the Prometheus client."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bubblewatch.exporter import catalogue
from bubblewatch.exporter.catalogue import Metric
from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Answer, Finding, Gain, Health, Scope, Snapshot, State, TargetView
from bubblewatch.model.server import Launch, Server
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.model.visible import visible
from bubblewatch.signals.gpu_seconds import CAUSES

LABEL_LENGTH = 128
"""Characters of a label value: systemd unit names reach 255, but what tells units apart comes first."""

GROUP_SETTINGS = ("dist_init_addr", "master_addr")
"""Settings that name the meeting point of a server that spans hosts (SGLang; vLLM), the same on each of them."""

MODEL_SETTINGS = ("served_model_name", "model_path", "model")
"""Settings that name the model, the name that clients use first (SGLang and vLLM write them alike)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric. Labels that are not known are absent, which is what Prometheus takes empty ones for."""

    metric: Metric
    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """What the name of the sample has beyond that of its metric: `_bucket`, `_count`, `_sum` of a histogram."""


def snapshot_samples(snapshot: Snapshot, host: str = "") -> list[Sample]:
    """Every sample that the snapshot supports: each series once, all values finite, in the order of the snapshot.

    `host` is the name by which others reach this machine, "" when that is not known.
    """
    unique: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for one in _all_samples(snapshot, host):
        key = (one.metric.name, tuple(one.labels.items()))
        known = unique.get(key)
        # Two ranks of one server may have the same finding: the series says that one of them fires.
        if math.isfinite(one.value) and (known is None or one.value > known.value):
            unique[key] = one
    return list(unique.values())


def _all_samples(snapshot: Snapshot, host: str) -> Iterator[Sample]:
    yield sample(catalogue.SNAPSHOT_TIME, snapshot.time_ns / NS)
    yield from _source_samples(snapshot)
    for view in snapshot.views:
        yield from _view_samples(view, host)
    yield from _assignments(snapshot)
    for gpu in snapshot.gpus:
        yield from _gpu_samples(gpu, snapshot.gpu_signals.get(gpu.uuid, Signals()))
    yield from _account_samples(snapshot)


def _source_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """Two servers may each have a journal: the source is up when both can be read, and their lines add up."""
    read = [source for source in snapshot.sources if source.health is not Health.OFF]
    for name in dict.fromkeys(source.name for source in read):
        of_name = [source for source in read if source.name == name]
        up = all(source.health in (Health.OK, Health.DEGRADED) for source in of_name)
        yield sample(catalogue.SOURCE_UP, up, source=name)
        yield sample(catalogue.SOURCE_READS, sum(source.read_count for source in of_name), source=name)


def sample(metric: Metric, value: float, **labels: str | None) -> Sample:
    """A sample with its labels cleaned, bounded and in the order of the catalogue; empty ones are left out."""
    cleaned = {name: visible(labels[name] or "", LABEL_LENGTH) for name in metric.labels if name in labels}
    return Sample(metric, {name: text for name, text in cleaned.items() if text}, float(value))


def _view_samples(view: TargetView, host: str) -> Iterator[Sample]:
    if view.target.scope is Scope.SERVER:
        key = view.target.id
        yield from _server_samples(view, key, host)
        for metric in catalogue.SERVER_SIGNALS:
            yield from _signal_sample(metric, view.signals, "server", key)
    for finding in view.findings:
        yield from _finding_samples(finding, _about(finding, view))
    about = {"server": view.target.id} if view.target.scope is Scope.SERVER else {}
    for rule, severity in view.judged_clear.items():
        yield sample(catalogue.FINDING, 0, rule=rule, severity=severity.word, **about)


def _finding_samples(finding: Finding, about: Mapping[str, str]) -> Iterator[Sample]:
    value = _finding_value(finding)
    if value is None:
        return
    yield sample(catalogue.FINDING, value, rule=finding.name, severity=finding.severity.word, **about)
    if not value:
        return
    if finding.since_ns is not None:
        yield sample(catalogue.FINDING_SINCE, finding.since_ns / NS, rule=finding.name, **about)
    if finding.expected_gain is not None:
        low, high = _gain_ratios(finding.expected_gain)
        yield sample(catalogue.FINDING_GAIN_LOW, low, rule=finding.name, **about)
        yield sample(catalogue.FINDING_GAIN_HIGH, high, rule=finding.name, **about)


def _gain_ratios(gain: Gain) -> tuple[float, float]:
    """Lowest and highest rate over that of now; NaN when it is uncertain."""
    now = 1.0 if gain.unit == "x" else gain.now
    if gain.low is None or gain.high is None or now is None or now <= 0:
        return math.nan, math.nan
    return gain.low / now, gain.high / now


def _server_samples(view: TargetView, key: str, host: str) -> Iterator[Sample]:
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
            pipeline=_pipeline(server, host),
            target=f"{host}:{server.port}" if host and server.port is not None else None,
        )
        yield _settings_sample(server, view.signals)
    yield sample(catalogue.SERVER_MISSING, len(view.missing), server=key)
    yield sample(catalogue.SERVER_JUDGED, view.answer not in (Answer.CANNOT_JUDGE, Answer.ERROR), server=key)
    yield sample(
        catalogue.SERVER_LOUD, sum(_fires(finding) and finding.is_loud for finding in view.findings), server=key
    )
    state = view.signals.value("demand.state")
    if state in ("running", "none"):
        yield sample(catalogue.SERVER_ACTIVE, state == "running", server=key)


def _pipeline(server: Server, host: str) -> str:
    """A name that all hosts of one server give it, and no other server has: where its ranks meet, else host and key."""
    meeting = next((server.settings.get(name) for name in GROUP_SETTINGS if server.settings.get(name)), None)
    if (server.settings.number("nnodes") or 1) > 1 and isinstance(meeting, str):
        return meeting
    return f"{host}/{server.key}" if host else server.key


def _settings_sample(server: Server, signals: Signals) -> Sample:
    return sample(
        catalogue.SERVER_SETTINGS,
        1,
        server=server.key,
        launch=_fingerprint(server.launch) if server.launch is not None else None,
        pp=_word(signals, "parallel.pp"),
        tp=_word(signals, "parallel.tp"),
        dp=_word(signals, "parallel.dp"),
        async_depth=_word(signals, "depth.value"),
        graphs=_word(signals, "graphs.decode_enabled"),
        overlap=_word(signals, "overlap.enabled"),
        attention_backend=_word(signals, "backend.attention"),
    )


def _fingerprint(launch: Launch) -> str:
    """Eight characters that tell one launch from another, without saying what is in it."""
    words = (*launch.argv, *(f"{name}={value}" for name, value in sorted((launch.env or {}).items())))
    return hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:8]


def _word(signals: Signals, name: str) -> str | None:
    value = signals.value(name)
    if isinstance(value, bool):
        return "on" if value else "off"
    return None if value is None else str(value)


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


def _account_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """The counters. A GPU that is not there now is silent; a server that is not may be one that comes and goes."""
    accounts = snapshot.accounts
    for gpu in snapshot.gpus:
        account = accounts.gpus.get(gpu.uuid)
        if account is None:
            continue
        for state, time_ns in account.time_ns.items():
            yield sample(catalogue.GPU_TIME, time_ns / NS, uuid=gpu.uuid, state=state.value)
        if account.energy_j is not None:
            yield sample(catalogue.GPU_ENERGY, account.energy_j, uuid=gpu.uuid)
    for key, server in accounts.servers.items():
        yield sample(catalogue.SERVER_RESTARTS, server.starts, server=key)
        for cause in CAUSES:
            yield sample(catalogue.SERVER_LOST, server.lost_ns.get(cause, 0) / NS, server=key, cause=cause)


def _signal_sample(metric: Metric, signals: Signals, label: str, target: str) -> Iterator[Sample]:
    value = signals.value(metric.signal)
    if isinstance(value, bool | int | float):
        yield sample(metric, value * metric.factor, **{label: target})
