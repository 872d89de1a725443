"""Records of a log line: what the server wrote, behind whatever prefixes its way into our hands added.

Containers, Kubernetes tools, Ray and loggers of the user's own put times and names before the server's own prefix, and
broken transports glue two records into one line. Each kind of server gives the pattern of its own prefix; everything
before it is read for its time only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import LogLine

LINE_LIMIT = 262_144
"""Characters of a line that are looked at: the longest line that means anything is SGLang's settings, tens of kB."""

PREFIX_LIMIT = 400
"""Characters in which the server's own prefix must begin: five nested prefixes are about half of it."""

RECORD_LIMIT = 16
"""Records that one glued line may hold."""

GLUED_LIMIT = 16_384
"""Characters of a line that are looked at for records glued together; a longer line is one record."""

NESTED_LIMIT = 4
"""Prefixes of transports inside each other that are taken off; three were seen (container, Ray, worker)."""

_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")

_STAMP = re.compile(
    # 2025-07-29T12:19:19.333962774+07:00 stdout F (RayWorkerWrapper pid=549) INFO …    containerd, Kubernetes
    # 2025-05-16T13:12:16.645427617Z DEBUG 05-16 13:12:16 …                             docker logs --timestamps
    r"(?:[\w.-]{1,80}\s{1,8}\|?\s{0,8}){0,2}(?P<date>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)\s{1,4}(?:std(?:out|err) [FP] )?"
)
_NAMES = re.compile(
    # (RayWorkerWrapper pid=549, ip=10.0.0.2) …    Ray;   pod container (APIServer pid=1) …    stern
    r"(?:[\w.-]{1,80} ){0,2}\([^()\n]{1,100} pid=[^()\s]{1,20}(?:, ?ip=[^()\s]{1,45})?\)\s{0,4}"
    # sglang-1  | …    docker compose
    r"|[\w.-]{1,80}\s{0,20}\| "
    # Dec 01 14:00:00 host sglang[48121]: …    syslog, journalctl
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [^\s\[\]:]{1,80}(?:\[\d{1,10}\])?: "
)


@dataclass(frozen=True, slots=True)
class OwnPrefix:
    """A server's own prefix: `pattern` finds it, `begins` finds the start of a record glued behind another one.

    Groups of `pattern` that are read here: `date` (2025-10-22) or `day` (10-22, no year), `time`, `fraction`.
    """

    pattern: re.Pattern[str]
    begins: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its `line` (with a time wherever one was found), the `message`, and the groups of the own prefix.

    `before` is the text in front of the message, at most 400 characters. `own` is empty when the record has no prefix
    of the server's own.
    """

    line: LogLine
    message: str
    before: str = ""
    own: Mapping[str, str] = field(default_factory=dict)


def records(line: LogLine, prefix: OwnPrefix) -> tuple[Record, ...]:
    """The records of `line`, one as a rule. Linear in its length."""
    text = line.text[:LINE_LIMIT]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if len(text) > GLUED_LIMIT:
        return (_record(line, text, prefix),)
    starts = [0, *(found.start() for found in prefix.begins.finditer(text) if found.start())][:RECORD_LIMIT]
    ends = [*starts[1:], len(text)]
    return tuple(_record(line, text[a:b], prefix) for a, b in zip(starts, ends, strict=True))


def _record(line: LogLine, text: str, prefix: OwnPrefix) -> Record:
    found = prefix.pattern.search(text, 0, PREFIX_LIMIT)
    stamp = _STAMP.match(text, 0, PREFIX_LIMIT)
    own = {name: value for name, value in found.groupdict().items() if value is not None} if found else {}
    if found is not None:
        start = found.end()
    else:
        start = stamp.end() if stamp else 0
        for _ in range(NESTED_LIMIT):
            name = _NAMES.match(text, start)
            start = name.end() if name else start
    return Record(_timed(line, stamp, own), text[start:].strip(), text[:start], MappingProxyType(own))


def _timed(line: LogLine, stamp: re.Match[str] | None, own: Mapping[str, str]) -> LogLine:
    """The line with its time: the transport's, else the zoned stamp in front, else the server's own (to the second)."""
    if line.time_ns is not None:
        return line
    if stamp is not None:
        zone = "+00:00" if stamp["zone"] == "Z" else stamp["zone"]
        exact = _nanoseconds(stamp["date"], stamp["time"], stamp["fraction"] or "", zone)
        if exact is not None:
            return replace(line, time_ns=exact, time_exact=True)
    date = own.get("date") or (f"{NOMINAL_YEAR}-{own['day']}" if "day" in own else None)
    if date is None or "time" not in own:
        return line
    coarse = _nanoseconds(date, own["time"], own.get("fraction", ""), "+00:00")
    return line if coarse is None else replace(line, time_ns=coarse, time_exact=len(own.get("fraction", "")) >= 3)


NOMINAL_YEAR = 2000
"""Year of a time that names none (vLLM): a leap year, so that every day exists. Only differences of them count."""


def _nanoseconds(date: str, time: str, fraction: str, zone: str) -> int | None:
    """Nanoseconds since 1970; None when there is no such moment (month 13)."""
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{zone}")
    except ValueError:
        return None
    return int(moment.astimezone(UTC).timestamp()) * NS + int(fraction.ljust(9, "0")[:9] or 0)
