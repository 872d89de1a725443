"""Figures and names as people read them on a screen: short."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Answer, Finding, Gain, Severity, State
from bubblewatch.model.server import Rank, Server
from bubblewatch.model.signals import Signals
from bubblewatch.tui.ink import Ink

UNKNOWN = "?"
"""What stands where a number is not known."""

KINDS: Mapping[str, str] = MappingProxyType(
    {"sglang": "SGLang", "vllm": "vLLM", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp", "unknown": "unknown server"}
)
"""Server kind -> how its makers write it."""

BASES: Mapping[str, str] = MappingProxyType(
    {
        "sm": "SM activity",
        "util": "utilization",
        "power": "power, usual levels of this card",
        "card": "power, usual levels of this card",
        "prior": "power, guessed levels",
        "log": "the log",
    }
)
"""Basis of a signal -> what it rests on."""

ANSWERS: Mapping[Answer, tuple[str, Ink]] = MappingProxyType(
    {
        Answer.FINDINGS: ("FIX FIRST", Ink.BADGE_WARN),
        Answer.HEALTHY: ("HEALTHY", Ink.BADGE_GOOD),
        Answer.QUIET: ("QUIET", Ink.BADGE_NEUTRAL),
        Answer.CANNOT_JUDGE: ("CANNOT JUDGE", Ink.BADGE_WARN),
        Answer.ERROR: ("ERROR", Ink.BADGE_BAD),
    }
)
"""Verdict -> its badge."""


def figure(value: float | None) -> str:
    """Three significant digits, thousands with commas: `0.5`, `95.6`, `1,540`; `?` when not known."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def whole(value: float | None) -> str:
    """To the nearest whole number; `?` when not known."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.0f}"


def percent(ratio: float | None) -> str:
    """A ratio 0..1 as whole percent without the sign."""
    return whole(None if ratio is None else 100 * ratio)


def duration(seconds: float) -> str:
    """`83.7 ms`, `3.35 s`, `15 min`, `2h14`, `3d 4h`."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{figure(seconds * 1000)} ms"
    if seconds < 120:
        return f"{figure(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def clock(time_ns: int | None) -> str:
    """Local time of day, `14:31:07`; eight spaces when there is none."""
    if time_ns is None:
        return " " * 8
    try:
        return time.strftime("%H:%M:%S", time.localtime(time_ns // NS))
    except (OverflowError, ValueError, OSError):
        return "??:??:??"


def age(since_ns: int | None, now_ns: int) -> str:
    """How long ago, empty when not known."""
    return "" if since_ns is None else duration(max(now_ns - since_ns, 0) // NS)


def server_words(server: Server | None) -> str:
    """`SGLang 0.5.10`; says when kind or version is not known."""
    if server is None:
        return "no server"
    return f"{KINDS.get(server.kind, server.kind)} {server.version or '(version unknown)'}"


def shape_words(signals: Signals) -> str:
    """`PP8xTP1`, with `xDP2` where there are replicas; empty when nothing is known."""
    parts = [(name.upper(), signals.number(f"parallel.{name}")) for name in ("pp", "tp", "dp")]
    if parts[0][1] is None and parts[1][1] is None:
        return ""
    shown = [(name, value) for name, value in parts if name != "DP" or (value is not None and value > 1)]
    return "x".join(f"{name}{whole(value)}" for name, value in shown)


def rank_words(rank: Rank | None, ranks: Iterable[Rank | None]) -> str:
    """`P3`, `T5` or `P3 T5`: the parts in which the ranks of a server differ; `?` when not known."""
    if rank is None:
        return UNKNOWN
    known = [one for one in ranks if one is not None]
    parts = [
        f"{letter}{own}"
        for letter, own, others in (
            ("D", rank.dp, {one.dp for one in known}),
            ("P", rank.pp, {one.pp for one in known}),
            ("T", rank.tp, {one.tp for one in known}),
        )
        if len(others) > 1
    ]
    return " ".join(parts) or "P0"


def demand_words(signals: Signals) -> str:
    """`8 running, 0 queued`; says what is unknown instead of leaving it out."""
    state = signals.value("demand.state")
    if state == "none":
        return "nothing running"
    running, at_least = signals.number("demand.running"), signals.number("demand.running_min")
    queued = signals.number("demand.queued")
    waiting = "queue ?" if queued is None else f"{queued:.0f} queued"
    if running is not None:
        return f"{running:.0f} running, {waiting}"
    if at_least is not None:
        return f">={at_least:.0f} running, {waiting}"
    return f"running, {waiting}" if state == "running" else "requests unknown"


def gain_words(gain: Gain | None) -> str:
    """`95.6 -> 112-173 tok/s`, `x1-1.25`, `uncertain`; empty without a gain."""
    if gain is None:
        return ""
    ends = [figure(end) for end in (gain.low, gain.high) if end is not None]
    if not ends:
        return "gain uncertain"
    span = "-".join(dict.fromkeys(ends))
    if gain.unit == "x":
        return f"x{span}"
    return f"{figure(gain.now)} -> {span} {gain.unit}" if gain.now is not None else f"{span} {gain.unit}"


def sureness(finding: Finding) -> tuple[str, Ink]:
    """How sure and how bad, in a word."""
    word = finding.confidence.word
    if finding.severity is Severity.CRITICAL:
        return f"CRITICAL {word}", Ink.BAD
    return (word.upper(), Ink.WARN) if finding.severity is Severity.WARNING else (f"info {word}", Ink.FAINT)


def standing(finding: Finding) -> str:
    """What else is to be said of a finding's state, empty for the usual one."""
    if finding.ignored:
        return "accepted"
    if finding.state is State.PENDING:
        return "not yet for long enough"
    return "resolved" if finding.state is State.RESOLVED else ""


def sentence(text: str) -> str:
    """`text` with a full stop at its end."""
    text = text.strip()
    return text if not text or text[-1] in ".!?:…" else f"{text}."


def mended(text: str) -> str:
    """`text` with a capital first letter, unless it begins with an option or a name in code."""
    return text[:1].upper() + text[1:] if text[:1].isalpha() else text
