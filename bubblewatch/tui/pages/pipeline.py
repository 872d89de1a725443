"""The pipeline: its slot ring, how many stages work now and would after each change, and each stage over time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bubblewatch.model.findings import TargetView
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.runtime.feed import GpuTrace, Lane
from bubblewatch.theory.what_if import Measured, Outcome, outcomes
from bubblewatch.tui import words
from bubblewatch.tui.charts import meter, reach_s, tall_lane
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, beside, cut, fitted, line, padded
from bubblewatch.tui.pages.gpu_table import lane_of, power_top_w
from bubblewatch.tui.pages.overview import gpus_of
from bubblewatch.tui.room import Choice, LaneKind, Room, Scene, Sheet

LABEL = 7
"""Columns before a lane: `P0 T3 `, or the words in front of a row."""

TAIL = 6
"""Columns after a lane, for the value now: ` 100%`, ` 400 W`."""

MOST_SLOTS = 64
"""Slots that are drawn one by one."""


@dataclass(frozen=True, slots=True)
class _NamedLane:
    """A lane with its name and stage; `top` is the value that fills it."""

    name: str
    stage: int | None
    lane: Lane | None
    top: float


def pipeline_page(scene: Scene, room: Room) -> Sheet:
    """The page; a server without a pipeline has the lanes of its GPUs only."""
    view = scene.view
    if view is None:
        return Sheet((EMPTY, line(Span("  No server is seen.", Ink.FAINT))))
    lines: list[Line] = []
    stages = view.signals.number("pipeline.stages") or view.signals.number("parallel.pp")
    if stages is None or stages < 2:
        why = "This server has no pipeline." if stages == 1 else "How many stages it has is not known."
        lines.append(line(Span(why, Ink.FAINT)))
    else:
        lines += [*_ring_lines(view, room), *_busy_lines(view, int(stages), room)]
    lines += [EMPTY] if room.rows >= 20 else []
    lines += _lane_lines(scene, view, room, room.rows - len(lines))
    return Sheet(tuple(lines))


def _ring_lines(view: TargetView, room: Room) -> list[Line]:
    """The slots with the requests in them, and how long a lap takes."""
    signals = view.signals
    ring, filled = signals.number("slots.ring"), signals.number("slots.filled")
    batch, capacity = signals.number("slots.batch"), signals.number("slots.capacity")
    if ring is None:
        why = signals.why_missing("slots.ring")
        first = line(Span(f"{'ring':{LABEL}}", Ink.FAINT), Span(f"its slots are not known: {why}", Ink.FAINT))
    else:
        drawn = _slots(int(ring), filled, batch)
        about = [
            (0, line(f"{words.figure(filled)} of {ring:.0f} slots filled")),
            (2, line(f"{words.figure(batch)} requests in each") if batch is not None else EMPTY),
            (3, line(f"room for {capacity:.0f}") if capacity is not None else EMPTY),
        ]
        first = (Span(f"{'ring':{LABEL}}", Ink.FAINT), *drawn, Span("  "))
        room_left = room.columns - LABEL - sum(len(span.text) for span in drawn) - 2
        if room_left < 24:
            return [first, (Span(" " * LABEL), *fitted(about, room.columns - LABEL)), *_lap_line(view, filled)]
        first = (*first, *fitted(about, room_left))
    return [first, *_lap_line(view, filled)]


def _slots(ring: int, filled: float | None, batch: float | None) -> Line:
    """`[8][ ][ ]`; `[?]` where it is not known which hold requests."""
    if filled is None:
        return line(Span("[?]" * min(ring, MOST_SLOTS), Ink.FAINT))
    full = min(max(math.floor(filled + 0.5), 0), ring)
    held = words.whole(batch)
    drawn = (Span(f"[{held}]" * min(full, MOST_SLOTS), Ink.GOOD),)
    empty = min(ring, MOST_SLOTS) - min(full, MOST_SLOTS)
    return line(*drawn, Span(f"[{' ' * len(held)}]" * empty, Ink.FAINT))


def _lap_line(view: TargetView, filled: float | None) -> list[Line]:
    signals = view.signals
    step_s, stages = signals.number("throughput.step_s"), signals.number("pipeline.stages")
    if step_s is None or filled is None or not stages:
        why = signals.why_missing("throughput.step_s" if step_s is None else "slots.filled")
        return [line(Span(f"{'lap':{LABEL}}", Ink.FAINT), Span(f"not known: {why}", Ink.FAINT))]
    lap_s = step_s * max(filled, 1.0)
    turn_s = lap_s / stages
    parts = [
        (0, line(Span(words.duration(lap_s), Ink.STRONG), " between two tokens of a request")),
        (1, line(f"{words.duration(turn_s)} a stage")),
        (2, line(f"{words.duration(step_s)} between two steps of a stage")),
    ]
    return [(Span(f"{'lap':{LABEL}}", Ink.FAINT), *fitted(parts, 110, gap=3))]


def _busy_lines(view: TargetView, stages: int, room: Room) -> list[Line]:
    """S as measured, and by the model after each change."""
    signals = view.signals
    busy = signals.number("pipeline.stages_busy")
    wide = 16 if room.columns >= 70 else 8
    if busy is None:
        why = signals.why_missing("pipeline.stages_busy")
        return [line(Span(f"{'S':{LABEL}}", Ink.FAINT), Span(f"not known: {why}", Ink.FAINT))]
    basis = str(signals.value("pipeline.basis") or "")
    now = line(
        Span(f"{'S now':{LABEL}}", Ink.FAINT), *meter(busy / stages, wide, room.glyphs),
        Span(f"  {busy:.1f} of {stages} stages at work", Ink.STRONG),
        Span(f"  by {words.BASES.get(basis, basis)}", Ink.FAINT),
        Span(f"  {words.figure(signals.number('throughput.gen_tps'))} tok/s"),
    )  # fmt: skip
    predicted = _predicted(view, stages)
    lines = [now]
    for number, outcome in enumerate(predicted):
        lines.append(_outcome_line(outcome, number, stages, wide, room, signals.number("roofline.tps")))
    if predicted:
        note = (
            "by the model; each on top of the one above. A span: kernels as long as now, or in proportion to the batch"
        )
        lines.append(cut(line(Span(" " * LABEL), Span(note, Ink.FAINT)), room.columns))
    return lines


def _outcome_line(outcome: Outcome, number: int, stages: int, wide: int, room: Room, ceiling_tps: float | None) -> Line:
    low, high = outcome.stages_busy
    least, most = (min(rate, ceiling_tps or rate) for rate in outcome.gen_tps)
    label = "then" if number else "after"
    return line(
        Span(f"{label:{LABEL}}", Ink.FAINT), *meter((low + high) / 2 / stages, wide, room.glyphs),
        Span(f"  {_between(low, high, 1)} of {stages}"), Span(f"  {outcome.change:15}", Ink.NAME),
        Span(f"  {_between(least, most, 0)} tok/s"),
    )  # fmt: skip


def _between(low: float, high: float, digits: int) -> str:
    a, b = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return a if a == b else f"{a}-{b}"


def _predicted(view: TargetView, stages: int) -> tuple[Outcome, ...]:
    """What the model says of changes; () when not enough was measured, or S cannot tell work from waiting."""
    signals = view.signals
    busy, step_s = signals.number("pipeline.stages_busy"), signals.number("throughput.step_s")
    filled, running = signals.number("slots.filled"), signals.number("demand.running")
    if not busy or not step_s or not filled or not running or signals.value("pipeline.basis_tells") is not True:
        return ()
    slots = min(max(math.floor(filled + 0.5), 1), int(running))
    graphs = signals.value("graphs.decode_enabled")
    now = Measured(
        stages=stages,
        step_s=step_s,
        filled=slots,
        running=running,
        duty=min(busy / stages, 1.0),
        graphs=graphs is not False,
        depth=int(signals.number("depth.value") or 0),
    )
    return outcomes(now, depth_available=signals.value("depth.available") is True)


def _lane_lines(scene: Scene, view: TargetView, room: Room, free: int) -> list[Line]:
    """A lane for each GPU, as tall as there is room for, and what the sensor can and cannot show."""
    gpus = gpus_of(scene, view)
    if not gpus:
        return [line(Span("No GPU of this server is seen.", Ink.FAINT))]
    kind, span_s = scene.choice.lane, scene.choice.span_s
    lanes = _lanes_of(scene, view, gpus, kind)
    by_stage = _by_stage(lanes) if len(lanes) > max(free - 3, 8) else lanes
    columns = room.columns - LABEL - TAIL
    rows = min(max((free - 3) // len(by_stage), 1), 3)
    first = lanes[0].lane
    lines: list[Line] = [_lane_head(scene.feed.traces.get(gpus[0].uuid, GpuTrace()), scene.choice, columns, room)]
    for one in by_stage:
        drawn = tall_lane(one.lane, columns, span_s, room.glyphs, rows, top=one.top)
        for number, cells in enumerate(drawn):
            is_last = number == len(drawn) - 1
            label, tail = (one.name, f" {_now(one.lane, kind)}") if is_last else ("", "")
            lines.append(line(Span(f"{label:{LABEL}}", Ink.STRONG), *cells, Span(tail, Ink.STRONG)))
    reach = reach_s(first, columns, span_s)
    ends = beside((Span(f"-{reach:.0f} s", Ink.FAINT),), (Span("now", Ink.FAINT),), columns)
    lines.append((Span(" " * LABEL), *padded(ends, columns)))
    lines.append(line(Span(" " * LABEL), Span(_resolution(view, first), Ink.FAINT)))
    return lines


def _lanes_of(scene: Scene, view: TargetView, gpus: list[GpuInfo], kind: LaneKind) -> list[_NamedLane]:
    """The lane of each GPU, with its place in the server."""
    ranks = view.server.gpus if view.server else {}
    lanes = []
    for gpu in gpus:
        rank, signals = ranks.get(gpu.uuid), scene.snapshot.gpu_signals.get(gpu.uuid, Signals())
        name = f"GPU {gpu.index}" if rank is None else words.rank_words(rank, ranks.values())
        top = power_top_w(gpu, signals) if kind is LaneKind.POWER else 1.0
        trace = scene.feed.traces.get(gpu.uuid, GpuTrace())
        lanes.append(_NamedLane(name, rank.pp if rank else None, lane_of(trace, kind), top))
    return lanes


def _by_stage(lanes: list[_NamedLane]) -> list[_NamedLane]:
    """One lane for each stage, the mean over its GPUs; all lanes as they are where stages are not known."""
    stages = sorted({one.stage for one in lanes if one.stage is not None})
    if len(stages) < 2 or any(one.stage is None for one in lanes):
        return lanes
    grouped = []
    for stage in stages:
        members = [one for one in lanes if one.stage == stage]
        mean = _mean([one.lane for one in members if one.lane is not None])
        grouped.append(_NamedLane(f"P{stage} x{len(members)}", stage, mean, members[0].top))
    return grouped


def _mean(lanes: list[Lane]) -> Lane | None:
    """The mean of lanes on the grid of the first; those on another grid are left out."""
    if not lanes:
        return None
    first = lanes[0]
    alike = [one.values for one in lanes if one.step_s == first.step_s and len(one.values) == len(first.values)]
    values = []
    for moment in zip(*alike, strict=True):
        known = [value for value in moment if value is not None]
        values.append(sum(known) / len(known) if known else None)
    return replace(first, values=tuple(values))


def _now(lane: Lane | None, kind: LaneKind) -> str:
    """The newest value of a lane."""
    value = lane.values[-1] if lane and lane.values else None
    return f"{words.whole(value)} W" if kind is LaneKind.POWER else f"{words.percent(value)}%"


def _lane_head(trace: GpuTrace, choice: Choice, columns: int, room: Room) -> Line:
    lane, kind = lane_of(trace, choice.lane), choice.lane
    often = f"a value every {words.duration(lane.refresh_s or lane.step_s)}" if lane else "no readings"
    by = f"by {words.BASES.get(trace.basis, 'nothing')}, " if kind is LaneKind.WORK else ""
    left = line(Span(f"{kind:{LABEL}}", Ink.KEY, "lane"), Span(f"{by}{often}", Ink.FAINT))
    keys = line(
        Span("v", Ink.KEY, "lane"), Span(" quantity  ", Ink.FAINT, "lane"),
        Span("z", Ink.KEY, "zoom"), Span(f" {reach_s(lane, columns, choice.span_s):.0f} s", Ink.FAINT, "zoom"),
    )  # fmt: skip
    return beside(left, keys, room.columns)


def _resolution(view: TargetView, lane: Lane | None) -> str:
    """Whether single turns of the stages can be seen with this sensor."""
    step_s, filled = view.signals.number("throughput.step_s"), view.signals.number("slots.filled")
    stages = view.signals.number("pipeline.stages")
    if lane is None or step_s is None or filled is None or not stages or stages < 2:
        return ""
    turn_s, period_s = step_s * max(filled, 1.0) / stages, lane.refresh_s or lane.step_s
    if turn_s >= period_s:
        return f"a stage's turn lasts {words.duration(turn_s)}, longer than the sensor's period: steps are real"
    return (
        f"a stage's turn lasts {words.duration(turn_s)}, the sensor shows {words.duration(period_s)} at a time: "
        "heights are shares of time, not turns"
    )
