"""`bubblewatch diagnose`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import EXIT_INTERRUPTED, exit_code, print_answer
from bubblewatch.model.errors import UsageError

if TYPE_CHECKING:
    from bubblewatch.app.offline import EvidenceFiles


@click.command()
@click.option("--unit", metavar="NAME", help="Only the server of this systemd unit.")
@click.option("--container", metavar="ID", help="Only the server in this container (its id or the start of it).")
@click.option("--pid", type=click.IntRange(1), help="Only the server that this process belongs to.")
@click.option("--seconds", type=click.FloatRange(1, 86_400), default=30.0, show_default=True, help="How long to watch.")
@click.option("--since", metavar="TIME", help="How far back to read the log: 15m, 2h, or 2026-12-01T14:00.")
@shared.nvml_reading
@click.option("--command", metavar="CMD|FILE|-", help="The launch command, or a file that holds it.")
@click.option("--unit-file", metavar="FILE", help="A systemd unit file that launches the server.")
@click.option("--log", "log_path", metavar="FILE|-", help="The server's log.")
@click.option("--telemetry", metavar="FILE|-", help="What nvidia-smi --query-gpu ... --format=csv printed.")
@click.option("--server", metavar="KIND", help="sglang, vllm, ...; found from the evidence when not given.")
@click.option("--server-version", metavar="VERSION", help="Version of the server.")
@shared.model_files
@shared.stated_facts
@shared.judging
def diagnose(**options: Any) -> int:
    """Say why the GPUs are idle and what to change.

    Without evidence files it watches this machine: NVML, the servers it finds, their journal. With --command,
    --unit-file, --log or --telemetry it judges those files alone, with no GPU at hand.

    \b
    Examples:
      bubblewatch diagnose
      sudo bubblewatch diagnose --unit sglang.service --seconds 60
      bubblewatch diagnose --command launch.sh --log server.log --running 8
      nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv -lms 500 > smi.csv
      bubblewatch diagnose --unit-file k26.service --telemetry smi.csv
      bubblewatch diagnose --json | jq '.findings[0]'

    \b
    Exit codes: 0 healthy or quiet, 1 findings, 2 wrong usage or unreadable input,
    3 not enough evidence to judge, 130 interrupted (what was known is printed).
    """
    from bubblewatch.app.offline import EvidenceFiles

    files = EvidenceFiles(
        command=options["command"],
        unit_file=options["unit_file"],
        log=options["log_path"],
        telemetry=options["telemetry"],
        server=options["server"],
        version=options["server_version"],
        model_config=options["model_config"],
        stated=shared.stated_from(options),
    )
    return _from_files(files, options) if files.given else _from_this_machine(options)


def _from_files(files: EvidenceFiles, options: dict[str, Any]) -> int:
    from bubblewatch.app.offline import judge_files
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.model.clock import SystemClock

    live_only = [f"--{name}" for name in ("unit", "container", "pid", "gpus", "since") if options[name] is not None]
    if live_only:
        raise UsageError(
            f"{', '.join(live_only)} watches this machine, and evidence files are judged on their own",
            "leave one of the two out",
        )
    rules = rules_in_force(options["rule_folders"], options["ignore"])
    snapshot = judge_files(files, rules, options["ignore"], SystemClock().wall_ns())
    code = exit_code(snapshot, options["fail_on"])
    print_answer(snapshot, options, code)
    return code


def _from_this_machine(options: dict[str, Any]) -> int:
    from bubblewatch.app.live import LiveOptions, diagnose_live
    from bubblewatch.app.rules import rules_in_force

    chosen = LiveOptions(
        unit=options["unit"],
        container=options["container"],
        pid=options["pid"],
        gpus=options["gpus"],
        seconds=options["seconds"],
        since=options["since"],
        rate_hz=options["rate"],
        nvml=not options["no_nvml"],
        stated=shared.stated_from(options),
        version=options["server_version"],
        model_config=options["model_config"],
        ignore=options["ignore"],
    )
    rules = rules_in_force(options["rule_folders"], options["ignore"])
    snapshot, interrupted = diagnose_live(chosen, rules, None if options["as_json"] else sys.stderr)
    code = EXIT_INTERRUPTED if interrupted else exit_code(snapshot, options["fail_on"])
    print_answer(snapshot, options, code)
    return code
