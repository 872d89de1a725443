"""Tables of line patterns, and the patterns that every Python server shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bubblewatch.model.logs import Access, Event, Failure, Ready
from bubblewatch.model.server import Rank
from bubblewatch.servers.logprefix import Record

MESSAGE_LIMIT = 4096
"""Characters of a message that patterns look at; the longest known line has about 600 (settings apart)."""

Build = Callable[["re.Match[str]", Record, "Rank | None"], tuple[Event, ...]]
"""From a match to what it means; () when the match turns out to mean nothing."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of line: `keyword` must be in the message before `regex` is tried.

    `example` is a real line (or, where none was found in public, one built from the source's format) of `version`.
    `telling`: no other kind of server writes such a line.
    """

    name: str
    keyword: str
    regex: re.Pattern[str]
    build: Build
    example: str
    version: str
    telling: bool = False


def first_meaning(
    patterns: Sequence[Pattern], record: Record, rank: Rank | None
) -> tuple[Pattern | None, tuple[Event, ...]]:
    """The first pattern that gives the record a meaning, and that meaning; (None, ()) when none does."""
    message = record.message[:MESSAGE_LIMIT]
    for pattern in patterns:
        if pattern.keyword not in message:
            continue
        found = pattern.regex.search(message)
        events = pattern.build(found, record, rank) if found is not None else ()
        if events:
            return pattern, events
    return None, ()


def failure(kind: str, *, fatal: bool) -> Build:
    """A builder for a line that says that something broke."""

    def build(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
        return (Failure(record.line, rank, kind=kind, what=found[0][:200], fatal=fatal),)

    return build


def ready(_found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Builder for the line that says that the server serves."""
    return (Ready(record.line, rank),)


def _access(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    path = found["path"].partition("?")[0][:200]
    return (Access(record.line, rank, method=found["method"], path=path, status=int(found["status"])),)


def _out_of_memory(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (
        Failure(record.line, rank, kind="out-of-memory", what=record.message[:200], fatal=found["fatal"] is not None),
    )


ACCESS = Pattern(
    "access",
    "HTTP/",
    re.compile(
        r'^(?:INFO:\s{1,10})?[\w.:\[\]-]{1,64} - "(?P<method>[A-Z]{3,8}) (?P<path>\S{1,2048}) HTTP/[\d.]{1,4}" '
        r"(?P<status>\d{3})\b"
    ),
    _access,
    'INFO:     127.0.0.1:57564 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "uvicorn 0.34",
)

SHARED = (
    ACCESS,
    Pattern(
        "cuda-out-of-memory",
        "emory",
        re.compile(
            r"(?:CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|^(?P<fatal>Out of memory: Killed process))"
        ),
        _out_of_memory,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79 GiB",
        "torch 2.6",
    ),
    Pattern(
        "nccl-timeout",
        "ollective operation timeout",
        re.compile(r"Watchdog caught collective operation timeout[^\n]{0,120}"),
        failure("nccl", fatal=True),
        "[rank3]:[E718 08:30:21.123456789 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=212, OpType=ALLREDUCE, NumelIn=7168, NumelOut=7168, Timeout(ms)=600000) ran for "
        "600013 milliseconds before timing out.",
        "torch 2.7",
    ),
    Pattern(
        "nccl-error",
        "NCCL",
        # Warnings (`[W918 …] ProcessGroupNCCL.cpp … destroy_process_group() was not called`) are harmless.
        re.compile(r"(?:NCCL error in|nccl(?:UnhandledCuda|System|Internal|Remote)Error)[^\n]{0,120}"),
        failure("nccl", fatal=True),
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
        "unhandled cuda error, NCCL version 2.26.2",
        "torch 2.7",
    ),
    Pattern(
        "killed",
        "Killed",
        re.compile(r"^Killed$"),
        failure("killed", fatal=True),
        "Killed",
        "bash 5.2",
    ),
)
"""Lines that any of these servers, or what runs beneath it, may write."""
