"""What can be seen from here, what cannot, what that loses, and what mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from bubblewatch.app.live import LiveOptions, live_watcher
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import Clock
from bubblewatch.model.findings import SCHEMA_VERSION, Health, Snapshot, SourceHealth, TargetView
from bubblewatch.model.visible import visible

LOOK_S = 3.0
"""How long the doctor looks, in seconds: by then the sampler has measured how often the sensors of a GPU refresh (2 s),
and the slowest one that is judged (SM activity, once a second) has spoken twice."""

_TELLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nvml": ("pipeline.", "duty.", "util.", "spin.", "power.", "telemetry."),
        "log": ("throughput.", "slots.filled", "slots.batch", "progress.", "failure.", "kv.", "retraction."),
        "processes": ("parallel.", "graphs.", "depth.", "overlap."),
    }
)
"""Source -> beginnings of the signals that mainly it tells."""

_LOG_SOURCES = ("journal", "log")


@dataclass(frozen=True, slots=True)
class Check:
    """One source as it fares here, with the findings that are lost while it does."""

    source: SourceHealth
    loses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor saw."""

    checks: tuple[Check, ...]
    servers: tuple[TargetView, ...]
    gpu_count: int
    wanted_unit: str | None = None

    @property
    def sees_enough(self) -> bool:
        """Whether a diagnosis from here can rest on GPUs and on a server whose log is read."""
        logs = [c for c in self.checks if c.source.name.startswith(_LOG_SOURCES) and c.source.health is Health.OK]
        return self.gpu_count > 0 and bool(self.servers) and bool(logs)


def lost_findings(source: str, rules: Sequence[Rule]) -> tuple[str, ...]:
    """Rules that look at a signal which mainly this source tells, by name."""
    family = "log" if source.startswith(_LOG_SOURCES) else source
    told = _TELLS.get(family, ())
    return tuple(sorted(r.name for r in rules if any(name.startswith(told) for name in r.signals))) if told else ()


def examine(unit: str | None, rules: Sequence[Rule], clock: Clock) -> Report:
    """Look once at every source of this machine."""
    watcher, _ = live_watcher(LiveOptions(unit=unit, seconds=LOOK_S), rules, clock)
    try:
        watcher.tick()
        clock.sleep(LOOK_S)
        snapshot = watcher.tick()
    finally:
        watcher.close()
    return report_of(snapshot, unit, rules)


def report_of(snapshot: Snapshot, unit: str | None, rules: Sequence[Rule]) -> Report:
    """What this snapshot tells of its sources."""
    checks = [Check(s, () if s.health is Health.OK else lost_findings(s.name, rules)) for s in snapshot.sources]
    servers = tuple(view for view in snapshot.views if view.server is not None)
    if not any(s.name.startswith(_LOG_SOURCES) for s in snapshot.sources):
        reason = "no server was found whose log could be read" if not servers else "no log of these servers was found"
        checks.append(Check(SourceHealth("log", Health.ABSENT, reason), lost_findings("log", rules)))
    sm = any("gpu.sm_active_ratio" in signals.known for signals in snapshot.gpu_signals.values())
    if snapshot.gpus:
        detail = "read once a second" if sm else "this GPU or this user does not get it (Hopper and newer, often root)"
        checks.insert(1, Check(SourceHealth("SM activity", Health.OK if sm else Health.OFF, detail)))
    return Report(tuple(checks), servers, len(snapshot.gpus), unit)


def report_text(report: Report, width: int) -> str:
    """The report for a person, at most `width` columns wide where words allow."""
    lines: list[str] = []
    for check in report.checks:
        source = check.source
        lines += _entry(f"{source.name:12} {str(source.health).upper():9}", visible(source.detail, 300), width)
        if source.health is not Health.OK and source.mend:
            lines += _entry(" " * 13 + "mend  ", visible(source.mend, 300), width)
        if check.loses:
            lines += _entry(" " * 13 + "loses ", ", ".join(check.loses), width)
    lines.append("")
    if not report.servers:
        wanted = f" in unit {report.wanted_unit}" if report.wanted_unit else ""
        lines.append(f"found: no inference server{wanted}. Is it running, and by a command that bubblewatch knows?")
    for view in report.servers:
        lines.append(f"found: {visible(_server_words(view), width - 7)}")
    verdict = "diagnose can judge from here" if report.sees_enough else "diagnose cannot judge everything from here"
    return "\n".join((*lines, "", f"{verdict}: bubblewatch diagnose"))


def _entry(head: str, text: str, width: int) -> list[str]:
    body = wrap(text, max(width - len(head), 30)) or [""]
    return [f"{head}{body[0]}".rstrip(), *(" " * len(head) + line for line in body[1:])]


def _server_words(view: TargetView) -> str:
    server = view.server
    if server is None:
        return ""
    shape = [f"{name.upper()}{view.signals.value(f'parallel.{name}')}" for name in ("pp", "tp", "dp")
             if f"parallel.{name}" in view.signals.known]  # fmt: skip
    version = server.version or "version unknown"
    return f"{server.key}  {server.kind} {version}  {' '.join(shape)}  pid {server.main_pid}, {len(server.gpus)} GPUs"


def report_document(report: Report) -> dict[str, Any]:
    """The report for a script: plain JSON types only."""
    return {
        "schema_version": SCHEMA_VERSION,
        "sees_enough": report.sees_enough,
        "gpus": report.gpu_count,
        "checks": [
            {
                "source": visible(c.source.name),
                "health": str(c.source.health),
                "detail": visible(c.source.detail),
                "mend": visible(c.source.mend),
                "loses": list(c.loses),
            }
            for c in report.checks
        ],
        "servers": [
            {
                "key": visible(v.server.key),
                "kind": v.server.kind,
                "version": v.server.version,
                "unit": v.server.unit,
                "pid": v.server.main_pid,
                "gpus": sorted(v.server.gpus),
            }
            for v in report.servers
            if v.server is not None
        ],
    }
