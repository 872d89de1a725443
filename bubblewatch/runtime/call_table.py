"""How often each driver function was called and how long that took, in memory that two processes share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SLOTS = 48
"""Functions that are told apart: the sampler uses thirty. What comes later is counted together in the last one."""
OTHER = "other"

_WORD = 8
_NAME_BYTES = 64
"""The longest NVML function name has 60 characters."""
_BUCKETS_PER_OCTAVE = 4
_BUCKETS = 40 * _BUCKETS_PER_OCTAVE
"""Histogram of latencies: four buckets an octave, up to 2^40 ns = 18 minutes."""
_SLOT_BYTES = _NAME_BYTES + _WORD * (2 + _BUCKETS)
TABLE_BYTES = SLOTS * _SLOT_BYTES


@dataclass(frozen=True, slots=True)
class CallStats:
    """Calls of one function, or of several together. `buckets` are counts by `bucket_of`."""

    calls: int
    seconds: float
    buckets: Sequence[int]

    def quantile_s(self, quantile: float) -> float | None:
        """Latency in seconds below which this share of the calls lay, within 25 %; None before the first call."""
        wanted = quantile * sum(self.buckets)
        below = 0
        for bucket, count in enumerate(self.buckets):
            below += count
            if count and below >= wanted:
                return upper_edge_ns(bucket) / 1e9
        return None

    def below(self, edge_s: float) -> int:
        """Calls that certainly took no longer than this."""
        edge_ns = edge_s * 1e9
        return sum(count for bucket, count in enumerate(self.buckets) if count and upper_edge_ns(bucket) <= edge_ns)


def together(stats: Iterable[CallStats]) -> CallStats:
    """All these calls as one."""
    several = list(stats)
    buckets = [sum(counts) for counts in zip(*(one.buckets for one in several), strict=True)]
    return CallStats(sum(one.calls for one in several), math.fsum(one.seconds for one in several), buckets)


class CallTable:
    """The table in `area` of TABLE_BYTES zeroed bytes. One writer, any number of readers."""

    def __init__(self, area: memoryview[int]) -> None:
        self._area = area
        self._words = area.cast("Q")
        self._starts: dict[str, int] = {}

    def count(self, function: str, latency_ns: int) -> None:
        """Add one call. Writer only."""
        start = self._starts.get(function)
        if start is None:
            start = self._assign(function)
        words = self._words
        words[start + 1] += latency_ns
        words[start + 2 + bucket_of(latency_ns)] += 1
        words[start] += 1

    def total_ns(self) -> int:
        """Time spent in all calls."""
        return sum(self._words[slot * _SLOT_BYTES // _WORD + _NAME_BYTES // _WORD + 1] for slot in range(SLOTS))

    def total_calls(self) -> int:
        return sum(self._words[slot * _SLOT_BYTES // _WORD + _NAME_BYTES // _WORD] for slot in range(SLOTS))

    def read(self) -> Mapping[str, CallStats]:
        """Function -> its calls, for every function that was called."""
        found = {}
        for slot in range(SLOTS):
            at = slot * _SLOT_BYTES
            name = bytes(self._area[at : at + _NAME_BYTES]).rstrip(b"\0").decode(errors="replace")
            start = (at + _NAME_BYTES) // _WORD
            calls, spent_ns, *buckets = self._words[start : start + 2 + _BUCKETS].tolist()
            if calls:
                found[name] = CallStats(calls, spent_ns / 1e9, buckets)
        return found

    def _assign(self, function: str) -> int:
        slot = min(len(self._starts), SLOTS - 1)
        name = (OTHER if slot == SLOTS - 1 else function).encode()[:_NAME_BYTES]
        at = slot * _SLOT_BYTES
        self._area[at : at + _NAME_BYTES] = name.ljust(_NAME_BYTES, b"\0")
        start = self._starts[function] = (at + _NAME_BYTES) // _WORD
        return start


def bucket_of(latency_ns: int) -> int:
    """Number of the histogram bucket that counts this latency."""
    if latency_ns < _BUCKETS_PER_OCTAVE:
        return latency_ns
    octave = latency_ns.bit_length() - 3
    part = (latency_ns >> octave) & (_BUCKETS_PER_OCTAVE - 1)
    return min((octave + 1) * _BUCKETS_PER_OCTAVE + part, _BUCKETS - 1)


def upper_edge_ns(bucket: int) -> int:
    """The smallest latency above this bucket; the last bucket has none, and what it counts is longer."""
    octave, part = divmod(bucket, _BUCKETS_PER_OCTAVE)
    return part + 1 if octave == 0 else (_BUCKETS_PER_OCTAVE + part + 1) << (octave - 1)
