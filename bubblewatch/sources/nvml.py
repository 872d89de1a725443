"""NVIDIA's management library (NVML) through pynvml: calls that are measured, with their errors translated.

This file alone imports pynvml, and only the sampler process imports this file; what is asked of a GPU is in
nvml_device.py. Every NVMLError leaves as an error of model/errors.py. Call names and return codes: nvml.h of the
CUDA 13 toolkit as nvidia-ml-py 13.615.71 binds it.

Threading: one thread at a time per `Nvml`. A call may hang in the driver for ever; none can be interrupted.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pynvml

from bubblewatch.model.errors import AccessDenied, NotSupported, SourceError, SourceLost, SourceUnavailable

Meter = Callable[[int], None]
"""Told how long each driver call took, in ns."""

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
    words = str(pynvml.NVMLError(code))
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


class Nvml:
    """An open NVML. Make it with `open`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    @classmethod
    def open(cls, meter: Meter = lambda _: None) -> Nvml:
        """NVML, started. SourceUnavailable (no library, no driver, versions that differ) or AccessDenied otherwise.

        Without persistence mode the driver may first initialise every GPU, which takes seconds each.
        """
        nvml = cls(meter)
        nvml.call("nvmlInitWithFlags", 0, doing="cannot start")
        return nvml

    def call(self, function: str, *arguments: Any, doing: str = "") -> Any:
        """What pynvml's `function` returns, measured; its error translated, named by `doing` or the function."""
        start_ns = time.perf_counter_ns()
        try:
            return getattr(pynvml, function)(*arguments)
        except pynvml.NVMLError as error:
            raise _translated(error.value, doing or function) from None
        finally:
            self._meter(time.perf_counter_ns() - start_ns)

    def read_fields(self, handle: Any, array: Any) -> None:
        """Fill an array of `field_array`. pynvml's own wrapper builds one each time, at 20 times the cost."""
        start_ns = time.perf_counter_ns()
        entry = getattr(pynvml.nvmlLib, "nvmlDeviceGetFieldValues", None)
        code = entry(handle, len(array), array) if entry else pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
        self._meter(time.perf_counter_ns() - start_ns)
        self.check(code, "nvmlDeviceGetFieldValues")

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
