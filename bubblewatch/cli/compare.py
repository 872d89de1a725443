"""`bubblewatch compare`."""

from __future__ import annotations

from pathlib import Path

import click

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import EXIT_CANNOT_JUDGE, EXIT_FINDINGS

_FOLDER = click.Path(path_type=Path)


@click.command(short_help="Did it help? Two recordings, or before and after.")
@click.argument("before", type=_FOLDER, metavar="A")
@click.argument("after", type=_FOLDER, required=False, metavar="[B]")
@click.option("--around-restart", metavar="SERVER", help="In A: before and after the last restart of this server.")
@click.option("--split", metavar="TIME", help="In A: before and after this time (15m ago, 2026-12-01T14:00).")
@click.option("--server", metavar="KEY", help="Which server, where a recording has several.")
@click.option("--require-better", is_flag=True, help="Exit 1 for everything but better and not comparable.")
@shared.as_json
def compare(
    before: Path,
    after: Path | None,
    around_restart: str | None,
    split: str | None,
    server: str | None,
    *,
    require_better: bool,
    as_json: bool,
) -> int:
    """Whether a change helped: tokens a second and energy of a token at the same number of requests, beyond noise.

    \b
    Examples:
      bubblewatch compare before after
      bubblewatch compare /var/lib/bubblewatch/recording --around-restart sglang-k26
      bubblewatch compare before after --json

    \b
    Exit codes: 0 better or no difference that can be seen, 1 worse, 2 wrong usage or unreadable input,
    3 not comparable (the reason is printed).
    """
    from bubblewatch.app.compare import CompareRequest, compare_recordings, comparison_output
    from bubblewatch.model.clock import SystemClock

    request = CompareRequest(before, after, split, around_restart, server)
    found = compare_recordings(request, SystemClock().wall_ns())
    click.echo(comparison_output(found, as_json=as_json), nl=False)
    match found.outcome.value:
        case "not comparable":
            return EXIT_CANNOT_JUDGE
        case "worse":
            return EXIT_FINDINGS
        case "no difference":
            return EXIT_FINDINGS if require_better else 0
        case _:
            return 0
