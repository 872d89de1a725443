"""Plays the sensors of so many GPUs in a process of its own: `python -m tests.bench.feeder FEED COUNT`, until killed.

Power and energy refresh every 100 ms, utilization every 200 ms, as on cards of today. The readings of a busy pipeline
matter to nobody here, only that each refresh brings another value.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

from tests.nvml_shim.shim import Feed, FeedThread

REFRESH_NS = 100_000_000


def sensor_state(gpu: int, time_ns: int) -> dict[str, float]:
    """What the sensors of this GPU show at this moment."""
    refresh = time_ns // REFRESH_NS
    power_w = 200 + 50 * math.sin(refresh / 7 + gpu) + refresh % 10 / 10
    return {
        "power_instant_w": power_w,
        "power_average_w": 200 + refresh % 100 / 10,
        "energy_j": refresh * 20.0,
        "util_ratio": (12 + refresh // 2 % 5) / 100,
        "mem_util_ratio": 0.08,
        "sm_active_ratio": 0.1,
        "sm_clock_mhz": 2400.0 + refresh // 10 % 4,
        "memory_used_bytes": 70.0 * 2**30,
        "temperature_c": 55.0,
        "event_reasons": 0.0,
        "pcie_gen": 5.0,
        "pcie_width": 16.0,
        "pstate": 0.0,
    }


def main() -> None:
    feed = Feed(Path(sys.argv[1]), int(sys.argv[2]))
    parent = os.getppid()
    with FeedThread(feed, sensor_state, time.monotonic_ns, every_s=0.05, samples_every_s=0.2):
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(0.5)


if __name__ == "__main__":
    main()
