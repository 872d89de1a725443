"""Log lines in the wrappings that container runtimes put around them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import LogLine
from bubblewatch.sources.text import safe_lines

_STAMP = rb"(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)"
_CRI = re.compile(_STAMP + rb" std(?:out|err) (?P<tag>[FP])(?::\S*)? ")
# 2025-07-29T12:19:19.333962774+07:00 stdout F (RayWorkerWrapper pid=549) INFO ...    containerd 1.7, CRI log format
_MOMENT = re.compile(_STAMP)


def unwrapped(record: bytes, source: str, number: int | None = None) -> list[LogLine]:
    """The lines of one line of a file: out of docker's json-file and of the CRI format when it is one of those.

    `time_ns` is the runtime's time where it wrote one. CRI pieces of a long line (tag P) stay pieces.
    """
    message: bytes | str = record
    time_ns = None
    if record.startswith(
        b'{"log":'
    ):  # {"log":"text\n","stream":"stderr","time":"2026-03-02T10:00:01.123456789Z"}  docker
        message, time_ns = _docker(record)
    elif record[:1].isdigit() and (found := _CRI.match(record)):
        message, time_ns = record[found.end() :], _time_ns(found)
    return [
        LogLine(text=text, time_ns=time_ns, time_exact=time_ns is not None, source=source, number=number)
        for text in safe_lines(message)
    ]


def _docker(record: bytes) -> tuple[bytes | str, int | None]:
    try:
        fields = json.loads(record)
        moment = _MOMENT.fullmatch(str(fields.get("time", "")).encode())
        return str(fields["log"]), _time_ns(moment) if moment else None
    except (ValueError, RecursionError):
        return record, None


def _time_ns(found: re.Match[bytes]) -> int | None:
    zone = found["zone"].decode().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(found["moment"].decode() + zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return int(moment.timestamp()) * NS + int((found["fraction"] or b"").ljust(9, b"0"))
