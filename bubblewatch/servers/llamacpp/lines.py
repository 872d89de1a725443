"""What llama.cpp's lines mean: builders for the table, and its prefix."""

from __future__ import annotations

import re

from bubblewatch.model.logs import (
    Access,
    Event,
    Idle,
    Note,
    NoteKind,
    Offload,
    PoolSized,
    PrefillStep,
    RequestWork,
    SettingsSeen,
    StatsLine,
    VersionSeen,
)
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.logprefix import OwnPrefix, Record

PREFIX = OwnPrefix(
    # 0.12.345.678 I slot print_timing: …      [3] 1.02.003.004 W srv  …      child and level where there are any
    pattern=re.compile(r"(?<!\S)(?:\[\d{1,4}\] )?(?P<elapsed>\d{1,6}\.\d\d\.\d{3}\.\d{3}) (?:[IWED] )?"),
    begins=re.compile(r"(?!)"),
)
"""llama.cpp's prefix since 2024: minutes, seconds, ms and µs since start, no date (common/log.cpp)."""

MIB_PER_GIB = 1024.0


def offloaded(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Offload(record.line, rank, layers=int(found["layers"]), of_layers=int(found["total"])),)


def no_gpu(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Offload(record.line, rank, layers=0, devices=0),)


def buffer_size(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Weights in one buffer: those of the CPU and pinned ones are on the host."""
    gib = float(found["mib"]) / MIB_PER_GIB
    host = "CPU" in found["device"] or "Host" in found["device"]
    return (Offload(record.line, rank, host_gib=gib if host else None, gpu_gib=None if host else gib),)


def devices(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    setting = Setting("cuda_devices", int(found["count"]), Origin.LOG, found[0][:200])
    return (SettingsSeen(record.line, rank, settings=Settings({setting.name: setting})),)


def pipeline(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    kind = NoteKind.PIPELINE_OFF if "retrying" in found[0] else NoteKind.PIPELINE_ON
    return (Note(record.line, rank, kind=kind, text=found[0][:200]),)


def kv_full(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Note(record.line, rank, kind=NoteKind.KV_FULL, text=found[0][:200]),)


def timing(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """One of the lines on a finished request: its prompt, or its output."""
    seconds, tokens = float(found["ms"]) / 1000, int(found["tokens"])
    if found["prompt"]:
        return (RequestWork(record.line, rank, prompt_tokens=tokens, prompt_s=seconds),)
    rate = float(found["tps"]) if found["tps"] else tokens / seconds if seconds > 0 else None
    return (RequestWork(record.line, rank, generated_tokens=tokens, generation_s=seconds, gen_tps=rate),)


def under_way(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    tokens, rate = int(found["tokens"]), float(found["tps"])
    return (RequestWork(record.line, rank, generated_tokens=tokens, gen_tps=rate, done=False),)


def new_prompt(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PrefillStep(record.line, rank, new_seqs=1),)


def prompt_part(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Tokens of the batch are said since 2025 (`batch.n_tokens`), before that `n_tokens` were they."""
    tokens = found["batch"] or found["tokens"]
    return (PrefillStep(record.line, rank, new_tokens=int(tokens)),)


def idle(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Idle(record.line, rank),)


def slots(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Slots at work. With one free, nothing waits for one."""
    free, busy = int(found["idle"]), int(found["busy"])
    return (StatsLine(record.line, rank, running=busy, waiting=0 if free else None),)


def build(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Builds are counted; people write b4589."""
    return (VersionSeen(record.line, rank, version=f"b{found['number']}"),)


def slot_count(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (PoolSized(record.line, rank, max_running=int(found["count"])),)


def access(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    path = found["path"].partition("?")[0][:200]
    return (Access(record.line, rank, method=found["method"], path=path, status=int(found["status"])),)
