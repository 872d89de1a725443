"""Small drawings: a lane over time, a share of a whole, parts of a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bubblewatch.runtime.feed import Lane
from bubblewatch.tui.glyphs import Glyphs
from bubblewatch.tui.ink import Ink, Line, duty_ink, runs, track_ink

Cell = tuple[str, Ink]

FEW_STEPS = 4
"""Steps for each column up to which whole columns matter more than the whole span."""


def steps_together(lane: Lane, columns: int, span_s: float) -> int:
    """How many steps of the lane one column covers.

    A lane with a few steps for each column shows less time rather than leaving columns empty.
    """
    wanted = max(span_s / lane.step_s, 1.0)
    ratio = wanted / max(columns, 1)
    return max(math.ceil(ratio) if ratio > FEW_STEPS else math.floor(ratio), 1)


def reach_s(lane: Lane | None, columns: int, span_s: float) -> float:
    """Seconds that the lane covers in so many columns."""
    if lane is None:
        return span_s
    return min(span_s, columns * steps_together(lane, columns, span_s) * lane.step_s)


def in_columns(lane: Lane | None, columns: int, span_s: float) -> list[float | None]:
    """The last `reach_s` seconds in at most so many columns, the newest last; None = nothing was read.

    A column is the mean over a whole number of steps that begins at the same moments in every feed, so that a picture
    moves and does not shimmer. The newest column may cover fewer.
    """
    if lane is None or not lane.values or columns < 1:
        return [None] * max(columns, 0)
    wanted = max(round(span_s / lane.step_s), 1)
    values = lane.values[-wanted:]
    if wanted <= columns:  # a bar for each step
        return [values[column * len(values) // columns] for column in range(columns)]
    together = steps_together(lane, columns, span_s)
    groups: dict[int, list[float]] = {}
    first = lane.last - len(values) + 1
    for number, value in enumerate(values, start=first):
        group = groups.setdefault(number // together, [])
        if value is not None:
            group.append(value)
    if first % together:
        del groups[first // together]  # begun before the span: its mean would change from feed to feed
    return [sum(group) / len(group) if group else None for group in groups.values()][-columns:]


def sparkline(
    lane: Lane | None, columns: int, span_s: float, glyphs: Glyphs, *, top: float = 1.0, ink: Ink | None = None
) -> Line:
    """The lane as one line of heights from 0 to `top`. `ink` None = coloured as a duty."""
    cells = [_height(value, top, glyphs, ink) for value in in_columns(lane, columns, span_s)]
    return runs([(" ", Ink.PLAIN)] * (columns - len(cells)) + cells)


def _height(value: float | None, top: float, glyphs: Glyphs, ink: Ink | None) -> Cell:
    if value is None:
        return glyphs.gap, Ink.FAINT
    ratio = min(max(value / top, 0.0), 1.0)
    levels = len(glyphs.levels) - 1
    return glyphs.levels[1 + min(int(ratio * levels), levels - 1)], ink or track_ink(ratio)


def tall_lane(
    lane: Lane | None, columns: int, span_s: float, glyphs: Glyphs, rows: int, *, top: float = 1.0
) -> list[Line]:
    """The lane drawn over several rows, the top one first; above the value lies the track: time not worked."""
    values = in_columns(lane, columns, span_s)
    blank = [(" ", Ink.PLAIN)] * (columns - len(values))
    return [runs(blank + [_slice(value, top, row, rows, glyphs) for value in values]) for row in reversed(range(rows))]


def _slice(value: float | None, top: float, row: int, rows: int, glyphs: Glyphs) -> Cell:
    """One cell of a tall lane; row 0 is the lowest."""
    if value is None:
        return (glyphs.gap, Ink.FAINT) if row == 0 else (" ", Ink.PLAIN)
    ratio = min(max(value / top, 0.0), 1.0)
    levels = len(glyphs.levels) - 1
    height = round(ratio * rows * levels) - row * levels
    if row == 0:
        height = max(height, 1)
    return glyphs.levels[min(max(height, 0), levels)], track_ink(ratio)


def meter(ratio: float | None, columns: int, glyphs: Glyphs) -> Line:
    """A share of a whole, as long as it is large."""
    if ratio is None:
        return runs([(glyphs.gap, Ink.FAINT)] * columns)
    filled = min(max(round(ratio * columns), 1 if ratio > 0.005 else 0), columns)
    return runs([(glyphs.full, duty_ink(ratio))] * filled + [(glyphs.empty, Ink.FAINT)] * (columns - filled))


def stacked(parts: Sequence[tuple[float, Cell]], columns: int) -> Line:
    """Parts of a whole as one bar of exactly so many columns; a part that is there has one column at least."""
    present = [(share, cell) for share, cell in parts if share > 0]
    total = sum(share for share, _ in present)
    if not present or columns < len(present):
        return runs([(" ", Ink.FAINT)] * max(columns, 0))
    sizes = [max(math.floor(columns * share / total), 1) for share, _ in present]
    by_rest: Callable[[int], float] = lambda place: columns * present[place][0] / total - sizes[place]  # noqa: E731
    while sum(sizes) != columns:
        if sum(sizes) < columns:
            sizes[max(range(len(sizes)), key=by_rest)] += 1
        else:
            sizes[min((p for p in range(len(sizes)) if sizes[p] > 1), key=by_rest)] -= 1
    return runs([cell for size, (_, cell) in zip(sizes, present, strict=True) for _ in range(size)])
