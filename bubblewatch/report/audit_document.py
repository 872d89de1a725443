"""Audit -> the JSON document: that of a diagnosis, and `audits` beside it."""

from __future__ import annotations

from typing import Any

import msgspec

from bubblewatch.report.document import snapshot_document
from bubblewatch.report.places import FileLine, place_of_finding, place_of_texts
from bubblewatch.runtime.audit import Audit, ServerAudit
from bubblewatch.theory.forecast import Fill


class PlacePart(msgspec.Struct, frozen=True):
    """A line to change; both null when the launch was not read from a file."""

    file: str | None
    line: int | None


class ProblemPart(msgspec.Struct, frozen=True):
    text: str
    place: PlacePart


class FindingPlacePart(msgspec.Struct, frozen=True):
    """Where the setting behind the finding of this id stands."""

    id: str
    place: PlacePart


class FillPart(msgspec.Struct, frozen=True):
    slots: float
    duty_at_most: float


class PredictionPart(msgspec.Struct, frozen=True):
    """Counts are those of one replica, but for `concurrency`. Null = not known, or there is no pipeline."""

    concurrency: int
    replicas: int
    per_replica: int
    admitted: int | None
    waiting: int | None
    stages: int
    slots: int | None
    slot_capacity: int | None
    burst: FillPart | None
    staggered: FillPart | None
    batch: int | None
    graph_batch: int | None


class AuditPart(msgspec.Struct, frozen=True):
    """One launch. `problems` keep it from starting as meant; `notes` say what could not be read or told."""

    target: str
    launch_read_from: str
    image: str | None
    problems: list[ProblemPart]
    notes: list[str]
    places: list[FindingPlacePart]
    prediction: PredictionPart | None


def audit_document(audit: Audit) -> dict[str, Any]:
    """The document of `report.document` with `audits`, one for each launch in the order of the inputs."""
    document = snapshot_document(audit.snapshot)
    document["audits"] = [msgspec.to_builtins(_part(server)) for server in audit.servers]
    return document


def _part(audited: ServerAudit) -> AuditPart:
    launch = audited.server.launch
    return AuditPart(
        target=str(audited.view.target),
        launch_read_from=launch.where if launch is not None else "",
        image=audited.server.container,
        problems=[
            ProblemPart(text, _place(place_of_texts((text,), launch) if launch is not None else None))
            for text in audited.problems
        ],
        notes=list(audited.doubts),
        places=[
            FindingPlacePart(finding.id, _place(place_of_finding(finding, launch))) for finding in audited.view.findings
        ],
        prediction=_prediction(audited),
    )


def _place(place: FileLine | None) -> PlacePart:
    return PlacePart(*place) if place is not None else PlacePart(None, None)


def _prediction(audited: ServerAudit) -> PredictionPart | None:
    expected = audited.expected
    if expected is None:
        return None
    return PredictionPart(
        concurrency=expected.concurrency,
        replicas=expected.replicas,
        per_replica=expected.per_replica,
        admitted=expected.admitted,
        waiting=expected.waiting,
        stages=expected.stages,
        slots=expected.ring,
        slot_capacity=expected.capacity,
        burst=_fill(expected.burst),
        staggered=_fill(expected.staggered),
        batch=expected.batch,
        graph_batch=expected.graph_batch,
    )


def _fill(fill: Fill | None) -> FillPart | None:
    return None if fill is None else FillPart(fill.slots, fill.duty_at_most)
