"""`bubblewatch demo`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import exit_code, print_answer
from bubblewatch.cli.top import looks
from bubblewatch.model.errors import UsageError

if TYPE_CHECKING:
    from bubblewatch.diagnose.rule import Rule
    from bubblewatch.sources.simulated import Scenario


@click.command(short_help="See it work on simulated GPUs.")
@click.argument("scenario", default="pp8-story")
@click.option("--plain", is_flag=True, help="Print the diagnosis and end.")
@click.option("--list", "list_them", is_flag=True, help="List the scenarios.")
@click.option("--speed", type=click.FloatRange(0.1, 1000), default=1.0, show_default=True, help="Times real time.")
@click.option("--seconds", type=click.FloatRange(1, 86_400), help="End the live picture after so much simulated time.")
@looks
@shared.judging
def demo(scenario: str, **options: Any) -> int:
    """Eight simulated GPUs under a simulated SGLang, through the whole live stack. No GPU needed.

    The default scenario is the story bubblewatch was born from: a model over eight pipeline stages that gives a
    tenth of what the hardware can. Exit codes are those of `diagnose`: the story has findings, so it exits 1.

    \b
    Examples:
      bubblewatch demo                     the dashboard; s plays another scenario, q ends it
      bubblewatch demo --plain             the diagnosis
      bubblewatch demo --list
      bubblewatch demo pp8-graphs-on --json
    """
    from bubblewatch.app.demo import demo_snapshot, play, scenarios
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.app.top import can_show

    known = scenarios()
    if options["list_them"]:
        _print_list(known, as_json=options["as_json"])
        return 0
    if scenario not in known:
        raise UsageError(f"no scenario is called {scenario!r}", f"there are {', '.join(known)}")
    rules = rules_in_force(options["rule_folders"], options["ignore"])
    if options["plain"] or options["as_json"] or not sys.stdout.isatty():
        snapshot = demo_snapshot(known[scenario], rules, options["ignore"])
    elif can_show(os.environ):
        return _on_the_screen(scenario, rules, options)
    else:
        snapshot = play(known[scenario], rules, options["ignore"], options["speed"], options["seconds"])
    code = exit_code(snapshot, options["fail_on"])
    print_answer(snapshot, options, code)
    if not options["as_json"]:
        click.echo(_next_steps(scenario))
    return code


def _on_the_screen(scenario: str, rules: Sequence[Rule], options: dict[str, Any]) -> int:
    """Play it in the dashboard. Exit codes are those of the last picture, or tell of a crash or a signal."""
    from bubblewatch.app.top import Looks, show
    from bubblewatch.app.top_sources import DemoFeeds

    feeds = DemoFeeds(scenario, rules, options["ignore"], options["speed"], options["seconds"])
    last, code = show(feeds, rules, Looks(options["colours"] or "", options["ascii_signs"]))
    if code or last is None:
        return code
    click.echo(_next_steps(feeds.title))
    return exit_code(last.snapshot, options["fail_on"])


def _print_list(known: Mapping[str, Scenario], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({name: scenario.description for name, scenario in known.items()}, indent=2))
        return
    width = max(map(len, known))
    for name, scenario in known.items():
        click.echo(f"{name:{width}}  {scenario.description}")


def _program() -> str:
    """The command as this shell finds it: its name if that is on PATH, else the script beside this Python."""
    beside = Path(sys.executable).with_name("bubblewatch")
    if shutil.which("bubblewatch") or not beside.exists():
        return "bubblewatch"
    return shlex.quote(os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside))


def _next_steps(scenario: str) -> str:
    other = "pp8-graphs-on" if scenario == "pp8-story" else "pp8-story"
    me = _program()
    return f"""
This was simulated. Next:
  {me} demo {other} --plain      what it says of another fault
  {me} demo --list{" " * len(other)}        all of them
  {me} doctor; {me} diagnose    your own machine"""
