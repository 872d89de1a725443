"""Whether the server gets on: ready or still starting, working or stuck, broken."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import (
    Access,
    Compiling,
    DecodeStep,
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    Idle,
    PoolSized,
    PrefillStep,
    Ready,
    RequestWork,
    SettingsSeen,
    Starting,
    StatsLine,
    VersionSeen,
)
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.demand import Activity
from bubblewatch.signals.evidence import ServerEvidence

STALL_MIN_S = 120.0
"""Silence shorter than this is never called a hang, in seconds: long prefills and compiles take that long (design
§5)."""

STALL_GAPS = 5.0
"""... nor silence shorter than this many of the longest normal gaps (design §5)."""

LOADS_AT_MOST_S = 300.0
"""Silence after the last line of a start from which loading no longer explains it, in seconds: weights of hundreds
of GB print progress all the while."""

_START = (Starting, SettingsSeen, VersionSeen, PoolSized, GraphCaptured, GraphOff)
"""What a server prints once, while it starts."""

_SERVES = (DecodeStep, PrefillStep, StatsLine, RequestWork, Idle)
"""What it prints only when it serves."""

SERIES_GAP_S = 60.0
"""Pause between lines of totals up to which they are one series, in seconds: vLLM prints one in 5 or 10 s while it has
requests, and a few may be lost."""

SPIN_UTIL = 0.8
"""Utilization from which a GPU counts as held by a kernel."""


def _evidence(event: Event) -> Evidence:
    return Evidence(EvidenceKind.LOG, event.line.source or "log", event.line.text[:300])


def write_startup(book: Notebook, evidence: ServerEvidence) -> None:
    """Write server.ready and server.starting_s from the lines of this life of the server."""
    serving = next(
        (
            e
            for e in evidence.events
            if isinstance(e, Ready | DecodeStep | StatsLine | PrefillStep | RequestWork | Idle)
        ),
        None,
    )
    if serving is not None:
        book.know("server.ready", True, "log", Confidence.HIGH, [_evidence(serving)])
        return
    answered = [e for e in evidence.events if isinstance(e, Access) and 200 <= e.status < 300 and e.method == "POST"]
    if answered:
        book.know("server.ready", True, "log", Confidence.HIGH, [_evidence(answered[-1])])
        return
    starting = [e for e in evidence.events if isinstance(e, Starting)]
    if not starting:
        reason = "no log was read" if not evidence.log_read else "the start-up lines are not in the log that was read"
        book.lack("server.ready", reason)
        return
    book.know("server.ready", False, "log", Confidence.HIGH, [_evidence(starting[-1])])
    first = next((e.time_ns for e in starting if e.time_ns is not None), None)
    if first is not None and evidence.now_ns is not None:
        seconds = max(evidence.now_ns - first, 0) / NS
        book.know("server.starting_s", seconds, "log", Confidence.HIGH, [_evidence(starting[-1])])
    else:
        book.lack("server.starting_s", "the start-up lines carry no time")


def write_standstill(book: Notebook, evidence: ServerEvidence) -> None:
    """Write what speaks of a standstill by the order of lines alone, without a clock of ours."""
    events = evidence.events
    if not evidence.log_read:
        for name in ("progress.blocked_lines", "startup.unfinished", "failure.worker_wait"):
            book.lack(name, "no log was read")
        return
    totals = [e for e in events if isinstance(e, StatsLine)]
    blocked = list(takewhile(_is_blocked, reversed(totals)))
    book.know("progress.blocked_lines", len(blocked), "log", Confidence.HIGH, [_evidence(e) for e in blocked[:2]])
    start = [e for e in events if isinstance(e, _START)]
    came_after = any(isinstance(e, (*_SERVES, Ready)) for e in events)
    proof = [_evidence(start[-1])] if start else []
    book.know("startup.unfinished", bool(start) and not came_after, "log", Confidence.MEDIUM, proof)
    waits = _unanswered(events)
    book.know("failure.worker_wait", bool(waits), "log", Confidence.MEDIUM, [_evidence(e) for e in waits[:2]])


def _is_blocked(line: StatsLine) -> bool:
    return not line.running and bool(line.waiting) and not line.gen_tps and not line.prompt_tps


def _unanswered(events: Sequence[Event]) -> list[Failure]:
    """Complaints that a worker does not answer, with no sign of work after them and no loading that would explain it.

    The same line is harmless while weights load or kernels compile; there it comes soon after a line of that work.
    """
    waits = [i for i, e in enumerate(events) if isinstance(e, Failure) and e.kind == "shm-wait"]
    # A start that goes on after the complaint, or a compiler that reports, was what the engine waited for.
    if not waits or any(isinstance(e, (*_SERVES, *_START, Compiling)) for e in events[waits[-1] :]):
        return []
    before = [e for e in events[: waits[-1]] if isinstance(e, (*_START, Ready))]
    finished = any(isinstance(e, Ready) or (isinstance(e, GraphCaptured) and not e.begin) for e in before)
    if before and not finished:
        last = max((e.time_ns for e in before if e.time_ns is not None), default=None)
        wait = events[waits[-1]].time_ns
        if last is None or wait is None or (wait - last) / NS < LOADS_AT_MOST_S:
            return []
    return [e for i in waits if isinstance(e := events[i], Failure)]


def write_progress(book: Notebook, evidence: ServerEvidence, signs: Activity) -> None:
    """Write failures, and for how long nothing moved while work is known to be pending."""
    failures = [e for e in evidence.events if isinstance(e, Failure)]
    watchdogs = [e for e in failures if e.kind == "watchdog"]
    fatal = [e for e in failures if e.fatal]
    if evidence.log_read:
        book.know("failure.watchdog", bool(watchdogs), "log", Confidence.HIGH, [_evidence(e) for e in watchdogs[:2]])
        book.know("failure.fatal", bool(fatal), "log", Confidence.HIGH, [_evidence(e) for e in fatal[:2]])
    else:
        book.lack("failure.watchdog", "no log was read")
        book.lack("failure.fatal", "no log was read")
    moves = _moves(evidence, signs)
    longest = max((b - a for a, b in pairwise(moves)), default=0) / NS
    book.know("progress.limit_s", max(STALL_MIN_S, STALL_GAPS * longest), "log")
    frozen_ns = _frozen_since(evidence.events)
    since = max([*moves[-1:], *([] if frozen_ns is None else [frozen_ns])], default=None)
    if since is None or evidence.now_ns is None:
        book.lack("progress.stalled_s", "nothing that was read shows progress, so its end cannot be seen")
        return
    pending = _pending(book, evidence)
    if pending is None:
        book.lack("progress.stalled_s", "nothing says that requests are waiting for an answer")
        return
    silence = max(evidence.now_ns - since, 0) / NS
    sure, fact = pending
    last = Evidence(EvidenceKind.LOG, "log", f"nothing moved for {silence:.0f} s")
    book.know("progress.stalled_s", silence, "log", sure, [last, fact])


def _moves(evidence: ServerEvidence, signs: Activity) -> list[int]:
    """Wall times (ns) at which something moved: a sign of work in the log, or a token counter that grew.

    A line of totals with requests and no token is a sign of demand, and none of progress: a hung vLLM goes on printing.
    """
    lines = (e for e in signs.busy if not (isinstance(e, StatsLine) and _stuck([e])))
    times = [e.line.time_ns for e in lines if e.line.time_ns is not None]
    for before, after in pairwise(evidence.endpoint):
        tokens = before.generated_tokens, after.generated_tokens
        if tokens[0] is not None and tokens[1] is not None and tokens[1] > tokens[0]:
            times.append(after.time_ns)
    return sorted(times)


def _pending(book: Notebook, evidence: ServerEvidence) -> tuple[Confidence, Evidence] | None:
    """Why we know that somebody waits for an answer now; None when nothing says so.

    Open connections alone prove nothing: with them, a GPU held by a kernel must show that ranks wait for each other.
    """
    stated = evidence.stated
    if stated.running or stated.queued:
        said = "running" if stated.running else "queued"
        return Confidence.HIGH, Evidence(EvidenceKind.STATED, "you", f"--{said} {getattr(stated, said)}")
    if evidence.endpoint:
        page = evidence.endpoint[-1]
        if page.running or page.queued:
            text = f"running {page.running}, queued {page.queued}"
            return Confidence.HIGH, Evidence(EvidenceKind.ENDPOINT, page.source, text)
        if page.running == 0:
            return None
    lines = [e for e in evidence.events if isinstance(e, StatsLine)]
    if len(lines) >= 2 and _stuck(lines[-2:]):
        return Confidence.HIGH, _evidence(lines[-1])
    util = book.number("util.max")
    if evidence.connections and util is not None and util >= SPIN_UTIL:
        text = f"{evidence.connections} connections are open and a GPU is held at {util:.0%} utilization"
        return Confidence.MEDIUM, Evidence(EvidenceKind.PROCESS, "sockets", text)
    return None


def _stuck(lines: Sequence[StatsLine]) -> bool:
    """Whether every one of these totals shows requests and no token."""
    return all((s.running or s.waiting) and not s.gen_tps and not s.prompt_tps for s in lines)


def _frozen_since(events: Sequence[Event]) -> int | None:
    """Wall time (ns) of the first of the newest lines of totals that all show requests and no token; None without any.

    Only an unbroken series counts: a server that was idle in between prints nothing, and its silence is no standstill.
    """
    since: int | None = None
    for line in reversed([e for e in events if isinstance(e, StatsLine)]):
        if not _stuck([line]) or line.time_ns is None or (since and since - line.time_ns > SERIES_GAP_S * NS):
            break
        since = line.time_ns
    return since
