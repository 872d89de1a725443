"""What a page is drawn from: the feed, what the person chose, and how much room there is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.findings import Answer, Finding, Snapshot, State, TargetView
from bubblewatch.runtime.feed import ScreenFeed, ShownLine
from bubblewatch.tui.glyphs import BLOCKS, Glyphs
from bubblewatch.tui.ink import Line


class Page(StrEnum):
    """The pages, in the order of their keys 1 to 7."""

    OVERVIEW = "overview"
    PIPELINE = "pipeline"
    FINDING = "finding"
    LOGS = "logs"
    SETTINGS = "settings"
    HISTORY = "history"
    DOCTOR = "doctor"


class LaneKind(StrEnum):
    """What lanes show."""

    WORK = "work"
    UTIL = "util"
    POWER = "power"


SPANS_S = (60.0, 30.0, 10.0)
"""What a sparkline or lane may cover, in seconds: from the whole feed to single readings of a 10 Hz sensor."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the person chose. `server` None = the one in most need; `finding` is a place in the list of findings."""

    page: Page = Page.OVERVIEW
    server: str | None = None
    span_s: float = SPANS_S[0]
    lane: LaneKind = LaneKind.WORK
    filter: str = ""
    finding: int = 0
    known_only: bool = False
    with_defaults: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """One point of the history that the screen keeps: what mattered then. None = not known."""

    time_ns: int
    stages_busy: float | None
    duty: float | None
    gen_tps: float | None
    running: float | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that began or ended while the screen looked."""

    time_ns: int
    text: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What the screen remembers of one server: past moments, happenings, and more log lines than a feed has."""

    moments: tuple[Moment, ...] = ()
    happenings: tuple[Happening, ...] = ()
    lines: tuple[ShownLine, ...] = ()

    def until(self, time_ns: int) -> Memory:
        """What was remembered at that moment. A line without a time stays."""
        return Memory(
            tuple(one for one in self.moments if one.time_ns <= time_ns),
            tuple(one for one in self.happenings if one.time_ns <= time_ns),
            tuple(one for one in self.lines if one.time_ns is None or one.time_ns <= time_ns),
        )


@dataclass(frozen=True, slots=True)
class Room:
    """Columns and rows for the page, and the signs to draw with."""

    columns: int
    rows: int
    glyphs: Glyphs = BLOCKS


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a page may look at."""

    feed: ScreenFeed
    choice: Choice = field(default_factory=Choice)
    memory: Memory = field(default_factory=Memory)
    rules: tuple[Rule, ...] = ()
    loses: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Source -> findings that are lost while it cannot be read."""

    @property
    def snapshot(self) -> Snapshot:
        return self.feed.snapshot

    @property
    def view(self) -> TargetView | None:
        """The server that is shown: the chosen one, else the one in most need; None when nothing is there."""
        views = worst_first(self.snapshot)
        return next((view for view in views if view.target.id == self.choice.server), views[0] if views else None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is shown of this server's findings, in the order in which to act."""
        return shown_findings(self.view) if self.view else ()

    @property
    def finding(self) -> Finding | None:
        """The finding that the cursor is on."""
        findings = self.findings
        return findings[min(self.choice.finding, len(findings) - 1)] if findings else None


@dataclass(frozen=True, slots=True)
class Sheet:
    """A drawn page. `cursor` is the line that must stay in sight; `follows`: the newest line is at the end; the first
    `pinned` lines do not scroll.
    """

    lines: tuple[Line, ...]
    cursor: int | None = None
    follows: bool = False
    pinned: int = 0


def shown_findings(view: TargetView) -> tuple[Finding, ...]:
    """Findings of a view without those that are over; `healthy` is a verdict, not a finding to act on."""
    return tuple(f for f in view.findings if f.state is not State.RESOLVED and f.name != Answer.HEALTHY)


_WORST_FIRST = (Answer.FINDINGS, Answer.ERROR, Answer.CANNOT_JUDGE, Answer.QUIET, Answer.HEALTHY)


def worst_first(snapshot: Snapshot) -> tuple[TargetView, ...]:
    """The views, the one that needs a person most first."""

    def badness(view: TargetView) -> tuple[int, int]:
        loudest = max((int(finding.severity) for finding in view.findings if finding.is_loud), default=-1)
        return -loudest, _WORST_FIRST.index(view.answer)

    return tuple(sorted(snapshot.views, key=badness))


def matches(text: str, wanted: str) -> bool:
    """Whether a filter lets a text through: every word in it, those with `!` before them not; case does not matter."""
    lowered = text.lower()
    for word in wanted.lower().split():
        if word.startswith("!") and len(word) > 1:
            if word[1:] in lowered:
                return False
        elif word not in lowered:
            return False
    return True
