"""What survives a restart of the daemon: how far each log was read, what was said only once, what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bubblewatch.diagnose.lifecycle import Remembered
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.model.server import Epoch

VERSION = 1
"""Of this form; a file of another version is not read, and everything begins anew."""


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """One server, by key. Its log was read up to `place` of `log_name`, `line_count` lines in all.

    `birth` are the start-up lines of this life, `recent` the newest lines that meant something, both redacted.
    `starts_ns` are wall times at which new lives began while we watched. `paces` are tokens/s by requests running
    (rounded up to a power of two), of this life and of the one `before`. `seen_ns` is wall time.
    """

    key: str
    seen_ns: int
    epoch: Epoch | None = None
    log_name: str = ""
    place: LogPlace | None = None
    line_count: int = 0
    birth: tuple[LogLine, ...] = ()
    recent: tuple[LogLine, ...] = ()
    starts_ns: tuple[int, ...] = ()
    findings: tuple[Remembered, ...] = ()
    paces: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    before: Mapping[int, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything. `servers` holds those that are there and those that were, by key."""

    servers: Mapping[str, ServerMemory] = field(default_factory=dict)
    version: int = VERSION
