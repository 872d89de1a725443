"""All rules over the signals of one target: verdicts, and the findings in the order in which to act on them. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bubblewatch.diagnose.advice import choose_advice
from bubblewatch.diagnose.gains import expected_gain
from bubblewatch.diagnose.order import urgency
from bubblewatch.diagnose.rule import Case, Rule
from bubblewatch.diagnose.verdict import TELEMETRY_FAMILIES, Raw, gate_verdict, judge_rule, known_values
from bubblewatch.model.findings import Finding, Severity, State, Target, Verdict
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Confidence, Evidence, Signals, SignalValue

MAX_EVIDENCE = 8
"""Pieces of evidence that one finding quotes: more than a person reads, and a bound on what a long log can do to us."""

BY_VERSION = frozenset({"launch", "setting", "version", "split"})
"""Bases of signals that were read with what is known of a version: defaults, meanings and limits of options."""

SAME_IN_ALL = frozenset({"parallel", "server"})
"""Families of signals whose options mean the same in every version."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one rule says about one target. `finding` is there exactly when the verdict is MATCH.

    `missing` says of an UNKNOWN what it lacked: `name: reason` each.
    """

    rule: Rule
    target: Target
    verdict: Verdict
    finding: Finding | None = None
    missing: tuple[str, ...] = ()


def judge(
    target: Target,
    signals: Signals,
    server: Server | None,
    rules: Sequence[Rule],
    *,
    ignore: Collection[str] = (),
    watched_s: float | None = None,
    one_shot: bool = True,
) -> tuple[Finding, ...]:
    """The findings about `target`, the one to act on first at the front. See `judge_all`."""
    judged = judge_all(target, signals, server, rules, ignore=ignore, watched_s=watched_s, one_shot=one_shot)
    return tuple(j.finding for j in judged if j.finding is not None)


def judge_all(
    target: Target,
    signals: Signals,
    server: Server | None,
    rules: Sequence[Rule],
    *,
    ignore: Collection[str] = (),
    watched_s: float | None = None,
    one_shot: bool = True,
) -> tuple[Judgement, ...]:
    """What every rule of the target's scope says, those with findings first, the one to act on at the front.

    `signals` are the target's and its host's. `ignore` names findings that the user accepts. `watched_s` is for how
    long the target was watched, None when that means nothing (evidence files without a clock): a one-shot judgement
    that rests on readings of less than the rule's `for` is one step less sure. So is one that rests on options of a
    version newer than any known, and it says so. What is only possible is never loud.

    Raises: RuleError when a condition cannot be evaluated on these signals.
    """
    desk = _Desk(target, signals, server, ignore, watched_s if one_shot else None, one_shot=one_shot)
    mine = [rule for rule in rules if rule.scope is target.scope]
    raws = {rule.name: judge_rule(rule, signals) for rule in mine}
    free = {rule.name for rule in mine if raws[rule.name].verdict is Verdict.MATCH and desk.passes_gate(rule)}
    judged = [desk.conclude(rule, raws[rule.name], free) for rule in mine]
    is_loud = any(j.finding is not None and j.finding.is_loud for j in judged)
    judged = [_alone(j, is_loud=is_loud) if j.rule.alone else j for j in judged]
    standing = {j.rule.name for j in judged if j.finding is not None and not j.finding.held_back_by}
    judged = [_linked(j, standing) for j in judged]
    return tuple(sorted(judged, key=lambda j: urgency(j.rule, j.finding)))


@dataclass(frozen=True, slots=True)
class _Desk:
    """What every rule is judged with."""

    target: Target
    signals: Signals
    server: Server | None
    ignore: Collection[str]
    watched_s: float | None
    one_shot: bool

    def passes_gate(self, rule: Rule) -> bool:
        return rule.gate is None or gate_verdict(rule.gate, self.signals)[0] is Verdict.MATCH

    def conclude(self, rule: Rule, raw: Raw, free: Collection[str]) -> Judgement:
        """The judgement of a rule, given the names of rules that match and pass their gates."""
        if raw.verdict is Verdict.UNKNOWN:
            thin = (raw.thin,) if raw.thin else ()
            return Judgement(rule, self.target, Verdict.UNKNOWN, None, (*thin, *self._reasons(raw.missing)))
        if raw.case is None:
            return Judgement(rule, self.target, Verdict.CLEAR)
        holders = tuple(name for name in rule.held_back_by if name in free)
        gate, lacked = gate_verdict(rule.gate, self.signals) if rule.gate else (Verdict.MATCH, ())
        if rule.gate is not None and gate is Verdict.MATCH:
            holders = ()
        if gate is not Verdict.MATCH and not holders:
            missing = self._reasons(lacked) if gate is Verdict.UNKNOWN else ()
            return Judgement(rule, self.target, gate, None, missing)
        return Judgement(rule, self.target, Verdict.MATCH, self._finding(rule, raw.case, raw, holders))

    def _finding(self, rule: Rule, case: Case, raw: Raw, holders: tuple[str, ...]) -> Finding:
        values: dict[str, SignalValue] = dict(known_values(self.signals))
        values.update(self._figures(rule, values))
        gate = rule.gate.decisive(values) if rule.gate and not holders else ()
        decisive = tuple(dict.fromkeys((*raw.decisive, *gate)))
        used = dict.fromkeys((*decisive, *case.when.names, *gate, *rule.evidence))
        told = choose_advice(rule, self.server, values)
        confidence = self._confidence(rule, case.confidence, decisive)
        return Finding(
            id=f"{rule.id}@{self.target}",
            name=rule.name,
            severity=Severity.INFO if confidence is Confidence.POSSIBLE else case.severity,
            confidence=confidence,
            target=self.target,
            state=State.OBSERVED if self.one_shot else State.PENDING,
            summary=case.message.render(values) or rule.title,
            evidence=self._evidence(used),
            missing=(*self._newer(decisive), *self._reasons(self._wanted(rule))),
            remedy=told.remedy if told else None,
            hazards=told.hazards if told else (),
            check=(told.check if told else "") or rule.explain.check,
            held_back_by=holders,
            expected_gain=expected_gain(rule.gain, self.signals),
            ignored=rule.name in self.ignore,
        )

    def _figures(self, rule: Rule, values: Mapping[str, SignalValue]) -> Mapping[str, SignalValue]:
        found = {name: formula.evaluate(values) for name, formula in rule.figures.items()}
        return {name: number for name, number in found.items() if number is not None}

    def _confidence(self, rule: Rule, most: Confidence, decisive: Sequence[str]) -> Confidence:
        sure = min([most, *(self.signals.known[name].confidence for name in decisive)])
        by_readings = any(name.partition(".")[0] in TELEMETRY_FAMILIES for name in decisive)
        if by_readings and self.watched_s and self.watched_s < rule.for_s:
            sure = sure.lower()
        return sure.lower() if self._newer(decisive) else sure

    def _newer(self, decisive: Sequence[str]) -> tuple[str, ...]:
        """That the version is newer than any known, for a finding that rests on what is known of it."""
        if self.signals.value("server.newer_than_known") is not True:
            return ()
        known = self.signals.known
        if not any(known[n].basis in BY_VERSION and n.partition(".")[0] not in SAME_IN_ALL for n in decisive):
            return ()
        version = self.signals.value("server.version") or "its version"
        return (f"{version} is newer than any version known here, and judged as the newest known one",)

    def _evidence(self, names: Collection[str]) -> tuple[Evidence, ...]:
        """The evidence of these signals, each piece once, in this order."""
        known = (self.signals.known[name] for name in names if name in self.signals.known)
        return tuple(dict.fromkeys(piece for signal in known for piece in signal.evidence))[:MAX_EVIDENCE]

    def _wanted(self, rule: Rule) -> tuple[str, ...]:
        """Names that the rule looks at and that are not known."""
        gate = rule.gate.names if rule.gate else ()
        names = dict.fromkeys((*(n for case in rule.cases for n in case.when.names), *gate, *rule.evidence))
        return tuple(name for name in names if name not in self.signals.known)

    def _reasons(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{name}: {self.signals.why_missing(name)}" for name in names)


def _alone(judgement: Judgement, *, is_loud: bool) -> Judgement:
    """A judgement that stands only beside nothing loud, and only when it rests on more than a guess."""
    if judgement.finding is None:
        return judgement
    if is_loud:
        return dataclasses.replace(judgement, verdict=Verdict.CLEAR, finding=None)
    if judgement.finding.confidence is Confidence.POSSIBLE:
        missing = ("what it rests on is only possible", *judgement.finding.missing)
        return dataclasses.replace(judgement, verdict=Verdict.UNKNOWN, finding=None, missing=missing)
    return judgement


def _linked(judgement: Judgement, standing: Collection[str]) -> Judgement:
    """The judgement with those of its possible causes that are found and free to act on."""
    if judgement.finding is None:
        return judgement
    causes = tuple(name for name in judgement.rule.caused_by if name in standing)
    return dataclasses.replace(judgement, finding=dataclasses.replace(judgement.finding, caused_by=causes))
