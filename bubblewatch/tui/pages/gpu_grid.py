"""Many GPUs on little room: a small cell for each, and the ones that differ most from the others by name."""

from __future__ import annotations

import statistics

from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.tui.charts import meter
from bubblewatch.tui.ink import EMPTY, Ink, Line, Span, cut, duty_ink, fitted, line
from bubblewatch.tui.room import Room, Scene
from bubblewatch.tui.words import whole

CELL = 5
"""Columns of one GPU: its index, a sign as high as its duty, a space."""

OUTLIERS = 3
"""How many of the GPUs that differ most are named."""

DIFFERS = 0.15
"""Difference in duty from the median, 0..1, from which a GPU is worth a name."""


def grid_lines(scene: Scene, gpus: list[GpuInfo], room: Room) -> list[Line]:
    """Rows of cells and a line of figures about all of them."""
    if not gpus:
        return [line(Span("No GPU is seen.", Ink.FAINT))]
    duties = {gpu.uuid: scene.snapshot.gpu_signals.get(gpu.uuid, Signals()).number("gpu.work_duty") for gpu in gpus}
    across = max(min((room.columns // CELL) // 4 * 4, 32), 1) if room.columns >= 4 * CELL else 1
    lines = [
        tuple(span for gpu in gpus[start : start + across] for span in _cell(gpu, duties[gpu.uuid], room))
        for start in range(0, len(gpus), across)
    ]
    return [*lines, cut(_summary(scene, gpus, duties, room), room.columns)]


def _cell(gpu: GpuInfo, duty: float | None, room: Room) -> Line:
    index = Span(f"{gpu.index:>3}", Ink.FAINT)
    if duty is None:
        return (index, Span(room.glyphs.gap, Ink.FAINT), Span(" "))
    levels = room.glyphs.levels
    sign = levels[1 + min(int(max(duty, 0.0) * (len(levels) - 1)), len(levels) - 2)]
    return (index, Span(sign, duty_ink(duty)), Span(" "))


def _summary(scene: Scene, gpus: list[GpuInfo], duties: dict[str, float | None], room: Room) -> Line:
    known = [duty for duty in duties.values() if duty is not None]
    if not known:
        return line(Span(f"{len(gpus)} GPUs, work not known", Ink.FAINT))
    middle = statistics.median(known)
    powers = [scene.snapshot.gpu_signals.get(gpu.uuid, Signals()).number("gpu.power_w") for gpu in gpus]
    total = sum(power for power in powers if power is not None) if any(powers) else None
    far = sorted(
        (gpu for gpu in gpus if (duty := duties[gpu.uuid]) is not None and abs(duty - middle) >= DIFFERS),
        key=lambda gpu: -abs((duties[gpu.uuid] or 0.0) - middle),
    )[:OUTLIERS]
    parts: list[tuple[int, Line]] = [
        (0, line(f"{len(gpus)} GPUs work {100 * middle:.0f}%")),
        (2, meter(middle, 8, room.glyphs)),
        (1, line(f"{100 * min(known):.0f}-{100 * max(known):.0f}%") if max(known) - min(known) >= 0.01 else EMPTY),
        (3, line(Span(f"{whole(total)} W in all", Ink.POWER))),
    ]
    parts += [(2, line(Span(f"GPU {gpu.index} {100 * (duties[gpu.uuid] or 0):.0f}%", Ink.WARN))) for gpu in far]
    return fitted(parts, room.columns)
