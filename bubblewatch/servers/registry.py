"""The kinds of servers that are known, and which of them a command, a process or a log belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from bubblewatch.model.logs import LogLine
from bubblewatch.model.server import Launch
from bubblewatch.servers.base import ServerKind
from bubblewatch.servers.sglang import SGLang
from bubblewatch.servers.vllm import VLLM

KNOWN: tuple[ServerKind, ...] = (SGLang(), VLLM())
"""Every kind, in the order in which they are asked."""

LINES_LOOKED_AT = 5_000
"""Lines that are looked at to tell whose log it is: start-up and the first minutes of work of any server."""


def recognise(launch: Launch, title: str = "") -> ServerKind | None:
    """The kind that this command or process title belongs to; None when it is no known server."""
    return next((kind for kind in KNOWN if kind.matches(launch, title)), None)


def recognise_lines(lines: Iterable[LogLine]) -> ServerKind | None:
    """The kind with the most telling lines among the first ones; None when there are none, or as many of another."""
    looked_at = tuple(islice(lines, LINES_LOOKED_AT))
    hits = sorted(((sum(map(kind.tells, looked_at)), index) for index, kind in enumerate(KNOWN)), reverse=True)
    (most, best), (second, _) = hits[0], hits[1]
    return KNOWN[best] if most > second else None


def by_name(name: str) -> ServerKind | None:
    """The kind of this name, in any spelling of case; None when it is not known."""
    return next((kind for kind in KNOWN if kind.kind == name.strip().lower()), None)
