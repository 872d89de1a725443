"""`bubblewatch top`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from bubblewatch.cli import options as shared

Command = Callable[..., Any]


def looks(command: Command) -> Command:
    """How the screen should look."""
    colours = click.option(
        "--colours", "--colors", metavar="NAME", help="night, day, contrast, safe (for colour blindness) or mono."
    )
    signs = click.option("--ascii/--blocks", "ascii_signs", default=None, help="Signs to draw with.")
    return colours(signs(command))


@click.command(short_help="The dashboard.")
@click.option("--connect", metavar="URL", help="Show the daemon at this address, such as http://127.0.0.1:9736.")
@click.option("--alone", is_flag=True, help="Watch this machine in this process, even when a daemon runs.")
@click.option("--page", default="overview", metavar="NAME", help="Page to begin with: overview, pipeline, finding, …")
@looks
@shared.nvml_reading
@shared.rule_folders
@shared.accepted_risks
def top(**options: Any) -> int:
    """The dashboard: is anything wrong, where, why, and what to change.

    Shows the daemon of this machine when one runs, else watches by itself. `?` lists the keys. Without a terminal it
    prints a table every second.

    \b
    Examples:
      bubblewatch top
      bubblewatch top --connect http://127.0.0.1:9736
      bubblewatch top --alone --gpus 0-3 --page pipeline
      bubblewatch top --colours safe
    """
    from bubblewatch.app.live import LiveOptions
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.app.top import WINDOW_S, Looks, TopOptions, can_show, feeds_for, print_tables, show
    from bubblewatch.model.clock import SystemClock

    rules = rules_in_force(options["rule_folders"], options["ignore"])
    live = LiveOptions(
        gpus=options["gpus"],
        seconds=WINDOW_S,
        rate_hz=options["rate"],
        nvml=not options["no_nvml"],
        ignore=options["ignore"],
        one_shot=False,
    )
    feeds = feeds_for(TopOptions(options["connect"], options["alone"], live), rules, SystemClock())
    if can_show(os.environ):
        _, code = show(feeds, rules, Looks(options["colours"] or "", options["ascii_signs"], options["page"]))
    else:
        _, code = print_tables(feeds, moves=sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb")
    return code
