"""What the screen saw since it was opened: a few numbers over time, and what began and ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bubblewatch.tui import words
from bubblewatch.tui.charts import Cell
from bubblewatch.tui.glyphs import Glyphs
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, beside, cut, duty_ink, line, padded, runs, shown
from bubblewatch.tui.room import Moment, Room, Scene, Sheet

LABEL = 10
"""Columns before a curve."""

VALUE = 9
"""Columns after it, for the value now."""

_CURVES: tuple[tuple[str, Callable[[Moment], float | None], bool], ...] = (
    ("S", lambda moment: moment.stages_busy, False),
    ("work", lambda moment: moment.duty, True),
    ("tok/s", lambda moment: moment.gen_tps, False),
    ("running", lambda moment: moment.running, False),
)
"""Name, what is drawn, and whether it is a ratio (its top is then 1 instead of the highest value seen)."""


def history_page(scene: Scene, room: Room) -> Sheet:
    """Curves as tall as there is room for, then happenings, the newest first."""
    moments = scene.memory.moments
    if len(moments) < 2:
        return Sheet((EMPTY, line(Span("  Nothing to look back on yet.", Ink.FAINT))))
    columns = room.columns - LABEL - VALUE
    lines = [_head(moments, room)]
    stages = scene.view.signals.number("pipeline.stages") if scene.view else None
    rows = min(max((room.rows - 12) // len(_CURVES), 1), 3)
    for name, value_of, is_ratio in _CURVES:
        values = [value_of(moment) for moment in moments]
        top = 1.0 if is_ratio else max((v for v in values if v is not None), default=0.0) or 1.0
        top = max(top, stages or 0.0) if name == "S" else top
        lines += _curve_lines(name, values, top, is_ratio=is_ratio, columns=columns, rows=rows, glyphs=room.glyphs)
        lines += [EMPTY] if rows > 1 else []
    ends = beside(
        (Span(words.clock(moments[0].time_ns), Ink.FAINT),),
        (Span(words.clock(moments[-1].time_ns), Ink.FAINT),),
        min(columns, max(len(moments), 20)),
    )
    lines += [(Span(" " * LABEL), *padded(ends, columns, right=True)), EMPTY]
    for happened in reversed(scene.memory.happenings):
        ink = Ink.CAUTION if happened.is_bad else Ink.PLAIN
        lines.append(line(Span(f"{words.clock(happened.time_ns)}  ", Ink.FAINT), shown(happened.text, ink)))
    return Sheet(tuple(lines))


def _curve_lines(
    name: str, values: Sequence[float | None], top: float, *, is_ratio: bool, columns: int, rows: int, glyphs: Glyphs
) -> list[Line]:
    """One curve with its name, its highest value and the one now."""
    ink = None if is_ratio or name == "S" else Ink.NAME
    said = [f"{words.percent(value)}%" if is_ratio else words.figure(value) for value in (top, values[-1])]
    curve = _curve(_in_columns(values, columns), top, rows, glyphs, ink)
    lines: list[Line] = []
    for number, one in enumerate(curve, start=1):
        is_last = number == len(curve)
        label = Span(name, Ink.STRONG) if is_last else Span(said[0] if number == 1 else "", Ink.FAINT)
        tail = Span(f" {said[1]}", Ink.STRONG) if is_last else Span("")
        lines.append(line(*padded(line(label), LABEL), *padded(one, columns, right=True), tail))
    return lines


def _head(moments: Sequence[Moment], room: Room) -> Line:
    seen_s = (moments[-1].time_ns - moments[0].time_ns) / 1e9
    return cut(
        line(Span(f"{words.duration(seen_s)} on this screen", Ink.STRONG)),
        room.columns,
    )


def _in_columns(values: Sequence[float | None], columns: int) -> list[float | None]:
    """The values in at most so many columns: one each where they are few, averaged where they are many."""
    columns = max(columns, 0)
    if len(values) <= columns:
        return list(values)
    shown_values: list[float | None] = []
    for column in range(columns):
        start = column * len(values) // columns
        end = max((column + 1) * len(values) // columns, start + 1)
        known = [value for value in values[start:end] if value is not None]
        shown_values.append(sum(known) / len(known) if known else None)
    return shown_values


def _curve(values: Sequence[float | None], top: float, rows: int, glyphs: Glyphs, ink: Ink | None) -> list[Line]:
    """The curve over several rows, the top one first. `ink` None = coloured as a duty."""
    return [runs(_cell(value, top, row, rows, glyphs, ink) for value in values) for row in reversed(range(rows))]


def _cell(value: float | None, top: float, row: int, rows: int, glyphs: Glyphs, ink: Ink | None) -> Cell:
    if value is None:
        return (glyphs.gap, Ink.FAINT) if row == 0 else (" ", Ink.PLAIN)
    ratio = min(max(value / top, 0.0), 1.0)
    levels = len(glyphs.levels) - 1
    height = max(round(ratio * rows * levels), 1) - row * levels
    return glyphs.levels[min(max(height, 0), levels)], ink or duty_ink(ratio)
