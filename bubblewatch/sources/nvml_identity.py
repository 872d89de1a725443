"""What does not change while a GPU is there, and what a person should know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bubblewatch.model.errors import NotSupported, SourceError, SourceLost, SourceUnavailable
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_batches import BLANK_U32, FIELD_POWER_SMOOTHING, known

CLOCK_SM = 1
"""NVML_CLOCK_SM."""
MEMORY_V2 = 0x0200_0028
"""nvmlMemory_v2: structure version 2, of 40 bytes."""
NO_OWN_MEMORY = "it has no memory of its own (unified with the host's), so NVML tells none"
SMOOTHED = "power smoothing is on: the card draws power when idle too, so its power tells no duty"
FORGETFUL = "persistence mode is off, so the driver forgets the GPU when nobody has it open: nvidia-smi -pm 1"


@dataclass(frozen=True, slots=True)
class Asker:
    """Questions to one handle. Errors as of `Nvml.call`."""

    nvml: Nvml
    handle: Any

    def call(self, function: str, *arguments: Any) -> Any:
        return self.nvml.call(function, self.handle, *arguments)

    def maybe(self, function: str, *arguments: Any) -> Any:
        """The answer, None when the device does not give one."""
        try:
            return self.call(function, *arguments)
        except (SourceLost, SourceUnavailable):
            raise
        except SourceError:
            return None

    def count(self, function: str, *arguments: Any) -> int | None:
        """The same for a number, None also for a blank."""
        answer = self.maybe(function, *arguments)
        return None if answer is None or answer >= BLANK_U32 else int(answer)

    def field(self, field: int) -> int | None:
        """A field value that is read once; None when the device does not give one."""
        array = self.nvml.field_array([(field, 0)])
        try:
            self.nvml.read_fields(self.handle, array)
        except (SourceLost, SourceUnavailable):
            raise
        except SourceError:
            return None
        entry = array[0]
        return None if entry.nvmlReturn != 0 or entry.value.uiVal >= BLANK_U32 else int(entry.value.uiVal)


def whole_gpu(asker: Asker, uuid: str, index: int) -> tuple[GpuInfo, list[str]]:
    """The GPU as it says it is, and notes for a person. What the device does not say is None."""
    notes: list[str] = []
    default_mw = asker.count("nvmlDeviceGetPowerManagementDefaultLimit")
    pci = asker.maybe("nvmlDeviceGetPciInfo")
    persistence = asker.count("nvmlDeviceGetPersistenceMode")
    if persistence == 0:
        notes.append(FORGETFUL)
    smoothing = asker.field(FIELD_POWER_SMOOTHING)
    if smoothing == 1:
        notes.append(SMOOTHED)
    info = GpuInfo(
        uuid=uuid,
        index=index,
        name=asker.maybe("nvmlDeviceGetName") or "unknown GPU",
        power_limit_w=power_limit_w(asker),
        power_default_limit_w=default_mw / 1e3 if default_mw else None,
        memory_total_bytes=_memory_total(asker, notes),
        sm_clock_max_mhz=asker.count("nvmlDeviceGetMaxClockInfo", CLOCK_SM),
        pcie_gen_max=asker.count("nvmlDeviceGetMaxPcieLinkGeneration"),
        pcie_width_max=asker.count("nvmlDeviceGetMaxPcieLinkWidth"),
        pci_bus_id=_text(pci.busId) if pci else None,
        persistence=None if persistence is None else persistence == 1,
        power_smoothing=None if smoothing is None else smoothing == 1,
    )
    return info, notes


def memory(asker: Asker) -> Any:
    """Device memory. The second version of the call keeps the driver's reserve out of `used`, as nvidia-smi does."""
    try:
        return asker.call("nvmlDeviceGetMemoryInfo", MEMORY_V2)
    except NotSupported:
        return asker.call("nvmlDeviceGetMemoryInfo")


def power_limit_w(asker: Asker) -> float | None:
    """The limit in force, in W; None when the device does not say."""
    limit_mw = asker.count("nvmlDeviceGetEnforcedPowerLimit")
    return limit_mw / 1e3 if limit_mw else None


def _memory_total(asker: Asker, notes: list[str]) -> int | None:
    try:
        return known(memory(asker).total) or None
    except (SourceLost, SourceUnavailable):
        raise
    except NotSupported:  # GB10 and Jetson say so; a failing call of a discrete card is another error
        notes.append(NO_OWN_MEMORY)
    except SourceError:
        return None
    return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
