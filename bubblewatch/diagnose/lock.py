"""What each id was released as: an id never changes its meaning, because dashboards, alerts and runbooks name it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bubblewatch.diagnose.rule import Rule
from bubblewatch.diagnose.yaml_text import Problem
from bubblewatch.model.errors import Place

LOCK_FILE = "rules.lock"
"""File of the shipped rule folder with one line `id name` for each released rule, in order of id."""

_HEAD = "# id and name of every released rule; written by `bubblewatch rules lock`, never changed by hand\n"


def lock_text(rules: Sequence[Rule], before: str = "") -> str:
    """The lock file for these rules: what was released before stays, new ones are added."""
    held = _entries(before) | {rule.id: rule.name for rule in rules if rule.id not in _entries(before)}
    return _HEAD + "".join(f"{identifier} {name}\n" for identifier, name in sorted(held.items()))


def lock_problems(rules: Sequence[Rule], folder: Path) -> tuple[Problem, ...]:
    """Released ids of `folder` that are gone or mean something else; () where there is no lock file."""
    path = folder / LOCK_FILE
    if not path.is_file():
        return ()
    by_id = {rule.id: rule for rule in rules}
    problems = []
    for identifier, name in _entries(path.read_text(encoding="utf-8")).items():
        rule = by_id.get(identifier)
        if rule is None:
            message = f"BWL015: {identifier} ({name}) was released and is gone; keep it with status deprecated"
            problems.append(Problem(Place(str(path)), message))
        elif rule.name != name:
            message = f"BWL015: {identifier} was released as {name}; a rule of another meaning needs a new id"
            problems.append(Problem(Place(rule.path), message))
    return tuple(problems)


def _entries(text: str) -> dict[str, str]:
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {words[0]: words[1] for words in lines if len(words) == 2}
