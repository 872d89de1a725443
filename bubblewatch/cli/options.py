"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bubblewatch.signals.evidence import Stated

Command = Callable[..., Any]

MOST = 1_000_000_000
"""Bound on counts that a user states: beyond any server, and within what conditions compute with."""

_STATED = ("running", "queued", "concurrency", "layers", "gpu_model")


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    """`command` with these options, listed in this order in its help."""
    for option in reversed(options):
        command = option(command)
    return command


def rule_folders(command: Command) -> Command:
    """Where further rules are."""
    return click.option(
        "--rules",
        "rule_folders",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Further rules from this folder (repeatable).",
    )(command)


def accepted_risks(command: Command) -> Command:
    """Which findings the user lives with."""
    return click.option(
        "--ignore", multiple=True, metavar="NAME", help="Accept this finding as a risk: it stays visible (repeatable)."
    )(command)


def as_json(command: Command) -> Command:
    """For scripts."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for scripts.")(command)


def judging(command: Command) -> Command:
    """How to judge and how to answer."""
    fail_on = click.option(
        "--fail-on",
        type=click.Choice(["info", "warning", "critical"]),
        default="warning",
        show_default=True,
        help="Exit 1 from this severity up.",
    )
    return _with(command, rule_folders, accepted_risks, fail_on, as_json)


def stated_facts(command: Command) -> Command:
    """What the user knows about demand and model."""
    return _with(
        command,
        click.option("--running", type=click.IntRange(0, MOST), metavar="N", help="Requests that run now, in all."),
        click.option("--queued", type=click.IntRange(0, MOST), metavar="N", help="Requests that wait."),
        click.option(
            "--concurrency", type=click.IntRange(0, MOST), metavar="N", help="Requests the client keeps in flight."
        ),
        click.option("--layers", type=click.IntRange(1, MOST), metavar="N", help="Transformer layers of the model."),
        click.option("--gpu-model", metavar="NAME", help="Product name of the cards, where telemetry has none."),
    )


def stated_from(options: dict[str, Any]) -> Stated:
    """The facts that these options state."""
    from bubblewatch.signals.evidence import Stated

    return Stated(**{name: options[name] for name in _STATED})


def model_files(command: Command) -> Command:
    """Where the model's files are."""
    return click.option(
        "--model-config",
        metavar="DIR|FILE",
        help="The model's folder or config.json: what its size allows is then known.",
    )(command)


def nvml_reading(command: Command) -> Command:
    """What to read of the GPUs and how often."""
    return _with(
        command,
        click.option(
            "--gpus", metavar="LIST", help="Only these GPUs, by index or UUID (0,2 or 0-3); others get no call."
        ),
        click.option(
            "--rate",
            type=click.FloatRange(0.2, 1000),
            metavar="HZ",
            help="NVML readings a second; as often as the sensors refresh when not given, which is 10 as a rule.",
        ),
        click.option("--no-nvml", is_flag=True, help="Judge on logs and settings alone."),
    )
