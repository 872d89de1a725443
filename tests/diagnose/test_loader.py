from __future__ import annotations

from pathlib import Path

import pytest

from bubblewatch.diagnose.loader import find_rules, load_rules, shipped_rules
from bubblewatch.model.errors import RuleError, UsageError
from tests.diagnose.make import RULE


def write(folder: Path, text: str = RULE, name: str = "example-rule", category: str = "example") -> Path:
    path = folder / category / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_loads_rules_of_several_folders_in_order_of_id(tmp_path: Path) -> None:
    write(tmp_path / "ours")
    other = RULE.replace("BW999", "BW998").replace("example-rule", "another-rule")
    write(tmp_path / "theirs", other, "another-rule")
    assert [rule.id for rule in load_rules([tmp_path / "ours", tmp_path / "theirs"])] == ["BW998", "BW999"]


def test_reports_the_problems_of_all_files_together(tmp_path: Path) -> None:
    write(tmp_path, RULE.replace("demand.running >=", "demand.runing >="))
    write(tmp_path, "no: [rule", "another-rule")
    with pytest.raises(RuleError) as caught:
        load_rules([tmp_path])
    assert len(caught.value.problems) == 2
    assert f"{tmp_path}/example/another-rule.yaml:1:10: no YAML" in caught.value.problems[0]
    assert f"{tmp_path}/example/example-rule.yaml:12:6: undeclared" in caught.value.problems[1]
    assert "2 problems in the rules" in str(caught.value)


def test_two_rules_of_one_id_or_name_are_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    problems = [str(problem) for problem in find_rules([tmp_path])[1]]
    assert any("id BW999 is also that of" in problem for problem in problems)
    assert any("name example-rule is also that of" in problem for problem in problems)


def test_alert_rules_are_not_read(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "groups: []", "bubblewatch", "alerts")
    assert len(load_rules([tmp_path])) == 1


def test_a_missing_folder_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder of rules"):
        load_rules([tmp_path / "nowhere"])


def test_bytes_that_are_no_text_are_an_error_with_the_place(tmp_path: Path) -> None:
    write(tmp_path).write_bytes(b"id: \xff\xfe")
    with pytest.raises(RuleError, match="not UTF-8 text, byte 4"):
        load_rules([tmp_path])


def test_finds_the_rules_inside_the_package_before_those_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "bubblewatch"
    package.mkdir()
    with pytest.raises(UsageError, match="are missing"):
        shipped_rules(package)
    (tmp_path / "rules").mkdir()
    assert shipped_rules(package) == tmp_path / "rules"
    (package / "_rules").mkdir()
    assert shipped_rules(package) == package / "_rules"
