"""SGLang's log lines: its prefix, and a table of what each kind of line means (SGLang 0.4.3 .. 0.5.23)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bubblewatch.model.logs import (
    Compiling,
    DecodeStep,
    Event,
    GraphCaptured,
    GraphOff,
    Note,
    NoteKind,
    OverlapOff,
    PoolSized,
    PrefillStep,
    Retraction,
    SettingsSeen,
    Starting,
)
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.logprefix import OwnPrefix, Record
from bubblewatch.servers.patterns import failure

_TAGS = r"(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,5}){0,6}"
PREFIX = OwnPrefix(
    # [2025-03-24 02:48:49 TP0] Prefill batch. …              0.4.4; the bracket may be cut off
    # [2026-06-28 23:41:27 DP0 PP1 TP0] …                     0.5.6 and newer: stage before tensor rank
    # [14:20:11 TP0] Decode batch. …                          0.2, 0.3: no date
    # [2026-02-04 13:33:12] INFO engine.py:156: server_args=…   with a logging configuration of the user's
    pattern=re.compile(
        r"(?:\[|(?<!\S))(?:(?P<date>\d{4}-\d\d-\d\d)[ T])?(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,6}))?"
        rf"(?P<tags>{_TAGS})\]\s{{0,4}}(?:[A-Z]{{4,8}} [\w./]{{1,80}}\.py:\d{{1,6}}: )?"
    ),
    begins=re.compile(rf"(?<=\S)(?=\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d{_TAGS}\] )"),
    mark="[2",
)
"""SGLang's prefix: time, and the ranks that exist (logging format of utils/common.py configure_logger)."""

_TAG = re.compile(r"(DP|PP|TP)(\d{1,5})")

QUOTES_USERS = ("Receive: obj=", "Finish: obj=", "Req Time Stats(")
"""How messages begin that carry what users wrote (`--log-requests`): nothing in them is the server's own word."""

_WHOLE = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,12})?%?")


def rank_of(tags: str) -> Rank | None:
    """Rank in the tags of a prefix or a process title, in either order; None when there are none."""
    found = {axis: int(number) for axis, number in _TAG.findall(tags)}
    return Rank(found.get("PP", 0), found.get("TP", 0), found.get("DP", 0)) if found else None


def _fields(text: str) -> dict[str, str]:
    """`name: value` pairs between commas. A value is looked at where it is asked for: lines come by the thousand."""
    pairs = [part.partition(": ") for part in text.rstrip(" ,\t\r\n").split(", ")]
    return {key: value for key, colon, value in pairs if colon}


def _whole(fields: Mapping[str, str], key: str) -> int | None:
    text = fields.get(key, "")
    return int(text) if _WHOLE.fullmatch(text) else None


def _number(text: str | None) -> float | None:
    """The number that `text` is, perhaps with a percent sign; None when it is none (nan, True, cut off)."""
    return float(text.rstrip("%")) if text and _NUMBER.fullmatch(text) else None


def _usage(fields: Mapping[str, str]) -> float | None:
    """Share of the KV pool in use, 0..1; with several pools (hybrid models) the fullest one."""
    known = [n for key, text in fields.items() if key.endswith("token usage") and (n := _number(text)) is not None]
    usage = max(known, default=-1.0)
    return None if usage < 0 else min(usage, 1.0)


def _ratio(value: float | None) -> float | None:
    return None if value is None or value < 0 else min(value, 1.0)


def decode(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    fields = _fields(found["fields"])
    running = _whole(fields, "#running-req")
    if running is None:
        return ()
    graph = next((fields[key] for key in fields if key.endswith(" graph")), None)
    return (
        DecodeStep(
            record.line,
            rank or Rank(),
            running=running,
            queued=_whole(fields, "#queue-req"),
            gen_tps=_number(fields.get("gen throughput (token/s)")),
            cuda_graph=None if graph not in ("True", "False") else graph == "True",
            kv_usage_ratio=_usage(fields),
            accept_len=_number(fields.get("accept len")),
            retracted=_whole(fields, "#retracted-req"),
            accept_ratio=_ratio(_number(fields.get("accept rate"))),
        ),
    )


def prefill(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    fields = _fields(found["fields"])
    new_tokens = _whole(fields, "#new-token")
    if new_tokens is None:
        return ()
    return (
        PrefillStep(
            record.line,
            rank or Rank(),
            new_seqs=_whole(fields, "#new-seq") or 0,
            new_tokens=new_tokens,
            cached_tokens=_whole(fields, "#cached-token") or 0,
            running=_whole(fields, "#running-req"),
            queued=_whole(fields, "#queue-req"),
            kv_usage_ratio=_usage(fields),
        ),
    )


def _phase(found: re.Match[str]) -> str:
    """`Capture draft …` and `… extend …` are the draft model's; `verify` is what decode is under speculation."""
    if found["role"] == "draft" or found["phase"] == "extend":
        return "draft"
    return "prefill" if found["piecewise"] or found["phase"] == "prefill" else "decode"


def _sizes(text: str | None) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d{1,6}", text or ""))


def graph_begin(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    phase = _phase(found)
    begun = GraphCaptured(record.line, rank, phase=phase, begin=True, sizes=_sizes(found["sizes"]))
    return (begun, Starting(record.line, rank, what=f"capturing CUDA graphs ({phase})"))


def graph_end(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    sizes, seconds = _sizes(found["sizes"]), float(found["seconds"])
    return (GraphCaptured(record.line, rank, phase=_phase(found), sizes=sizes, seconds=seconds),)


def graph_sizes(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (GraphCaptured(record.line, rank, begin=True, sizes=_sizes(found["sizes"])),)


def graph_off(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """A prefill graph that is off is normal under pipeline parallelism, and so is a prefill server without any."""
    phase = "prefill" if found["prefill"] else "all"
    reason = (found["reason"] or found[0])[:200]
    expected = phase == "prefill" or reason.startswith("prefill server")
    return (GraphOff(record.line, rank, phase=phase, reason=reason, expected=expected),)


def old_switch(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The switch was used; a per-phase backend may still outrank it, so this is a setting and not yet graphs off."""
    setting = Setting("disable_cuda_graph", True, Origin.LOG, found[0])
    return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)


def pipeline_overlap(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (OverlapOff(record.line, rank, reason=found[0], expected=True),)


def overlap_off(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (OverlapOff(record.line, rank, reason=found[0]),)


def sized(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    fields = {key: int(text) for key, text in re.findall(r"(\w{1,40})=(-?\d{1,15})(?=[,\s]|$)", found[0])}
    return (
        PoolSized(
            record.line,
            rank,
            max_total_tokens=fields.get("max_total_num_tokens"),
            max_running=fields.get("max_running_requests"),
            context_len=fields.get("context_len"),
            chunked_prefill_size=fields.get("chunked_prefill_size"),
        ),
    )


def reset_limit(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Speculation brought a limit of its own, before data-parallel attention divides it."""
    setting = Setting("max_running_requests", int(found["limit"]), Origin.LOG, found[0])
    return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)


def nccl_version(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    setting = Setting("nccl_version", found["version"], Origin.LOG, found[0])
    return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)


def attention_backend(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Note(record.line, rank, kind=NoteKind.ATTENTION_BACKEND, text=found["backend"]),)


def compiling(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Compiling(record.line, rank, what=found[0][:80]),)


def pool(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PoolSized(record.line, rank, max_total_tokens=int(found["tokens"])),)


def starting(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Starting(record.line, rank, what=found[0].rstrip(".")),)


def retraction(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Retraction(record.line, rank, count=int(found["count"])),)


def watchdog(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """A soft watchdog only dumps stacks; the other one ends the server."""
    return failure("watchdog", fatal=found["soft"] != "True")(found, record, rank)
