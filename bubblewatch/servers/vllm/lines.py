"""vLLM's log lines: its prefix, and a table of what each kind of line means (vLLM 0.1 .. 0.33)."""

from __future__ import annotations

import re

from bubblewatch.model.logs import (
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    OverlapOff,
    PoolSized,
    Retraction,
    SettingsSeen,
    Starting,
    StatsLine,
    VersionSeen,
)
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.logprefix import OwnPrefix, Record

_LEVEL = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)"
PREFIX = OwnPrefix(
    # (EngineCore_DP0 pid=77352) INFO 10-22 09:43:49 [shm_broadcast.py:466] …     0.10.2 and newer
    # INFO 07-15 04:27:43 [loggers.py:118] …                                      V1
    # INFO 01-02 16:16:48 async_llm_engine.py:211] …                              V0
    pattern=re.compile(
        rf"(?<![A-Za-z]){_LEVEL} (?:(?P<day>\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{{1,6}}))? )?"
        r"\[?(?P<file>[\w./]{1,120}):\d{1,6}\] "
    ),
    begins=re.compile(rf"(?<=[^\s(])(?=(?:\([^()\s]{{1,60}} pid=\d{{1,10}}\) )?{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d )"),
)
"""vLLM's prefix: level, month and day without a year, time, source file and line (logging_utils/formatter.py)."""

_PROCESS = re.compile(
    r"\((?:VLLM::)?Worker(?:_DP(?P<dp>\d{1,5}))?(?:_PP(?P<pp>\d{1,5}))?(?:_PCP\d{1,5})?(?:_TP(?P<tp>\d{1,5}))?"
    r"(?:_DCP\d{1,5})?(?:_EP\d{1,5})? pid="
)

QUOTES_USERS = ("Received request ", "Request ")
"""How messages begin that carry what users wrote (request logging)."""


def rank_of(before: str) -> Rank | None:
    """Rank of the worker that wrote the line (vLLM 0.10.2+); None for other processes."""
    found = _PROCESS.search(before)
    return Rank(int(found["pp"] or 0), int(found["tp"] or 0), int(found["dp"] or 0)) if found else None


def _stats(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """One line of totals. In the oldest form (0.1) one rate covers prompt and output together."""
    usage = found["usage"]
    return (
        StatsLine(
            record.line,
            rank,
            running=int(found["running"]),
            waiting=int(found["waiting"]),
            swapped=int(found["swapped"]) if found["swapped"] else None,
            prompt_tps=float(found["prompt"]) if found["prompt"] else None,
            gen_tps=float(found["generation"] or found["both"]),
            kv_usage_ratio=min(float(usage) / 100, 1.0) if usage else None,
            engine=found["engine"],
        ),
    )


def stats_and_preemptions(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    events = _stats(found, record, rank)
    count = int(found["preemptions"] or 0)
    return (*events, Retraction(record.line, rank, count=count)) if count else events


def version(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (VersionSeen(record.line, rank, version=found["version"]),)


def eager(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (GraphOff(record.line, rank, phase="all", reason=found[0][:200]),)


def downgraded(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The attention backend cannot do what was asked; only NONE means that graphs are off."""
    if found["to"] != "NONE":
        setting = Setting("cudagraph_mode", found["to"], Origin.LOG, found[0][:200])
        return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)
    return (GraphOff(record.line, rank, phase="all", reason=found[0][:200]),)


def captured(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (GraphCaptured(record.line, rank, phase="decode", seconds=float(found["seconds"])),)


def capturing(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    begun = GraphCaptured(record.line, rank, phase="decode", begin=True)
    return (begun, Starting(record.line, rank, what=found[0][:80]))


def async_state(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    if found["state"] == "enabled":
        setting = Setting("async_scheduling", True, Origin.LOG, found[0])
        return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)
    expected = "pipeline" in found[0]
    return (OverlapOff(record.line, rank, reason=found[0][:200], expected=expected),)


def starting(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Starting(record.line, rank, what=found[0][:80]),)


def pool(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    fields = found.groupdict()
    tokens, concurrency, context = (fields.get(name) for name in ("tokens", "concurrency", "context"))
    return (
        PoolSized(
            record.line,
            rank,
            max_total_tokens=int(tokens.replace(",", "")) if tokens else None,
            context_len=int(context.replace(",", "")) if context else None,
            max_concurrency=float(concurrency) if concurrency else None,
        ),
    )


def preempted(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Retraction(record.line, rank, count=1),)


def waiting(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Harmless during a long load, a hang while requests run: position and progress decide, not this line."""
    return (Failure(record.line, rank, kind="shm-wait", what=found[0][:200], fatal=False),)
