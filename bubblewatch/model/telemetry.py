"""What the GPUs are and what their sensors said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "power_instant_w": "power now, by the sensor's own short window (NVML field 186)",
        "power_average_w": "power averaged by the driver over 1 s (NVML field 185), or nvidia-smi's power.draw",
        "energy_j": "energy since the driver was loaded, a counter",
        "util_ratio": "share of the driver's sample period in which at least one kernel was resident, 0..1",
        "mem_util_ratio": "share of the period in which device memory was read or written, 0..1; no bandwidth",
        "sm_active_ratio": "share of SM-cycles with a warp resident (GPM metric 2), 0..1; Hopper and newer",
        "sm_clock_mhz": "SM clock",
        "memory_used_bytes": "device memory in use",
        "temperature_c": "core temperature",
        "event_reasons": "bit mask of clock event (throttle) reasons, NVML names",
        "pcie_gen": "PCIe generation of the link now",
        "pcie_width": "PCIe lanes of the link now",
        "pstate": "performance state number, 0 (full) .. 15",
    }
)
"""Name of every field a telemetry source may deliver -> meaning. Units are in the names."""


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """One GPU (or MIG instance) and what does not change while it is there. None = the device did not say."""

    uuid: str
    index: int
    name: str
    power_limit_w: float | None = None
    power_default_limit_w: float | None = None
    memory_total_bytes: int | None = None
    sm_clock_max_mhz: float | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None
    pci_bus_id: str | None = None
    is_mig: bool = False
    persistence: bool | None = None
    """Persistence mode: without it the driver forgets the GPU whenever nothing has it open."""
    power_smoothing: bool | None = None
    """Power smoothing (NVML field 251, Blackwell and newer): the card draws power when idle too, so its power tells no
    duty."""


@dataclass(frozen=True, slots=True)
class Series:
    """Distinct readings of one field: a value holds from its time until the next one (zero-order hold).

    `times_ns` are monotonic, strictly increasing, same length as `values`; NaN in `values` = the device did not say.
    A source drops repeats of a value but keeps at least one reading a second, so that a gap longer than that means that
    nothing was read.
    """

    times_ns: Sequence[int] = ()
    values: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self.times_ns)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A block of readings of one GPU. A field that is absent from `series` was never delivered."""

    gpu: GpuInfo
    series: Mapping[str, Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """How two devices of one host reach each other, as `nvidia-smi topo -m` (driver 470..580) writes it.

    `first` and `second` are its names (`GPU0`, `NIC2`, `mlx5_0`); `path` its word: `NV18`, `PIX`, `PXB`, `PHB`, `NODE`,
    `SYS`.
    """

    first: str
    second: str
    path: str


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Readings of all GPUs of one host over one window of the monotonic clock.

    `wall_offset_ns` + monotonic time = wall time, the anchor that joins readings with log lines; None when the evidence
    has no common clock (a pasted CSV): such telemetry is joined with logs over the whole window. `links` names each
    pair of devices once; () when nobody said.
    """

    gpus: tuple[GpuReading, ...] = ()
    start_ns: int = 0
    end_ns: int = 0
    wall_offset_ns: int | None = None
    links: tuple[DeviceLink, ...] = ()

    @property
    def seconds(self) -> float:
        """Length of the window in seconds."""
        return (self.end_ns - self.start_ns) / 1e9
