"""Snapshots as server-sent events: each client always gets the latest, a slow one skips some, and nothing queues up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse

from bubblewatch.model.findings import Snapshot
from bubblewatch.runtime.hub import Hub

MOST_STREAMS = 16
"""Clients at once: screens and people; Prometheus does not use it."""

LOOK_S = 0.25
"""How often a stream looks for a new snapshot, in seconds: one comes every second."""

KEEP_ALIVE_S = 15.0
"""Silence after which a comment is sent, in seconds, so that a client that is gone is noticed."""

LONGEST_S = 3600.0
"""A stream ends after so many seconds; EventSource comes back by itself, and a forgotten one does not stay for ever."""


class Streams:
    """Gives out streams of the hub's snapshots, as documents. Runs on one event loop."""

    def __init__(self, hub: Hub, document: Callable[[Snapshot], str]) -> None:
        self._hub = hub
        self._document = document
        self._open = 0

    def open(self) -> StreamingResponse | None:
        """A response that streams; None when MOST_STREAMS are open."""
        if self._open >= MOST_STREAMS:
            return None
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        self._open += 1
        try:
            sequence, silent_s, open_s = 0, 0.0, 0.0
            while open_s < LONGEST_S:
                latest = self._hub.latest()
                if latest is not None and latest.sequence != sequence:
                    sequence, silent_s = latest.sequence, 0.0
                    yield _event(sequence, self._document(latest))
                elif silent_s >= KEEP_ALIVE_S:
                    silent_s = 0.0
                    yield ": nothing new\n\n"
                await asyncio.sleep(LOOK_S)
                silent_s, open_s = silent_s + LOOK_S, open_s + LOOK_S
        finally:
            self._open -= 1


def _event(sequence: int, document: str) -> str:
    """One event. A line end within would end it, so every line of the document becomes a line of data."""
    data = "".join(f"data: {line}\n" for line in document.splitlines())
    return f"id: {sequence}\nevent: snapshot\n{data}\n"
