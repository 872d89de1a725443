"""Where the daemon leaves feeds for screens that ask, so that none is made while nobody looks."""

from __future__ import annotations

import threading

from bubblewatch.model.clock import NS, Clock
from bubblewatch.runtime.feed import ScreenFeed

WANTED_S = 10.0
"""How long one question keeps feeds coming, in seconds: a screen asks every second."""

FRESH_S = 5.0
"""Age in seconds from which a feed is not handed out any more."""


class FeedDesk:
    """Holds the newest feed. Every method may be called from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_ns: int | None = None
        self._feed: ScreenFeed | None = None
        self._put_ns = 0

    @property
    def is_wanted(self) -> bool:
        """Whether somebody asked within the last WANTED_S."""
        with self._lock:
            return self._asked_ns is not None and self._clock.monotonic_ns() - self._asked_ns < WANTED_S * NS

    def put(self, feed: ScreenFeed) -> None:
        """Leave the newest feed."""
        with self._lock:
            self._feed, self._put_ns = feed, self._clock.monotonic_ns()

    def take(self) -> ScreenFeed | None:
        """The newest feed; None when there is no fresh one yet. Asking makes the watcher leave some."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            self._asked_ns = now_ns
            is_fresh = self._feed is not None and now_ns - self._put_ns < FRESH_S * NS
            return self._feed if is_fresh else None
