"""Whether requests run, how many, and for how much of the time. Known or unknown, never assumed (design §6)."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import DecodeStep, Event, Idle, PrefillStep, RequestWork, StatsLine
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.servers.base import Running
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.decode import DecodePace, stats_totals
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.series import Interval

HOLD_MIN_S = 10.0
"""A sign of work speaks for at least this long, in seconds (design §6)."""

HOLD_GAPS = 3.0
"""... or for this many usual gaps between such signs, whichever is longer (design §6)."""


LEAST_WORK = 0.1
"""Duty from which GPUs are said to work: health checks and other small visitors stay below it."""

MOST_COMING_AND_GOING = 0.97
"""Utilization above which a kernel may simply stay resident: a spinning rank reads 100 %."""

GAPS_OF_LAST = 1000
"""Signs of work over which the usual gap is taken: several minutes of the busiest server seen, so that a rate change
shows, and a bound on the work of a tick."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Signs of work and explicit zeros in the log, in its order.

    `times_ns` are the wall times of the signs of work that carry one, ascending. `hold_s` is for how long one speaks.
    """

    busy: tuple[Event, ...]
    zero: tuple[Event, ...]
    times_ns: tuple[int, ...]
    zero_is_newer: bool
    hold_s: float


def _is_busy(event: Event) -> bool:
    """Whether this event shows that a request ran at that time (or in the interval that the line sums up)."""
    if isinstance(event, StatsLine):
        return event.running > 0 or bool(event.gen_tps) or bool(event.prompt_tps)
    return isinstance(event, DecodeStep | PrefillStep | RequestWork)


def activity(events: Sequence[Event]) -> Activity:
    """Signs of work in the log. The hold is max(10 s, 3 x the median gap between lines of one rank)."""
    busy: list[Event] = []
    zero: list[Event] = []
    newest_is_zero = False
    for event in events:
        if _is_busy(event):
            busy.append(event)
            newest_is_zero = False
        elif isinstance(event, Idle) or (isinstance(event, StatsLine) and not event.waiting):
            zero.append(event)
            newest_is_zero = True
    times = sorted(e.line.time_ns for e in busy if e.line.time_ns is not None)
    return Activity(tuple(busy), tuple(zero), tuple(times), newest_is_zero, _hold_s(busy[-GAPS_OF_LAST:]))


def _hold_s(busy: Sequence[Event]) -> float:
    last: dict[object, int] = {}
    gaps: list[float] = []
    for event in busy:
        time_ns = event.line.time_ns
        if time_ns is None:
            continue
        before = last.get(event.rank)
        if before is not None and time_ns > before:
            gaps.append((time_ns - before) / NS)
        last[event.rank] = time_ns
    return max(HOLD_MIN_S, HOLD_GAPS * statistics.median(gaps)) if gaps else HOLD_MIN_S


def running_intervals(signs: Activity, wall_offset_ns: int, window: Interval) -> tuple[Interval, ...]:
    """The spans of the window (monotonic clock) in which requests ran by the log.

    Each sign of work speaks for the hold after it and for half its minimum before it: a decode line sums up what came
    before.
    """
    before_ns, after_ns = round(HOLD_MIN_S / 2 * NS), round(signs.hold_s * NS)
    spans: list[Interval] = []
    first = bisect_left(signs.times_ns, window.start_ns + wall_offset_ns - after_ns)
    for time_ns in signs.times_ns[first:]:
        at = time_ns - wall_offset_ns
        start, end = max(at - before_ns, window.start_ns), min(at + after_ns, window.end_ns)
        if spans and start <= spans[-1].end_ns:
            spans[-1] = Interval(spans[-1].start_ns, max(end, spans[-1].end_ns))
        elif end > start:
            spans.append(Interval(start, end))
    return tuple(spans)


def _log_evidence(event: Event) -> Evidence:
    return Evidence(EvidenceKind.LOG, event.line.source or "log", event.line.text[:300])


def write_demand(book: Notebook, evidence: ServerEvidence, signs: Activity, pace: DecodePace) -> None:
    """Write demand.*: the state first by what was stated, then by the server's own pages, the log, and the sockets."""
    _write_counts(book, evidence, signs, pace)
    state, sure, facts = _state(evidence, signs)
    if state:
        book.know("demand.state", state, "demand", sure, facts)
        book.know("demand.counted", True, "demand", sure)
    else:
        book.lack("demand.state", _why_unknown(evidence, signs))


def _state(evidence: ServerEvidence, signs: Activity) -> tuple[str, Confidence, list[Evidence]]:
    """running, none, or "" for unknown; how sure; by what."""
    stated = evidence.stated
    if stated.running or stated.queued or (stated.running is None and stated.concurrency):
        said = "running" if stated.running else "queued" if stated.queued else "concurrency"
        return "running", Confidence.HIGH, [_stated(said, getattr(stated, said))]
    if stated.running == 0 or stated.concurrency == 0:
        return "none", Confidence.HIGH, [_stated("running", 0)]
    if evidence.endpoint:
        page = evidence.endpoint[-1]
        if page.running is not None and _fresh(page.time_ns, evidence.now_ns, HOLD_MIN_S):
            busy = page.running > 0 or bool(page.queued)
            text = f"running {page.running}, queued {page.queued if page.queued is not None else 'unknown'}"
            return (
                ("running" if busy else "none"),
                Confidence.HIGH,
                [Evidence(EvidenceKind.ENDPOINT, page.source, text)],
            )
    newest_busy, newest_zero = _newest(signs.busy), _newest(signs.zero)
    if newest_busy is not None and not signs.zero_is_newer:
        if newest_busy.time_ns is None or _fresh(newest_busy.time_ns, evidence.now_ns, signs.hold_s):
            return "running", Confidence.HIGH, [_log_evidence(newest_busy)]
    elif newest_zero is not None and _fresh(newest_zero.time_ns, evidence.now_ns, 6 * HOLD_MIN_S):
        several = len(signs.zero) > 1
        return "none", Confidence.HIGH if several else Confidence.MEDIUM, [_log_evidence(newest_zero)]
    if evidence.connections == 0:
        text = f"no established connection on port {evidence.server.port}"
        return "none", Confidence.HIGH, [Evidence(EvidenceKind.PROCESS, "sockets", text)]
    return "", Confidence.LOW, []


def _fresh(time_ns: int | None, now_ns: int | None, hold_s: float) -> bool:
    return time_ns is None or now_ns is None or now_ns - time_ns <= hold_s * NS


def _newest(events: Sequence[Event]) -> Event | None:
    return events[-1] if events else None


def _stated(name: str, value: object) -> Evidence:
    return Evidence(EvidenceKind.STATED, "you", f"--{name} {value}")


def _why_unknown(evidence: ServerEvidence, signs: Activity) -> str:
    if not evidence.log_read and not evidence.endpoint:
        return "neither log nor metrics of the server were read"
    if signs.busy:
        return f"the last sign of work is older than {signs.hold_s:.0f} s, and nothing says that nobody asks"
    return "the log has no line that tells of requests, and no metrics were read"


def _write_counts(book: Notebook, evidence: ServerEvidence, signs: Activity, pace: DecodePace) -> None:
    stated, page = evidence.stated, evidence.endpoint[-1] if evidence.endpoint else None
    least = [n for n in (pace.running_max, *(s.running for s in signs.busy if isinstance(s, StatsLine))) if n]
    totals = [e for e in evidence.events if isinstance(e, StatsLine)]
    count = _count(evidence, pace, totals)
    if count is not None:
        value, basis, sure, fact = count
        book.know("demand.running", value, basis, sure, [fact])
    else:
        book.lack(
            "demand.running",
            "a decode line counts one slot under pipeline parallelism, and nothing else counted requests"
            if pace.lines
            else "nothing counted requests",
        )
    if least:
        book.know("demand.running_min", max(least), "log", Confidence.HIGH)
    queued = _first_known(stated.queued, page.queued if page else None, pace.queued)
    if queued is None and totals:
        queued = stats_totals(totals)[1]
    book.know("demand.queued", queued, "count", otherwise="nothing counted waiting requests")


def _count(
    evidence: ServerEvidence, pace: DecodePace, totals: Sequence[StatsLine]
) -> tuple[int, str, Confidence, Evidence] | None:
    """Requests that run in all: value, basis, confidence, evidence; None when nothing counts them."""
    stated = evidence.stated
    if stated.running is not None:
        return stated.running, "stated", Confidence.HIGH, _stated("running", stated.running)
    if evidence.endpoint and (running := evidence.endpoint[-1].running) is not None:
        fact = Evidence(EvidenceKind.ENDPOINT, evidence.endpoint[-1].source, f"running {running}")
        return running, "endpoint", Confidence.HIGH, fact
    if totals:
        return stats_totals(totals)[0], "log", Confidence.HIGH, _log_evidence(totals[-1])
    if pace.lines and evidence.facts.running is Running.TOTAL and pace.running_total is not None:
        return pace.running_total, "log", Confidence.HIGH, _log_evidence(pace.lines[-1])
    if stated.concurrency is not None:
        return stated.concurrency, "stated", Confidence.MEDIUM, _stated("concurrency", stated.concurrency)
    if pace.lines and evidence.connections and evidence.connections >= (pace.running_max or 0):
        text = f"{evidence.connections} established connections on port {evidence.server.port}"
        return evidence.connections, "sockets", Confidence.MEDIUM, Evidence(EvidenceKind.PROCESS, "sockets", text)
    return None


def write_demand_by_work(book: Notebook) -> None:
    """Where nothing counted requests: GPUs that work for part of the time show that something runs on them.

    Utilization of 100 % or 0 % shows nothing (a spinning or hung rank reads 100 %), and neither does a level of
    power that was guessed. Kernels that come and go, or SM activity and power that only work gives, do. Who asks is
    not seen, so the statement is weak, and it is never enough for `healthy`.
    """
    if book.get("demand.state") is not None:
        return
    util, duty = book.number("util.median"), book.get("duty.median")
    work = book.number("duty.median") if duty is not None and duty.basis in ("sm", "power") else None
    if work is not None:
        works = work >= LEAST_WORK
    else:
        works = util is not None and LEAST_WORK <= util <= MOST_COMING_AND_GOING and duty is not None
    proof = duty or book.get("util.median")
    if works and proof is not None:
        book.know("demand.state", "running", "work", Confidence.LOW, proof.evidence)
        book.know("demand.counted", False, "work", Confidence.LOW)


def _first_known(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def write_share(book: Notebook, running: Iterable[Interval], window: Interval) -> None:
    """Write the share of the window in which requests ran."""
    covered = sum(i.seconds for i in running)
    if window.seconds > 0:
        book.know("demand.share", min(covered / window.seconds, 1.0), "log", Confidence.MEDIUM)
