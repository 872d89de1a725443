"""A prediction as a table with a chart of ranges, and as a JSON document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bubblewatch.report.words import duration, figure
from bubblewatch.theory.predict import Prediction, Span

SCHEMA_VERSION = 1
"""Of the document; raised when a key changes its meaning or goes away."""

BAR_COLUMNS = 32
"""Width of the chart."""

Rows = Sequence[tuple[str, Prediction]]


def prediction_text(now: Prediction, groups: Sequence[tuple[str, Rows]], first: tuple[str, Prediction] | None) -> str:
    """A table for each group, with the ranges on one scale, and what to try first."""
    rows = [row for _, group in groups for row in group]
    most = max([now.gen_tps[1], *(found.gen_tps[1] for _, found in rows)])
    width = max(len("now"), *(len(name) for name, _ in rows)) if rows else 3
    lines = [
        f"{'':{width}}  {'tok/s':>15}  {'a token takes':>17}  {'duty':>9}  slots x batch",
        _row("now", now, width, most),
    ]
    for title, group in groups:
        if group:
            lines += ["", title, *(_row(name, found, width, most) for name, found in group)]
    lines.append("")
    if first is None:
        lines.append("FIRST  nothing here is sure to gain: ranges that begin below now may gain or lose. Measure.")
    else:
        name, found = first
        least, highest = found.gen_tps[0] / now.gen_tps[0], found.gen_tps[1] / now.gen_tps[1]
        sure = f"at least x{least:.2f}, at most x{highest:.2f}" if least > 1.02 else f"may gain up to x{highest:.2f}"
        lines.append(f"FIRST  {name}: {sure}. One change at a time; bubblewatch compare shows what it brought.")
    lines.append(
        "Ranges are what is not known: how step time depends on the micro-batch, what launches and host work cost."
    )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _row(name: str, found: Prediction, width: int, most: float) -> str:
    slots = f"{found.filled} x {figure(found.batch)}"
    held = "" if found.admitted == found.plan.running else f", {found.plan.running - found.admitted} wait"
    return (
        f"{name:{width}}  {_span(found.gen_tps):>15}  {_times(found.token_s):>17}  {_percent(found.duty):>9}  "
        f"{slots + held:14} {_bar(found.gen_tps, most)}{' (memory bandwidth)' if found.capped else ''}"
    )


def _span(span: Span) -> str:
    low, high = figure(span[0]), figure(span[1])
    return low if low == high else f"{low}-{high}"


def _times(span: Span) -> str:
    low, high = duration(span[0]), duration(span[1])
    return low if low == high else f"{low}-{high}"


def _percent(span: Span) -> str:
    low, high = f"{100 * span[0]:.0f}", f"{100 * span[1]:.0f}"
    return f"{low} %" if low == high else f"{low}-{high} %"


def _bar(span: Span, most: float) -> str:
    """`####----`: what is sure, and what may be."""
    sure, may = (round(BAR_COLUMNS * math.sqrt(end / most)) for end in span)
    return "#" * sure + "-" * max(may - sure, 0)


def prediction_document(
    now: Prediction, groups: Sequence[tuple[str, Rows]], first: tuple[str, Prediction] | None
) -> dict[str, Any]:
    """The predictions as plain JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "now": _document(now),
        **{title: [{"change": name, **_document(found)} for name, found in group] for title, group in groups},
        "first": None if first is None else first[0],
    }


def _document(found: Prediction) -> dict[str, Any]:
    return {
        "running": found.plan.running,
        "admitted": found.admitted,
        "graphs": found.plan.graphs,
        "depth": found.plan.depth,
        "micro_batch": found.plan.micro_batch,
        "filled": found.filled,
        "batch": found.batch,
        "duty": list(found.duty),
        "gen_tps": list(found.gen_tps),
        "token_s": list(found.token_s),
        "is_capped": found.capped,
    }
