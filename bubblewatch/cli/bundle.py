"""`bubblewatch bundle`: an archive for a bug report."""

from __future__ import annotations

import os

import click


@click.command(short_help="Make a redacted archive for a bug report.")
@click.option(
    "--output", metavar="FILE", default="bubblewatch-bundle.tar.gz", show_default=True, help="Where to write it."
)
@click.option("--url", default="http://127.0.0.1:9736", show_default=True, help="Where the daemon answers.")
@click.option("--list", "only_list", is_flag=True, help="List what would be in it; write nothing.")
def bundle(output: str, url: str, only_list: bool) -> int:
    """Make an archive for a bug report: versions, what can be seen, configuration, and what the daemon says.

    Secrets, host and user names and addresses are replaced. Nothing is sent anywhere: read it, then attach it.

    \b
    Examples:
      bubblewatch bundle --list
      sudo bubblewatch bundle --output report.tar.gz
    """
    from bubblewatch.app.bundle import collect, contents, write_bundle
    from bubblewatch.model.clock import SystemClock

    parts = collect(os.environ, url.rstrip("/"), SystemClock())
    click.echo(contents(parts), nl=False)
    if not only_list:
        size = write_bundle(output, parts)
        click.echo(f"\nwrote {output} ({size // 1024 + 1} KiB), which only you may read")
    return 0
