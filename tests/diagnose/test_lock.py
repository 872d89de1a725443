from __future__ import annotations

import dataclasses
from pathlib import Path

from bubblewatch.diagnose.lock import LOCK_FILE, lock_problems, lock_text
from bubblewatch.diagnose.rule import Rule
from tests.diagnose.make import rule

RELEASED = rule()


def problems(rules: list[Rule], folder: Path) -> list[str]:
    (folder / LOCK_FILE).write_text(lock_text([RELEASED]), encoding="utf-8")
    return [str(problem) for problem in lock_problems(rules, folder)]


def test_what_was_released_stays(tmp_path: Path) -> None:
    assert problems([RELEASED], tmp_path) == []


def test_an_id_of_another_meaning_is_refused(tmp_path: Path) -> None:
    found = problems([dataclasses.replace(RELEASED, name="other-rule")], tmp_path)
    assert len(found) == 1
    assert "BWL015: BW999 was released as example-rule" in found[0]


def test_a_released_rule_does_not_vanish(tmp_path: Path) -> None:
    assert "BWL015: BW999 (example-rule) was released and is gone" in problems([], tmp_path)[0]


def test_a_new_rule_needs_no_entry(tmp_path: Path) -> None:
    assert problems([RELEASED, dataclasses.replace(RELEASED, id="BW998", name="new-rule")], tmp_path) == []


def test_a_folder_without_a_lock_has_nothing_to_keep(tmp_path: Path) -> None:
    assert lock_problems([], tmp_path) == ()


def test_locking_again_adds_and_never_changes() -> None:
    before = lock_text([RELEASED])
    renamed = dataclasses.replace(RELEASED, name="other-rule")
    new = dataclasses.replace(RELEASED, id="BW100", name="new-rule")
    assert lock_text([renamed, new], before).splitlines()[1:] == ["BW100 new-rule", "BW999 example-rule"]
