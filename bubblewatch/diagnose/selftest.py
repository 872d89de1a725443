"""Runs the examples that stand in the rule files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from bubblewatch.diagnose.judge import Judgement, judge_all
from bubblewatch.diagnose.rule import Rule, RuleTest
from bubblewatch.diagnose.yaml_text import Problem
from bubblewatch.model.errors import Place, RuleError
from bubblewatch.model.findings import Finding, Target
from bubblewatch.model.server import Origin, Server, Setting, Settings
from bubblewatch.model.signals import Confidence, Signal, Signals


def run_inline_tests(rules: Sequence[Rule]) -> tuple[Problem, ...]:
    """Every example that does not come out as written, with its place; empty when all do."""
    by_name = {rule.name: rule for rule in rules}
    return tuple(
        Problem(Place(rule.path, test.line), f"test '{test.name}': {message}")
        for rule in rules
        for test in rule.tests
        for message in _differences(rule, test, by_name)
    )


def _differences(rule: Rule, test: RuleTest, by_name: dict[str, Rule]) -> Iterator[str]:
    try:
        judgement = _judge(rule, test, by_name)
    except RuleError as error:
        yield str(error)
        return
    if judgement.verdict is not test.expect:
        lacked = f" ({'; '.join(judgement.missing)})" if judgement.missing else ""
        yield f"expected {test.expect}, got {judgement.verdict}{lacked}"
        return
    if judgement.finding is not None:
        yield from _finding_differences(judgement.finding, test)


def _finding_differences(finding: Finding, test: RuleTest) -> Iterator[str]:
    if test.confidence is not None and finding.confidence is not test.confidence:
        yield f"expected confidence {test.confidence.word}, got {finding.confidence.word}"
    if test.severity is not None and finding.severity is not test.severity:
        yield f"expected severity {test.severity.word}, got {finding.severity.word}"
    if test.held_back is not None and bool(finding.held_back_by) is not test.held_back:
        yield f"expected held_back {test.held_back}, it is held back by {', '.join(finding.held_back_by) or 'nothing'}"
    said = repr(finding)
    for words in test.says:
        if words not in said:
            yield f"it does not say '{words}'"
    for words in test.silent:
        if words in said:
            yield f"it says '{words}'"


def _judge(rule: Rule, test: RuleTest, by_name: dict[str, Rule]) -> Judgement:
    """What the rule says about the example; rules of `firing` are replaced by ones that match with it."""
    target = Target(rule.scope, "example")
    known = {name: Signal(value, "test", Confidence.CERTAIN) for name, value in test.given.items()}
    missing = {name: "not given" for name in rule.signals if name not in known}
    settings = {name: Setting(name, value, Origin.ARGV, "test") for name, value in test.settings.items()}
    server = Server(test.server, "example", version=test.version, settings=Settings(MappingProxyType(settings)))
    others = [_always(by_name[name], rule) for name in test.firing if name in by_name and known]
    judged = judge_all(target, Signals(known, missing), server, [rule, *others])
    return next(j for j in judged if j.rule is rule)


def _always(other: Rule, rule: Rule) -> Rule:
    """`other` as a rule that matches whenever the example's rule does."""
    cases = tuple(dataclasses.replace(case, severity=other.severity) for case in rule.cases)
    return dataclasses.replace(
        other, cases=cases, unless=rule.unless, gate=None, held_back_by=(), scope=rule.scope, alone=False
    )
