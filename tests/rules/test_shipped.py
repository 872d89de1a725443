"""Every rule that is shipped: it loads, lints, passes its examples, and never advises what a version does not have."""

from __future__ import annotations

import re

import pytest

from bubblewatch.diagnose.lint import lint
from bubblewatch.diagnose.loader import find_rules, shipped_rules
from bubblewatch.diagnose.rule import Advice, Rule
from bubblewatch.diagnose.selftest import run_inline_tests
from bubblewatch.servers.sglang.options import option_lists
from bubblewatch.servers.versions import Version

SGLANG_VERSIONS = ("0.4.3", "0.5.2", "0.5.6", "0.5.7", "0.5.10", "0.5.13", "0.5.14", "0.5.20", "0.5.23")

NAMES = {
    "async-depth-missing",
    "cuda-graph-disabled",
    "healthy",
    "idle-spin",
    "launch-bound",
    "low-concurrency",
    "micro-batch-unfilled",
    "no-demand",
    "pipeline-bubble",
    "server-hung",
    "startup-phase",
}


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
    assert {rule.name: rule.id for rule in rules if rule.name in NAMES} == {
        "healthy": "BW001",
        "pipeline-bubble": "BW101",
        "micro-batch-unfilled": "BW102",
        "async-depth-missing": "BW103",
        "low-concurrency": "BW201",
        "no-demand": "BW202",
        "idle-spin": "BW203",
        "cuda-graph-disabled": "BW301",
        "launch-bound": "BW302",
        "server-hung": "BW303",
        "startup-phase": "BW304",
    }
