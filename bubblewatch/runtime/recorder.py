"""What of a GPU's answers is kept: each change, nothing that cannot be, and a sign of life now and then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bubblewatch.model.clock import NS
from bubblewatch.model.telemetry import FIELDS, GpuInfo
from bubblewatch.runtime.shared_ring import Ring, SharedPage, Word

KEEP_NS = 750_000_000
"""A value that repeats is stored again after this long: late ticks included, no second is without a reading."""
CEILING = 1.5
"""Times the power limit above which a reading is no power: short peaks of 1.07 are seen, broken ones are in the kW."""
MODULE_CEILING = 3.0
"""The same where the sensor is that of a module: a GB300's module may draw 2900 W with GPUs of 1400 W."""
ANY_CARD_W = 5000.0
"""The same in W where no limit is known: beyond any card of today."""
COUNTER_LAG_S = 2.0
"""An energy counter may lie behind by this much, in seconds, and catch up in one step."""


def ceiling_w(gpu: GpuInfo, *, whole_module: bool = False) -> float:
    """The power in W that this GPU cannot draw."""
    limits = [limit for limit in (gpu.power_limit_w, gpu.power_default_limit_w) if limit]
    return max(limits) * (MODULE_CEILING if whole_module else CEILING) if limits else ANY_CARD_W


class Gate:
    """Refuses readings that cannot be: terawatts for one sample, a counter that jumps and comes back.

    A counter that stays where it jumped to was set anew, as the driver does when it is loaded: that is admitted.
    """

    def __init__(self, most_w: float) -> None:
        self._most_w = most_w
        self._energy: tuple[int, float] | None = None
        self._suspect: tuple[int, float] | None = None

    def admits(self, field: str, time_ns: int, value: float) -> bool:
        """Whether the value may be a reading of this field. NaN always is one: it says "unknown"."""
        if field in ("power_instant_w", "power_average_w"):
            return not value > self._most_w
        if field == "energy_j" and not math.isnan(value):
            return self._admits_energy(time_ns, value)
        return True

    def _admits_energy(self, time_ns: int, value: float) -> bool:
        good = self._energy is None or self._follows(self._energy, time_ns, value)
        if not good and self._suspect is not None:
            good = self._follows(self._suspect, time_ns, value)
        if good:
            self._energy, self._suspect = (time_ns, value), None
        else:
            self._suspect = (time_ns, value)
        return good

    def _follows(self, before: tuple[int, float], time_ns: int, value: float) -> bool:
        then_ns, then_j = before
        return 0 <= value - then_j <= self._most_w * ((time_ns - then_ns) / NS + COUNTER_LAG_S)


class Recorder:
    """Stores one GPU's readings: each change, and a repeat when the last one stored is KEEP_NS old."""

    def __init__(self, page: SharedPage, position: int, gate: Gate) -> None:
        self._page = page
        self._gate = gate
        self._rings: dict[str, Ring] = {field: page.ring(position, field) for field in FIELDS}
        self._counters = {field: Word.FIRST_DISTINCT + at for at, field in enumerate(FIELDS)}
        self._last: dict[str, tuple[int, float]] = {}
        self._same: Mapping[str, float] = {}
        self._same_until_ns = 0

    def store(self, time_ns: int, values: Mapping[str, float]) -> None:
        """Store what these values say at this time. A mapping that is the very one of the last call holds no news."""
        if values is self._same and time_ns < self._same_until_ns:
            return
        oldest_ns = time_ns
        for field, value in values.items():
            last_ns, last = self._last.get(field, (0, math.inf))
            repeats = value == last or (math.isnan(value) and math.isnan(last))
            if repeats and time_ns - last_ns < KEEP_NS:
                oldest_ns = min(oldest_ns, last_ns)
                continue
            if not repeats:
                if not self._gate.admits(field, time_ns, value):
                    self._page.count_rejected(1)
                    continue
                self._page.add(self._counters[field])
            self._push(field, time_ns, value)
        self._same, self._same_until_ns = values, oldest_ns + KEEP_NS

    def store_samples(self, field: str, samples: Sequence[tuple[int, float]]) -> None:
        """Store readings that the driver kept, each with its time; those before the last one stored come too late."""
        for time_ns, value in samples:
            last_ns, last = self._last.get(field, (0, math.inf))
            if time_ns <= last_ns:
                continue
            self._page.add(self._counters[field])  # each one is a reading, also when it says the same
            if value != last or time_ns - last_ns >= KEEP_NS:
                self._push(field, time_ns, value)

    def store_silence(self, time_ns: int) -> None:
        """Every field that was ever delivered is unknown from now on."""
        self.store(time_ns, dict.fromkeys(self._last, math.nan))

    def _push(self, field: str, time_ns: int, value: float) -> None:
        self._rings[field].push(time_ns, value)
        self._last[field] = (time_ns, value)
