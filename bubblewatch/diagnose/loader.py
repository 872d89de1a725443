"""Rule files of folders to the catalogue, with every problem of every file reported together.

A later folder speaks last: its rule with the id of an earlier one replaces that, and the file `disable.yaml` in it
takes rules out by id or name:

    disable: [BW608, idle-spin]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.diagnose.condition import nearest
from bubblewatch.diagnose.rule import Rule
from bubblewatch.diagnose.schema import read_rule
from bubblewatch.diagnose.yaml_text import Problem, Text, read_yaml
from bubblewatch.model.errors import Place, RuleError, UsageError

ALERTS_FOLDER = "alerts"
"""Folder beside the categories that holds Prometheus alert rules, which are not ours to read."""

DISABLE_FILE = "disable.yaml"
"""File of a rule folder that takes rules of earlier folders out."""

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Rules in order of id, what is wrong with their files, and names of the rules that were taken out."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[Problem, ...] = ()
    disabled: tuple[str, ...] = ()


def shipped_rules(package: Path = _PACKAGE) -> Path:
    """The folder of the rules that come with the program: `_rules` inside the wheel, `rules` beside the package else.

    hatchling copies `rules/` into the wheel as `bubblewatch/_rules`; an editable install has no such copy.

    Raises: UsageError when neither is there.
    """
    for folder in (package / "_rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise UsageError(f"the rules that belong to {package} are missing", "install bubblewatch again")


def read_catalogue(folders: Sequence[Path]) -> Catalogue:
    """Every rule below these folders, the later folder winning, and everything that is wrong with the files.

    Raises: UsageError when a folder is not there or a file cannot be read.
    """
    rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    disabled: list[str] = []
    for folder in folders:
        own: list[Rule] = []
        for path in _rule_files(folder):
            rule, found = read_rule(str(path), _read(path))
            problems += found
            if rule is not None and not found:
                own.append(rule)
        problems += _clashes(own)
        rules.update((rule.id, rule) for rule in own)
        path = folder / DISABLE_FILE
        if path.is_file():
            names, found = _disabled(path, rules)
            problems += found
            disabled += [rules.pop(key).name for key, rule in list(rules.items()) if {rule.id, rule.name} & names]
    standing = sorted(rules.values(), key=lambda rule: rule.id)
    problems += _clashes(standing) if not problems else []
    return Catalogue(tuple(standing), tuple(problems), tuple(disabled))


def find_rules(folders: Sequence[Path]) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """Rules and problems of `read_catalogue`."""
    found = read_catalogue(folders)
    return found.rules, found.problems


def load_rules(folders: Sequence[Path]) -> tuple[Rule, ...]:
    """Every rule below these folders in order of id.

    Raises: RuleError with all problems when any file has one; UsageError when a folder or file cannot be read.
    """
    found = read_catalogue(folders)
    if found.problems:
        count = f"{len(found.problems)} problem{'s' if len(found.problems) > 1 else ''}"
        text = f"{count} in the rules, first: {found.problems[0]}"
        raise RuleError(text, problems=tuple(map(str, found.problems)))
    return found.rules


def _rule_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"there is no folder of rules at {folder}", "check --rules")
    found = [path for path in (*folder.rglob("*.yaml"), *folder.rglob("*.yml")) if path != folder / DISABLE_FILE]
    return sorted(path for path in found if ALERTS_FOLDER not in path.relative_to(folder).parts[:-1])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: not UTF-8 text, byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _disabled(path: Path, rules: Mapping[str, Rule]) -> tuple[set[str], tuple[Problem, ...]]:
    """Ids and names that the file takes out, and what is wrong with it."""
    file, top = read_yaml(str(path), _read(path))
    if top is None:
        return set(), tuple(file.problems)
    known = {word for rule in rules.values() for word in (rule.id, rule.name)}
    texts: Sequence[Text] = top.texts("disable")
    for text in texts:
        if str(text) not in known:
            text.complain(f"there is no rule '{text}'{nearest(str(text), known)}")
    top.close()
    return {str(text) for text in texts}, tuple(file.problems)


def _clashes(rules: Sequence[Rule]) -> list[Problem]:
    """Ids and names that two rules share."""
    problems = []
    for what in ("id", "name"):
        seen: dict[str, Rule] = {}
        for rule in rules:
            other = seen.setdefault(getattr(rule, what), rule)
            if other is not rule:
                message = f"{what} {getattr(rule, what)} is also that of {other.path}"
                problems.append(Problem(Place(rule.path), message))
    return problems
