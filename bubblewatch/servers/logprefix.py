"""Records of a log line: what the server wrote, behind whatever prefixes its way into our hands added.

Containers, Kubernetes tools, Ray and loggers of the user's own put times and names before the server's own prefix, and
broken transports glue two records into one line. Each kind of server gives the pattern of its own prefix; everything
before it is read for its time only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
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
    # INFO text_generation_router: …   INFO loggers.log: …    Rust tracing (TGI, Dynamo), behind a time with a zone
    r"|(?:TRACE|DEBUG|INFO|WARN|ERROR)\s{1,4}[a-z]\w{0,40}(?:(?:\.|::)\w{1,60}){0,6}: "
    # Dec 01 14:00:00 host sglang[48121]: …    syslog, journalctl
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [^\s\[\]:]{1,80}(?:\[\d{1,10}\])?: "
)


_JSON_MESSAGE = ("message", "msg", "log", "MESSAGE")
_JSON_TIME = ("timestamp", "time", "ts", "asctime", "@timestamp")
"""Names of the message and its time in JSON lines: TGI, llama.cpp, ollama, python-json-logger, structlog."""
_JSON_NUMBERS = re.compile(r"n_[a-z_]{1,40}|[a-z]{1,20}_time|time_per_token")
"""Fields that are read beside the message: llama.cpp's slots, TGI's times of a request."""
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class OwnPrefix:
    """A server's own prefix: `pattern` finds it, `begins` finds the start of a record glued behind another one.

    Groups of `pattern` that are read here: `date` (2025-10-22, 2025/10/22 or 10/22/2025) or `day` (10-22, no year),
    `time`, `fraction`, `zone` (`Z`, `+02:00`). `mark` is in every such prefix: a line that has none behind its first
    prefix is one record, which saves the search ("" = always search).
    """

    pattern: re.Pattern[str]
    begins: re.Pattern[str]
    mark: str = ""


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
    if '{"' in text[:PREFIX_LIMIT]:
        text, numbers = _unwrapped(text)
        if numbers:
            plain = _record(line, text, prefix.pattern.search(text, 0, PREFIX_LIMIT))
            return (plain, Record(plain.line, numbers))
    found = prefix.pattern.search(text, 0, PREFIX_LIMIT)
    if len(text) > GLUED_LIMIT or text.find(prefix.mark, found.end() if found else 0) < 0:
        return (_record(line, text, found),)
    starts = [0, *(found.start() for found in prefix.begins.finditer(text) if found.start())][:RECORD_LIMIT]
    ends = [*starts[1:], len(text)]
    if len(starts) == 1:
        return (_record(line, text, found),)
    parts = [text[a:b] for a, b in zip(starts, ends, strict=True)]
    return tuple(_record(line, part, prefix.pattern.search(part, 0, PREFIX_LIMIT)) for part in parts)


def _unwrapped(text: str) -> tuple[str, str]:
    """The text of a record in JSON as its logger would print it plainly, and its numbers on the request or the slots.

    A line that is no such record stays as it is. Its other fields are dropped: users may have written them.
    """
    start = text.index('{"')
    try:
        fields = json.loads(text[start:]) if text.rstrip().endswith("}") else None
    except (ValueError, RecursionError):
        return text, ""
    if not isinstance(fields, dict):
        return text, ""
    # TGI and other Rust servers nest the message in `fields` and what belongs to the request in `span`.
    inner = [part for name in ("fields", "span") if isinstance(part := fields.get(name), dict)]
    flat = {name: value for part in (fields, *inner) for name, value in part.items() if isinstance(value, str | int)}
    message = next((flat[name] for name in _JSON_MESSAGE if isinstance(flat.get(name), str)), None)
    if message is None:
        return text, ""
    time = next((flat[name] for name in _JSON_TIME if name in flat and _ISO.match(str(flat[name]))), None)
    numbers = " ".join(f'{name}="{value}"' for name, value in flat.items() if _JSON_NUMBERS.fullmatch(name))
    return f"{text[:start]}{f'{time} ' if time else ''}{message}".rstrip(), numbers


def _record(line: LogLine, text: str, found: re.Match[str] | None) -> Record:
    """The record that `text` is, `found` being the server's own prefix in it."""
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
    date = _iso_date(own["date"]) if "date" in own else f"{NOMINAL_YEAR}-{own['day']}" if "day" in own else None
    if date is None or "time" not in own:
        return line
    zone = own.get("zone", "+00:00").replace("Z", "+00:00")
    coarse = _nanoseconds(date, own["time"], own.get("fraction", ""), zone)
    if coarse is None:
        return line
    # As `replace` would, at a third of its cost: this is done for every line that has no time of its transport.
    exactly = len(own.get("fraction", "")) >= 3
    return LogLine(line.text, coarse, exactly, line.source, line.unit, line.pid, line.cursor, line.number)


NOMINAL_YEAR = 2000
"""Year of a time that names none (vLLM): a leap year, so that every day exists. Only differences of them count."""


def _iso_date(text: str) -> str:
    """2025/10/22 and 10/22/2025 as 2025-10-22."""
    parts = text.replace("/", "-").split("-")
    return "-".join(parts if len(parts[0]) == 4 else (parts[-1], *parts[:-1]))


def _nanoseconds(date: str, time: str, fraction: str, zone: str) -> int | None:
    """Nanoseconds since 1970; None when there is no such moment (month 13)."""
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{zone}")
    except ValueError:
        return None
    return int(moment.timestamp()) * NS + int(fraction.ljust(9, "0")[:9] or 0)
