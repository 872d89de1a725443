"""The JSON document as types: the one place that says which keys there are and what they may hold.

Every key is always there; what is unknown is null or empty. Readers must bear keys that they do not know: new ones may
come without a new `schema_version`.
`schema.json` beside this file is made from these types (`json_schema`); a test holds the two together.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

VerdictWord = Literal["findings", "healthy", "quiet", "cannot_judge", "error"]
SeverityWord = Literal["info", "warning", "critical"]
ConfidenceWord = Literal["possible", "low", "medium", "high", "certain"]
JsonScalar = bool | int | float | str | None


class EvidencePart(msgspec.Struct, frozen=True):
    kind: str
    where: str
    text: str


class RemedyPart(msgspec.Struct, frozen=True):
    do: str
    remove: list[str]
    add: list[str]
    undo: str
    source: str
    diff: list[str]


class GainPart(msgspec.Struct, frozen=True):
    """`low` and `high` are null when the gain is uncertain; then only `assumption` speaks. `unit`: `tok/s` or `x`."""

    low: float | None
    high: float | None
    unit: str
    now: float | None
    assumption: str


class FindingPart(msgspec.Struct, frozen=True):
    id: str
    name: str
    severity: SeverityWord
    confidence: ConfidenceWord
    target: str
    state: Literal["observed", "pending", "firing", "resolved"]
    since: str | None
    summary: str
    evidence: list[EvidencePart]
    missing: list[str]
    remedy: RemedyPart | None
    hazards: list[str]
    check: str
    caused_by: list[str]
    held_back_by: list[str]
    expected_gain: GainPart | None
    ignored: bool


class SignalPart(msgspec.Struct, frozen=True):
    """A signal. `value` null = unknown, and then `reason` says why; ratios are 0..1, `unit` is empty for counts."""

    value: JsonScalar
    unit: str
    basis: str
    confidence: ConfidenceWord | None
    reason: str


class SettingPart(msgspec.Struct, frozen=True):
    value: JsonScalar
    origin: str
    evidence: str


class ServerGpuPart(msgspec.Struct, frozen=True):
    """A GPU that the server uses. `pp`, `tp`, `dp`: its place in the model, null when not known."""

    uuid: str
    pp: int | None
    tp: int | None
    dp: int | None


class ServerPart(msgspec.Struct, frozen=True):
    target: str
    verdict: VerdictWord
    key: str
    kind: str
    version: str | None
    version_basis: str
    unit: str | None
    container: str | None
    launch_read_from: str | None
    gpus: list[ServerGpuPart]
    settings: dict[str, SettingPart]
    setting_problems: list[str]
    missing: list[str]


class GpuPart(msgspec.Struct, frozen=True):
    uuid: str
    index: int
    name: str
    power_limit_w: float | None
    memory_total_bytes: int | None


class SourcePart(msgspec.Struct, frozen=True):
    name: str
    health: str
    detail: str
    mend: str
    read_count: int


class ErrorPart(msgspec.Struct, frozen=True):
    what: str
    hint: str | None


class Document(msgspec.Struct, frozen=True):
    """Everything that is known at one moment. `time` is UTC in ISO 8601; null in an error document.

    The first finding is the one to act on. `signals` maps each target (`server:KEY`, `gpu:UUID`, `host:NAME`) to its
    signals by name; findings name their target in the same way.
    """

    schema_version: int
    verdict: VerdictWord
    error: ErrorPart | None
    time: str | None
    watched_s: float
    one_shot: bool
    sequence: int
    servers: list[ServerPart]
    gpus: list[GpuPart]
    findings: list[FindingPart]
    signals: dict[str, dict[str, SignalPart]]
    missing: list[str]
    sources: list[SourcePart]


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the document."""
    return msgspec.json.schema(Document)
