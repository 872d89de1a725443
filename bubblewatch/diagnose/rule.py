"""One rule as data: what it looks at, when it matches, what it then says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType

from bubblewatch.diagnose.condition import Condition, Formula
from bubblewatch.diagnose.template import Template
from bubblewatch.model.findings import Scope, Severity, Verdict
from bubblewatch.model.server import SettingValue
from bubblewatch.model.signals import Confidence, SignalValue


def _no_settings() -> Mapping[str, SettingValue]:
    return MappingProxyType({})


class Status(StrEnum):
    """How far a rule may be trusted to stay as it is."""

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"


class Stage(IntEnum):
    """Where a rule's advice stands in the order of advice (design §1.5): each helps once those before it are right."""

    DEMAND = 0
    FILL = 1
    DEPTH = 2
    BALANCE = 3
    OTHER = 4


class GainModel(StrEnum):
    """Which function of the theory says what a change should bring."""

    GRAPHS = "graphs"
    DEPTH = "depth"
    UNCERTAIN = "uncertain"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which a rule matches.

    `unless`: this case is clear when that is known to hold. `needs_telemetry`: the rule's least evidence must be there.
    `optional`: when it is unknown it does not make the rule unknown, because another case decides as well.
    """

    when: Condition
    confidence: Confidence
    severity: Severity
    message: Template
    unless: Condition | None = None
    needs_telemetry: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change on one kind of server and range of versions.

    Fits when `servers` is empty or names the kind, `versions` is empty or the known version lies in it, every one of
    `settings` has that value, and `when` (if any) matches.
    """

    do: Template
    servers: tuple[str, ...] = ()
    versions: str = ""
    settings: Mapping[str, SettingValue] = field(default_factory=_no_settings)
    when: Condition | None = None
    remove: tuple[Template, ...] = ()
    add: tuple[Template, ...] = ()
    check: Template | None = None
    hazards: tuple[Template, ...] = ()
    undo: str = ""
    source: str = ""

    @property
    def templates(self) -> tuple[Template, ...]:
        """Every text of this advice that may hold figures."""
        check = (self.check,) if self.check else ()
        return (self.do, *self.remove, *self.add, *self.hazards, *check)


@dataclass(frozen=True, slots=True)
class Explain:
    """What a person should know about a rule, in sentences."""

    what: str = ""
    why: str = ""
    confirm: str = ""
    fix: str = ""
    price: str = ""
    check: str = ""
    false_positives: str = ""
    blind_spots: str = ""


@dataclass(frozen=True, slots=True)
class RuleTest:
    """An example beside the rule: with these signals (certain ones) it must say this.

    `firing` are names of other rules that fire at the same time. `says` are words that the finding must contain
    anywhere, `silent` words that it must not.
    """

    name: str
    given: Mapping[str, SignalValue]
    expect: Verdict
    confidence: Confidence | None = None
    severity: Severity | None = None
    held_back: bool | None = None
    firing: tuple[str, ...] = ()
    server: str = "unknown"
    version: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=_no_settings)
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the catalogue. Times are in seconds.

    `unless` clears the rule when one of it is known to hold. `gate` must hold before the finding may be loud; while it
    does not, the finding is held back by those of `held_back_by` that fire. Without a gate it is held back whenever one
    of them fires. `effect` marks what is a consequence of something in `caused_by`. `alone`: it is said only when no
    loud finding is, and never as merely possible. `evidence` are signals whose evidence is quoted although no condition
    needs them. `recorded` names stored recordings in which the rule fires.
    """

    id: str
    name: str
    title: str
    status: Status
    severity: Severity
    category: str
    scope: Scope
    signals: tuple[str, ...]
    cases: tuple[Case, ...]
    path: str
    since: str = ""
    unless: tuple[Condition, ...] = ()
    gate: Condition | None = None
    held_back_by: tuple[str, ...] = ()
    caused_by: tuple[str, ...] = ()
    effect: bool = False
    alone: bool = False
    stage: Stage = Stage.OTHER
    for_s: float = 30.0
    clear_for_s: float = 60.0
    min_seconds: float = 0.0
    min_readings: int = 0
    evidence: tuple[str, ...] = ()
    figures: Mapping[str, Formula] = field(default_factory=lambda: MappingProxyType({}))
    explain: Explain = field(default_factory=Explain)
    references: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    gain: GainModel = GainModel.NONE
    advice: tuple[Advice, ...] = ()
    tests: tuple[RuleTest, ...] = ()
