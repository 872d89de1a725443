"""Which GPUs there are to watch, the parts of a divided GPU (MIG) included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bubblewatch.model.errors import BubblewatchError, SourceError, SourceLost, UsageError
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_batches import BLANK_U64, Activity, Samples, known, number
from bubblewatch.sources.nvml_device import Answers, Device, Question
from bubblewatch.sources.nvml_identity import Asker, memory

MIG_ON = 1
"""NVML_DEVICE_MIG_ENABLE."""
MIG_NOTE = "it is divided (MIG): utilization is told by none of its parts, power and energy for all of them together"
NOT_OF_A_PART = "told for the whole GPU only (MIG)"


class MigInstance:
    """The sensors of one part of a divided GPU: memory, and SM activity where the counters may be read.

    Same contract as `Device`. `info.index` is that of the whole GPU.
    """

    def __init__(self, nvml: Nvml, parent: Device, handle: Any, uuid: str, *, sm_activity: bool) -> None:
        self._asker = Asker(nvml, handle)
        self._answers = Answers()
        self.unsupported = self._answers.unsupported
        self.unsupported.update(
            dict.fromkeys(("power_average_w", "power_instant_w", "energy_j", "util_ratio"), NOT_OF_A_PART)
        )
        self.notes: list[str] = []
        instance = self._asker.call("nvmlDeviceGetGpuInstanceId")
        self.info = GpuInfo(
            uuid=uuid,
            index=parent.info.index,
            name=self._asker.maybe("nvmlDeviceGetName") or parent.info.name,
            memory_total_bytes=known(memory(self._asker).total),
            pci_bus_id=parent.info.pci_bus_id,
            is_mig=True,
        )
        self._slow = [Question(("memory_used_bytes",), self._memory_used)]
        self._activity = Activity(nvml, parent.asker.handle, instance)
        self._activity_question = [Question(("sm_active_ratio",), self._activity.ask)]
        self._wants_activity = sm_activity

    def read_fast(self) -> Mapping[str, float]:
        """Nothing: there is no power sensor of a part."""
        return {}

    def read_util(self) -> Mapping[str, float]:
        """Nothing: NVML does not tell it on a divided GPU."""
        return {}

    def read_samples(self) -> Mapping[str, Samples]:
        """Nothing, for the same reason."""
        return {}

    def read_slow(self) -> Mapping[str, float]:
        values = self._answers.read(self._slow)
        if not self._wants_activity:
            return values
        return {**values, **self._answers.read(self._activity_question)}

    def want_activity(self, wanted: bool) -> None:
        if self._wants_activity and not wanted:
            self._activity.pause()
        self._wants_activity = wanted

    def processes(self) -> tuple[tuple[int, int | None], ...]:
        found = self._asker.call("nvmlDeviceGetComputeRunningProcesses")
        return tuple((int(one.pid), known(one.usedGpuMemory)) for one in found)

    def refresh(self) -> None:
        self._answers.try_again()

    def close(self) -> None:
        self._activity.close()

    def _memory_used(self) -> Mapping[str, float]:
        return {"memory_used_bytes": number(memory(self._asker).used, BLANK_U64)}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The GPUs to watch, by index with their parts after them, and those that could not be opened (name -> why)."""

    devices: tuple[Device | MigInstance, ...]
    absent: Mapping[str, BubblewatchError]


def choose(
    nvml: Nvml,
    only: Collection[str] | None = None,
    exclude: Collection[str] = (),
    *,
    sm_activity: bool = True,
    asking: Callable[[int], None] = lambda _: None,
) -> Chosen:
    """The GPUs named in `only` (all when None) less those in `exclude`, each named by index or uuid.

    A GPU excluded by index is never touched, one excluded by uuid is asked for its uuid and nothing more. When `only`
    holds nothing but uuids, no other GPU is touched. One that cannot be opened does not stop the others. `asking` is
    told the index of each GPU before it is touched, where that is known. UsageError for a GPU in `only` that is not
    there.
    """
    count = nvml.call("nvmlDeviceGetCount")
    wanted = [str(index) for index in range(count)] if only is None else list(dict.fromkeys(only))
    part_names = {name for name in wanted if name.startswith("MIG-")}
    found: dict[str, Device] = {}
    absent: dict[str, BubblewatchError] = {}
    for name in wanted:
        if name in exclude:
            continue
        if name.isdecimal() and int(name) >= count:
            raise UsageError(f"there is no GPU {name}", f"NVML sees {count}, counted from 0")
        try:
            if name.isdecimal():
                asking(int(name))
            handle, uuid, index = _find(nvml, name)
            # One GPU may be named twice, and one that is wanted by index may be excluded by uuid.
            if uuid not in exclude and str(index) not in exclude and uuid not in found:
                asking(index)
                found[uuid] = Device(nvml, handle, uuid, index, sm_activity=sm_activity)
        except SourceError as error:
            absent[name] = error
    whole = sorted(found.values(), key=lambda device: device.info.index)
    both: list[Device | MigInstance] = []
    for device in whole:
        both += [device, *_parts(nvml, device, exclude, sm_activity=sm_activity)]
    unwanted = {one.info.uuid for one in both if part_names and one.info.is_mig} - part_names
    return Chosen(tuple(one for one in both if one.info.uuid not in unwanted), absent)


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
    if name.startswith("MIG-"):  # its power and its counters are those of the whole GPU
        handle = nvml.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        return handle, nvml.call("nvmlDeviceGetUUID", handle), nvml.call("nvmlDeviceGetIndex", handle)
    return handle, name, nvml.call("nvmlDeviceGetIndex", handle)


def _parts(nvml: Nvml, device: Device, exclude: Collection[str], *, sm_activity: bool) -> list[MigInstance]:
    """The instances of a divided GPU; none when it is whole. One that cannot be opened is left out."""
    mode = device.asker.maybe("nvmlDeviceGetMigMode")
    if not mode or mode[0] != MIG_ON:
        return []
    device.notes.append(MIG_NOTE)
    parts = []
    for at in range(device.asker.count("nvmlDeviceGetMaxMigDeviceCount") or 0):
        handle = device.asker.maybe("nvmlDeviceGetMigDeviceHandleByIndex", at)
        if handle is None:  # the places of one GPU's parts have gaps
            continue
        try:
            uuid = nvml.call("nvmlDeviceGetUUID", handle)
            if uuid not in exclude:
                parts.append(MigInstance(nvml, device, handle, uuid, sm_activity=sm_activity))
        except SourceError:
            continue
    return parts
