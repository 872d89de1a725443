"""Which rules hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bubblewatch.diagnose.loader import load_rules, shipped_rules
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.errors import UsageError


def rules_in_force(extra: Sequence[Path] = (), ignore: Sequence[str] = ()) -> tuple[Rule, ...]:
    """The shipped rules and those of the `extra` folders.

    Raises RuleError with every problem in a rule file, UsageError when `ignore` names a rule that is not there.
    """
    rules = load_rules((shipped_rules(), *extra))
    names = {rule.name for rule in rules}
    for name in ignore:
        if name not in names:
            raise UsageError(f"no rule is called {name!r}", "bubblewatch rules list shows them")
    return rules
