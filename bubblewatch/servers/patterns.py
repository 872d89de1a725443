"""Tables of line patterns: what a kind of line looks like, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bubblewatch.model.logs import Event, Failure, Ready, Starting, VersionSeen
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


def starting(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Builder for a step on the way up, named by the words that matched."""
    return (Starting(record.line, rank, what=found[0].rstrip(".")[:80]),)


def version(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Builder for the line that says the server's own version."""
    return (VersionSeen(record.line, rank, version=found["version"]),)
