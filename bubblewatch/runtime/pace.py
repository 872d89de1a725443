"""When to ask: cadences, the governor, how often a sensor really changes, and the rate that follows from it."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Mapping
from itertools import pairwise

from bubblewatch.model.clock import NS

DEFAULT_HZ = 10.0
"""Readings a second until the sensors are measured: what those of today refresh at."""
SLOWEST_CHOSEN_HZ = 2.0
"""The lowest rate that is chosen without being asked for: five readings in the shortest window that is judged, 5 s."""
BUDGET = 0.02
"""Share of the time that driver calls may take: 2 % of one core, and of the driver's lock, which the server needs."""
SLOWEST_NS = 5 * NS
"""The governor never goes below one tick in five seconds."""
BURST_NS = 10_000_000
"""Between two reads of a sensor whose refresh is measured: half the period of the fastest known one."""
BURST_FOR_NS = 2 * NS
"""How long one sensor is measured: twenty refreshes of the usual 100 ms."""
BURST_BUDGET = 0.05
"""Share of BURST_FOR_NS that the driver calls of a burst may take; it ends when they have."""
FEWEST_GAPS = 3
"""Fewer gaps between changes than this tell no period."""
MOST_GAPS = 200
"""Gaps that are kept of each sensor: those of a burst at 100 reads a second."""


class Cadence:
    """Says when something that happens every so often is due, without drifting."""

    def __init__(self, every_ns: int, first_ns: int) -> None:
        self._every_ns = every_ns
        self.next_ns = first_ns

    def is_due(self, now_ns: int, slack_ns: int = 0) -> bool:
        """Whether it is due, at most `slack_ns` too early; asking counts as doing it."""
        if now_ns + slack_ns < self.next_ns:
            return False
        self.next_ns += self._every_ns
        if self.next_ns <= now_ns:
            self.next_ns = now_ns + self._every_ns
        return True


def governed_period_ns(period_ns: int, wished_ns: int, share: float) -> int:
    """The period with which calls that took `share` of the time at `period_ns` take BUDGET at most.

    Never shorter than `wished_ns`; changes by a factor of 4 at most, so that one stall does not silence the sampler.
    """
    fitting = period_ns * share / BUDGET
    return round(min(max(fitting, period_ns / 4, wished_ns), period_ns * 4, max(SLOWEST_NS, wished_ns)))


class Refresh:
    """How often each sensor of one GPU changes: the median of the gaps between the changes that were seen.

    The minimum, which others take, was 10 to 70 % low in recorded traces; the median was right in each of them.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}
        self._gaps_ns: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=MOST_GAPS))

    def saw(self, time_ns: int, values: Mapping[str, float]) -> None:
        """Take note of what the sensors showed at this time."""
        for field, value in values.items():
            if math.isnan(value):
                continue
            known = self._last.get(field)
            if known is None or value != known[1]:
                if known is not None and known[0]:
                    self._gaps_ns[field].append(time_ns - known[0])
                # The first value may have been there for long: its time says nothing.
                self._last[field] = (time_ns if known is not None else 0, value)

    def saw_samples(self, field: str, times_us: tuple[int, ...]) -> None:
        """Take note of when the driver's own samples were taken."""
        gaps = [later - earlier for earlier, later in pairwise(times_us)]
        self._gaps_ns[field].extend(gap * 1000 for gap in gaps)

    def periods_s(self) -> dict[str, float]:
        """Field -> seconds between two refreshes; absent when too few changes were seen to tell."""
        return {
            field: statistics.median(gaps) / NS for field, gaps in self._gaps_ns.items() if len(gaps) >= FEWEST_GAPS
        }


def chosen_rate_hz(period_s: float | None, fastest_hz: float) -> float:
    """The rate that sees each refresh of the fastest sensor, which comes every `period_s`, once; DEFAULT_HZ for None.

    Between SLOWEST_CHOSEN_HZ and `fastest_hz`. A period that is DEFAULT_HZ's within a quarter counts as that: the
    measurement is no better when a machine is busy.
    """
    if not period_s:
        return DEFAULT_HZ
    rate_hz = 1 / period_s
    if abs(rate_hz / DEFAULT_HZ - 1) <= 0.25:
        return DEFAULT_HZ
    return min(max(rate_hz, SLOWEST_CHOSEN_HZ), fastest_hz)


class DriverClock:
    """Places times of the driver's own clock on ours.

    The newest sample is never from the future, so the least distance seen lately is the distance of the two clocks,
    give or take the age of the freshest sample: a few ms after some readings.
    """

    KEPT = 64
    """Distances that are kept: a minute's, in which clocks that are slewed part by 30 ms at the most."""

    def __init__(self) -> None:
        self._distances_ns: deque[int] = deque(maxlen=self.KEPT)
        self._newest_us = 0

    def saw(self, now_ns: int, newest_us: int) -> None:
        """Take note that a sample of this driver time was there at this time of ours."""
        if newest_us < self._newest_us:
            self._distances_ns.clear()  # the driver's clock was set back
        self._newest_us = newest_us
        self._distances_ns.append(now_ns - newest_us * 1000)

    def ours_ns(self, driver_us: int) -> int:
        """The same moment on our clock; only after `saw`."""
        return driver_us * 1000 + min(self._distances_ns)
