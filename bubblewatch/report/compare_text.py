"""A comparison as text and as a JSON document."""

from __future__ import annotations

from typing import Any

from bubblewatch.model.visible import visible
from bubblewatch.report.compare import METRICS, Comparison, Metric, Outcome
from bubblewatch.report.compare_stats import Change
from bubblewatch.report.words import duration, figure

SCHEMA_VERSION = 1
"""Of the document; raised when a key changes its meaning or goes away."""


def comparison_text(found: Comparison) -> str:
    """The answer first, then what was measured, then what changed in the settings."""
    lines = [_headline(found)]
    if found.changes:
        lines.append("")
        width = max(len(metric.label) for metric in METRICS)
        for metric in METRICS:
            seen = found.changes.get(metric.name)
            if seen is not None:
                lines.append(f"  {metric.label:{width}}  {_change_words(metric, seen)}")
        blocks = found.changes["gen_tps"].blocks
        lines.append(
            f"  from {blocks[0]} and {blocks[1]} blocks of {found.before.block_s:.0f} s; 95 % intervals by bootstrap"
        )
    lines += ["", "settings that changed" if found.settings else "no setting changed"]
    lines += [f"  {visible(name)}: {_side(before)} -> {_side(after)}" for name, before, after in found.settings]
    return "\n".join(lines) + "\n"


def _headline(found: Comparison) -> str:
    if found.outcome is Outcome.NOT_COMPARABLE:
        return f"NOT COMPARABLE  {visible(found.reason)}"
    rate = found.changes["gen_tps"]
    loads = ", ".join(f"{load:.0f}" for load in rate.loads)
    interval = f"[{figure(rate.before * rate.low)}, {figure(rate.before * rate.high)}]"
    parts = [f"{figure(rate.before)} -> {figure(rate.after)} tok/s {interval}"]
    energy = found.changes.get("j_per_token")
    if energy is not None and energy.is_seen:
        parts.append(f"J/token {100 * (energy.ratio - 1):+.0f} %")
    word = "NO DIFFERENCE that can be seen" if found.outcome is Outcome.SAME else found.outcome.value.upper()
    return f"{word} at {loads} running: {'; '.join(parts)}"


def _change_words(metric: Metric, seen: Change) -> str:
    span = f"{_value(metric, seen.before)} -> {_value(metric, seen.after)}"
    percent = f"{_percent(seen.ratio)} [{_percent(seen.low)}, {_percent(seen.high)}]"
    return f"{span:26}  {percent}{'' if seen.is_seen else '  (within noise)'}"


def _value(metric: Metric, value: float) -> str:
    match metric.unit:
        case "s":
            return duration(value)
        case "ratio":
            return f"{100 * value:.1f} %"
        case unit:
            return f"{figure(value)} {unit}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _side(value: str | None) -> str:
    return "(not known)" if value is None else visible(value, 120)


def comparison_document(found: Comparison) -> dict[str, Any]:
    """The comparison as plain JSON values; every key is always there."""
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": found.outcome.value.replace(" ", "_"),
        "reason": found.reason,
        "before": _side_document(found.before.label, found.before.server.key, len(found.before.blocks)),
        "after": _side_document(found.after.label, found.after.server.key, len(found.after.blocks)),
        "changes": {
            name: {
                "before": seen.before,
                "after": seen.after,
                "ratio": seen.ratio,
                "interval": [seen.low, seen.high],
                "is_seen": seen.is_seen,
                "blocks": list(seen.blocks),
                "running": list(seen.loads),
            }
            for name, seen in found.changes.items()
        },
        "settings": [{"name": name, "before": before, "after": after} for name, before, after in found.settings],
    }


def _side_document(label: str, server: str, blocks: int) -> dict[str, Any]:
    return {"recording": label, "server": server, "blocks": blocks}
