"""The hub: one picture goes in, every surface takes it out."""

from __future__ import annotations

import threading
from dataclasses import replace

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.findings import Snapshot

STALE_S = 30.0
"""Age in seconds from which a snapshot no longer speaks for the machine: 30 missed ticks of one second, two missed
scrapes at Prometheus' usual 15 s."""


class Hub:
    """Holds the latest snapshot and nothing else, so it never grows. Every method may be called from any thread.

    `clock` tells the age of a snapshot; it must go on when the publisher hangs, so a daemon gives the machine's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._latest: Snapshot | None = None
        self._published_ns = 0
        self._closed = False

    def publish(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it is now held: with the next sequence number, which starts at 1 and never goes back."""
        with self._changed:
            sequence = self._latest.sequence + 1 if self._latest is not None else 1
            self._latest = replace(snapshot, sequence=sequence)
            self._published_ns = self._clock.monotonic_ns()
            self._changed.notify_all()
            return self._latest

    def latest(self) -> Snapshot | None:
        """The last snapshot, however old; None before the first one."""
        with self._changed:
            return self._latest

    def latest_with_age(self) -> tuple[Snapshot, float] | None:
        """The last snapshot and the seconds since it was published; None before the first one."""
        with self._changed:
            if self._latest is None:
                return None
            return self._latest, (self._clock.monotonic_ns() - self._published_ns) / NS

    def wait(self, after_sequence: int, timeout_s: float) -> Snapshot | None:
        """The latest snapshot as soon as its number is above `after_sequence`; None after `timeout_s` or `close`.

        A slow waiter skips snapshots; it never gets an old one. `timeout_s` is real time.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._is_after(after_sequence), timeout_s)
            return self._latest if self._is_after(after_sequence) else None

    def close(self) -> None:
        """Wake every waiter; from now on `wait` returns at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_after(self, sequence: int) -> bool:
        return self._latest is not None and self._latest.sequence > sequence
