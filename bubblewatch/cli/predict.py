"""`bubblewatch predict`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bubblewatch.cli import options as shared
from bubblewatch.model.errors import UsageError

_STATED = ("stages", "step_ms", "running", "duty")


@click.command(short_help="What other settings would bring.")
@click.argument("folder", type=click.Path(path_type=Path), required=False, metavar="[DIR]")
@click.option("--server", metavar="KEY", help="Which server, where there are several.")
@click.option("--stages", type=click.IntRange(2, 1024), metavar="N", help="Stated: pipeline stages.")
@click.option("--step-ms", type=click.FloatRange(0.01, 60_000), metavar="MS", help="Stated: time of a decode step.")
@click.option("--running", type=click.IntRange(1, 100_000), metavar="N", help="Stated: requests that run in all.")
@click.option("--filled", type=click.IntRange(1, 1024), default=1, show_default=True, help="Stated: filled slots.")
@click.option("--duty", type=click.FloatRange(0.001, 1), metavar="0..1", help="Stated: share of time a stage works.")
@click.option("--graphs/--no-graphs", default=True, show_default=True, help="Stated: decode runs in CUDA graphs.")
@click.option("--depth", type=click.IntRange(0, 64), default=0, show_default=True, help="Stated: async depth.")
@click.option("--capacity", type=click.IntRange(1, 100_000), metavar="N", help="Stated: requests a slot may hold.")
@click.option("--most-tps", type=click.FloatRange(0.001), metavar="RATE", help="Stated: limit by memory bandwidth.")
@click.option("--layers", metavar="A,B,...", help="Stated: layers of each stage.")
@click.option("--with-running", type=click.IntRange(1, 100_000), metavar="N", help="Also predict: so many requests.")
@click.option("--with-micro-batch", type=click.IntRange(1, 100_000), metavar="N", help="Also predict: this slot size.")
@click.option("--with-depth", type=click.IntRange(0, 64), metavar="N", help="Also predict: this async depth.")
@click.option("--with-graphs", is_flag=True, help="Also predict: with CUDA graphs.")
@click.option("--with-layers", metavar="A,B,...", help="Also predict: this layer split.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="Live: how long.")
@shared.as_json
def predict(folder: Path | None, **options: Any) -> int:
    """What the pipeline would do with other settings: tokens a second, time of a token and duty, each as the range
    that the unknowns leave. From a recording, from this machine when nothing else is given, or from stated numbers.

    \b
    Examples:
      bubblewatch predict before
      sudo bubblewatch predict
      bubblewatch predict --stages 8 --step-ms 83.7 --running 8 --duty 0.07 --no-graphs
      bubblewatch predict before --with-graphs --with-micro-batch 4 --with-running 32
    """
    from bubblewatch.app.predict import answer
    from bubblewatch.report.predict_text import prediction_document, prediction_text

    base, depth_available = _base(folder, options)
    found = answer(base, depth_available=depth_available, wanted=_wanted(base.plan, options))
    groups = [("changes", found.changes), ("loads", found.loads)]
    if found.custom is not None:
        groups.insert(0, ("asked", (found.custom,)))
    if options["as_json"]:
        click.echo(json.dumps(prediction_document(found.now, groups, found.first), indent=2))
        return 0
    titles = {
        "asked": "As asked",
        "changes": f"Changes at {base.plan.running} running",
        "loads": "The settings of now at other loads",
    }
    click.echo(prediction_text(found.now, [(titles[name], rows) for name, rows in groups], found.first), nl=False)
    return 0


def _base(folder: Path | None, options: dict[str, Any]) -> Any:
    from bubblewatch.app.predict import from_recording, from_this_machine
    from bubblewatch.app.replay import Span

    given = [name for name in _STATED if options[name] is not None]
    if folder is not None:
        if given:
            raise UsageError("a recording says these numbers itself", "leave DIR or --stages and the others out")
        return from_recording(folder, Span(), options["server"])
    if given:
        return _stated(options)
    from bubblewatch.app.live import LiveOptions
    from bubblewatch.app.rules import rules_in_force

    return from_this_machine(LiveOptions(seconds=options["seconds"]), rules_in_force(), options["server"])


def _stated(options: dict[str, Any]) -> Any:
    from bubblewatch.theory.predict import Base
    from bubblewatch.theory.what_if import Measured

    lacking = [f"--{name.replace('_', '-')}" for name in _STATED if options[name] is None]
    if lacking:
        raise UsageError(f"stated numbers lack {', '.join(lacking)}")
    now = Measured(
        stages=options["stages"],
        step_s=options["step_ms"] / 1e3,
        filled=options["filled"],
        running=float(options["running"]),
        duty=options["duty"],
        graphs=options["graphs"],
        depth=options["depth"],
    )
    return Base(now, options["capacity"], _layers(options["layers"]), options["most_tps"]), True


def _wanted(now: Any, options: dict[str, Any]) -> Any:
    from dataclasses import replace

    names = ("with_running", "with_micro_batch", "with_depth", "with_layers")
    if not options["with_graphs"] and all(options[name] is None for name in names):
        return None
    return replace(
        now,
        running=options["with_running"] or now.running,
        graphs=now.graphs or options["with_graphs"],
        depth=now.depth if options["with_depth"] is None else options["with_depth"],
        micro_batch=options["with_micro_batch"],
        layers=_layers(options["with_layers"]),
    )


def _layers(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} is no list of layers", "for example 8,8,8,8,8,7,7,7") from error
