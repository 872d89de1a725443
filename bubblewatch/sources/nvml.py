"""NVIDIA's management library (NVML) through pynvml: calls that are measured, with their errors translated.

This file alone imports pynvml, and only the sampler process imports this file; what is asked of a GPU is in
nvml_device.py. Every NVMLError leaves as an error of model/errors.py. Call names and return codes: nvml.h of the
CUDA 13 toolkit as nvidia-ml-py 13.615.71 binds it.

Threading: one thread at a time per `Nvml`. A call may hang in the driver for ever; none can be interrupted.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pynvml

from bubblewatch.model.errors import AccessDenied, NotSupported, SourceError, SourceLost, SourceUnavailable
from bubblewatch.sources.nvml_surroundings import Surroundings

SAMPLES_ROOM = 128
"""Entries of the driver's sample ring that one call may return: 72 in driver source, 120 seen by a user."""
_SAMPLE_LAYOUTS: Mapping[int, str] = {0: "<Qd", 1: "<QI4x", 2: "<QQ", 3: "<QQ"}
"""NVML value type -> nvmlSample_t: its time, then double, unsigned int, unsigned long or unsigned long long."""


class Meter(Protocol):
    """Told what each driver call cost, and how many entries of an answer were dropped as nonsense."""

    def count_call(self, function: str, latency_ns: int) -> None: ...

    def count_rejected(self, count: int) -> None: ...


class NoMeter:
    """Measures nothing."""

    def count_call(self, function: str, latency_ns: int) -> None:
        """Nobody wants to know."""

    def count_rejected(self, count: int) -> None:
        """Nobody wants to know."""


_NO_DRIVER = "install or load the NVIDIA driver; in a container, run it with --gpus all"
_KINDS: Mapping[int, tuple[type[SourceError], str | None]] = {
    pynvml.NVML_ERROR_UNINITIALIZED: (SourceUnavailable, None),
    pynvml.NVML_ERROR_NOT_SUPPORTED: (NotSupported, None),
    pynvml.NVML_ERROR_NO_PERMISSION: (AccessDenied, "run as root, or let this user read /dev/nvidia*"),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        SourceUnavailable,
        "the library is there, the driver is not: modprobe nvidia",
    ),
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (SourceUnavailable, _NO_DRIVER),
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: (NotSupported, None),
    pynvml.NVML_ERROR_GPU_IS_LOST: (SourceLost, "it fell off the bus: see dmesg for Xid 79; it needs a reboot"),
    pynvml.NVML_ERROR_RESET_REQUIRED: (SourceLost, "stop what uses it, then nvidia-smi --gpu-reset"),
    pynvml.NVML_ERROR_OPERATING_SYSTEM: (AccessDenied, "the device cgroup must allow /dev/nvidia*"),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        SourceUnavailable,
        "library and kernel module are of different driver versions: reboot, or reload the nvidia modules",
    ),
    # GPM structures of an older driver: a version it does not know is a question it cannot answer.
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: (NotSupported, None),
    pynvml.NVML_ERROR_DEPRECATED: (NotSupported, None),
}
"""NVML return code -> what it is for us, and what to do about it. Any other code is a plain SourceError."""


def _translated(code: int, doing: str) -> SourceError:
    kind, hint = _KINDS.get(code, (SourceError, None))
    words = str(pynvml.NVMLError(code)).rstrip(".")
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        words = _why_not_loaded()
    return kind(f"NVML {doing}: {words}", hint)


def _why_not_loaded() -> str:
    """The loader's own words, which pynvml drops: a library with a missing symbol is not a missing library."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return str(error)
    return "the library could not be loaded"


def _start_error(code: int, around: Surroundings) -> SourceError:
    """Why NVML does not start, with what else this machine tells about it."""
    plain = _translated(code, "cannot start")
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return SourceUnavailable(f"{plain.what} ({around.version_words()})", plain.hint)
    if code in (pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_OPERATING_SYSTEM) and around.lost_its_devices:
        return AccessDenied(
            f"{plain.what}; this container may not open /dev/nvidia* any more",
            "restart the container: systemctl daemon-reload on the host takes away devices that systemd was not told"
            " of; handed over by --device or CDI they stay",
        )
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND and around.is_wsl:
        return SourceUnavailable(plain.what, "under WSL it lies in /usr/lib/wsl/lib: put that into LD_LIBRARY_PATH")
    return plain


class Nvml:
    """An open NVML. Make it with `open`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    @classmethod
    def open(cls, meter: Meter | None = None, around: Surroundings | None = None) -> Nvml:
        """NVML, started. SourceUnavailable (no library, no driver, versions that differ) or AccessDenied otherwise.

        Without persistence mode the driver may first initialise every GPU, which takes seconds each. `around` is where
        the reason is looked for when it does not start; nothing is read there when it does.
        """
        nvml = cls(meter or NoMeter())
        start_ns = time.perf_counter_ns()
        try:
            pynvml.nvmlInitWithFlags(0)
        except pynvml.NVMLError as error:
            raise _start_error(error.value, around or Surroundings()) from None
        finally:
            nvml._meter.count_call("nvmlInitWithFlags", time.perf_counter_ns() - start_ns)
        return nvml

    def call(self, function: str, *arguments: Any, doing: str = "") -> Any:
        """What pynvml's `function` returns, measured; its error translated, named by `doing` or the function."""
        start_ns = time.perf_counter_ns()
        try:
            return getattr(pynvml, function)(*arguments)
        except pynvml.NVMLError as error:
            raise _translated(error.value, doing or function) from None
        finally:
            self._meter.count_call(function, time.perf_counter_ns() - start_ns)

    def read_fields(self, handle: Any, array: Any) -> None:
        """Fill an array of `field_array`. pynvml's own wrapper builds one each time, at 20 times the cost."""
        self._ask("nvmlDeviceGetFieldValues", handle, len(array), array)

    def read_samples(self, handle: Any, kind: int, since_us: int, array: Any) -> list[tuple[int, float]]:
        """(time, value) of each entry of the driver's sample ring `kind` after `since_us`, as it hands them out.

        `array` is one of `sample_array`. Times are us of the driver's own clock. Nothing since then is no error.
        """
        value_type, count = ctypes.c_int(0), ctypes.c_uint(len(array))
        try:
            self._ask(
                "nvmlDeviceGetSamples",
                handle,
                kind,
                ctypes.c_ulonglong(since_us),
                ctypes.byref(value_type),
                ctypes.byref(count),
                array,
            )
        except _NothingThere:
            return []
        layout = _SAMPLE_LAYOUTS.get(value_type.value)
        if layout is None:
            raise NotSupported(f"nvmlDeviceGetSamples: values of an unknown type {value_type.value}")
        used = memoryview(array).cast("B")[: min(count.value, len(array)) * ctypes.sizeof(pynvml.c_nvmlSample_t)]
        return list(struct.iter_unpack(layout, used))

    def _ask(self, function: str, *arguments: Any) -> None:
        """Call the library itself, past pynvml."""
        start_ns = time.perf_counter_ns()
        entry = getattr(pynvml.nvmlLib, function, None)
        code = entry(*arguments) if entry else pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
        self._meter.count_call(function, time.perf_counter_ns() - start_ns)
        if code == pynvml.NVML_ERROR_NOT_FOUND:
            raise _NothingThere(f"{function}: nothing found")
        self.check(code, function)

    def reject(self, count: int) -> None:
        """Count entries of an answer that were dropped as nonsense."""
        if count:
            self._meter.count_rejected(count)

    @staticmethod
    def check(code: int, doing: str) -> None:
        """Raise what a return code inside an answer means."""
        if code != pynvml.NVML_SUCCESS:
            raise _translated(code, doing)

    @staticmethod
    def field_array(entries: Sequence[tuple[int, int]]) -> Any:
        """An array of nvmlFieldValue_t that asks for these (field id, scope id); made once and used again."""
        array = (pynvml.c_nvmlFieldValue_t * len(entries))()
        for slot, (field, scope) in zip(array, entries, strict=True):
            slot.fieldId, slot.scopeId = field, scope
        return array

    @staticmethod
    def sample_array() -> Any:
        """An array of nvmlSample_t for `read_samples`; made once and used again."""
        return (pynvml.c_nvmlSample_t * SAMPLES_ROOM)()

    @staticmethod
    def activity_request(metric: int) -> Any:
        """An nvmlGpmMetricsGet_t that asks for one metric; made once and used again."""
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = 1
        request.metrics[0].metricId = metric
        return request

    def close(self) -> None:
        """Give the library back. Not needed before the process ends; never after a call that hangs."""
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return  # it is gone already: nothing is held


class _NothingThere(SourceError):
    """NVML_ERROR_NOT_FOUND: for a sample ring, the driver has kept nothing, as for a GPU that is idle."""
