"""Snapshot -> the JSON document that `--json` prints and the snapshot API serves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import (
    SCHEMA_VERSION,
    Finding,
    Gain,
    Remedy,
    Scope,
    Snapshot,
    Target,
    TargetView,
)
from bubblewatch.model.server import Rank, Server
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.report import schema
from bubblewatch.report.order import worst_first
from bubblewatch.signals.vocabulary import VOCABULARY

UNKNOWN_SERVER = "unknown"
"""`kind` of a server that was not recognised."""

NOT_FINITE = "its value is not a finite number"


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """The document of `schema.Document` as plain JSON types, keys in a stable order, never NaN or Infinity."""
    views = worst_first(snapshot)
    document = schema.Document(
        schema_version=snapshot.schema_version,
        verdict=snapshot.answer.value,
        error=None,
        time=_iso(snapshot.time_ns),
        watched_s=snapshot.watched_s if math.isfinite(snapshot.watched_s) else 0.0,
        one_shot=snapshot.one_shot,
        sequence=snapshot.sequence,
        servers=[_server(view) for view in views if view.target.scope is Scope.SERVER or view.server],
        gpus=[_gpu(gpu) for gpu in snapshot.gpus],
        findings=[_finding(finding) for view in views for finding in view.findings],
        signals=_signals_by_target(views, snapshot),
        missing=list(dict.fromkeys(text for view in views for text in view.missing)),
        sources=[
            schema.SourcePart(source.name, source.health.value, source.detail, source.mend, source.read_count)
            for source in snapshot.sources
        ],
    )
    return _plain(document)


def error_document(what: str, hint: str | None = None) -> dict[str, Any]:
    """The document of a run that could not judge at all: same keys, `verdict` error, and why in `error`."""
    document = schema.Document(
        schema_version=SCHEMA_VERSION,
        verdict="error",
        error=schema.ErrorPart(what, hint),
        time=None,
        watched_s=0.0,
        one_shot=True,
        sequence=0,
        servers=[],
        gpus=[],
        findings=[],
        signals={},
        missing=[],
        sources=[],
    )
    return _plain(document)


def to_json(document: dict[str, Any], indent: int | None = 2) -> str:
    """`document` as ASCII text: what a terminal or a pipe in any locale can take, control characters escaped."""
    return json.dumps(document, indent=indent, ensure_ascii=True, allow_nan=False)


def _plain(document: schema.Document) -> dict[str, Any]:
    return cast(dict[str, Any], _presentable(msgspec.to_builtins(document)))


def _presentable(value: Any) -> Any:
    """`value` without what JSON readers refuse: numbers that are not finite become null, lone surrogates `?`."""
    match value:
        case dict():
            return {_presentable(key): _presentable(item) for key, item in value.items()}
        case list():
            return [_presentable(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case str() if not value.isascii():
            return value.encode("utf-8", "replace").decode("utf-8")
        case _:
            return value


def _server(view: TargetView) -> schema.ServerPart:
    server = view.server or Server(UNKNOWN_SERVER, view.target.id)
    settings = {
        setting.name: schema.SettingPart(setting.value, setting.origin.value, setting.evidence)
        for setting in sorted(server.settings, key=lambda setting: setting.name)
    }
    return schema.ServerPart(
        target=str(view.target),
        verdict=view.answer.value,
        key=server.key,
        kind=server.kind,
        version=server.version,
        version_basis=server.version_basis,
        unit=server.unit,
        container=server.container,
        launch_read_from=server.launch.where if server.launch else None,
        gpus=[_server_gpu(uuid, rank) for uuid, rank in server.gpus.items()],
        settings=settings,
        setting_problems=list(server.settings.problems),
        missing=list(view.missing),
    )


def _server_gpu(uuid: str, rank: Rank | None) -> schema.ServerGpuPart:
    if rank is None:
        return schema.ServerGpuPart(uuid, None, None, None)
    return schema.ServerGpuPart(uuid, rank.pp, rank.tp, rank.dp)


def _gpu(gpu: GpuInfo) -> schema.GpuPart:
    return schema.GpuPart(gpu.uuid, gpu.index, gpu.name, gpu.power_limit_w, gpu.memory_total_bytes)


def _finding(finding: Finding) -> schema.FindingPart:
    return schema.FindingPart(
        id=finding.id,
        name=finding.name,
        severity=cast(schema.SeverityWord, finding.severity.word),
        confidence=cast(schema.ConfidenceWord, finding.confidence.word),
        target=str(finding.target),
        state=finding.state.value,
        since=None if finding.since_ns is None else _iso(finding.since_ns),
        summary=finding.summary,
        evidence=[schema.EvidencePart(fact.kind.value, fact.where, fact.text) for fact in finding.evidence],
        missing=list(finding.missing),
        remedy=_remedy(finding.remedy),
        hazards=list(finding.hazards),
        check=finding.check,
        caused_by=list(finding.caused_by),
        held_back_by=list(finding.held_back_by),
        expected_gain=_gain(finding.expected_gain),
        ignored=finding.ignored,
    )


def _remedy(remedy: Remedy | None) -> schema.RemedyPart | None:
    if remedy is None:
        return None
    diff = list(remedy.diff)
    return schema.RemedyPart(remedy.do, list(remedy.remove), list(remedy.add), remedy.undo, remedy.source, diff)


def _gain(gain: Gain | None) -> schema.GainPart | None:
    if gain is None:
        return None
    return schema.GainPart(gain.low, gain.high, gain.unit, gain.now, gain.assumption)


def _signals_by_target(views: Iterable[TargetView], snapshot: Snapshot) -> dict[str, dict[str, schema.SignalPart]]:
    by_target = {str(view.target): _signals(view.signals) for view in views}
    for uuid, signals in snapshot.gpu_signals.items():
        by_target[str(Target(Scope.GPU, uuid))] = _signals(signals)
    return by_target


def _signals(signals: Signals) -> dict[str, schema.SignalPart]:
    parts = {name: _unknown_signal(name, reason) for name, reason in signals.missing.items()}
    for name, signal in signals.known.items():
        value = signal.value
        if isinstance(value, float) and not math.isfinite(value):
            parts[name] = _unknown_signal(name, NOT_FINITE)
            continue
        confidence = cast(schema.ConfidenceWord, signal.confidence.word)
        parts[name] = schema.SignalPart(value, _unit(name), signal.basis, confidence, "")
    return dict(sorted(parts.items()))


def _unknown_signal(name: str, reason: str) -> schema.SignalPart:
    return schema.SignalPart(None, _unit(name), "", None, reason)


def _unit(name: str) -> str:
    spec = VOCABULARY.get(name)
    return spec.unit if spec else ""


def _iso(time_ns: int) -> str | None:
    """UTC to the millisecond, such as `2026-01-01T00:00:00.000Z`; None for a time that no calendar holds."""
    try:
        moment = datetime.fromtimestamp(time_ns // NS, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    milliseconds = time_ns % NS // 1_000_000
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
