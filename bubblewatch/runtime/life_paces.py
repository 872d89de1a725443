"""How fast a server was at which demand, in this life and in the one before: what tells a restart that made it slower.

Rates are compared only at the same number of running requests, rounded up to a power of two: a server with one request
is slower in all than with eight, and nothing is wrong.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from bubblewatch.model.clock import NS
from bubblewatch.model.signals import Signals

EVERY_S = 5.0
"""Time between two readings, in seconds: decode lines come every few."""

KEPT = 120
"""Newest readings kept of each demand: ten minutes of it."""

ENOUGH = 24
"""Readings of either life that a comparison needs: two minutes at that demand."""

MOST_DEMANDS = 16
"""Demands that are kept: up to 32,768 requests at once."""

Paces = Mapping[int, tuple[float, ...]]


class LifePaces:
    """Readings of one server over two lives. One thread calls it."""

    def __init__(self, now: Paces | None = None, before: Paces | None = None) -> None:
        self._now = {demand: list(rates) for demand, rates in (now or {}).items()}
        self._before = {demand: tuple(rates) for demand, rates in (before or {}).items()}
        self._next_ns = 0

    @property
    def now(self) -> Paces:
        return {demand: tuple(rates) for demand, rates in self._now.items()}

    @property
    def before(self) -> Paces:
        return self._before

    def new_life(self) -> None:
        """What was now becomes what was before, as far as it has enough to compare with; the rest stays."""
        told = {demand: tuple(rates) for demand, rates in self._now.items() if len(rates) >= ENOUGH}
        self._before = {**self._before, **told}
        self._now = {}

    def note(self, now_ns: int, signals: Signals) -> None:
        """Take note of the rate at this moment (monotonic), when requests run."""
        rate, running = signals.number("throughput.gen_tps"), signals.number("demand.running")
        if now_ns < self._next_ns or not rate or not running:
            return
        self._next_ns = now_ns + round(EVERY_S * NS)
        demand = demand_of(running)
        if demand not in self._now and len(self._now) >= MOST_DEMANDS:
            return
        rates = self._now.setdefault(demand, [])
        rates.append(float(rate))
        del rates[:-KEPT]

    def ratio(self, running: float | None) -> float | None:
        """The rate now over that of the life before, at this many running requests; None when it cannot be told."""
        if not running:
            return None
        now, before = self._now.get(demand_of(running), ()), self._before.get(demand_of(running), ())
        if len(now) < ENOUGH or len(before) < ENOUGH:
            return None
        usual = statistics.median(before)
        return statistics.median(now) / usual if usual > 0 else None


def demand_of(running: float) -> int:
    """The number of requests, rounded up to a power of two."""
    return 1 << max(round(running) - 1, 0).bit_length()
