"""Replaying: a recording through the watcher that made it, with the rules of today and a clock that is moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bubblewatch.app.live import since_ns
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Snapshot
from bubblewatch.report.recording_parts import part_records
from bubblewatch.runtime.flight_replay import ReplayHost, replay
from bubblewatch.runtime.server_watch import KEEP_EVENTS_S
from bubblewatch.runtime.watch import Watcher, WatchOptions
from bubblewatch.servers import registry
from bubblewatch.sources.recording_folder import Part, recording_parts
from bubblewatch.sources.recording_records import Begin, Record, Tick, ticks

LAST_S = 900.0
"""How much of a recording is judged anew when nothing else is asked, in seconds before its end: what a diagnosis looks
back."""

LEAD_S = 60.0
"""Seconds before the longest time that a finding must stand in which every tick is judged: with them a finding is as
old at the end as it was."""

SPARSE_S = 10.0
"""Seconds between two judgements before that: what adds up over time, such as the pace of a life, wants some."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a recorder: the first record of its first part that is left, and its parts."""

    begin: Begin
    parts: tuple[Part, ...]
    starts_ns: tuple[int, ...]
    """Wall time at which each part begins."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a recording in wall time (ns), both ends inside; None = as far as it goes."""

    from_ns: int | None = None
    until_ns: int | None = None


def sessions(folder: Path) -> tuple[Session, ...]:
    """The sessions in a recording, oldest first. Raises UsageError for what is no recording."""
    begins = [(part, begin) for part in recording_parts(folder) if (begin := _begin(part)) is not None]
    found = []
    for _, group in groupby(begins, key=lambda one: one[1].session):
        members = tuple(group)
        found.append(Session(members[0][1], tuple(p for p, _ in members), tuple(b.wall_ns for _, b in members)))
    if not found:
        raise UsageError(f"{folder} holds no readable part of a recording")
    return tuple(found)


def _begin(part: Part) -> Begin | None:
    first = next(iter(part_records(part)), None)
    return first if isinstance(first, Begin) else None


def session_at(folder: Path, wall_ns: int | None) -> Session:
    """The session that was on at this time, else the one before it; the last one without a time."""
    all_of_them = sessions(folder)
    if wall_ns is None:
        return all_of_them[-1]
    begun = [session for session in all_of_them if session.starts_ns[0] <= wall_ns]
    return begun[-1] if begun else all_of_them[0]


def moments(session: Session, span: Span) -> Iterator[tuple[Sequence[Record], Tick]]:
    """The records of each tick of a session up to the end of the span; parts that end long before it are not read."""
    earliest_ns = None if span.from_ns is None else span.from_ns - round(KEEP_EVENTS_S * NS)
    ends_ns = (*session.starts_ns[1:], None)
    chosen = [
        part
        for part, end_ns in zip(session.parts, ends_ns, strict=True)
        if earliest_ns is None or end_ns is None or end_ns >= earliest_ns
    ]
    for records, tick in ticks(record for part in chosen for record in part_records(part)):
        if span.until_ns is not None and tick.wall_ns > span.until_ns:
            return
        yield records, tick


def last_tick_ns(session: Session) -> int:
    """Wall time of the last judgement of a session. Raises UsageError when there was none."""
    for part in reversed(session.parts):
        times = [record.wall_ns for record in part_records(part) if isinstance(record, Tick)]
        if times:
            return times[-1]
    raise UsageError(f"{session.parts[0].path} ends before anything was judged")


def span_of(since: str | None, until: str | None, now_ns: int) -> Span:
    """The span that these texts name (`15m` before now, or a local time)."""
    return Span(since_ns(since, now_ns), since_ns(until, now_ns))


def replay_all(
    session: Session,
    span: Span,
    rules: Sequence[Rule],
    ignore: Sequence[str] = (),
    *,
    one_shot: bool | None = None,
    is_judged: Callable[[Tick], bool] = lambda _tick: True,
) -> Iterator[tuple[Watcher, Snapshot]]:
    """The pictures of a session within the span at the ticks that are to be judged, by these rules."""

    def make_watcher(host: ReplayHost) -> Watcher:
        return Watcher(
            clock=host.clock,
            telemetry=host.telemetry,
            processes=host.processes,
            recognise=registry.recognise,
            open_log=host.open_log,
            open_endpoint=host.open_endpoint,
            read_model=host.read_model,
            rules=rules,
            options=WatchOptions(
                window_s=session.begin.window_s,
                ignore=tuple(ignore),
                one_shot=session.begin.one_shot if one_shot is None else one_shot,
            ),
        )

    return replay(ReplayHost(), moments(session, span), make_watcher, span.from_ns, is_judged)


def replay_recording(
    folder: Path, span: Span, rules: Sequence[Rule], ignore: Sequence[str] = (), *, one_shot: bool | None = None
) -> Snapshot:
    """What is said at the end of the span, after watching it, or its last 15 minutes when it has no start.

    Raises UsageError for what is no recording or holds nothing there.
    """
    session = session_at(folder, span.until_ns)
    end_ns = last_tick_ns(session)
    end_ns = end_ns if span.until_ns is None else min(end_ns, span.until_ns)
    if span.from_ns is None:
        begin_ns = end_ns - round(LAST_S * NS)
        span = Span(begin_ns if begin_ns > session.starts_ns[0] else None, end_ns)
    lives = not (session.begin.one_shot if one_shot is None else one_shot)
    lifetime_s = max((rule.for_s for rule in rules), default=0.0) + LEAD_S if lives else 0.0
    judged_ns = end_ns - round(lifetime_s * NS)
    snapshot = None
    seen_ns: int | None = None

    def is_judged(tick: Tick) -> bool:
        nonlocal seen_ns
        is_due = seen_ns is None or tick.wall_ns - seen_ns >= round(SPARSE_S * NS)
        if tick.wall_ns < judged_ns and not is_due:
            return False
        seen_ns = tick.wall_ns
        return True

    for _, picture in replay_all(session, span, rules, ignore, one_shot=one_shot, is_judged=is_judged):
        snapshot = picture
    if snapshot is None:
        raise UsageError(f"{folder} holds nothing between these times", "bubblewatch report shows what it covers")
    return snapshot


def play_recording(
    folder: Path,
    span: Span,
    rules: Sequence[Rule],
    ignore: Sequence[str],
    pace: tuple[Clock, float],
    show: Callable[[Watcher, Snapshot], bool],
) -> None:
    """Hand every picture to `show` at its time: `pace` is a real clock and how many times faster than it happened.

    Ends when `show` gives False. A recorder that stood still is not waited for.
    """
    clock, speed = pace
    before_ns: int | None = None
    session = session_at(folder, span.until_ns if span.until_ns is not None else span.from_ns)
    for watcher, snapshot in replay_all(session, span, rules, ignore):
        if before_ns is not None:
            clock.sleep(min((snapshot.time_ns - before_ns) / NS, 5.0) / speed)
        before_ns = snapshot.time_ns
        if not show(watcher, snapshot):
            return
