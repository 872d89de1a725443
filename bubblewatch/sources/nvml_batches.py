"""NVML answers that come several at a time or from two samples, and the rules for numbers that mean nothing."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from typing import Any

from bubblewatch.model.errors import NotSupported, SourceError, SourceLost
from bubblewatch.sources.nvml import Nvml

NAN = math.nan
BLANK_U64 = 0x7FFF_FFFF_FFFF_FFF0
"""From here on a 64-bit answer means "not available" (NVML's blank values, and -1 as unsigned)."""
BLANK_U32 = 0x7FFF_FFF0
"""The same for a 32-bit answer: NVML's blank values, NVML_VALUE_NOT_AVAILABLE, -1. Nothing real is that large."""
TYPE_UNSIGNED_INT = 1
"""NVML_VALUE_TYPE_UNSIGNED_INT."""
METRIC_SM_UTIL = 2
"""NVML_GPM_METRIC_SM_UTIL: percent of SM-cycles with a warp resident."""
FIELD_POWER_SMOOTHING = 251
"""NVML_FI_PWR_SMOOTHING_ENABLED, Blackwell and newer."""

Samples = tuple[tuple[int, float], ...]
"""(time in us of the driver's own clock, value) of readings that the driver kept, oldest first."""


class FieldBatch:
    """Power and energy of one GPU in one nvmlDeviceGetFieldValues, on an array that is built once.

    Field ids: 186 power now, 185 power over 1 s (not on GA100 and older), 83 energy. Scope 0 is the GPU; on some
    superchips only scope 1, the module, answers for power. Each entry has its own return code.
    """

    _CANDIDATES = (
        ("power_instant_w", 186, 0),
        ("power_instant_w", 186, 1),
        ("power_average_w", 185, 0),
        ("power_average_w", 185, 1),
        ("energy_j", 83, 0),
    )

    def __init__(self, nvml: Nvml, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._array = self._build(self._CANDIDATES)
        chosen: dict[str, tuple[str, int, int]] = {}
        if self._fetch():
            for candidate, entry in zip(self._CANDIDATES, self._array, strict=True):
                if entry.nvmlReturn == 0:
                    chosen.setdefault(candidate[0], candidate)
        self.fields = tuple(chosen)
        self.whole_module = any(scope == 1 for _, _, scope in chosen.values())
        self._array = self._build(chosen.values())
        # Of each 40-byte entry: value type, return code, value. One unpacking is cheaper than nine ctypes attributes.
        self._layout = struct.Struct("=" + "24xIiQ" * len(chosen))
        self._raw: tuple[int, ...] = ()
        self._values: Mapping[str, float] = {}

    def ask(self) -> Mapping[str, float]:
        """Field -> value. The very same mapping as before when the driver gave the very same numbers."""
        self._nvml.read_fields(self._handle, self._array)
        raw = self._layout.unpack_from(self._array)
        if raw != self._raw:
            entries = zip(raw[0::3], raw[1::3], raw[2::3], strict=True)
            self._values = {
                name: _milli(kind, code, value) for name, (kind, code, value) in zip(self.fields, entries, strict=True)
            }
            self._raw = raw
        return self._values

    def _fetch(self) -> bool:
        try:
            self._nvml.read_fields(self._handle, self._array)
        except SourceLost:
            raise
        except SourceError:
            return False
        return True

    def _build(self, entries: Collection[tuple[str, int, int]]) -> Any:
        return self._nvml.field_array([(field, scope) for _, field, scope in entries])


class SampleBuffer:
    """The readings that the driver itself keeps of one quantity: every one of them for one call a second.

    Real rings hold entries out of order, with time 0, above 100 %, and older than asked for (seen by the authors of
    nvtop and of gpu-metrics-agent): those are dropped and counted. A GPU with nothing to do may have none.
    """

    FORGET_AFTER = 10
    """Empty answers in a row after which everything is asked for again: the driver's clock may have been set back."""

    def __init__(self, nvml: Nvml, handle: Any, kind: int) -> None:
        self._nvml = nvml
        self._handle = handle
        self._kind = kind
        self._array = nvml.sample_array()
        self._seen_us = 0
        self._empty = 0

    def drain(self) -> Samples:
        """Readings that came since the last call; of the first one only the newest. () when there are none."""
        entries = self._nvml.read_samples(self._handle, self._kind, self._seen_us, self._array)
        good = sorted(
            {(at_us, ratio(value)) for at_us, value in entries if at_us > self._seen_us and 0 <= value <= 100}
        )
        self._nvml.reject(len(entries) - len(good))
        if not good:
            self._empty += 1
            if self._empty >= self.FORGET_AFTER:
                self._seen_us = self._empty = 0
            return ()
        is_first, self._seen_us, self._empty = self._seen_us == 0, good[-1][0], 0
        return tuple(good[-1:] if is_first else good)


class Activity:
    """SM activity between one call and the next, from two samples of the hardware counters (GPM, Hopper and newer).

    The first call only lays the first sample down and returns nothing. Without the right to profile the driver says no
    permission: root, CAP_SYS_ADMIN or the module option NVreg_RestrictProfilingToAdminUsers=0 gives it. `instance` is
    the GPU instance id when it is about a part of a GPU (MIG); the handle is the whole GPU's all the same.
    """

    def __init__(self, nvml: Nvml, handle: Any, instance: int | None = None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._instance = instance
        self._samples: list[Any] = []
        self._have_first = False
        self._request = nvml.activity_request(METRIC_SM_UTIL)

    def ask(self) -> Mapping[str, float]:
        if not self._samples:
            self._begin()
        previous, current = self._samples
        have_first, self._have_first = self._have_first, False
        if self._instance is None:
            self._nvml.call("nvmlGpmSampleGet", self._handle, current)
        else:
            self._nvml.call("nvmlGpmMigSampleGet", self._handle, self._instance, current)
        self._samples.reverse()
        self._have_first = True
        if not have_first:
            return {}
        self._request.sample1, self._request.sample2 = previous, current
        self._nvml.call("nvmlGpmMetricsGet", self._request)
        metric = self._request.metrics[0]
        self._nvml.check(metric.nvmlReturn, "SM activity")
        return {"sm_active_ratio": ratio(metric.value)}

    def pause(self) -> None:
        """Let the next call lay down a first sample again: what lies between is no window that anybody wants."""
        self._have_first = False

    def _begin(self) -> None:
        if not self._nvml.call("nvmlGpmQueryDeviceSupport", self._handle).isSupportedDevice:
            raise NotSupported("NVML SM activity: this GPU has no GPM (Hopper and newer have it)")
        self._samples = [self._nvml.call("nvmlGpmSampleAlloc") for _ in range(2)]

    def close(self) -> None:
        for sample in self._samples:
            self._nvml.call("nvmlGpmSampleFree", sample)
        self._samples = []


def known(value: int | None) -> int | None:
    """A count of bytes, None when the driver says "not available"."""
    return None if value is None or value >= BLANK_U64 else int(value)


def number(value: int, blank_from: int = BLANK_U32) -> float:
    """An answer as a float, NaN when it is one of the blanks."""
    return NAN if value >= blank_from else float(value)


def ratio(percent: float) -> float:
    """Percent as a ratio; above 100 the driver hands out garbage (seen in its sample buffers), which is no reading."""
    return percent / 100 if 0 <= percent <= 100 else NAN


def _milli(kind: int, code: int, value: int) -> float:
    """A field value in thousandths (mW, mJ) as the whole unit."""
    if code != 0:
        return NAN
    if kind == TYPE_UNSIGNED_INT:
        return number(value & 0xFFFF_FFFF) / 1e3
    return number(value, BLANK_U64) / 1e3
