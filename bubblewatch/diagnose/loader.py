"""Rule files of a folder to the catalogue, with every problem of every file reported together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bubblewatch.diagnose.rule import Rule
from bubblewatch.diagnose.schema import read_rule
from bubblewatch.diagnose.yaml_text import Problem
from bubblewatch.model.errors import Place, RuleError, UsageError

ALERTS_FOLDER = "alerts"
"""Folder beside the categories that holds Prometheus alert rules, which are not ours to read."""

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_rules(package: Path = _PACKAGE) -> Path:
    """The folder of the rules that come with the program: `_rules` inside the wheel, `rules` beside the package else.

    hatchling copies `rules/` into the wheel as `bubblewatch/_rules`; an editable install has no such copy.

    Raises: UsageError when neither is there.
    """
    for folder in (package / "_rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise UsageError(f"the rules that belong to {package} are missing", "install bubblewatch again")


def find_rules(folders: Sequence[Path]) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """Every rule below these folders in order of id, and everything that is wrong with the files.

    Raises: UsageError when a folder is not there or a file cannot be read.
    """
    rules: list[Rule] = []
    problems: list[Problem] = []
    for path in [path for folder in folders for path in _rule_files(folder)]:
        rule, found = read_rule(str(path), _read(path))
        problems += found
        if rule is not None and not found:
            rules.append(rule)
    problems += _clashes(rules)
    return tuple(sorted(rules, key=lambda rule: rule.id)), tuple(problems)


def load_rules(folders: Sequence[Path]) -> tuple[Rule, ...]:
    """Every rule below these folders in order of id.

    Raises: RuleError with all problems when any file has one; UsageError when a folder or file cannot be read.
    """
    rules, problems = find_rules(folders)
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise RuleError(f"{count} in the rules, first: {problems[0]}", problems=tuple(map(str, problems)))
    return rules


def _rule_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"there is no folder of rules at {folder}", "check --rules")
    found = [*folder.rglob("*.yaml"), *folder.rglob("*.yml")]
    return sorted(path for path in found if ALERTS_FOLDER not in path.relative_to(folder).parts[:-1])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: not UTF-8 text, byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _clashes(rules: Sequence[Rule]) -> list[Problem]:
    """Ids and names that two rules share, and names that no rule has."""
    problems = []
    for what in ("id", "name"):
        seen: dict[str, Rule] = {}
        for rule in rules:
            other = seen.setdefault(getattr(rule, what), rule)
            if other is not rule:
                message = f"{what} {getattr(rule, what)} is also that of {other.path}"
                problems.append(Problem(Place(rule.path), message))
    return problems
