"""What the screen remembers from one feed to the next, for each server, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from bubblewatch.model.findings import Answer, Finding, Snapshot, State, TargetView
from bubblewatch.runtime.feed import ScreenFeed, ShownLine
from bubblewatch.tui.room import Happening, Memory, Moment

MOMENTS = 3600
"""Points that are kept: an hour of one a second."""

HAPPENINGS = 200
"""Happenings that are kept."""

LINES = 1000
"""Log lines that are kept of one server: they are wrapped and filtered at every feed, 11 us each."""


class _OfServer:
    """What is remembered of one target."""

    def __init__(self) -> None:
        self.moments: deque[Moment] = deque(maxlen=MOMENTS)
        self.happenings: deque[Happening] = deque(maxlen=HAPPENINGS)
        self.lines: deque[ShownLine] = deque(maxlen=LINES)
        self.answer: Answer | None = None
        self.firing: dict[str, Finding] = {}


class Rememberer:
    """Takes every feed and gives the memory of one target. Called from one thread."""

    def __init__(self) -> None:
        self._targets: dict[str, _OfServer] = {}

    def take(self, feed: ScreenFeed) -> None:
        """Remember this feed; the same one twice counts once."""
        snapshot = feed.snapshot
        for view in snapshot.views:
            kept = self._targets.setdefault(view.target.id, _OfServer())
            if kept.moments and kept.moments[-1].time_ns >= snapshot.time_ns:
                continue
            kept.moments.append(_moment(view, snapshot))
            kept.happenings.extend(_happenings(kept, view, snapshot))
            key = view.server.key if view.server else None
            last = kept.lines[-1].number if kept.lines else 0
            of_server = sorted((one for one in feed.lines if one.server == key), key=lambda one: one.number)
            if of_server and of_server[-1].number < last:
                kept.lines.clear()  # the watcher was restarted and counts from one again
                last = 0
            kept.lines.extend(one for one in of_server if one.number > last)
        gone = set(self._targets) - {view.target.id for view in snapshot.views}
        for target in gone:
            del self._targets[target]

    def forget(self) -> None:
        """Begin anew: something else is watched."""
        self._targets.clear()

    def of(self, target: str | None) -> Memory:
        """What is remembered of this target."""
        kept = self._targets.get(target or "")
        if kept is None:
            return Memory()
        return Memory(tuple(kept.moments), tuple(kept.happenings), tuple(kept.lines))


def _moment(view: TargetView, snapshot: Snapshot) -> Moment:
    signals = view.signals
    return Moment(
        time_ns=snapshot.time_ns,
        stages_busy=signals.number("pipeline.stages_busy"),
        duty=signals.number("duty.median"),
        gen_tps=signals.number("throughput.gen_tps"),
        running=signals.number("demand.running"),
        answer=view.answer,
    )


def _happenings(kept: _OfServer, view: TargetView, snapshot: Snapshot) -> Iterable[Happening]:
    """What is new since the last feed: the verdict, findings that began or ended."""
    firing = {f.id: f for f in view.findings if f.state in (State.FIRING, State.OBSERVED) and f.name != Answer.HEALTHY}
    at_ns = snapshot.time_ns
    if kept.answer is not view.answer:
        is_bad = view.answer in (Answer.FINDINGS, Answer.ERROR)
        yield Happening(at_ns, f"verdict: {view.answer.value.replace('_', ' ')}", is_bad)
    for key, finding in firing.items():
        if key not in kept.firing:
            yield Happening(at_ns, f"began: {finding.name}: {finding.summary}", finding.is_loud)
    for key, finding in kept.firing.items():
        if key not in firing:
            yield Happening(at_ns, f"ended: {finding.name}")
    kept.answer, kept.firing = view.answer, firing
