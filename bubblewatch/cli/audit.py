"""`bubblewatch audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import EXIT_CANNOT_JUDGE, EXIT_FINDINGS, columns, exit_code, print_lines
from bubblewatch.model.errors import BubblewatchError

if TYPE_CHECKING:
    from bubblewatch.runtime.audit import Audit


@click.command(short_help="Judge a launch before it runs.")
@click.argument("files", nargs=-1, metavar="[FILE|-]...")
@click.option("--command", metavar="CMD|FILE|-", help="A launch command, or a file that holds it.")
@click.option("--unit-file", metavar="FILE|-", help="A systemd unit file.")
@click.option("--server", metavar="KIND", help="sglang, vllm, ...; found from the command when not given.")
@click.option("--server-version", metavar="VERSION", help="Version of the server; else that of its image's tag.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="github: workflow commands that show at the lines of a change.",
)
@shared.stated_facts
@shared.judging
def audit(**options: Any) -> int:
    """Judge a launch before it runs: the rules of `diagnose` on settings alone.

    A FILE is a start script, a systemd unit, a compose file, `docker inspect` JSON or a Kubernetes manifest; each
    inference server in it gets an answer. With --concurrency it predicts what so many requests will do.

    \b
    Examples:
      bubblewatch audit launch.sh --server-version 0.5.10 --concurrency 8
      bubblewatch audit compose.yml k8s/*.yaml --format github
      bubblewatch audit --command "vllm serve m -pp 8 --enforce-eager"
      docker inspect vllm-1 | bubblewatch audit - --json

    \b
    Exit codes: 0 nothing to act on, 1 findings or settings that do not fit the version,
    2 wrong usage, unreadable input, or no inference server in it.
    """
    form = "json" if options["as_json"] else options["output"]
    try:
        judged = _judged(options)
    except BubblewatchError as error:
        if form == "github":
            from bubblewatch.report.github import github_error

            click.echo(github_error(str(error)))
        raise
    code = exit_code(judged.snapshot, options["fail_on"])
    code = EXIT_FINDINGS if judged.has_problems else 0 if code == EXIT_CANNOT_JUDGE else code
    _print(judged, form, code)
    return code


def _judged(options: dict[str, Any]) -> Audit:
    from bubblewatch.app.audit import AuditRequest
    from bubblewatch.app.audit import audit as judge
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.model.clock import SystemClock

    request = AuditRequest(
        files=options["files"],
        command=options["command"],
        unit_file=options["unit_file"],
        server=options["server"],
        version=options["server_version"],
        stated=shared.stated_from(options),
    )
    rules = rules_in_force(options["rule_folders"], options["ignore"])
    return judge(request, rules, options["ignore"], SystemClock().wall_ns())


def _print(judged: Audit, form: str, code: int) -> None:
    if form == "json":
        from bubblewatch.report.audit_document import audit_document
        from bubblewatch.report.document import to_json

        click.echo(to_json(audit_document(judged)))
    elif form == "github":
        from bubblewatch.report.github import github_lines

        click.echo("".join(f"{line}\n" for line in github_lines(judged)), nl=False)
    else:
        from bubblewatch.report.audit_text import audit_lines

        print_lines(audit_lines(judged, columns(), code))
