"""`bubblewatch run` and `bubblewatch doctor`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import EXIT_CANNOT_JUDGE, columns

_FLAGS: Mapping[str, str] = {
    "gpus": "gpus",
    "rate": "rate_hz",
    "no_nvml": "nvml",
    "listen": "listen",
    "rule_folders": "rules",
    "ignore": "ignore",
}
"""Option -> field of the configuration that it sets."""


@click.command(short_help="Watch all the time: the daemon.")
@click.option("--config", "file", metavar="FILE", help="TOML; see bubblewatch config --help.")
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Where to serve HTTP, also unix:/path (repeatable).  [default: 127.0.0.1:9736]",
)
@click.option("--demo", "scenario", metavar="SCENARIO", help="Watch a simulated host instead of this one.")
@shared.nvml_reading
@shared.rule_folders
@shared.accepted_risks
@click.pass_context
def run(context: click.Context, /, file: str | None, scenario: str | None, **options: Any) -> int:
    """Watch all the time: the daemon, with metrics and findings over HTTP.

    \b
      /metrics             for Prometheus
      /api/v1/snapshot     the diagnosis as JSON
      /-/healthy  /-/ready

    Options go over environment variables, those over the configuration file. SIGHUP reads it again.

    \b
    Examples:
      bubblewatch run
      bubblewatch run --listen 127.0.0.1:9800 --gpus 0-3
      bubblewatch run --config /etc/bubblewatch/config.toml
      bubblewatch run --demo pp8-story
    """
    from bubblewatch.app.daemon import DaemonOptions, run_daemon

    given = {
        _FLAGS[name]: value
        for name, value in options.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if "nvml" in given:
        given["nvml"] = not given["nvml"]
    if "rules" in given:
        given["rules"] = tuple(map(str, given["rules"]))
    return run_daemon(DaemonOptions(file, os.environ, given, scenario))


@click.command(short_help="Say what can be seen from here.")
@click.option("--unit", metavar="NAME", help="Also say what can be seen of this systemd unit.")
@shared.as_json
def doctor(unit: str | None, as_json: bool) -> int:
    """Say what can be seen from here, what cannot, which findings that loses, and what mends it.

    Exits 0 when GPUs and servers can be judged from here, 3 when not.

    \b
    Examples:
      bubblewatch doctor
      bubblewatch doctor --unit sglang.service
      bubblewatch doctor --json
    """
    from bubblewatch.app.doctor import examine, report_document, report_text
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.model.clock import SystemClock

    report = examine(unit, rules_in_force(), SystemClock())
    click.echo(json.dumps(report_document(report), indent=2) if as_json else report_text(report, columns()))
    return 0 if report.sees_enough else EXIT_CANNOT_JUDGE
