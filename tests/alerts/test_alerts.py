"""The alert rules: promtool's own tests, and that there are the wanted ones and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bubblewatch.app.rules import rules_in_force
from bubblewatch.exporter.catalogue import CATALOGUE
from bubblewatch.signals.gpu_seconds import CAUSES, UNSPLIT

ALERTS = Path(__file__).resolve().parents[2] / "rules" / "alerts"
PAGES = {"BubblewatchServerHung", "BubblewatchGpuLost", "BubblewatchServerRestarts"}
TICKETS = {
    "BubblewatchGpuHoursLost",
    "BubblewatchNewFindingAfterRestart",
    "BubblewatchSourceBlind",
    "BubblewatchDown",
}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ALERTS / "bubblewatch-alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool") or shutil.which("promtool", path=ALERTS.parents[1] / ".tools" / "usr" / "bin")
    if found is None:
        pytest.skip("promtool is not here: make test unpacks it")
    return found


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ALERTS)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_promtools_tests_pass(promtool: str) -> None:
    assert run(promtool, "check", "rules", "bubblewatch-recording.yaml", "bubblewatch-alerts.yaml") == ""
    assert run(promtool, "test", "rules", "bubblewatch-test.yaml") == ""


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("for: 3m", "for: 2m"),
        ("for: 30m", "for: 28m"),
        ("> 2.5", "> 1.5"),
        ("> 28800", "> 23000"),
        ('cause!="unsplit"', 'cause!=""'),
        ("> 600)", "> -1)"),
        ("[1d]) <", "[1d]) > 9 +"),
        ("unless on (job, instance, uuid)", "and on (job, instance, uuid)"),
    ],
)
def test_promtools_tests_see_a_changed_alert(promtool: str, tmp_path: Path, found: str, instead: str) -> None:
    for path in ALERTS.glob("*.yaml"):
        text = path.read_text()
        if path.name == "bubblewatch-alerts.yaml":
            assert found in text
            text = text.replace(found, instead)
        (tmp_path / path.name).write_text(text)

    assert run(promtool, "test", "rules", str(tmp_path / "bubblewatch-test.yaml")) != ""


def test_there_are_the_wanted_alerts_and_no_other() -> None:
    by_severity = {rule["alert"]: rule["labels"]["severity"] for rule in alerts()}

    assert by_severity == dict.fromkeys(PAGES, "page") | dict.fromkeys(TICKETS, "ticket")


def test_every_alert_is_tested_firing_and_not_firing() -> None:
    tests = yaml.safe_load((ALERTS / "bubblewatch-test.yaml").read_text())["tests"]
    cases = [case for test in tests for case in test.get("alert_rule_test", [])]
    for name in PAGES | TICKETS:
        fires = [bool(case.get("exp_alerts")) for case in cases if case["alertname"] == name]
        assert fires.count(True) >= 1, name
        assert fires.count(False) >= 2, name


def test_every_alert_leads_to_a_page_that_the_daemon_has() -> None:
    names = {rule.name for rule in rules_in_force()}
    for rule in alerts():
        url = rule["annotations"]["runbook_url"]
        assert url.startswith("http://{{ $labels.instance }}/"), rule["alert"]
        path = url.removeprefix("http://{{ $labels.instance }}")
        kind, name = re.fullmatch(r"/(rules|-)/(.+)", path).groups()  # type: ignore[union-attr]  # else it fails here
        assert kind == "-" or "$labels" in name or name in names, rule["alert"]


def test_every_cause_that_time_is_lost_to_has_a_page() -> None:
    assert {rule.name for rule in rules_in_force()} >= set(CAUSES) - {UNSPLIT}


def test_no_alert_repeats_a_threshold_of_a_rule() -> None:
    """Findings and counters only: a signal of a server or GPU is judged in the rule files."""
    allowed = {name for name in CATALOGUE if re.search(r"_total$|_info$|finding|source_up|timestamp", name)}
    allowed |= {"bubblewatch_process_start_time_seconds"}
    for rule in alerts():
        for name in re.findall(r"(?<![:\w])bubblewatch_[a-z_0-9]+", rule["expr"]):
            assert name in allowed, rule["alert"]


def test_findings_that_alerts_name_are_rules() -> None:
    names = {rule.name for rule in rules_in_force()}
    for rule in alerts():
        assert set(re.findall(r'rule="([^"]+)"', rule["expr"])) <= names, rule["alert"]
