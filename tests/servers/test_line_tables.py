"""Every pattern is tried on its own real example, behind every prefix that transports put there."""

from __future__ import annotations

import pytest

from bubblewatch.model.logs import (
    Access,
    DecodeStep,
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    LogLine,
    OverlapOff,
    PoolSized,
    PrefillStep,
    Ready,
    Retraction,
    SettingsSeen,
    Starting,
    StatsLine,
    VersionSeen,
)
from bubblewatch.servers.base import ServerKind
from bubblewatch.servers.patterns import SHARED, Pattern
from bubblewatch.servers.sglang import SGLang
from bubblewatch.servers.sglang import table as sglang_table
from bubblewatch.servers.vllm import VLLM
from bubblewatch.servers.vllm import table as vllm_table

MEANS: dict[str, type[Event]] = {
    "access": Access,
    "decode": DecodeStep,
    "prefill": PrefillStep,
    "graph-end": GraphCaptured,
    "graph-begin": GraphCaptured,
    "graph-sizes": GraphCaptured,
    "graph-failed": Failure,
    "old-graph-switch": SettingsSeen,
    "graph-off": GraphOff,
    "graph-downgrade": SettingsSeen,
    "overlap-pipeline": OverlapOff,
    "overlap-off": OverlapOff,
    "async": OverlapOff,
    "sizing": PoolSized,
    "kv-pool": PoolSized,
    "kv-concurrency": PoolSized,
    "weights": Starting,
    "distributed": Starting,
    "loading": Starting,
    "ready": Ready,
    "retraction": Retraction,
    "preempted": Retraction,
    "stats": StatsLine,
    "version": VersionSeen,
    "non-default-args": SettingsSeen,
    "engine": VersionSeen,
    "eager": GraphOff,
}
CASES = [(SGLang(), p) for p in sglang_table.TABLE] + [(VLLM(), p) for p in vllm_table.TABLE]
TRANSPORTS = (
    "",
    "2025-07-29T12:19:19.333962774+07:00 stdout F ",
    "2025-05-16T13:12:16.645427617Z ",
    "Dec 01 14:00:00 gpu-host sglang[48121]: ",
    "server-1  | ",
    "\x1b[36m(RayWorkerWrapper pid=549, ip=10.0.0.2)\x1b[0m ",
)


@pytest.mark.parametrize("transport", TRANSPORTS, ids=["plain", "cri", "docker", "syslog", "compose", "ray"])
@pytest.mark.parametrize(("kind", "pattern"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_example_of_each_pattern_means_what_it_says_behind_any_transport(
    kind: ServerKind, pattern: Pattern, transport: str
) -> None:
    events = kind.parse(LogLine(transport + pattern.example))
    assert events, pattern.example
    assert isinstance(events[0], MEANS.get(pattern.name, Failure))


@pytest.mark.parametrize(("kind", "pattern"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_telling_lines_tell_one_kind_only(kind: ServerKind, pattern: Pattern) -> None:
    other = VLLM() if kind.kind == "sglang" else SGLang()
    assert kind.tells(LogLine(pattern.example)) or not pattern.telling
    if pattern not in SHARED:
        assert not other.tells(LogLine(pattern.example))


@pytest.mark.parametrize("table", [sglang_table.TABLE, vllm_table.TABLE])
def test_names_are_unique_and_each_pattern_has_example_and_version(table: tuple[Pattern, ...]) -> None:
    assert len({pattern.name for pattern in table}) == len(table)
    assert all(pattern.keyword in pattern.example and pattern.version for pattern in table)
