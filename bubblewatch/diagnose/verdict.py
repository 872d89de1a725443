"""One rule over the signals of one target: match, clear or unknown, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bubblewatch.diagnose.condition import Condition
from bubblewatch.diagnose.rule import Case, Rule
from bubblewatch.model.findings import Verdict
from bubblewatch.model.signals import Signals, SignalValue

TELEMETRY_FAMILIES = ("telemetry", "duty", "util", "power", "spin", "pipeline", "gpu", "throttle", "straggler")
"""First parts of the names of signals that rest on GPU readings, and that too few readings therefore do not support."""


@dataclass(frozen=True, slots=True)
class Raw:
    """What a rule says by itself, before its gate and other rules are looked at.

    `case` is the one that matched; `decisive` are the signals that it turned on. `missing` are names of signals whose
    absence made it unknown. `thin` says which part of the least evidence was not there, empty when all was.
    """

    verdict: Verdict
    case: Case | None = None
    decisive: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    thin: str = ""


def known_values(signals: Signals) -> Mapping[str, SignalValue]:
    return {name: signal.value for name, signal in signals.known.items()}


def judge_rule(rule: Rule, signals: Signals) -> Raw:
    """The verdict of the first case that matches; UNKNOWN when none does and one that counts is unknown; else CLEAR."""
    values = known_values(signals)
    if any(condition.evaluate(values)[0] is Verdict.MATCH for condition in rule.unless):
        return Raw(Verdict.CLEAR)
    thin = _too_little(rule, signals)
    missing: dict[str, None] = {}
    is_unknown = was_thin = False
    for case in rule.cases:
        if case.unless is not None and case.unless.evaluate(values)[0] is Verdict.MATCH:
            continue
        short = bool(thin) and case.needs_telemetry
        verdict, names = case.when.evaluate(_without_telemetry(values) if short else values)
        if verdict is Verdict.MATCH and not short:
            return Raw(Verdict.MATCH, case, case.when.decisive(values))
        if verdict is not Verdict.CLEAR and not case.optional:
            is_unknown = True
            was_thin = was_thin or short
            missing.update(dict.fromkeys(name for name in names if name not in values))
    if is_unknown:
        return Raw(Verdict.UNKNOWN, missing=tuple(missing), thin=thin if was_thin else "")
    return Raw(Verdict.CLEAR)


def gate_verdict(gate: Condition, signals: Signals) -> tuple[Verdict, tuple[str, ...]]:
    """What the gate says, and the names that it lacks."""
    return gate.evaluate(known_values(signals))


def _without_telemetry(values: Mapping[str, SignalValue]) -> Mapping[str, SignalValue]:
    return {name: value for name, value in values.items() if name.partition(".")[0] not in TELEMETRY_FAMILIES}


def _too_little(rule: Rule, signals: Signals) -> str:
    """Why the readings are fewer than the rule's least evidence; empty when they are enough."""
    for name, least in (("telemetry.readings", rule.min_readings), ("telemetry.seconds", rule.min_seconds)):
        if not least:
            continue
        found = signals.number(name)
        if found is None:
            return f"{name}: {signals.why_missing(name)}"
        if found < least:
            return f"{name}: {found:g} of the {least:g} that it takes"
    return ""
