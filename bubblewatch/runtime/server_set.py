"""The servers of one host under watch: found, restarted, broken, gone, and back under the same key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from bubblewatch.diagnose.lifecycle import Remembered
from bubblewatch.model.clock import NS
from bubblewatch.model.errors import SourceError
from bubblewatch.model.protocols import ProcessSeen
from bubblewatch.runtime.log_places import LogPlaces
from bubblewatch.runtime.memory import Memory, ServerMemory
from bubblewatch.runtime.server_watch import ServerWatch, server_key

KEEP_BROKEN_S = 900.0
"""How long a server that broke is shown after its process is gone, in seconds: somebody should see why."""

KEEP_MEMORY_S = 30 * 86_400.0
"""How long a server that is gone is remembered, in seconds: a month, in case it comes back under the same key."""

MOST_MEMORIES = 64
"""Servers that are remembered; those longest gone are forgotten first."""

log = logging.getLogger(__name__)

Make = Callable[[str, ProcessSeen, ServerMemory | None], ServerWatch]


class ServerSet:
    """Servers under watch, by key. Called only from the thread that ticks."""

    def __init__(self, make: Make, memory: Memory, places: LogPlaces) -> None:
        self._make = make
        self._memories = dict(memory.servers)
        self._places = places
        self._servers: dict[str, ServerWatch] = {}

    def __iter__(self) -> Iterator[ServerWatch]:
        return iter([self._servers[key] for key in sorted(self._servers)])

    def remembered(self, key: str) -> ServerMemory | None:
        """What is known of an earlier time of this server."""
        return self._memories.get(key)

    def met(self, found: Sequence[ProcessSeen], now_ns: int) -> Sequence[str]:
        """Take note of the processes that are there at this wall time; gives the keys of servers that are dropped."""
        present = _keyed(found)
        for key, seen in present.items():
            known = self._servers.get(key)
            if known is None:
                self._servers[key] = self._make(key, seen, self._memories.get(key))
                kind = self._servers[key].kind
                log.info("server found key=%s kind=%s pid=%d", key, kind.kind if kind else "unknown", seen.pid)
                continue
            if known.seen.epoch != seen.epoch:
                log.info("server restarted key=%s pid=%d", key, seen.pid)
            known.met(seen, now_ns)
        return [key for key in sorted(set(self._servers) - set(present)) if self._has_left(key, now_ns)]

    def memory(self, now_ns: int, findings: Callable[[str], Sequence[Remembered]]) -> Memory:
        """Everything that should survive; `findings` gives those of a key. `now_ns` is wall time."""
        for key in self._servers:
            self._remember(key, now_ns, findings(key))
        newest = sorted(self._memories.values(), key=lambda one: one.seen_ns, reverse=True)[:MOST_MEMORIES]
        self._memories = {one.key: one for one in newest if now_ns - one.seen_ns < KEEP_MEMORY_S * NS}
        return Memory(dict(self._memories))

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def _has_left(self, key: str, now_ns: int) -> bool:
        """Whether a server without a process is dropped; its last words are read first, and one that broke stays."""
        server = self._servers[key]
        try:
            server.listen(now_ns)
        except SourceError as error:
            log.info("last lines of a log cannot be read key=%s error=%s", key, error)
        if server.gone_ns is None:
            server.leave(now_ns)
            log.info("server gone key=%s broken=%s", key, server.is_broken)
        if server.is_broken and now_ns - (server.gone_ns or now_ns) < KEEP_BROKEN_S * NS:
            return False
        self._remember(key, now_ns, ())
        self._places.closed(server.first_epoch)
        self._servers.pop(key).close()
        return True

    def _remember(self, key: str, now_ns: int, findings: Sequence[Remembered]) -> None:
        server = self._servers[key]
        name, place = self._places.now(server.first_epoch)
        memory = server.memory(now_ns)
        self._memories[key] = replace(memory, log_name=name, place=place, findings=tuple(findings))


def _keyed(found: Sequence[ProcessSeen]) -> Mapping[str, ProcessSeen]:
    """The processes by key, the oldest first; further ones with the same key get a number."""
    present: dict[str, ProcessSeen] = {}
    for seen in sorted(found, key=lambda s: s.epoch.start_ticks):
        key = server_key(seen)
        twins = sum(known == key or known.startswith(f"{key}#") for known in present)
        present[f"{key}#{twins + 1}" if twins else key] = seen
    return present
