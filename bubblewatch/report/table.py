"""The live table: a row per GPU, and above it what matters about the server. A pure function of the snapshot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bubblewatch.model.findings import Answer, Finding, Snapshot, State, TargetView
from bubblewatch.model.server import Rank
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.model.visible import visible
from bubblewatch.report.layout import Style
from bubblewatch.report.order import worst_first
from bubblewatch.report.words import demand_words, figure, server_words, shape_words

UNKNOWN = "?"
"""What a cell shows when the number is not known."""

BAR_COLUMNS = 12
"""Width of the work bar: fits, with the other columns, into 80."""

NAME_LENGTH = 60
"""Characters of a name or a summary that one line of the table can bear."""

GIB = 2**30

_LAMPS: Mapping[Answer, tuple[str, Style]] = MappingProxyType(
    {
        Answer.FINDINGS: ("FIX FIRST", Style.BAD),
        Answer.HEALTHY: ("HEALTHY", Style.GOOD),
        Answer.QUIET: ("QUIET", Style.STRONG),
        Answer.CANNOT_JUDGE: ("CANNOT JUDGE", Style.WARN),
        Answer.ERROR: ("ERROR", Style.BAD),
    }
)
"""Verdict -> its word and look."""


def live_table(snapshot: Snapshot) -> RenderableType:
    """A picture of the snapshot for a terminal of 80 columns or more: each server, then the GPUs of none."""
    parts: list[RenderableType] = []
    shown: set[str] = set()
    for view in worst_first(snapshot):
        ranks = view.server.gpus if view.server else {gpu.uuid: None for gpu in snapshot.gpus}
        gpus = sorted((gpu for gpu in snapshot.gpus if gpu.uuid in ranks), key=lambda gpu: _place(gpu, ranks[gpu.uuid]))
        shown.update(gpu.uuid for gpu in gpus)
        parts += [_head(view), _rows([(gpu, ranks[gpu.uuid]) for gpu in gpus], snapshot), _foot(view), Text()]
    rest = [(gpu, None) for gpu in snapshot.gpus if gpu.uuid not in shown]
    if rest:
        parts += [Text("GPUs without a known server", Style.STRONG.value), _rows(rest, snapshot)]
    return Group(*parts) if parts else Text("No server and no GPU seen yet.")


def _place(gpu: GpuInfo, rank: Rank | None) -> tuple[bool, Rank, int]:
    return rank is None, rank or Rank(), gpu.index


def _head(view: TargetView) -> Text:
    name = view.server.key if view.server else view.target.id
    of_server = (server_words(view.server), shape_words(view.signals))
    words = (*of_server, demand_words(view.signals), _rate(view.signals), _stages(view.signals))
    head = Text(visible(name, NAME_LENGTH), Style.NAME.value, no_wrap=True, overflow="ellipsis")
    return head.append("".join(f"  {visible(word, NAME_LENGTH)}" for word in words if word), "not bold default")


def _rate(signals: Signals) -> str:
    rate = _finite(signals, "throughput.gen_tps")
    return "" if rate is None else f"{figure(rate)} tok/s"


def _stages(signals: Signals) -> str:
    busy, stages = _finite(signals, "pipeline.stages_busy"), _finite(signals, "pipeline.stages")
    return "" if busy is None or stages is None else f"S {busy:.1f} of {stages:.0f}"


def _rows(gpus: Iterable[tuple[GpuInfo, Rank | None]], snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False, header_style=Style.FAINT.value)
    table.add_column("stage")
    table.add_column("GPU", justify="right")
    table.add_column("work")
    for title in ("", "util", "SM", "W now/ctx/act", "GiB used/all", "MHz"):
        table.add_column(title, justify="right")
    for gpu, rank in gpus:
        table.add_row(*_cells(gpu, rank, snapshot.gpu_signals.get(gpu.uuid, Signals())))
    return table


def _cells(gpu: GpuInfo, rank: Rank | None, signals: Signals) -> tuple[Text, ...]:
    powers = [_number(signals, name) for name in ("gpu.power_w", "gpu.power_idle_w", "gpu.power_busy_w")]
    total = UNKNOWN if gpu.memory_total_bytes is None else f"{gpu.memory_total_bytes / GIB:.0f}"
    texts = (
        UNKNOWN if rank is None else f"P{rank.pp}" + (f" T{rank.tp}" if rank.tp else ""),
        str(gpu.index),
        _bar(_finite(signals, "gpu.work_duty")),
        _percent(signals, "gpu.work_duty"),
        _percent(signals, "gpu.util_ratio"),
        _percent(signals, "gpu.sm_active_ratio"),
        "/".join(powers),
        f"{_number(signals, 'gpu.memory_used_bytes', GIB)}/{total}",
        _number(signals, "gpu.sm_clock_mhz"),
    )
    return tuple(Text(text) for text in texts)


def _bar(duty: float | None) -> str:
    if duty is None:
        return UNKNOWN
    filled = round(min(max(duty, 0.0), 1.0) * BAR_COLUMNS)
    return "█" * filled + "·" * (BAR_COLUMNS - filled)


def _percent(signals: Signals, name: str) -> str:
    ratio = _finite(signals, name)
    return UNKNOWN if ratio is None else f"{100 * ratio:.0f}%"


def _number(signals: Signals, name: str, divisor: float = 1.0) -> str:
    value = _finite(signals, name)
    return UNKNOWN if value is None else f"{value / divisor:.0f}"


def _finite(signals: Signals, name: str) -> float | None:
    value = signals.number(name)
    return value if value is not None and math.isfinite(value) else None


def _foot(view: TargetView) -> Text:
    """The verdict in a word, and the finding to act on first."""
    word, style = _LAMPS[view.answer]
    foot = Text(word, style.value, no_wrap=True, overflow="ellipsis")
    first = _first(view)
    if first is not None:
        words = f"  {first.name} ({first.confidence.word}): {visible(first.summary, NAME_LENGTH)}"
        foot.append(words, "not bold default")
    return foot


def _first(view: TargetView) -> Finding | None:
    shown = [finding for finding in view.findings if finding.state is not State.RESOLVED and not finding.ignored]
    return next((finding for finding in shown if finding.is_loud), shown[0] if shown else None)
