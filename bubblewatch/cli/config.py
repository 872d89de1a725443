"""`bubblewatch config`: what the daemon would do, and why."""

from __future__ import annotations

import json
import os

import click

from bubblewatch.cli import options as shared

_FILE = click.option(
    "--config", "file", metavar="FILE", help="Instead of $BUBBLEWATCH_CONFIG or /etc/bubblewatch/config.toml."
)


@click.group(short_help="Check, show and describe the daemon's configuration.")
def config() -> None:
    """Check, show and describe the daemon's configuration.

    Flags of the daemon go over environment variables (BUBBLEWATCH_SERVE_LISTEN), those over the file, that over the
    defaults.

    \b
    Examples:
      bubblewatch config check --config bubblewatch.toml
      bubblewatch config show
      bubblewatch config schema > bubblewatch.schema.json
    """


@config.command()
@_FILE
def check(file: str | None) -> int:
    """Say whether the configuration and the files that it names can be followed; exit 2 when not."""
    from bubblewatch.app.config import load
    from bubblewatch.app.config_check import check_named_files

    loaded = load(file, os.environ)
    check_named_files(loaded.config)
    click.echo(f"{loaded.file or 'no file'}: fine, {len(loaded.origins)} settings differ in origin from the defaults")
    return 0


@config.command()
@_FILE
@shared.as_json
def show(file: str | None, as_json: bool) -> int:
    """Print every setting as it holds now, with its meaning and origin, as a file that could be used."""
    from bubblewatch.app.config import load
    from bubblewatch.app.config_show import as_document, as_toml

    loaded = load(file, os.environ)
    click.echo(json.dumps(as_document(loaded), indent=2) if as_json else as_toml(loaded))
    return 0


@config.command()
def schema() -> int:
    """Print the JSON Schema of the file."""
    from bubblewatch.app.config_show import schema as of_file

    click.echo(json.dumps(of_file(), indent=2))
    return 0
