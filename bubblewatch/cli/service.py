"""`bubblewatch service`: the daemon under systemd."""

from __future__ import annotations

import json
import os

import click

from bubblewatch.cli import options as shared

EXIT_NOT_WELL = 3
"""Of `service status` when it is not installed or does not run, as with `systemctl status`."""


@click.group(short_help="The daemon under systemd: install, uninstall, status.")
def service() -> None:
    """The daemon under systemd: install, uninstall, status.

    \b
    Examples:
      sudo bubblewatch service install
      sudo bubblewatch service install --config /etc/bubblewatch/config.toml
      bubblewatch service install --print
      bubblewatch service status
      sudo bubblewatch service uninstall
    """


@service.command()
@click.option("--config", "file", metavar="FILE", help="Configuration that the service reads.")
@click.option(
    "--profile",
    type=click.Choice(["minimal", "host", "full"]),
    default="host",
    show_default=True,
    help="What it may see: minimal, any user's view; host, also journal and GPUs; full, also other users' "
    "environments and container logs.",
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="A further group of the service (repeatable).")
@click.option("--no-start", is_flag=True, help="Write the unit, start nothing.")
@click.option("--print", "only_print", is_flag=True, help="Print the unit instead of installing it.")
def install(file: str | None, profile: str, groups: tuple[str, ...], no_start: bool, only_print: bool) -> int:
    """Write the unit, start it now and at every boot. An older one is replaced."""
    from bubblewatch.app import service as app
    from bubblewatch.app.config import load
    from bubblewatch.app.service_unit import Profile

    loaded = load(file, os.environ)
    if only_print:
        click.echo(app.unit_of(loaded, Profile(profile), groups), nl=False)
    else:
        app.install(loaded, Profile(profile), groups, start=not no_start, say=click.echo)
    return 0


@service.command()
def uninstall() -> int:
    """Stop the service and remove its unit; state and configuration stay."""
    from bubblewatch.app import service as app

    app.uninstall(say=click.echo)
    return 0


@service.command()
@shared.as_json
def status(as_json: bool) -> int:
    """Say how the service stands; exit 3 when it is not installed or does not run."""
    from bubblewatch.app import service as app

    now = app.standing()
    click.echo(json.dumps(app.standing_document(now), indent=2) if as_json else app.standing_text(now))
    return 0 if now.is_well else EXIT_NOT_WELL
