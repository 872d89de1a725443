"""The sensors of the simulated GPUs: what each shows at each of its refreshes, as a pure function of time.

Windows and refresh periods are those of `theory/sensors` for Blackwell. Slow values come once a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.sources.simulated_load import Load
from bubblewatch.sources.simulated_noise import noise
from bubblewatch.theory.activity import Integral, mean
from bubblewatch.theory.sensors import SENSORS, SM_WINDOW_S, PowerDraw, as_utilization, sm_activity

CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
LIMIT_W = 600.0
MIB = 1 << 20
MEMORY_TOTAL = 97_887 * MIB
MEMORY_USED = 71_930 * MIB
CLOCK_MAX_MHZ = 2430.0

IDLE_W = (83.0, 89.0)
"""Draw with the model loaded and nothing running, from card to card (the story's snapshot)."""

BUSY_W = 400.0
"""Draw at full decode work: between the 300 W seen in decode and the 500 W between prefill and decode (study §A.6)."""

AWAKE_W = 65.0
"""What a card draws above idle while requests run, whatever its kernels do. An assumption: the story's cards drew 150
to 200 W while each worked a fourteenth of the time, which no draw in proportion to work under 600 W explains."""

_SENSORS = SENSORS["blackwell"]

PERIOD_S: Mapping[str, float] = MappingProxyType(
    {
        "power_instant_w": _SENSORS.power_instant.update_s,
        "power_average_w": 0.1,
        "energy_j": _SENSORS.energy_update_s,
        "util_ratio": _SENSORS.utilization.update_s,
        "mem_util_ratio": _SENSORS.utilization.update_s,
        "sm_active_ratio": 1.0,
        "sm_clock_mhz": 1.0,
        "memory_used_bytes": 1.0,
        "temperature_c": 1.0,
        "event_reasons": 1.0,
        "pcie_gen": 1.0,
        "pcie_width": 1.0,
        "pstate": 1.0,
    }
)
"""Field -> time between two refreshes of its sensor, in seconds."""

_GPU_IDLE = 1.0
"""Clock event reason bit 0, GpuIdle (nvml.h, nvmlClocksEventReasonGpuIdle)."""


def gpu_info(index: int) -> GpuInfo:
    """What does not change about the GPU with this index."""
    return GpuInfo(
        uuid=f"GPU-b1acc0de-0000-4000-8000-{index:012d}",
        index=index,
        name=CARD,
        power_limit_w=LIMIT_W,
        power_default_limit_w=LIMIT_W,
        memory_total_bytes=MEMORY_TOTAL,
        sm_clock_max_mhz=CLOCK_MAX_MHZ,
        pcie_gen_max=5,
        pcie_width_max=16,
        pci_bus_id=f"00000000:{0x11 + 0x10 * index:02X}:00.0",
    )


class GpuSensors:
    """The sensors of one GPU under a load. Times are host time in seconds."""

    def __init__(self, load: Load, index: int) -> None:
        self._load = load
        self._index = index
        self._seed = load.scenario.seed
        low, high = IDLE_W
        idle_w = low + (high - low) * (noise(self._seed, 3, index) + 1) / 2
        self._draw = PowerDraw(idle_w, BUSY_W, AWAKE_W, load.scenario.spin_w)
        self._phase_s = {
            field: period_s * (noise(self._seed, 4, index, place) + 1) / 2
            for place, (field, period_s) in enumerate(PERIOD_S.items())
        }

    def refresh(self, field: str, at_s: float) -> int:
        """Number of the last refresh of a field's sensor at or before a time."""
        return math.floor((at_s - self._phase_s[field]) / PERIOD_S[field])

    def refresh_s(self, field: str, number: int) -> float:
        """Time of a refresh."""
        return self._phase_s[field] + number * PERIOD_S[field]

    def shown(self, field: str, number: int) -> float:
        """What the sensor shows from that refresh until the next."""
        at_s = self.refresh_s(field, number)
        match field:
            case "power_instant_w":
                return self._power_w(at_s, _SENSORS.power_instant.window_s, number)
            case "power_average_w":
                return self._power_w(at_s, 1.0, number)
            case "energy_j":
                return self._energy_j(at_s)
            case "util_ratio":
                return as_utilization(self._mean(self._resident, at_s, _SENSORS.utilization.window_s))
            case "mem_util_ratio":
                return as_utilization(0.9 * self._mean(self._work, at_s, _SENSORS.utilization.window_s))
            case "sm_active_ratio":
                return self._sm_active(at_s)
            case _:
                return self._slow(field, at_s)

    def _work(self, at_s: float) -> float:
        return self._load.work(self._index, at_s)

    def _spin(self, at_s: float) -> float:
        return self._load.waiting(self._index, at_s)

    def _resident(self, at_s: float) -> float:
        return self._work(at_s) + self._spin(at_s)

    @staticmethod
    def _mean(integral: Integral, at_s: float, window_s: float) -> float:
        return min(max(mean(integral, at_s - window_s, at_s), 0.0), 1.0)

    def _power_w(self, at_s: float, window_s: float, number: int) -> float:
        """Mean over the window, with the reading noise of the traces: 0.5 W idle, 1 % of what is above it."""
        work, awake = self._mean(self._work, at_s, window_s), self._mean(self._load.awake, at_s, window_s)
        watts = self._draw.watts(work, awake, self._idle_spin(at_s, window_s))
        wobble = noise(self._seed, 5, self._index, round(10 * window_s), number)
        return round(watts + wobble * (0.5 + 0.01 * (watts - self._draw.idle_w)), 2)

    def _idle_spin(self, at_s: float, window_s: float) -> float:
        """Share of the window spent spinning without any request: while requests run, `awake` covers it."""
        spin, awake = self._mean(self._spin, at_s, window_s), self._mean(self._load.awake, at_s, window_s)
        return max(spin - awake, 0.0)

    def _energy_j(self, at_s: float) -> float:
        """Energy since the driver was loaded, in J in steps of a mJ: the power without noise, summed."""
        draw, awake_s = self._draw, self._load.awake(at_s)
        spun_s = self._spin(at_s) if self._load.scenario.tp == 1 else 0.0
        over_idle = draw.awake_w * awake_s + draw.spin_w * spun_s
        working = (draw.busy_w - draw.idle_w - draw.awake_w) * self._work(at_s)
        return round(4.0e6 + draw.idle_w * at_s + over_idle + working, 3)

    def _sm_active(self, at_s: float) -> float:
        work, spin = self._mean(self._work, at_s, SM_WINDOW_S), self._mean(self._spin, at_s, SM_WINDOW_S)
        return round(sm_activity(work, spin), 4)

    def _slow(self, field: str, at_s: float) -> float:
        is_awake = self._mean(self._resident, at_s, 1.0) > 0
        match field:
            case "sm_clock_mhz":
                return CLOCK_MAX_MHZ if is_awake else 2377.0
            case "memory_used_bytes":
                return float(MEMORY_USED)
            case "temperature_c":
                return float(round(38 + (self._power_w(at_s, 1.0, 0) - self._draw.idle_w) / 11))
            case "event_reasons":
                return 0.0 if is_awake else _GPU_IDLE
            case "pcie_gen":
                return 5.0
            case "pcie_width":
                return 16.0
            case "pstate":
                return 1.0
            case _:
                return math.nan
