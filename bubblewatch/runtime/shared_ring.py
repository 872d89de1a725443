"""The memory that the sampler process writes and its parent reads: readings, counters and one status text.

One writer, any number of readers, no locks between them: neither can make the other wait, even when one is killed or
hangs in the driver. Times are CLOCK_MONOTONIC in ns, which processes of one machine share. The memory is a sparse
memfd: room for MAX_GPUS is laid out, pages cost something once they are written.
"""

from __future__ import annotations

import mmap
import os
import threading
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar

from bubblewatch.model.telemetry import FIELDS, Series
from bubblewatch.runtime.call_table import TABLE_BYTES, CallTable

MAX_GPUS = 64
"""GPUs that one host may have here; the largest known machine has 16, cut into MIG instances 56 at the most."""
KEPT_S = 600
"""How far back the rings reach: 10 minutes, by which slow findings judge."""
MAX_DISTINCT_HZ = 50
"""Distinct readings a second that a ring has room for, at most: the fastest known power sensor (Volta, Pascal) gives
50. A field that changes faster is kept for a shorter time."""
AUTOMATIC_HZ = 20.0
"""The highest rate that is chosen without being asked for: what a ring has room for when none is given."""
UTIL_HZ = 10
"""The same for utilization, which no known driver refreshes more often than every 167 ms."""
SLOW_HZ = 2
"""The same for what is read once a second, doubled for safety."""
_POWER_FIELDS = frozenset({"power_instant_w", "power_average_w", "energy_j"})
_UTIL_FIELDS = frozenset({"util_ratio", "mem_util_ratio"})

Number = TypeVar("Number", int, float)

_WORD = 8
_WORDS = 64
STATUS_ROOM = 256 * 1024
"""Bytes for the status text. 64 GPUs with their names, and 32 processes each, fit."""


class Word(IntEnum):
    """Numbers that the writer keeps up to date, one 64-bit word each. All start at 0."""

    HEARTBEAT_NS = 0
    """When the writer last came back from the driver."""
    BUSY_GPU = 1
    """1 + NVML index of the GPU that is being asked, 0 between the calls."""
    TICKS = 2
    LATE_TICKS = 3
    """Ticks that began more than half a period after their deadline."""
    SKIPPED_TICKS = 4
    """Deadlines that went by while a tick took too long."""
    PERIOD_NS = 5
    """The period in force, which the governor may have lengthened."""
    CPU_NS = 6
    BEGAN_NS = 7
    """When the first reading was asked for."""
    STATUS_SEQUENCE = 8
    """Odd while the status text is being written."""
    STATUS_BYTES = 9
    REJECTED = 10
    """Answers that were dropped as nonsense: out of range, out of order, older than asked for."""
    FIRST_DISTINCT = 32
    """From here on: distinct readings of each field, in the order of FIELDS, over all GPUs."""


class Fence:
    """Orders what is written before it before what is written after it, on CPUs that reorder stores (aarch64).

    A release followed by an acquire of the same lock is such a barrier; Python has no other. Nobody waits for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            pass
        with self._lock:
            pass


class Ring:
    """The last readings of one field of one GPU. Times increase strictly."""

    def __init__(self, head: memoryview[int], times: memoryview[int], values: memoryview[float], fence: Fence) -> None:
        self._head = head
        self._times = times
        self._values = values
        self._fence = fence
        self._room = len(times)

    def push(self, time_ns: int, value: float) -> None:
        """Add a reading; the oldest goes when there is no room. Writer only."""
        count = self._head[0]
        if count and time_ns <= self._times[(count - 1) % self._room]:
            time_ns = self._times[(count - 1) % self._room] + 1
        self._times[count % self._room] = time_ns
        self._values[count % self._room] = value
        self._fence()
        self._head[0] = count + 1

    def since(self, since_ns: int) -> Series:
        """Readings at or after `since_ns`, oldest first; what is overwritten meanwhile is left out."""
        count = self._head[0]
        self._fence()
        oldest = max(0, count - self._room)
        first = bisect_left(range(count), since_ns, lo=oldest, key=lambda at: self._times[at % self._room])
        times = self._copy(array("q"), self._times, first, count)
        values = self._copy(array("d"), self._values, first, count)
        self._fence()
        # The slot of reading `count` may be half written: the reading that held it before is not to be trusted either.
        overwritten = max(0, self._head[0] + 1 - self._room - first)
        return Series(times[overwritten:], values[overwritten:])

    def _copy(self, into: array[Number], ring: memoryview[Number], first: int, end: int) -> array[Number]:
        start, stop = first % self._room, end % self._room
        if first == end:
            return into
        for part in [ring[start:stop]] if start < stop else [ring[start:], ring[:stop]]:
            into.frombytes(part.cast("B"))
        return into


class SharedPage:
    """The whole memory, made with `create` by the reader and opened by the one writer with `writable`.

    The descriptor is not needed after that. Both sides must give the same `rate_hz`.
    """

    def __init__(self, fd: int, rate_hz: float | None, *, writable: bool) -> None:
        self._rooms = rooms(rate_hz)
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(fd, _size(self._rooms), access=access)
        self._bytes = memoryview(self._map)
        self._words = self._bytes[: _WORDS * _WORD].cast("Q")
        self.calls = CallTable(self._bytes[_CALLS_AT : _CALLS_AT + TABLE_BYTES])
        self._fence = Fence()

    @classmethod
    def create(cls, rate_hz: float | None) -> tuple[SharedPage, int]:
        """A new memory with everything 0, to read, and its descriptor for the writer, which the caller closes."""
        fd = os.memfd_create("bubblewatch-sampler", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, _size(rooms(rate_hz)))
            return cls(fd, rate_hz, writable=False), fd
        except BaseException:
            os.close(fd)
            raise

    def get(self, word: Word) -> int:
        return int(self._words[word])

    def set(self, word: Word, value: int) -> None:
        self._words[word] = value

    def add(self, word: int, amount: int = 1) -> None:
        """Raise a counter. Writer only."""
        self._words[word] += amount

    def distinct(self, field: str) -> int:
        """Distinct readings of this field that were taken, over all GPUs."""
        return int(self._words[Word.FIRST_DISTINCT + list(FIELDS).index(field)])

    def ring(self, gpu: int, field: str) -> Ring:
        """The ring of `field` of the GPU at position `gpu` in the writer's list."""
        room = self._rooms[field]
        start = _RINGS_AT + gpu * _gpu_bytes(self._rooms)
        for name in FIELDS:
            if name == field:
                break
            start += _ring_bytes(self._rooms[name])
        head = self._bytes[start : start + _WORD].cast("Q")
        times = self._bytes[start + _WORD :][: room * _WORD].cast("q")
        values = self._bytes[start + _WORD * (1 + room) :][: room * _WORD].cast("d")
        return Ring(head, times, values, self._fence)

    def count_call(self, function: str, latency_ns: int) -> None:
        """Add one driver call. Writer only."""
        self.calls.count(function, latency_ns)

    def count_rejected(self, count: int) -> None:
        """Add answers that were dropped as nonsense. Writer only."""
        self.add(Word.REJECTED, count)

    def publish(self, text: bytes) -> None:
        """Let readers see this status text from now on. ValueError when it is longer than STATUS_ROOM. Writer only."""
        if len(text) > STATUS_ROOM:
            raise ValueError(f"a status of {len(text)} bytes")
        self._words[Word.STATUS_SEQUENCE] += 1
        self._fence()
        self._words[Word.STATUS_BYTES] = len(text)
        self._bytes[_STATUS_AT : _STATUS_AT + len(text)] = text
        self._fence()
        self._words[Word.STATUS_SEQUENCE] += 1

    def status(self) -> bytes | None:
        """The last status text; None when there is none yet, or while one is being written."""
        sequence = self._words[Word.STATUS_SEQUENCE]
        if sequence == 0 or sequence % 2:
            return None
        self._fence()
        text = bytes(self._bytes[_STATUS_AT : _STATUS_AT + self._words[Word.STATUS_BYTES]])
        self._fence()
        return text if self._words[Word.STATUS_SEQUENCE] == sequence else None


def rooms(rate_hz: float | None) -> Mapping[str, int]:
    """Readings that the ring of each field has room for. It grows with the rate up to a bound, and no further."""
    power = round(KEPT_S * min(max(rate_hz or AUTOMATIC_HZ, 1.0), MAX_DISTINCT_HZ))
    return {
        field: power if field in _POWER_FIELDS else KEPT_S * (UTIL_HZ if field in _UTIL_FIELDS else SLOW_HZ)
        for field in FIELDS
    }


_CALLS_AT = _WORDS * _WORD
_STATUS_AT = _CALLS_AT + TABLE_BYTES
_RINGS_AT = _STATUS_AT + STATUS_ROOM


def _ring_bytes(room: int) -> int:
    return _WORD * (1 + 2 * room)


def _gpu_bytes(by_field: Mapping[str, int]) -> int:
    return sum(_ring_bytes(room) for room in by_field.values())


def _size(by_field: Mapping[str, int]) -> int:
    return _RINGS_AT + MAX_GPUS * _gpu_bytes(by_field)
