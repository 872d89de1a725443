"""From a snapshot to what is printed, and to the exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bubblewatch.model.findings import Snapshot
    from bubblewatch.report.layout import Line

EXIT_FINDINGS, EXIT_USAGE, EXIT_CANNOT_JUDGE, EXIT_BUG, EXIT_INTERRUPTED = 1, 2, 3, 70, 130
"""Exit codes beside 0 (design §4). 70 is EX_SOFTWARE of sysexits.h; 130 is what shells give for Ctrl-C."""

WIDEST = 100
"""Columns beyond which lines of prose no longer read well."""

NARROWEST = 60
"""Columns below which the answer is not squeezed."""


def exit_code(snapshot: Snapshot, fail_on: str) -> int:
    """1 for a finding at or above `fail_on`, else 3 when a server cannot be judged, else 0."""
    from bubblewatch.diagnose.answer import is_judged
    from bubblewatch.model.findings import Severity

    least = Severity[fail_on.upper()]
    acted = [f for f in snapshot.findings if not f.held_back_by and not f.ignored and f.name != "healthy"]
    if any(f.severity >= least for f in acted):
        return EXIT_FINDINGS
    return 0 if all(is_judged(view.signals, view.findings) for view in snapshot.views) else EXIT_CANNOT_JUDGE


def print_answer(snapshot: Snapshot, options: dict[str, Any], code: int) -> None:
    """The answer on stdout: the JSON document with `--json`, else text that says what the exit code means."""
    from bubblewatch.report.document import snapshot_document, to_json
    from bubblewatch.report.text import answer_lines

    if options["as_json"]:
        click.echo(to_json(snapshot_document(snapshot)))
    else:
        print_lines(answer_lines(snapshot, columns(), code))


def print_lines(lines: list[Line]) -> None:
    """Styled lines on stdout, coloured where the terminal wants it."""
    from bubblewatch.report.layout import plain, styled, wants_color

    if not wants_color(sys.stdout.isatty(), os.environ):
        click.echo(plain(lines), nl=False)
        return
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(styled(lines))


def columns() -> int:
    """Columns to write for: the terminal's, within what reads well."""
    try:
        width = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return WIDEST
    return min(max(width, NARROWEST), WIDEST)
