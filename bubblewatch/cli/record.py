"""`bubblewatch record`, `replay`, `report`, `export` and `lost`: the flight recorder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from bubblewatch.cli import options as shared
from bubblewatch.cli.output import EXIT_INTERRUPTED, columns, exit_code, print_answer
from bubblewatch.model.errors import UsageError

_FOLDER = click.Path(path_type=Path)


@click.command(short_help="Record what is seen, to show it later.")
@click.option("--seconds", type=click.FloatRange(1, 604_800), default=60.0, show_default=True, help="How long.")
@click.option("--output", type=_FOLDER, required=True, metavar="DIR", help="The folder; a new session if it has some.")
@click.option("--demo", "scenario", metavar="SCENARIO", help="Record a simulated host, in simulated time.")
@click.option("--running", type=click.IntRange(1, 512), metavar="N", help="With --demo: requests in flight.")
@click.option("--unit", metavar="NAME", help="Only the server of this systemd unit.")
@click.option("--container", metavar="ID", help="Only the server in this container (its id or the start of it).")
@click.option("--pid", type=click.IntRange(1), help="Only the server that this process belongs to.")
@shared.nvml_reading
@shared.rule_folders
def record(**options: Any) -> int:
    """Record what is seen: readings, the log lines that mean something (redacted), launches, settings, findings.

    What a kill of the recorder loses is at most the last second. `bubblewatch run` records all the time.

    \b
    Examples:
      sudo bubblewatch record --seconds 300 --output before
      bubblewatch record --demo pp8-story --seconds 300 --output story
      bubblewatch replay before; bubblewatch report before --output before.html
    """
    from bubblewatch.app.record import record_live, record_scenario
    from bubblewatch.app.rules import rules_in_force

    rules = rules_in_force(options["rule_folders"])
    if options["scenario"] is None:
        if options["running"] is not None:
            raise UsageError("--running sets the load of a simulated host", "give --demo SCENARIO with it")
        done = record_live(_live_options(options), rules, options["output"], sys.stderr)
    else:
        from bubblewatch.app.demo import scenarios

        known = scenarios()
        if options["scenario"] not in known:
            raise UsageError(f"no scenario is called {options['scenario']!r}", f"there are {', '.join(known)}")
        done = record_scenario(
            known[options["scenario"]], rules, options["seconds"], options["output"], options["running"]
        )
    click.echo(f"{done.folder}: {done.seconds:.0f} s, {done.size_bytes / 1e6:.2f} MB, {done.snapshot.answer.value}")
    return EXIT_INTERRUPTED if done.interrupted else 0


def _live_options(options: dict[str, Any]) -> Any:
    from bubblewatch.app.live import LiveOptions

    same = {name: options[name] for name in ("unit", "container", "pid", "gpus", "seconds")}
    return LiveOptions(**same, rate_hz=options["rate"], nvml=not options["no_nvml"])


@click.command(short_help="Judge a recording again.")
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option("--from", "since", metavar="TIME", help="Begin there: 15m, 2h (ago) or 2026-12-01T14:00.")
@click.option("--until", metavar="TIME", help="End there; the answer is that of the end.")
@click.option("--speed", type=click.FloatRange(0.1, 10_000), help="Watch it so many times as fast as it happened.")
@click.option("--listen", metavar="HOST:PORT", help="Serve it as `run` would, at --speed (default 1).")
@shared.judging
def replay(folder: Path, **options: Any) -> int:
    """Judge a recording again, with the rules of today: the same watcher sees what was seen, on a clock that is moved.

    Without --from the last 15 minutes count. Exit codes are those of `diagnose`.

    \b
    Examples:
      bubblewatch replay before
      bubblewatch replay /var/lib/bubblewatch/recording --until 2026-12-01T14:00 --json
      bubblewatch replay before --speed 10
      bubblewatch replay before --speed 10 --listen 127.0.0.1:9800
    """
    from bubblewatch.app.replay import replay_recording, span_of
    from bubblewatch.app.rules import rules_in_force
    from bubblewatch.model.clock import SystemClock

    rules = rules_in_force(options["rule_folders"], options["ignore"])
    span = span_of(options["since"], options["until"], SystemClock().wall_ns())
    if options["listen"] is not None:
        from bubblewatch.app.replay_daemon import serve_recording

        return serve_recording(folder, span, rules, options["ignore"], options["speed"] or 1.0, options["listen"])
    if options["speed"] is not None:
        from bubblewatch.app.replay_daemon import show_recording

        show_recording(folder, span, rules, options["ignore"], options["speed"])
        return 0
    snapshot = replay_recording(folder, span, rules, options["ignore"])
    code = exit_code(snapshot, options["fail_on"])
    print_answer(snapshot, options, code)
    return code


@click.command(short_help="A recording as a page, text or Markdown.")
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option("--output", type=_FOLDER, metavar="FILE", help="FILE.html, FILE.md or FILE.txt; text on stdout without.")
@click.option("--from", "since", metavar="TIME", help="Begin there: 15m, 2h (ago) or 2026-12-01T14:00.")
@click.option("--until", metavar="TIME", help="End there.")
def report(folder: Path, output: Path | None, since: str | None, until: str | None) -> int:
    """What a recording shows: the verdict, where the GPU-seconds went, plots, findings with evidence, settings.

    The HTML file holds everything it needs: it opens without a network.

    \b
    Examples:
      bubblewatch report before
      bubblewatch report before --output before.html
      bubblewatch report /var/lib/bubblewatch/recording --from 24h --output yesterday.html
    """
    from bubblewatch.app.replay import span_of
    from bubblewatch.app.report import write_report
    from bubblewatch.model.clock import SystemClock

    text = write_report(folder, span_of(since, until, SystemClock().wall_ns()), output, columns())
    click.echo(text, nl=False)
    return 0


@click.command(short_help="A recording for other tools.")
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option("--format", "form", type=click.Choice(["perfetto", "csv"]), required=True, help="For which tool.")
@click.option("--output", type=_FOLDER, required=True, metavar="FILE", help="The file to write.")
@click.option("--from", "since", metavar="TIME", help="Begin there: 15m, 2h (ago) or 2026-12-01T14:00.")
@click.option("--until", metavar="TIME", help="End there.")
def export(folder: Path, form: str, output: Path, since: str | None, until: str | None) -> int:
    """A recording for other tools: a trace for ui.perfetto.dev, or one long CSV table.

    \b
    Examples:
      bubblewatch export before --format perfetto --output before.pftrace
      bubblewatch export before --format csv --output before.csv
    """
    from bubblewatch.app.replay import span_of
    from bubblewatch.app.report import write_export
    from bubblewatch.model.clock import SystemClock

    click.echo(write_export(folder, span_of(since, until, SystemClock().wall_ns()), form, output))
    return 0


@click.command(short_help="GPU-hours lost, over many recordings.")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@shared.as_json
def lost(folders: tuple[str, ...], as_json: bool) -> int:
    """GPU-hours and kWh lost by host, server, day and cause, over all recordings below the given folders.

    A folder may be a recording, hold recordings at any depth, or be a URL that fsspec knows (s3://bucket/recordings).

    \b
    Examples:
      bubblewatch lost /var/lib/bubblewatch/recording
      bubblewatch lost /srv/recordings --json
    """
    from bubblewatch.app.report import lost_output

    click.echo(lost_output(folders, as_json=as_json), nl=False)
    return 0
