"""`bubblewatch rules …`: the catalogue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import EXIT_FINDINGS, columns
from bubblewatch.model.errors import UsageError


@click.group(short_help="The catalogue: list, explain, lint, test.")
def rules() -> None:
    """List, explain and check the rules that make findings.

    Rules of your own go into /etc/bubblewatch/rules.d or a folder given with --rules. A rule there with the id of a
    shipped one replaces it; a file disable.yaml with `disable: [BW608, idle-spin]` takes rules out.
    """


@rules.command("list")
@shared.rule_folders
@shared.as_json
def list_rules(rule_folders: Sequence[Path], as_json: bool) -> int:
    """Every rule: id, name, severity, status, and what it means."""
    from bubblewatch.app.rules import rules_in_force

    found = rules_in_force(rule_folders)
    if as_json:
        rows = [
            {
                "id": rule.id,
                "name": rule.name,
                "severity": rule.severity.word,
                "status": str(rule.status),
                "category": rule.category,
                "scope": str(rule.scope),
                "title": rule.title,
                "path": rule.path,
            }
            for rule in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return 0
    width = max((len(rule.name) for rule in found), default=0)
    for rule in found:
        click.echo(f"{rule.id}  {rule.name:{width}}  {rule.severity.word:8}  {rule.status!s:10}  {rule.title}")
    return 0


@rules.command()
@click.argument("name")
@shared.rule_folders
def explain(name: str, rule_folders: Sequence[Path]) -> int:
    """What a finding means, what it costs, how to confirm and to mend it. NAME is a rule's name or id."""
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.diagnose.condition import nearest
    from bubblewatch.diagnose.explain import explain_text, find

    found = rules_in_force(rule_folders)
    rule = find(found, name)
    if rule is None:
        hint = nearest(name.strip().lower(), [r.name for r in found]).removeprefix("; ")
        raise UsageError(f"no rule is called {name!r}", hint or "bubblewatch rules list shows them")
    click.echo(explain_text(rule, columns()))
    return 0


@rules.command()
@shared.rule_folders
def lint(rule_folders: Sequence[Path]) -> int:
    """Check every rule file; all problems at once, each with its place. Exits 1 when there is one."""
    from bubblewatch.app.rules import check_rules

    checked = check_rules(rule_folders)
    for problem in checked.problems:
        click.echo(problem)
    count = len(checked.problems)
    click.echo(f"{len(checked.rules)} rules, {count} problem{'' if count == 1 else 's'}", err=True)
    return EXIT_FINDINGS if count else 0


@rules.command("test")
@shared.rule_folders
def run_tests(rule_folders: Sequence[Path]) -> int:
    """Run the examples that stand in the rule files. Exits 1 when one fails."""
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.diagnose.selftest import run_inline_tests

    found = rules_in_force(rule_folders)
    failures = run_inline_tests(found)
    for failure in failures:
        click.echo(failure)
    count = sum(len(rule.tests) for rule in found)
    click.echo(f"{count} examples in {len(found)} rules, {len(failures)} failed", err=True)
    return EXIT_FINDINGS if failures else 0


@rules.command()
def schema() -> int:
    """The JSON schema of a rule file, for editors."""
    from bubblewatch.diagnose.rule_schema import schema_text

    click.echo(schema_text(), nl=False)
    return 0


@rules.command(hidden=True)
def lock() -> int:
    """Write down the ids of the shipped rules, at a release: what they are called must not change afterwards."""
    from bubblewatch.app.rules import write_lock

    click.echo(write_lock())
    return 0
