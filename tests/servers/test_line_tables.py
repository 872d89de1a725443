"""Every pattern is tried on its own real example, behind every prefix that transports put there."""

from __future__ import annotations

import pytest

from bubblewatch.model import logs
from bubblewatch.model.logs import Event, Failure, LogLine
from bubblewatch.servers.base import ServerKind
from bubblewatch.servers.common import ACCESS, COMMON, parse_any
from bubblewatch.servers.patterns import Pattern
from bubblewatch.servers.plain import PlainKind
from bubblewatch.servers.registry import KNOWN
from bubblewatch.servers.sglang import table as sglang_table
from bubblewatch.servers.vllm import table as vllm_table

MEANS: dict[type[Event], str] = {
    logs.Access: "access gin-access request@llamacpp request@textgen",
    logs.CommNote: "nccl-way nccl-network p2p-off custom-all-reduce-off",
    logs.Compiling: "compiling compiled-while-serving",
    logs.DecodeStep: "decode iteration@trtllm",
    logs.GraphCaptured: "graph-end graph-begin graph-sizes graph-size graphs@tgi",
    logs.GraphOff: "graph-off eager",
    logs.Idle: "idle",
    logs.Note: "slow-kernels kv-waste host-threads old-runner attention-backend uneven-layers pipeline kv-full",
    logs.Offload: (
        "offloaded no-gpu no-compatible-gpu weights@llamacpp weights@ollama weights@textgen estimate model-weights "
        "placed"
    ),
    logs.OverlapOff: "overlap-pipeline overlap-off async",
    logs.PoolSized: "sizing kv-pool kv-concurrency kv-memory kv-blocks pool slot-count",
    logs.PrefillStep: "prefill prompt-part new-prompt",
    logs.Ready: "ready runner-ready",
    logs.RequestWork: "timing under-way request@tgi eval-rate prompt-time",
    logs.Retraction: "retraction preempted",
    logs.SettingsSeen: (
        "old-graph-switch graph-downgrade non-default-args speculation-limit nccl-version token-budget batch-queue "
        "devices runner config shards engine-limit world"
    ),
    logs.SpecDecode: "speculation",
    logs.Starting: "weights distributed loading starting",
    logs.StatsLine: "stats batch-manager slots",
    logs.StepTimes: "iteration@vllm",
    logs.TrainingStep: "iteration",
    logs.VersionSeen: "version engine listening",
    logs.Xid: "xid fallen-off-the-bus",
}
BY_NAME = {name: event for event, names in MEANS.items() for name in names.split()}


def own_table(kind: ServerKind) -> tuple[Pattern, ...]:
    if isinstance(kind, PlainKind):
        return kind.table
    return sglang_table.TABLE if kind.kind == "sglang" else vllm_table.TABLE


OWN = [(kind, pattern) for kind in KNOWN for pattern in own_table(kind)]
CASES = [*OWN, *((kind, pattern) for kind in KNOWN[2:4] for pattern in (ACCESS, *COMMON))]
TRANSPORTS = (
    "",
    "2025-07-29T12:19:19.333962774+07:00 stdout F ",
    "2025-05-16T13:12:16.645427617Z ",
    "Dec 01 14:00:00 gpu-host python[48121]: ",
    "server-1  | ",
    "\x1b[36m(RayWorkerWrapper pid=549, ip=10.0.0.2)\x1b[0m ",
)


def label(value: object) -> str:
    return value.name if isinstance(value, Pattern) else getattr(value, "kind", "")


@pytest.mark.parametrize(("kind", "pattern"), CASES, ids=label)
def test_example_of_each_pattern_means_what_it_says_behind_any_transport(kind: ServerKind, pattern: Pattern) -> None:
    expected = BY_NAME.get(f"{pattern.name}@{kind.kind}") or BY_NAME.get(pattern.name, Failure)
    for transport in TRANSPORTS:
        events = kind.parse(LogLine(transport + pattern.example))
        assert events, transport + pattern.example
        assert isinstance(events[0], expected)


@pytest.mark.parametrize("pattern", [ACCESS, *COMMON], ids=label)
def test_common_lines_are_read_in_the_log_of_a_server_that_is_not_known(pattern: Pattern) -> None:
    (event, *_) = parse_any(LogLine(pattern.example))
    assert isinstance(event, BY_NAME.get(pattern.name, Failure))


@pytest.mark.parametrize(("kind", "pattern"), OWN, ids=label)
def test_telling_lines_tell_one_kind_only(kind: ServerKind, pattern: Pattern) -> None:
    told = [each.kind for each in KNOWN if each.tells(LogLine(pattern.example))]
    if pattern.telling:
        assert told == [kind.kind]
    elif pattern in (ACCESS, *COMMON):
        assert told == []


@pytest.mark.parametrize("kind", KNOWN, ids=label)
def test_names_are_unique_and_each_pattern_has_example_and_version(kind: ServerKind) -> None:
    table = own_table(kind)
    assert len({pattern.name for pattern in table}) == len(table)
    assert all(pattern.keyword in pattern.example and pattern.version for pattern in table)
