"""Every rule that is shipped: it loads, lints, passes its examples, and never advises what a version does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bubblewatch.app.rules import check_rules, rules_in_force
from bubblewatch.diagnose.explain import explain_text
from bubblewatch.diagnose.judge import judge
from bubblewatch.diagnose.lint import lint
from bubblewatch.diagnose.loader import find_rules, shipped_rules
from bubblewatch.diagnose.lock import LOCK_FILE, lock_problems
from bubblewatch.diagnose.rule import Advice, Rule
from bubblewatch.diagnose.selftest import run_inline_tests
from bubblewatch.diagnose.verdict import judge_rule
from bubblewatch.model.findings import Scope, Severity, Target, Verdict
from bubblewatch.model.signals import Confidence, Signal, Signals
from bubblewatch.servers.sglang.options import option_lists
from bubblewatch.servers.versions import Version

SGLANG_VERSIONS = ("0.4.3", "0.5.2", "0.5.6", "0.5.7", "0.5.10", "0.5.13", "0.5.14", "0.5.20", "0.5.23")

NAMES = set(
    re.findall(
        r"\S+",
        """
    pipeline-bubble low-concurrency micro-batch-unfilled async-depth-missing cuda-graph-disabled
    cuda-graph-batch-exceeded launch-bound overlap-disabled parallelism-unfit stage-imbalance host-bound cpu-throttled
    frontend-bound tp-comm-bound idle-spin no-demand low-demand kv-cache-full request-retraction batch-limit-too-low
    memory-underused prefill-starves-decode pd-imbalance dp-imbalance replica-imbalance spec-decode-ineffective
    cpu-offload gpu-unassigned near-roofline kernel-inefficient wrong-attention-backend jit-compile-stall
    power-throttle thermal-throttle clock-locked-low pcie-degraded p2p-disabled nccl-socket-fallback straggler-gpu
    startup-phase server-hung server-crashed crash-loop out-of-memory regressed-since-restart settings-drift gpu-lost
    driver-problem telemetry-stale telemetry-artefact evidence-lost idle-high-power healthy
    """,
    )
)
"""Findings by name: alerts, runbooks and people's scripts use them."""

QUIET = {"no-demand", "low-demand", "startup-phase", "telemetry-artefact", "evidence-lost", "gpu-unassigned"} | {
    *("idle-high-power", "settings-drift", "near-roofline", "healthy")
}
"""Findings that say how things are and are never loud."""


def test_all_files_load() -> None:
    rules, problems = find_rules([shipped_rules()])
    assert [str(problem) for problem in problems] == []
    assert {rule.name for rule in rules} >= NAMES


def test_no_rule_has_a_complaint(rules: tuple[Rule, ...]) -> None:
    assert [str(problem) for problem in lint(rules)] == []


def test_every_example_comes_out_as_written(rules: tuple[Rule, ...]) -> None:
    assert [str(problem) for problem in run_inline_tests(rules)] == []


def sglang_advice(rules: tuple[Rule, ...]) -> list[tuple[str, Advice]]:
    return [(rule.name, advice) for rule in rules for advice in rule.advice if "sglang" in advice.servers]


@pytest.mark.parametrize("version", SGLANG_VERSIONS)
def test_advice_names_only_options_that_the_version_has(rules: tuple[Rule, ...], version: str) -> None:
    parsed = Version.parse(version)
    assert parsed is not None
    held = option_lists(parsed)[0]
    for name, advice in sglang_advice(rules):
        told = any(setting in ("disable_decode_cuda_graph", "cuda_graph_backend_decode") for setting in advice.settings)
        if (advice.versions and not parsed.satisfies(advice.versions)) or (told and parsed < Version((0, 5, 14))):
            continue
        for template in advice.templates:
            for option in re.findall(r"--[a-z][a-z0-9-]+", template.text):
                found, _, problem = held.find(option) if not option.startswith("--pid") else (True, False, "")
                assert found, f"{name} advises {option} for SGLang {version}: {problem}"


def test_ids_are_the_ones_that_were_given_out(rules: tuple[Rule, ...]) -> None:
    """An id is never reused or renumbered: dashboards and runbooks name it."""
    assert [str(problem) for problem in lock_problems(rules, shipped_rules())] == []
    assert (shipped_rules() / LOCK_FILE).is_file()


def test_what_only_says_how_things_are_is_never_loud(rules: tuple[Rule, ...]) -> None:
    for rule in rules:
        loud = {case.severity for case in rule.cases} - {Severity.INFO}
        assert bool(loud) is not (rule.name in QUIET), rule.name


def test_no_rule_says_anything_about_nothing(rules: tuple[Rule, ...]) -> None:
    for rule in rules:
        verdict = judge_rule(rule, Signals()).verdict
        assert verdict is Verdict.UNKNOWN or (verdict is Verdict.CLEAR and all(c.optional for c in rule.cases))


def test_a_match_never_comes_from_less_than_an_example_gives(rules: tuple[Rule, ...]) -> None:
    """Every example that does not match must not match either when any one of its signals is missing."""
    for rule in rules:
        for test in rule.tests:
            if test.expect is Verdict.MATCH or rule.alone or rule.gate:
                continue
            for name in test.given:
                given = {n: Signal(v, "test", Confidence.CERTAIN) for n, v in test.given.items() if n != name}
                raw = judge_rule(rule, Signals(given))
                excusing = {n for c in (*rule.unless, *(c.unless for c in rule.cases if c.unless)) for n in c.names}
                assert raw.verdict is not Verdict.MATCH or name in excusing, f"{rule.name}, {test.name}, {name}"


def test_every_effect_is_told_beside_its_cause(rules: tuple[Rule, ...]) -> None:
    names = {rule.name for rule in rules}
    for rule in rules:
        assert set(rule.caused_by) <= names
        assert not rule.effect or rule.caused_by


def test_a_new_rule_is_one_new_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "too-many-tenants.yaml").write_text(NEW_RULE, encoding="utf-8")
    nowhere = tmp_path / "none"
    checked = check_rules([tmp_path], nowhere)
    rule = next(r for r in rules_in_force([tmp_path], system=nowhere) if r.name == "too-many-tenants")
    signals = Signals({"gpus.visible": Signal(2, "count", Confidence.CERTAIN)})
    finding = judge(Target(Scope.SERVER, "example"), signals, None, [rule])[0]

    assert [str(problem) for problem in checked.problems] == []
    assert run_inline_tests([rule]) == ()
    assert finding.summary == "Only 2 GPUs are here."
    assert "TEAM001 too-many-tenants" in explain_text(rule, 80)


NEW_RULE = """\
id: TEAM001
name: too-many-tenants
title: Fewer GPUs than this team was promised
status: preview
since: "1.0"
severity: warning
category: team
scope: server
signals: [gpus.visible]
when: gpus.visible < 8
confidence: certain
message: "Only {gpus.visible} GPUs are here."
explain:
  what: The host shows fewer GPUs than it was bought with.
  why: The launch of this team needs all eight of them.
  confirm: Count the GPUs that nvidia-smi -L lists here.
  fix: Ask the people who run this host.
  false_positives: A host that is shared with another team.
  blind_spots: GPUs that the container does not see.
tests:
  - {name: two, given: {gpus.visible: 2}, expect: match}
  - {name: eight, given: {gpus.visible: 8}, expect: clear}
"""
