"""Two stretches of recordings side by side: what changed in the settings, and whether it helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np
import pandas as pd

from bubblewatch.model.errors import UsageError
from bubblewatch.model.server import Server
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.report.compare_stats import LEAST_BLOCKS, Block, Change, change
from bubblewatch.report.frames import RecordingFrames
from bubblewatch.sources.recording_records import Begin, Gpus, Servers


class Outcome(StrEnum):
    """What a comparison says."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "no difference"
    """None that can be seen: there may be a smaller one than the noise."""
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is compared. `more_is_better` None = neither is: it explains and does not judge."""

    name: str
    label: str
    unit: str
    more_is_better: bool | None


METRICS = (
    Metric("gen_tps", "tokens a second", "tok/s", more_is_better=True),
    Metric("j_per_token", "energy of a token", "J", more_is_better=False),
    Metric("step_s", "time of a step", "s", more_is_better=None),
    Metric("duty", "work duty of a GPU", "ratio", more_is_better=None),
    Metric("stages_busy", "stages at work (S)", "stages", more_is_better=None),
    Metric("bubble", "pipeline bubble", "ratio", more_is_better=None),
    Metric("power_w", "power of all its GPUs", "W", more_is_better=None),
)
"""In the order in which they decide: tokens a second, and where those are the same, their energy."""

_SIGNALS: Mapping[str, str] = MappingProxyType(
    {
        "throughput.gen_tps": "gen_tps",
        "throughput.step_s": "step_s",
        "duty.median": "duty",
        "pipeline.stages_busy": "stages_busy",
        "pipeline.bubble_ratio": "bubble",
        "demand.running": "running",
    }
)


@dataclass(frozen=True, slots=True)
class Side:
    """One server over one stretch of time. `blocks` has a row for each stretch of `block_s` seconds."""

    label: str
    server: Server
    gpus: Sequence[GpuInfo]
    blocks: pd.DataFrame
    block_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`reason` says why when the two are not comparable. `settings` are (name, before, after), None = not known."""

    outcome: Outcome
    reason: str
    before: Side
    after: Side
    settings: tuple[tuple[str, str | None, str | None], ...]
    changes: Mapping[str, Change]


def side(frames: RecordingFrames, label: str, key: str | None) -> Side:
    """One side of a comparison. Raises UsageError when it has no such server, or several and none is named."""
    servers: dict[str, Server] = {}
    gpus: dict[str, GpuInfo] = {}
    window_s = 30.0
    for _, _, record in frames.records():
        match record:
            case Begin():
                window_s = record.window_s
            case Servers():
                servers |= {server.key: server for server in record.servers}
            case Gpus():
                gpus |= {gpu.uuid: gpu for gpu in record.gpus}
            case _:
                pass
    server = _chosen(servers, label, key)
    own = [gpu for uuid, gpu in gpus.items() if uuid in server.gpus] or list(gpus.values())
    block_s = max(window_s, 30.0)
    return Side(label, server, own, _blocks(frames, server.key, {gpu.uuid for gpu in own}, block_s), block_s)


def _chosen(servers: Mapping[str, Server], label: str, key: str | None) -> Server:
    if key is not None and key in servers:
        return servers[key]
    names = ", ".join(servers) or "none"
    if key is not None:
        raise UsageError(f"{label} has no server {key!r}", f"it has {names}")
    if len(servers) != 1:
        raise UsageError(f"{label} has {len(servers)} servers", f"name one with --server: {names}")
    return next(iter(servers.values()))


def _blocks(frames: RecordingFrames, key: str, uuids: set[str], block_s: float) -> pd.DataFrame:
    """Signals at the end of each block: they look back over about its length, so that blocks share nothing."""
    signals = frames.signals(_SIGNALS)
    columns = [*_SIGNALS.values(), "power_w", "j_per_token"]
    signals = signals[signals["target"] == f"server:{key}"] if len(signals) else signals
    if not len(signals):
        return pd.DataFrame(columns=columns)
    wide = signals.pivot_table(index="time", columns="name", values="number", aggfunc="last").rename(columns=_SIGNALS)
    begin = wide.index[0]
    number = ((wide.index - begin).total_seconds() + 1e-6) // block_s
    ends = wide.groupby(number).tail(1)
    # What stands at the end of a block that has just begun looks back into the one before it.
    length_s = (ends.index - begin).total_seconds() - number[wide.index.get_indexer(ends.index)] * block_s
    ends = ends[length_s >= block_s * 0.7]
    energy = frames.energy()
    energy = energy[energy["gpu"].isin(uuids)]
    power = [_power_w(energy, end - pd.Timedelta(seconds=block_s), end) for end in ends.index]
    ends = ends.assign(power_w=power)
    rate = ends["gen_tps"] if "gen_tps" in ends else pd.Series(np.nan, index=ends.index)
    return ends.assign(j_per_token=ends["power_w"] / rate.where(rate > 0)).reindex(columns=columns)


def _power_w(energy: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp) -> float:
    inside = energy[(energy["time"] > start) & (energy["time"] <= end)]
    times = inside["time"].drop_duplicates()
    if len(times) < 2:
        return float("nan")
    # The first row carries the energy since the one before it, which is outside.
    later = inside[inside["time"] > times.iloc[0]]
    return float(later["joules"].sum() / (times.iloc[-1] - times.iloc[0]).total_seconds())


def compare(before: Side, after: Side) -> Comparison:
    """The comparison; `Outcome.NOT_COMPARABLE` with the reason when the two cannot be held against each other."""
    settings = changed_settings(before.server, after.server)
    reason = _obstacle(before, after)
    changes: dict[str, Change] = {}
    if not reason:
        for metric in METRICS:
            found = change(_values(before, metric.name), _values(after, metric.name))
            if found is not None:
                changes[metric.name] = found
        if "gen_tps" not in changes:
            reason = _no_common_load(before, after)
    outcome = Outcome.NOT_COMPARABLE if reason else _outcome(changes)
    return Comparison(outcome, reason, before, after, settings, changes if not reason else {})


def _values(of: Side, name: str) -> list[Block]:
    known = of.blocks[["running", name]].dropna()
    return [Block(float(r), float(v)) for r, v in known.itertuples(index=False) if r > 0]


def _outcome(changes: Mapping[str, Change]) -> Outcome:
    for metric in METRICS:
        found = changes.get(metric.name)
        if metric.more_is_better is not None and found is not None and found.is_seen:
            return Outcome.BETTER if (found.ratio > 1) == metric.more_is_better else Outcome.WORSE
    return Outcome.SAME


def _obstacle(before: Side, after: Side) -> str:
    cards = [sorted(gpu.name for gpu in one.gpus) for one in (before, after)]
    if cards[0] != cards[1]:
        return f"different GPUs: {_counted(cards[0])} and {_counted(cards[1])}"
    models = [_model(one.server) for one in (before, after)]
    if all(models) and models[0] != models[1]:
        return f"different models: {models[0]} and {models[1]}"
    for one in (before, after):
        if not one.blocks["running"].notna().any():
            return f"{one.label}: how many requests ran is not known"
        if not one.blocks["gen_tps"].notna().any():
            return f"{one.label}: no token rate is known"
    return ""


def _counted(names: Sequence[str]) -> str:
    return " + ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names)) or "none"


def _model(server: Server) -> str:
    return str(server.settings.get("model_path") or server.settings.get("model") or "")


def _no_common_load(before: Side, after: Side) -> str:
    texts = []
    for one in (before, after):
        loads = one.blocks["running"].dropna()
        span = f"{loads.min():.0f}" if loads.min() == loads.max() else f"{loads.min():.0f} to {loads.max():.0f}"
        texts.append(f"{one.label} ran {span} requests in {len(loads)} blocks of {one.block_s:.0f} s")
    return f"{texts[0]}, {texts[1]}: both need {LEAST_BLOCKS} blocks at the same number of requests"


def changed_settings(before: Server, after: Server) -> tuple[tuple[str, str | None, str | None], ...]:
    """What differs between two lives of a server: version and settings by name, those of one side only too."""
    rows: list[tuple[str, str | None, str | None]] = []
    if before.kind != after.kind:
        rows.append(("server", before.kind, after.kind))
    if before.version != after.version:
        rows.append(("version", before.version, after.version))
    for name in sorted({*before.settings.values, *after.settings.values}):
        first, second = (_text(one, name) for one in (before, after))
        if first != second:
            rows.append((name, first, second))
    return tuple(rows)


def _text(server: Server, name: str) -> str | None:
    setting = server.settings.values.get(name)
    if setting is None:
        return None
    return "(not set)" if setting.value is None else str(setting.value)
