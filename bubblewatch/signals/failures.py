"""Whether the server is down, how often it came back, and what memory or log was lost on the way."""

from __future__ import annotations

from collections.abc import Sequence

from bubblewatch.model.logs import (
    Access,
    DecodeStep,
    Event,
    Failure,
    Idle,
    PrefillStep,
    Ready,
    RequestWork,
    SettingsSeen,
    Starting,
    StatsLine,
    VersionSeen,
)
from bubblewatch.model.signals import Confidence
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.recent import counted, quoted

OUT_OF_MEMORY = "out-of-memory"
"""`Failure.kind` of an allocation that failed and of a process that the kernel killed for memory."""


def write_failures(book: Notebook, evidence: ServerEvidence) -> None:
    """Write server.down, server.restarts, failure.oom, log.startup_lost, log.gaps and epoch.rate_ratio."""
    if evidence.rate_ratio is None:
        book.lack("epoch.rate_ratio", "no life before is known with enough work at this demand")
    else:
        book.know("epoch.rate_ratio", evidence.rate_ratio, "log", Confidence.MEDIUM)
    names = ("server.down", "server.restarts", "failure.oom")
    if not evidence.log_read:
        for name in names:
            book.lack(name, "no log was read")
    else:
        events = _in_order(evidence.events)
        _write_down(book, events)
        _write_restarts(book, evidence, events)
        failed = [e for e in events if isinstance(e, Failure) and e.kind == OUT_OF_MEMORY]
        book.know("failure.oom", bool(failed), "log", Confidence.HIGH, [quoted(e) for e in failed[:2]])
    if evidence.live and evidence.log_read:
        lost = not evidence.birth_complete
        proof = [counted("the log that was read begins after the server's start")] if lost else []
        book.know("log.startup_lost", lost, "log", Confidence.HIGH, proof)
        told = [counted(gap) for gap in evidence.log_gaps[:3]]
        book.know("log.gaps", len(evidence.log_gaps), "log", Confidence.HIGH, told)
    else:
        book.lack("log.startup_lost", "no log is read live")
        book.lack("log.gaps", "no log is read live")


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Start-up lines are kept apart from the others: by time where every line has one, else as they are."""
    if all(event.time_ns is not None for event in events):
        return sorted(events, key=lambda event: event.time_ns or 0)
    return list(events)


def is_life(event: Event) -> bool:
    """Whether a server that writes this is up, or on its way up."""
    if isinstance(event, Access):
        return 200 <= event.status < 300
    return isinstance(event, Ready | Starting | DecodeStep | StatsLine | PrefillStep | RequestWork | Idle)


def _write_down(book: Notebook, events: Sequence[Event]) -> None:
    """A line that ends the server, with no sign of life after it: more such lines may follow."""
    down: list[Failure] = []
    for event in events:
        if isinstance(event, Failure) and event.fatal:
            down.append(event)
        elif is_life(event):
            down.clear()
    book.know("server.down", bool(down), "log", Confidence.HIGH, [quoted(e) for e in down[:2]])


def _write_restarts(book: Notebook, evidence: ServerEvidence, events: Sequence[Event]) -> None:
    """Starts that follow a failure, in the log or as the host counts them."""
    if evidence.restarts is not None:
        proof = [counted(f"{evidence.restarts} restarts")] if evidence.restarts else []
        book.know("server.restarts", evidence.restarts, "process", Confidence.HIGH, proof)
        return
    count, broken = 0, False
    last: list[Event] = []
    for event in events:
        if isinstance(event, Failure) and event.fatal:
            broken, last = True, [event]
        elif broken and event.rank is None and isinstance(event, SettingsSeen | VersionSeen | Starting):
            count, broken = count + 1, False
    proof = [counted(f"{count} new starts after a failure"), *(quoted(e) for e in last)] if count else []
    book.know("server.restarts", count, "log", Confidence.HIGH, proof)
