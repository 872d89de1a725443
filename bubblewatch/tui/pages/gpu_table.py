"""A row for each GPU: stage, duty, power against its levels, memory, clock, and the last minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.feed import GpuTrace, Lane
from bubblewatch.tui.charts import meter, reach_s, sparkline
from bubblewatch.tui.ink import Ink, Line, Span, line, padded
from bubblewatch.tui.room import LaneKind, Room, Scene
from bubblewatch.tui.words import BASES, UNKNOWN, percent, rank_words, whole

GIB = 2**30

SPIN_SEEN = 0.10
"""Utilization without work from which it is shown as spinning: below it is the unsteadiness of two sensors."""

TWO_SPARKS = 70
"""Columns from which there is room for two lines over time."""

GAP = Span("  ")
"""Between two lines over time."""

LEAST_SPARK = 18
"""Columns below which other columns are left out in favour of the line over time."""


@dataclass(frozen=True, slots=True)
class _Row:
    gpu: GpuInfo
    place: str
    signals: Signals
    trace: GpuTrace


@dataclass(frozen=True, slots=True)
class _Column:
    """One column. `rank`: the higher, the sooner it is left out where room is short."""

    title: str
    width: int
    rank: int
    draw: Callable[[_Row, Room], Line]


def table_lines(scene: Scene, gpus: list[GpuInfo], room: Room) -> list[Line]:
    """The head and a row for each GPU, in at most the room's columns."""
    ranks = scene.view.server.gpus if scene.view and scene.view.server else {}
    rows = [
        _Row(
            gpu,
            rank_words(ranks.get(gpu.uuid), ranks.values()),
            scene.snapshot.gpu_signals.get(gpu.uuid, Signals()),
            scene.feed.traces.get(gpu.uuid, GpuTrace()),
        )
        for gpu in gpus
    ]
    columns = _that_fit(room.columns)
    spark = room.columns - sum(column.width + 1 for column in columns)
    spark = spark if spark >= LEAST_SPARK else 0
    kinds = _lane_kinds(scene.choice.lane, spark)
    each = (spark - 2 * (len(kinds) - 1)) // max(len(kinds), 1)
    heads = [
        padded(line(Span(column.title, Ink.FAINT)), column.width, right=column.title != "work") for column in columns
    ]
    head = [span for one in heads for span in (*one, Span(" "))]
    for kind in kinds:
        title = lane_title(rows[0].trace, kind, each, scene.choice.span_s)
        head += [*padded(line(Span(title, Ink.FAINT, "lane")), each), GAP]
    lines: list[Line] = [tuple(head[:-1])]
    for row in rows:
        cells = [span for column in columns for span in (*_cell(column, row, room), Span(" "))]
        for kind in kinds:
            cells += [*_spark(row, kind, each, scene.choice.span_s, room), GAP]
        lines.append(tuple(cells[:-1]))
    return lines


def _lane_kinds(chosen: LaneKind, columns: int) -> list[LaneKind]:
    """Which lanes are drawn: the chosen one, and beside it another where there is room for two."""
    if not columns:
        return []
    other = LaneKind.POWER if chosen is not LaneKind.POWER else LaneKind.WORK
    return [chosen, other] if columns >= TWO_SPARKS else [chosen]


def lane_of(trace: GpuTrace, kind: LaneKind) -> Lane | None:
    """The lane of this kind."""
    return {LaneKind.WORK: trace.work, LaneKind.UTIL: trace.util, LaneKind.POWER: trace.power_w}[kind]


def lane_title(trace: GpuTrace, kind: LaneKind, columns: int, span_s: float) -> str:
    """`work 42 s, SM activity`: what the lane shows, of how long, and by what it is known."""
    lane = lane_of(trace, kind)
    title = f"{kind} {reach_s(lane, columns, span_s):.0f} s"
    basis = BASES.get(trace.basis, "").partition(",")[0]
    if kind is LaneKind.WORK and basis and columns >= len(title) + len(basis) + 2:
        return f"{title}, {basis}"
    return title


def power_top_w(gpu: GpuInfo, signals: Signals) -> float:
    """What fills a lane of power: the level at full work, else the limit."""
    return signals.number("gpu.power_busy_w") or gpu.power_limit_w or 1000.0


def _spark(row: _Row, kind: LaneKind, columns: int, span_s: float, room: Room) -> Line:
    lane = lane_of(row.trace, kind)
    if kind is LaneKind.POWER:
        top_w = power_top_w(row.gpu, row.signals)
        return sparkline(lane, columns, span_s, room.glyphs, top=top_w, ink=Ink.TRACK_POWER)
    return sparkline(lane, columns, span_s, room.glyphs)


def _title(column: _Column) -> Line:
    return padded(line(Span(column.title, Ink.FAINT)), column.width, right=column.title != "work")


def _cell(column: _Column, row: _Row, room: Room) -> Line:
    return padded(column.draw(row, room), column.width, right=column.title != "work")


def _that_fit(columns: int) -> list[_Column]:
    """The columns that leave room for the line over time, those of the highest rank left out first."""
    kept = list(_COLUMNS)
    while len(kept) > 2 and sum(c.width + 1 for c in kept) + LEAST_SPARK > columns:
        kept.remove(max(kept, key=lambda column: column.rank))
    return kept


def _stage(row: _Row, _room: Room) -> Line:
    return line(Span(row.place, Ink.FAINT if row.place == UNKNOWN else Ink.STRONG))


def _index(row: _Row, _room: Room) -> Line:
    return line(Span(f"{row.gpu.index}", Ink.FAINT))


def _duty(row: _Row, _room: Room) -> Line:
    duty = row.signals.number("gpu.work_duty")
    return line(Span(f"{percent(duty)}%", Ink.FAINT if duty is None else Ink.STRONG))


def _meter(row: _Row, room: Room) -> Line:
    return meter(row.signals.number("gpu.work_duty"), 8, room.glyphs)


def _util(row: _Row, _room: Room) -> Line:
    return line(Span(f"{percent(row.signals.number('gpu.util_ratio'))}%"))


def _sm(row: _Row, _room: Room) -> Line:
    return line(Span(f"{percent(row.signals.number('gpu.sm_active_ratio'))}%", Ink.FAINT))


def _spin(row: _Row, _room: Room) -> Line:
    spin = row.signals.number("gpu.spin_ratio")
    if spin is not None and spin < SPIN_SEEN:
        return line(Span("-", Ink.FAINT))
    return line(Span(f"{percent(spin)}%", Ink.WARN if spin is not None else Ink.FAINT))


def _power(row: _Row, _room: Room) -> Line:
    now, idle, busy = (whole(row.signals.number(f"gpu.{name}")) for name in ("power_w", "power_idle_w", "power_busy_w"))
    return line(Span(now, Ink.POWER), Span(f" {idle}/{busy}", Ink.FAINT))


def _limit(row: _Row, _room: Room) -> Line:
    return line(Span(whole(row.gpu.power_limit_w), Ink.FAINT))


def _memory(row: _Row, _room: Room) -> Line:
    used = row.signals.number("gpu.memory_used_bytes")
    total = row.gpu.memory_total_bytes
    return line(
        Span(whole(None if used is None else used / GIB)),
        Span(f"/{UNKNOWN if total is None else whole(total / GIB)}", Ink.FAINT),
    )


def _traffic(row: _Row, _room: Room) -> Line:
    return line(Span(f"{percent(row.signals.number('gpu.mem_util_ratio'))}%", Ink.FAINT))


def _clock(row: _Row, _room: Room) -> Line:
    return line(Span(whole(row.signals.number("gpu.sm_clock_mhz")), Ink.FAINT))


def _heat(row: _Row, _room: Room) -> Line:
    return line(Span(whole(row.signals.number("gpu.temperature_c")), Ink.FAINT))


_COLUMNS = (
    _Column("ST", 6, 0, _stage),
    _Column("GPU", 3, 3, _index),
    _Column("work", 8, 5, _meter),
    _Column("", 4, 1, _duty),
    _Column("util", 4, 2, _util),
    _Column("SM", 4, 8, _sm),
    _Column("spin", 4, 6, _spin),
    _Column("W idle/act", 11, 4, _power),
    _Column("cap", 4, 9, _limit),
    _Column("GiB", 7, 5, _memory),
    _Column("mem%", 4, 10, _traffic),
    _Column("MHz", 4, 7, _clock),
    _Column("C", 3, 7, _heat),
)
