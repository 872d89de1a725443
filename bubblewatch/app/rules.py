"""Which rules hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.diagnose.lint import lint
from bubblewatch.diagnose.loader import load_rules, read_catalogue, shipped_rules
from bubblewatch.diagnose.lock import LOCK_FILE, lock_problems, lock_text
from bubblewatch.diagnose.rule import Rule
from bubblewatch.diagnose.yaml_text import Problem
from bubblewatch.model.errors import UsageError

SYSTEM_RULES = Path("/etc/bubblewatch/rules.d")
"""Rules of this host: they are read after the shipped ones and before those of `--rules`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Rules that could be read, and everything that is wrong with any file."""

    rules: tuple[Rule, ...]
    problems: tuple[Problem, ...]


def rule_folders(extra: Sequence[Path] = (), system: Path = SYSTEM_RULES) -> tuple[Path, ...]:
    """The folders of rules in the order in which they speak, the last one strongest. Raises: UsageError."""
    return (shipped_rules(), *((system,) if system.is_dir() else ()), *extra)


def rules_in_force(
    extra: Sequence[Path] = (), ignore: Sequence[str] = (), system: Path = SYSTEM_RULES
) -> tuple[Rule, ...]:
    """The shipped rules, those of the host and those of the `extra` folders; a later one with the same id wins.

    Raises RuleError with every problem in a rule file, UsageError when `ignore` names a rule that is not there.
    """
    rules = load_rules(rule_folders(extra, system))
    names = {rule.name for rule in rules}
    for name in ignore:
        if name not in names:
            raise UsageError(f"no rule is called {name!r}", "bubblewatch rules list shows them")
    return rules


def check_rules(extra: Sequence[Path] = (), system: Path = SYSTEM_RULES) -> Checked:
    """Every rule and every problem at once: of the files, of the catalogue, and of ids that were released.

    Raises: UsageError when a folder is not there or a file cannot be read.
    """
    folders = rule_folders(extra, system)
    found = read_catalogue(folders)
    shipped = read_catalogue(folders[:1])
    absent = (*found.disabled, *(Path(problem.place.path).stem for problem in found.problems))
    problems = (*found.problems, *lint(found.rules, folders[1:], absent))
    if not shipped.problems:
        problems += lock_problems(shipped.rules, folders[0])
    return Checked(found.rules, problems)


def write_lock() -> Path:
    """Add the shipped rules to their lock file; its path."""
    folder = shipped_rules()
    path = folder / LOCK_FILE
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.write_text(lock_text(load_rules([folder]), before), encoding="utf-8")
    return path
