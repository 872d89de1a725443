"""What rules say, and the one immutable picture that every surface shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from bubblewatch.model.accounts import Accounts
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Confidence, Evidence, Signals
from bubblewatch.model.telemetry import GpuInfo

SCHEMA_VERSION = 1
"""Version of the JSON document and of the snapshot API; raised when a key changes its meaning or goes away."""


class Severity(IntEnum):
    INFO = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class Verdict(StrEnum):
    """What one condition says. UNKNOWN is not CLEAR."""

    MATCH = "match"
    CLEAR = "clear"
    UNKNOWN = "unknown"


class State(StrEnum):
    """Where a finding stands. A one-shot diagnosis has only `observed`."""

    OBSERVED = "observed"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Scope(StrEnum):
    HOST = "host"
    GPU = "gpu"
    SERVER = "server"
    RANK = "rank"


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """What a finding is about: a server by key, a GPU by uuid, a rank, or the host."""

    scope: Scope
    id: str

    def __str__(self) -> str:
        return f"{self.scope}:{self.id}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to change: one sentence, and the exact launch change as options taken out and put in (may both be empty).

    `source` names where the advice comes from (thread, file and version), `undo` is the way back. `diff` shows the
    launch change against what runs: `@ place` lines, each followed by its lines, marked `- `, `+ ` or two spaces; ()
    when the launch is not known or does not change.
    """

    do: str
    remove: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    undo: str = ""
    source: str = ""
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gain:
    """What a change should bring, as a range with the assumption under which it holds.

    `unit` is `tok/s` or `x`; `low`/`high` None = uncertain, and then only `assumption` speaks.
    """

    assumption: str
    low: float | None = None
    high: float | None = None
    unit: str = "tok/s"
    now: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict of one rule about one target, with everything a person needs to act on it.

    `missing` are inputs that would have made it surer, each with the reason; `caused_by` and `held_back_by` name
    findings of the same target. A held-back finding is never the one to act on first.
    """

    id: str
    name: str
    severity: Severity
    confidence: Confidence
    target: Target
    state: State
    summary: str
    since_ns: int | None = None
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    remedy: Remedy | None = None
    hazards: tuple[str, ...] = ()
    check: str = ""
    caused_by: tuple[str, ...] = ()
    held_back_by: tuple[str, ...] = ()
    expected_gain: Gain | None = None
    ignored: bool = False

    @property
    def is_loud(self) -> bool:
        """Warning or above, free to be acted on, and not an accepted risk."""
        return self.severity >= Severity.WARNING and not self.held_back_by and not self.ignored


class Answer(StrEnum):
    """The verdict over everything, as in the JSON document."""

    FINDINGS = "findings"
    HEALTHY = "healthy"
    QUIET = "quiet"
    CANNOT_JUDGE = "cannot_judge"
    ERROR = "error"


class Health(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"
    DENIED = "denied"
    ABSENT = "absent"
    LOST = "lost"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How one source of evidence fares: `detail` says what was read or why not, `mend` the command that would help.

    `gaps` are plain sentences on what this source should have had and lost, so that nobody can read it any more.
    """

    name: str
    health: Health
    detail: str = ""
    mend: str = ""
    read_count: int = 0
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetView:
    """One server (or an unknown one) with its signals, findings and the answer about it."""

    target: Target
    answer: Answer
    signals: Signals
    findings: tuple[Finding, ...] = ()
    server: Server | None = None
    missing: tuple[str, ...] = ()
    """What to ask for or to mend so that this could be judged (better), most useful first."""
    judged_clear: Mapping[str, Severity] = field(default_factory=dict)
    """Rules that were judged and did not match: name -> the severity they would have. Unknown ones are absent."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The picture at one moment. `gpus` holds every visible GPU with its own signals, assigned to a server or not."""

    time_ns: int
    answer: Answer
    views: tuple[TargetView, ...] = ()
    gpus: tuple[GpuInfo, ...] = ()
    gpu_signals: Mapping[str, Signals] = field(default_factory=dict)
    sources: tuple[SourceHealth, ...] = ()
    watched_s: float = 0.0
    one_shot: bool = False
    schema_version: int = SCHEMA_VERSION
    sequence: int = 0
    accounts: Accounts = field(default_factory=Accounts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, those of the first view first."""
        return tuple(finding for view in self.views for finding in view.findings)
