"""What one GPU's sensors say now, and which GPUs there are.

Nothing here keeps time or repeats a call: when to ask is the sampler's business. Meanings and traps of the calls:
nvml.h of the CUDA 13 toolkit; where real drivers differ from it, a comment says what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bubblewatch.model.errors import AccessDenied, NotSupported, SourceError, SourceLost, UsageError
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_batches import (
    BLANK_U32,
    BLANK_U64,
    NAN,
    Activity,
    FieldBatch,
    known,
    number,
    ratio,
)

CLOCK_SM = 1
"""NVML_CLOCK_SM."""
TEMPERATURE_GPU = 0
"""NVML_TEMPERATURE_GPU, the core's sensor."""
MEMORY_V2 = 0x0200_0028
"""nvmlMemory_v2: structure version 2, of 40 bytes."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One driver call and the fields that its answer fills."""

    fields: tuple[str, ...]
    ask: Callable[[], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The GPUs to watch, by index, and those that were wanted and could not be opened (index or uuid -> why)."""

    devices: tuple[Device, ...]
    absent: Mapping[str, str]


def choose(
    nvml: Nvml, only: Collection[str] | None = None, exclude: Collection[str] = (), *, sm_activity: bool = True
) -> Chosen:
    """The GPUs named in `only` (all when None) less those in `exclude`, each named by index or uuid.

    A GPU excluded by index is never touched, one excluded by uuid is asked for its uuid and nothing more. When `only`
    holds nothing but uuids, no other GPU is touched. One that cannot be opened does not stop the others. UsageError for
    a GPU in `only` that is not there.
    """
    count = nvml.call("nvmlDeviceGetCount")
    wanted = [str(index) for index in range(count)] if only is None else list(dict.fromkeys(only))
    found: dict[str, Device] = {}
    absent: dict[str, str] = {}
    for name in wanted:
        if name in exclude:
            continue
        if name.isdecimal() and int(name) >= count:
            raise UsageError(f"there is no GPU {name}", f"NVML sees {count}, counted from 0")
        try:
            handle, uuid, index = _find(nvml, name)
            # One GPU may be named twice, and one that is wanted by index may be excluded by uuid.
            if uuid not in exclude and str(index) not in exclude and uuid not in found:
                found[uuid] = Device(nvml, handle, uuid, index, sm_activity=sm_activity)
        except SourceError as error:
            absent[name] = str(error)
    return Chosen(tuple(sorted(found.values(), key=lambda device: device.info.index)), absent)


def _find(nvml: Nvml, name: str) -> tuple[Any, str, int]:
    if name.isdecimal():
        handle = nvml.call("nvmlDeviceGetHandleByIndex", int(name))
        return handle, nvml.call("nvmlDeviceGetUUID", handle), int(name)
    try:
        handle = nvml.call("nvmlDeviceGetHandleByUUID", name.encode())
    except SourceLost:
        raise
    except SourceError as error:
        raise UsageError(f"there is no GPU {name}", "nvidia-smi -L lists their uuids") from error
    return handle, name, nvml.call("nvmlDeviceGetIndex", handle)


class Device:
    """One GPU's sensors. Each `read_*` returns field (model/telemetry.py) -> value in the field's unit.

    NaN = the device did not say this time. A field that the device refuses for good is left out from then on, and
    `unsupported` says why. SourceLost when the GPU is gone.
    """

    def __init__(self, nvml: Nvml, handle: Any, uuid: str, index: int, *, sm_activity: bool = True) -> None:
        self._nvml = nvml
        self._handle = handle
        self.unsupported: dict[str, str] = {}
        self.notes: list[str] = []
        self.info = self._identify(uuid, index)
        self._fast = self._fast_questions()
        self._util = [_Question(("util_ratio", "mem_util_ratio"), self._utilization)]
        self._slow = self._slow_questions()
        self._activity = Activity(nvml, handle) if sm_activity else None
        if self._activity:
            self._slow.append(_Question(("sm_active_ratio",), self._activity.ask))

    def read_fast(self) -> dict[str, float]:
        """Power and energy, in one call where the driver has the field values for it."""
        return self._read(self._fast)

    def read_util(self) -> dict[str, float]:
        """Utilization of the driver's last sample period, 1/6 s to 1 s by product (nvmlDeviceGetUtilizationRates)."""
        return self._read(self._util)

    def read_slow(self) -> dict[str, float]:
        """Clock, memory, temperature, event reasons, link, state, and SM activity since the call before.

        At most once a second: two samples of SM activity must lie more than 100 ms apart.
        """
        return self._read(self._slow)

    def processes(self) -> tuple[tuple[int, int | None], ...]:
        """(pid, bytes of device memory or None) of each compute process. Costs milliseconds: every 30 s is plenty."""
        found = self._call("nvmlDeviceGetComputeRunningProcesses")
        return tuple((int(one.pid), known(one.usedGpuMemory)) for one in found)

    def refresh_limits(self) -> None:
        """Bring `info` up to date: somebody may have set another power limit."""
        self.info = replace(self.info, power_limit_w=self._power_limit())

    def close(self) -> None:
        if self._activity:
            self._activity.close()

    def _call(self, function: str, *arguments: Any) -> Any:
        return self._nvml.call(function, self._handle, *arguments)

    def _read(self, questions: list[_Question]) -> dict[str, float]:
        values: dict[str, float] = {}
        for question in tuple(questions):
            try:
                values.update(question.ask())
            except SourceLost:
                raise
            except (NotSupported, AccessDenied) as refusal:
                questions.remove(question)
                self.unsupported.update(dict.fromkeys(question.fields, str(refusal)))
            except SourceError:
                values.update(dict.fromkeys(question.fields, NAN))
        return values

    def _fast_questions(self) -> list[_Question]:
        questions = []
        batch = FieldBatch(self._nvml, self._handle)
        if batch.fields:
            questions.append(_Question(batch.fields, batch.ask))
        if batch.whole_module:
            self.notes.append("power is that of the whole module, its CPU included")
        if not {"power_instant_w", "power_average_w"} & set(batch.fields):
            questions.append(_Question(("power_average_w",), self._power_usage))
        if "energy_j" not in batch.fields:
            questions.append(_Question(("energy_j",), self._energy))
        absent = {"power_instant_w", "power_average_w"} - {name for one in questions for name in one.fields}
        self.unsupported.update(dict.fromkeys(sorted(absent), "the driver does not have this field for this GPU"))
        return questions

    def _slow_questions(self) -> list[_Question]:
        def single(field: str, function: str, *arguments: Any) -> _Question:
            return _Question((field,), lambda: {field: number(self._call(function, *arguments))})

        return [
            single("sm_clock_mhz", "nvmlDeviceGetClockInfo", CLOCK_SM),
            single("temperature_c", "nvmlDeviceGetTemperature", TEMPERATURE_GPU),
            single("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
            single("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
            single("pstate", "nvmlDeviceGetPerformanceState"),
            _Question(("memory_used_bytes",), self._memory_used),
            _Question(("event_reasons",), self._event_reasons),
        ]

    def _utilization(self) -> Mapping[str, float]:
        rates = self._call("nvmlDeviceGetUtilizationRates")
        return {"util_ratio": ratio(rates.gpu), "mem_util_ratio": ratio(rates.memory)}

    def _power_usage(self) -> Mapping[str, float]:
        return {"power_average_w": number(self._call("nvmlDeviceGetPowerUsage")) / 1e3}

    def _energy(self) -> Mapping[str, float]:
        return {"energy_j": number(self._call("nvmlDeviceGetTotalEnergyConsumption"), BLANK_U64) / 1e3}

    def _memory_used(self) -> Mapping[str, float]:
        return {"memory_used_bytes": number(self._memory().used, BLANK_U64)}

    def _memory(self) -> Any:
        """The second version of the call keeps the driver's own reserve out of `used`, as nvidia-smi does."""
        try:
            return self._call("nvmlDeviceGetMemoryInfo", MEMORY_V2)
        except NotSupported:
            return self._call("nvmlDeviceGetMemoryInfo")

    def _event_reasons(self) -> Mapping[str, float]:
        try:
            mask = self._call("nvmlDeviceGetCurrentClocksEventReasons")
        except NotSupported:  # the name before driver 535
            mask = self._call("nvmlDeviceGetCurrentClocksThrottleReasons")
        return {"event_reasons": number(mask, BLANK_U64)}

    def _power_limit(self) -> float | None:
        limit_mw = self._optional("nvmlDeviceGetEnforcedPowerLimit")
        return limit_mw / 1e3 if limit_mw else None

    def _identify(self, uuid: str, index: int) -> GpuInfo:
        default_mw = self._optional("nvmlDeviceGetPowerManagementDefaultLimit")
        try:
            memory_bytes = known(self._memory().total)
        except SourceLost:
            raise
        except SourceError:
            memory_bytes = None
        pci = self._maybe("nvmlDeviceGetPciInfo")
        return GpuInfo(
            uuid=uuid,
            index=index,
            name=self._maybe("nvmlDeviceGetName") or "unknown GPU",
            power_limit_w=self._power_limit(),
            power_default_limit_w=default_mw / 1e3 if default_mw else None,
            memory_total_bytes=memory_bytes,
            sm_clock_max_mhz=self._optional("nvmlDeviceGetMaxClockInfo", CLOCK_SM),
            pcie_gen_max=self._optional("nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_width_max=self._optional("nvmlDeviceGetMaxPcieLinkWidth"),
            pci_bus_id=_text(pci.busId) if pci else None,
        )

    def _maybe(self, function: str, *arguments: Any) -> Any:
        """The answer, None when the device does not give one."""
        try:
            return self._call(function, *arguments)
        except SourceLost:
            raise
        except SourceError:
            return None

    def _optional(self, function: str, *arguments: Any) -> int | None:
        answer = self._maybe(function, *arguments)
        return None if answer is None or answer >= BLANK_U32 else int(answer)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
