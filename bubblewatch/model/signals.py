"""Numbers with names: what rules, metrics and screens speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

SignalValue = bool | int | float | str
"""Type of a signal's value. NaN never appears: a number that is not known is absent."""


class Confidence(IntEnum):
    """How sure a statement is. CERTAIN is for settings that were read; the others are for inferences.

    POSSIBLE means that a prior stood in for a learned level: it may be said, never claimed.
    """

    POSSIBLE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CERTAIN = 4

    @property
    def word(self) -> str:
        return self.name.lower()

    def lower(self, steps: int = 1) -> Confidence:
        """This confidence, `steps` down, never below POSSIBLE."""
        return Confidence(max(int(self) - steps, 0))


class EvidenceKind(StrEnum):
    """The three kinds of evidence, and what the user told us."""

    TELEMETRY = "telemetry"
    LOG = "log"
    SETTING = "setting"
    PROCESS = "process"
    ENDPOINT = "endpoint"
    STATED = "stated"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that supports a statement: `where` it was seen and the `text` as it was seen, redacted and untrusted."""

    kind: EvidenceKind
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Signal:
    """One named value with how it is known. `basis` is a short word such as `sm`, `util`, `power`, `log`, `argv`."""

    value: SignalValue
    basis: str = ""
    confidence: Confidence = Confidence.HIGH
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """All signals of one target at one moment. A name is in `known` or, with a reason, in `missing`, never in both."""

    known: Mapping[str, Signal] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str) -> SignalValue | None:
        signal = self.known.get(name)
        return None if signal is None else signal.value

    def number(self, name: str) -> float | None:
        """Value of a numeric signal, None when it is missing."""
        value = self.value(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def why_missing(self, name: str) -> str:
        return self.missing.get(name, "not measured")
