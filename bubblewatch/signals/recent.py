"""Which events count as now, and how one of them is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import Event
from bubblewatch.model.signals import Evidence, EvidenceKind
from bubblewatch.signals.evidence import ServerEvidence

RECENT_S = 120.0
"""How far back lines count as now, in seconds, at least: slow ranks print one line in 4 to 20 s, and a median wants
several."""

LINE_LENGTH = 300
"""Characters of a line that are quoted: a decode line of SGLang has about 200."""

_E = TypeVar("_E", bound=Event)


def recent(evidence: ServerEvidence, *kinds: type[_E]) -> Sequence[_E]:
    """Events of these kinds in the window, at least of the last two minutes; all of them when nothing has a time."""
    found = [event for event in evidence.events if isinstance(event, kinds)]
    if evidence.now_ns is None:
        return found
    oldest = evidence.now_ns - round(max(RECENT_S, evidence.window_s) * NS)
    return [event for event in found if event.time_ns is None or event.time_ns >= oldest]


def quoted(event: Event) -> Evidence:
    """The line of `event` as evidence."""
    return Evidence(EvidenceKind.LOG, event.line.source or "log", event.line.text[:LINE_LENGTH])


def counted(text: str) -> Evidence:
    """What was counted over several lines, as evidence."""
    return Evidence(EvidenceKind.LOG, "log", text)
