"""Time, passed in: monotonic nanoseconds for arithmetic, wall-clock ones for showing and for joining with logs."""

from __future__ import annotations

import time
from typing import Protocol

NS = 1_000_000_000
"""Nanoseconds in a second."""


class Clock(Protocol):
    """What tells the time and waits. Only `app/` constructs a real one."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back; the origin means nothing."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC; may jump."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock; at once when `seconds` <= 0."""


class SystemClock:
    """The machine's clocks."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told: `sleep` advances it at once. For tests, replays and the simulator.

    `pace`, when given, is a real clock and a speed: each `sleep(s)` then also takes s / speed real seconds, so that a
    simulation can be watched.
    """

    def __init__(self, wall_ns: int = 1_767_225_600 * NS, pace: tuple[Clock, float] | None = None) -> None:
        self._monotonic_ns = 0
        self._offset_ns = wall_ns
        self._pace = pace

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def wall_ns(self) -> int:
        return self._monotonic_ns + self._offset_ns

    def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        self._monotonic_ns += round(seconds * NS)
        if self._pace is not None:
            clock, speed = self._pace
            clock.sleep(seconds / speed)
