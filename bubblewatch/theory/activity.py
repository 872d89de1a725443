"""What a GPU did over time, as levels whose integral over any span is exact: what sensor models read.

Times are in seconds from one origin, levels 0..1. An integral from the origin to `t_s` is "level-seconds".
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Integral = Callable[[float], float]
"""Level-seconds from the origin to a moment in seconds; never falls."""


def mean(integral: Integral, start_s: float, end_s: float) -> float:
    """Mean level between two moments; the spans of zero length have none and count as 0."""
    return (integral(end_s) - integral(start_s)) / (end_s - start_s) if end_s > start_s else 0.0


@dataclass(frozen=True, slots=True)
class SquareWave:
    """A level for `on_s` of every `period_s`, for the first time at `offset_s`; nothing before the origin."""

    period_s: float
    on_s: float
    offset_s: float = 0.0
    level: float = 1.0

    def integral(self, t_s: float) -> float:
        """Level-seconds from the origin to `t_s`."""
        return self.level * (self._on_since_phase(t_s) - self._on_since_phase(0.0)) if t_s > 0 else 0.0

    def _on_since_phase(self, t_s: float) -> float:
        turns, rest_s = divmod(t_s - self.offset_s, self.period_s)
        return turns * self.on_s + min(rest_s, self.on_s)


@dataclass(frozen=True, slots=True)
class Spans:
    """A level during spans that do not overlap, in order of time."""

    spans: tuple[tuple[float, float], ...]
    level: float = 1.0
    _starts: tuple[float, ...] = field(init=False, repr=False)
    _before: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if any(b < a for a, b in self.spans) or any(b[0] < a[1] for a, b in itertools.pairwise(self.spans)):
            raise ValueError("spans must not overlap and stand in order of time")
        object.__setattr__(self, "_starts", tuple(start for start, _ in self.spans))
        lengths = (end - start for start, end in self.spans)
        object.__setattr__(self, "_before", tuple(itertools.accumulate(lengths, initial=0.0)))

    def integral(self, t_s: float) -> float:
        """Level-seconds from the origin to `t_s`."""
        index = bisect.bisect_right(self._starts, t_s) - 1
        if index < 0:
            return 0.0
        start, end = self.spans[index]
        return self.level * (self._before[index] + min(t_s, end) - start)


def merged(spans: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The spans in order of time, those that touch or overlap as one."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
