"""Where rules come from: the program, the host, the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblewatch.app.rules import check_rules, rule_folders, rules_in_force
from bubblewatch.diagnose.loader import DISABLE_FILE, shipped_rules
from bubblewatch.model.errors import RuleError, UsageError

QUIETER = (shipped_rules() / "demand" / "idle-spin.yaml").read_text(encoding="utf-8")


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / f"{name.replace('_', '-')}.yaml").write_text(text, encoding="utf-8")
    return path


def test_the_host_and_then_the_command_line_have_the_last_word(tmp_path: Path) -> None:
    host = folder(tmp_path / "host", idle_spin=QUIETER.replace("severity: warning", "severity: info", 1))
    own = folder(tmp_path / "own", idle_spin=QUIETER.replace("title: GPUs spin", "title: Ours spin"))
    assert rule_folders([own], host) == (shipped_rules(), host, own)

    by_host = next(rule for rule in rules_in_force(system=host) if rule.id == "BW203")
    by_line = next(rule for rule in rules_in_force([own], system=host) if rule.id == "BW203")
    assert by_host.severity.word == "info"
    assert by_line.title.startswith("Ours spin")
    assert by_line.severity.word == "warning"


def test_a_host_without_rules_of_its_own_has_the_shipped_ones(tmp_path: Path) -> None:
    assert rule_folders((), tmp_path / "none") == (shipped_rules(),)


def test_a_rule_that_was_taken_out_is_not_missed_by_those_that_name_it(tmp_path: Path) -> None:
    own = folder(tmp_path / "own")
    (own / DISABLE_FILE).write_text("disable: [cuda-graph-disabled]\n", encoding="utf-8")
    assert "cuda-graph-disabled" not in {rule.name for rule in rules_in_force([own], system=tmp_path / "none")}
    assert [str(problem) for problem in check_rules([own], tmp_path / "none").problems] == []


def test_a_wrong_rule_names_every_problem_and_leaves_nothing_in_force(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", first="id: [", second="id: X\n")
    with pytest.raises(RuleError) as caught:
        rules_in_force([own], system=tmp_path / "none")
    assert len(caught.value.problems) > 2
    checked = check_rules([own], tmp_path / "none")
    assert {problem.place.path for problem in checked.problems} == {str(own / "first.yaml"), str(own / "second.yaml")}
    assert checked.rules


def test_an_accepted_risk_must_be_a_rule(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rule is called 'idle-spinn'"):
        rules_in_force(ignore=["idle-spinn"], system=tmp_path / "none")
