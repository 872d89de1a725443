"""vLLM's log lines: its prefix, and a table of what each kind of line means (vLLM 0.1 .. 0.33)."""

from __future__ import annotations

import re

from bubblewatch.model.logs import (
    Compiling,
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    Note,
    NoteKind,
    Offload,
    OverlapOff,
    PoolSized,
    Retraction,
    SettingsSeen,
    SpecDecode,
    Starting,
    StatsLine,
    StepTimes,
)
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.logprefix import OwnPrefix, Record
from bubblewatch.servers.patterns import Build

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
    mark=".py:",
)
"""vLLM's prefix: level, month and day without a year, time, source file and line (logging_utils/formatter.py)."""

_PROCESS = re.compile(
    r"\((?:VLLM::)?Worker(?:_DP(?P<dp>\d{1,5}))?(?:_PP(?P<pp>\d{1,5}))?(?:_PCP\d{1,5})?(?:_TP(?P<tp>\d{1,5}))?"
    r"(?:_DCP\d{1,5})?(?:_EP\d{1,5})? pid="
)

_SPEC_FIELD = re.compile(r"([A-Z][a-z]+(?: [A-Za-z]+){0,4}): (\d{1,12}(?:\.\d{1,6})?)")
_SPEC_RATIOS = ("avg draft acceptance rate", "draft acceptance rate")

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


def pool_memory(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PoolSized(record.line, rank, kv_gib=float(found["gib"])),)


def pool_blocks(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PoolSized(record.line, rank, kv_blocks=int(found["blocks"])),)


def offloaded(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Offload(record.line, rank, host_gib=float(found["gib"])),)


def speculation(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """How speculation fared, in any of its three forms; the one of V0 counts since start."""
    fields = {key.lower(): value for key, value in _SPEC_FIELD.findall(found[0])}
    ratio = next((float(fields[key]) for key in _SPEC_RATIOS if key in fields), None)
    total = found["old"] is not None
    if ratio is not None:
        ratio = min(ratio if total else ratio / 100, 1.0)
    length = fields.get("mean acceptance length")
    accepted, drafted = (
        fields.get(long) or fields.get(short)
        for long, short in (("number of accepted tokens", "accepted"), ("number of draft tokens", "drafted"))
    )
    return (
        SpecDecode(
            record.line,
            rank,
            accept_len=float(length) if length else None,
            accept_ratio=ratio,
            accepted_tokens=int(float(accepted)) if accepted else None,
            drafted_tokens=int(float(drafted)) if drafted else None,
            total=total,
        ),
    )


def iteration(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """One step of the engine; an idle rank of a data-parallel group steps along as a dummy, which is no work."""
    if found["dummy"]:
        return ()
    prompts = int(found["prompts"])
    seconds, scheduled = float(found["ms"]) / 1000, prompts + int(found["decodes"])
    return (StepTimes(record.line, rank, wall_s=seconds, scheduled=scheduled, decode_only=not prompts),)


def setting_seen(name: str) -> Build:
    """A builder for a line that prints the value of one setting."""

    def build(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
        text = found["value"]
        setting = Setting(name, int(text) if text.isdigit() else text, Origin.LOG, found[0][:200])
        return (SettingsSeen(record.line, rank, settings=Settings({name: setting})),)

    return build


def note(kind: NoteKind) -> Build:
    """A builder for a remark; what it says is the group `text`, or the whole match."""

    def build(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
        text = found.groupdict().get("text") or found[0]
        return (Note(record.line, rank, kind=kind, text=text[:200]),)

    return build


def uneven(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Layers of each stage as the server spread them."""
    split = found["layers"].replace(" ", "")
    setting = Setting("layers_of_stages", split, Origin.LOG, found[0][:200])
    remark = Note(record.line, rank, kind=NoteKind.UNEVEN_LAYERS, text=split)
    return (remark, SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})))


def compiled_while_serving(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Compiling(record.line, rank, what=found["kernel"][:80], serving=True),)


def preempted(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Retraction(record.line, rank, count=1),)


def waiting(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Harmless during a long load, a hang while requests run: position and progress decide, not this line."""
    return (Failure(record.line, rank, kind="shm-wait", what=found[0][:200], fatal=False),)
