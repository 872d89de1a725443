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
    """List, explain and check the rules that make findings."""


@rules.command("list")
@shared.rule_folders
@shared.as_json
def list_rules(rule_folders: Sequence[Path], as_json: bool) -> int:
    """Every rule: id, name, severity, status, and what it means."""
    from bubblewatch.app.rules import rules_in_force

    found = sorted(rules_in_force(rule_folders), key=lambda rule: rule.id)
    if as_json:
        rows = [
            {"id": r.id, "name": r.name, "severity": r.severity.word, "status": str(r.status), "title": r.title}
            for r in found
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
    from bubblewatch.diagnose.explain import explain_text

    rule = next((r for r in rules_in_force(rule_folders) if name in (r.name, r.id)), None)
    if rule is None:
        raise UsageError(f"no rule is called {name!r}", "bubblewatch rules list shows them")
    click.echo(explain_text(rule, columns()))
    return 0


@rules.command()
@shared.rule_folders
def lint(rule_folders: Sequence[Path]) -> int:
    """Check every rule file; all problems at once, each with its place."""
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.diagnose.lint import lint as check

    found = rules_in_force(rule_folders)
    problems = check(found)
    for problem in problems:
        click.echo(problem)
    click.echo(f"{len(found)} rules, {len(problems)} problem{'' if len(problems) == 1 else 's'}", err=True)
    return EXIT_FINDINGS if problems else 0


@rules.command("test")
@shared.rule_folders
def run_tests(rule_folders: Sequence[Path]) -> int:
    """Run the examples that stand in the rule files."""
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.diagnose.lint import run_inline_tests

    found = rules_in_force(rule_folders)
    failures = run_inline_tests(found)
    for failure in failures:
        click.echo(failure)
    count = sum(len(rule.tests) for rule in found)
    click.echo(f"{count} examples in {len(found)} rules, {len(failures)} failed", err=True)
    return EXIT_FINDINGS if failures else 0
