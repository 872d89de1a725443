from __future__ import annotations

from pathlib import Path

import pytest

from bubblewatch.diagnose.loader import DISABLE_FILE, find_rules, load_rules, read_catalogue, shipped_rules
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


def test_a_later_folder_replaces_a_rule_by_its_id(tmp_path: Path) -> None:
    write(tmp_path / "shipped")
    write(
        tmp_path / "own",
        RULE.replace("title: An example", "title: Ours").replace("severity: warning", "severity: info"),
    )
    found = load_rules([tmp_path / "shipped", tmp_path / "own"])
    assert [(rule.id, rule.title) for rule in found] == [("BW999", "Ours")]
    assert [rule.title for rule in load_rules([tmp_path / "own", tmp_path / "shipped"])] == ["An example"]


def test_a_name_under_another_id_is_a_problem_and_no_replacement(tmp_path: Path) -> None:
    write(tmp_path / "shipped")
    write(tmp_path / "own", RULE.replace("BW999", "OWN001"))
    problems = [str(problem) for problem in find_rules([tmp_path / "shipped", tmp_path / "own"])[1]]
    assert any("name example-rule is also that of" in problem for problem in problems)


@pytest.mark.parametrize("word", ["BW999", "example-rule"])
def test_a_later_folder_takes_a_rule_out_by_id_or_name(tmp_path: Path, word: str) -> None:
    write(tmp_path / "shipped")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / DISABLE_FILE).write_text(f"disable: [{word}]\n", encoding="utf-8")
    found = read_catalogue([tmp_path / "shipped", tmp_path / "own"])
    assert (found.rules, found.problems, found.disabled) == ((), (), ("example-rule",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("disable: [exampel-rule]\n", "1:11: there is no rule 'exampel-rule'; did you mean 'example-rule'?"),
        ("disabled: [BW999]\n", "1:1: unknown key 'disabled'; did you mean 'disable'?"),
        ("disable: [", "no YAML"),
        ("disable: {a: b}\n", "'disable' must be a list of texts"),
    ],
)
def test_a_wrong_list_of_disabled_rules_is_pointed_at(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "shipped")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / DISABLE_FILE).write_text(text, encoding="utf-8")
    problems = [str(problem) for problem in find_rules([tmp_path / "shipped", tmp_path / "own"])[1]]
    assert any(message in problem for problem in problems), problems
