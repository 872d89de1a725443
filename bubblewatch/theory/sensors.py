"""What a GPU's sensors show of what it does: windows, refresh periods and the three ways of waiting.

Figures are those of the measurement study: windows from Yang, Adamek, Armour (SC24, result matrix, §A.2),
utilization periods from the raw traces of the same paper (§A.3), SM activity from its §B.5. Nothing here was measured
on a GPU by us; Blackwell has no published figure and is taken as the newest known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from bubblewatch.theory.activity import Integral, Spans, mean, merged

SM_ACTIVE_AT_WORK = 0.75
"""SM activity (GPM metric 2) while a decode kernel runs, 0..1: part of the SMs waits for the tail of each kernel. A
default until it is learned (measurement study §B.5)."""

SM_ACTIVE_SPINNING = 0.02
"""SM activity of a collective that only waits: a few blocks on 132 to 188 SMs, seen as 1 to 10 % (study §B.2)."""

UTILIZATION_STEP = 0.01
"""Utilization comes in whole percent."""

SM_WINDOW_S = 1.0
"""Distance between the two samples of which SM activity is the difference; the driver wants more than 0.1 s."""


@dataclass(frozen=True, slots=True)
class Window:
    """A sensor that shows a new mean over the last `window_s` seconds every `update_s` seconds."""

    update_s: float
    window_s: float


@dataclass(frozen=True, slots=True)
class Sensors:
    """The sensors of one architecture. `power_average` None = the device does not offer it."""

    power_instant: Window
    power_average: Window | None
    utilization: Window
    energy_update_s: float = 0.1


_AVERAGE = Window(0.1, 1.0)
_UTIL = Window(0.2, 0.2)
_UTIL_VOLTA = Window(1 / 6, 1 / 6)

SENSORS: Mapping[str, Sensors] = MappingProxyType(
    {
        "blackwell": Sensors(Window(0.1, 0.1), _AVERAGE, _UTIL),
        "hopper": Sensors(Window(0.1, 0.025), _AVERAGE, _UTIL),
        "ada": Sensors(Window(0.1, 0.1), _AVERAGE, _UTIL),
        "ga10x": Sensors(Window(0.1, 0.1), _AVERAGE, _UTIL),
        "ga100": Sensors(Window(0.1, 0.025), None, _UTIL),
        "turing": Sensors(Window(0.1, 0.1), None, _UTIL),
        "volta": Sensors(Window(0.02, 0.01), None, _UTIL_VOLTA),
        "pascal": Sensors(Window(0.02, 0.01), None, _UTIL_VOLTA),
    }
)
"""Architecture -> its sensors."""


@dataclass(frozen=True, slots=True)
class PowerDraw:
    """What a card draws, in W. `awake_w` is added to `idle_w` while requests run, whether or not a kernel does: clocks
    and memory do not fall back between two kernels. `busy_w` is the draw at full work, `spin_w` what a waiting kernel
    adds to `idle_w`.
    """

    idle_w: float
    busy_w: float
    awake_w: float = 0.0
    spin_w: float = 0.0

    def watts(self, work: float, awake: float = 0.0, spin: float = 0.0) -> float:
        """Mean power in W over a time with these shares of work, of running requests and of waiting kernels."""
        return (
            self.idle_w + self.awake_w * awake + (self.busy_w - self.idle_w - self.awake_w) * work + self.spin_w * spin
        )


def last_refresh_s(t_s: float, update_s: float, phase_s: float) -> float:
    """When a sensor that refreshes every `update_s` seconds, once at `phase_s`, last did so at or before `t_s`."""
    return phase_s + math.floor((t_s - phase_s) / update_s) * update_s


def shown_mean(integral: Integral, t_s: float, sensor: Window, phase_s: float) -> float:
    """What a windowed sensor shows at `t_s`: the mean over the window before its last refresh."""
    at_s = last_refresh_s(t_s, sensor.update_s, phase_s)
    return mean(integral, at_s - sensor.window_s, at_s)


def shown_utilization(resident: Integral, t_s: float, sensor: Window, phase_s: float) -> float:
    """What utilization shows at `t_s`, 0..1 in steps of a percent: residency of any kernel, useful or not."""
    return as_utilization(shown_mean(resident, t_s, sensor, phase_s))


def as_utilization(ratio: float) -> float:
    """A ratio as a whole percent, 0..1."""
    return round(min(max(ratio, 0.0), 1.0) / UTILIZATION_STEP) * UTILIZATION_STEP


def sm_activity(work: float, spin: float) -> float:
    """SM activity, 0..1, over a time with these shares of work and of kernels that only wait."""
    return min(SM_ACTIVE_AT_WORK * work + SM_ACTIVE_SPINNING * spin, 1.0)


class WaitMode(StrEnum):
    """How a pipeline stage waits for its input, which decides what utilization shows.

    host: on the CPU, nothing is on the GPU. cascade: a receive kernel spins from the beginning of the step. spin: a
    receive kernel is always there. The first stage never spins: its input comes from the CPU.
    """

    HOST = "host"
    CASCADE = "cascade"
    SPIN = "spin"


def resident_spans(
    mode: WaitMode, stage: int, work: Sequence[tuple[float, float]], step_starts: Sequence[float], end_s: float
) -> Spans:
    """When any kernel is on a stage's GPU until `end_s`, given its work and when each step began at the first stage."""
    if stage == 0 or mode is WaitMode.HOST:
        return Spans(merged(work))
    if mode is WaitMode.SPIN:
        return Spans(((0.0, end_s),))
    return Spans(merged((min(begun, start), end) for begun, (start, end) in zip(step_starts, work, strict=True)))
