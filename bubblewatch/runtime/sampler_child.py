"""The sampler process: `python -m bubblewatch.runtime.sampler_child OPTIONS`, started by sampler_grip.py.

OPTIONS is sampler_status.Options as JSON. Standard input is a pipe from the parent. What comes over it switches SM
activity on and off; when it closes, this process ends, even while a call hangs in the driver. Imports are few on
purpose.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Mapping

from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import BubblewatchError, SourceError, SourceUnavailable
from bubblewatch.runtime.sampler_status import ACTIVITY_OFF, ACTIVITY_ON, Failure, Options, Status
from bubblewatch.runtime.sampling import SamplingLoop
from bubblewatch.runtime.shared_ring import AUTOMATIC_HZ, MAX_GPUS, SharedPage, Word
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_choose import Chosen, choose
from bubblewatch.sources.nvml_surroundings import Surroundings

NICENESS = 5
"""The server that is watched goes first; a sleeping process of this niceness still wakes within milliseconds."""
REAL_TIME_PRIORITY = 1
"""The lowest there is, for rates that somebody asked for: beside a full CPU a tick of 10 ms is otherwise up to 50 ms
late (measured on 2 cores with 2 busy processes: 65 to 99 % of ticks kept at 100 Hz, with this all of them)."""
MOST_CPU_US = 200_000
"""CPU time in us without a pause after which the kernel ends a process of real-time priority: no loop of ours, and no
driver that spins, may keep a core."""
FAREWELL_S = 0.3
"""How long NVML gets to be closed in order, in seconds; the parent waits for half a second."""


class Switches:
    """What the parent says over the pipe."""

    def __init__(self, *, sm_activity: bool) -> None:
        self.sm_activity = sm_activity
        self.leave = False

    def listen(self) -> None:
        """Follow the parent until it closes its end or dies; then end this process, in order when that is quick."""
        while told := os.read(0, 4096):
            self.sm_activity = {ACTIVITY_ON: True, ACTIVITY_OFF: False}.get(told[-1:], self.sm_activity)
        self.leave = True
        time.sleep(FAREWELL_S)
        os._exit(0)


def take_pace(rate_hz: float | None) -> str:
    """Give this thread the priority that the rate needs, and say what came of it, "" when nothing is to be said.

    Rates that are chosen without being asked for need none: no known sensor is faster than that by much.
    """
    if rate_hz is None or rate_hz <= AUTOMATIC_HZ:
        os.nice(NICENESS)
        return ""
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (MOST_CPU_US, MOST_CPU_US))
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(REAL_TIME_PRIORITY))
    except (OSError, ValueError):
        os.nice(NICENESS)
        return "ticks may be late beside a full CPU: real-time priority, which they would need, takes CAP_SYS_NICE"
    return "ticks have real-time priority"


def main() -> int:
    options = Options.decode(sys.argv[1])
    switches = Switches(sm_activity=options.sm_activity)
    threading.Thread(target=switches.listen, name="listen-to-parent", daemon=True).start()
    page = SharedPage(options.fd, options.rate_hz, writable=True)
    try:
        watch(page, options, switches)
    except BubblewatchError as error:
        page.publish(Status(failure=Failure.of(error)).encode())
    except Exception as error:  # noqa: BLE001 - the parent must learn of any end, and has no other way
        page.publish(Status(failure=Failure.of(SourceError(f"the sampler broke: {error!r}"))).encode())
    else:
        return 0
    return 1


def watch(page: SharedPage, options: Options, switches: Switches) -> None:
    """Sample until told to leave."""
    clock, around = SystemClock(), Surroundings()

    def asking(index: int) -> None:
        page.set(Word.BUSY_GPU, index + 1)
        page.set(Word.HEARTBEAT_NS, clock.monotonic_ns())

    nvml = Nvml.open(page, around)
    driver_version = nvml.call("nvmlSystemGetDriverVersion")
    chosen = choose(nvml, options.only, options.exclude, sm_activity=options.sm_activity, asking=asking)
    if not chosen.devices:
        raise SourceUnavailable(*nothing_to_watch(chosen.absent))
    devices = chosen.devices[:MAX_GPUS]
    base = Status(
        driver_version=driver_version,
        absent={name: Failure.of(error) for name, error in chosen.absent.items()},
        remarks=remarks(chosen, around, nvml.call("nvmlDeviceGetCount"), take_pace(options.rate_hz)),
    )
    loop = SamplingLoop(devices, page, clock, options.rate_hz, base, around.all_foreign)
    wants_activity = options.sm_activity

    def goes_on() -> bool:
        nonlocal wants_activity
        page.set(Word.CPU_NS, time.process_time_ns())
        if switches.sm_activity != wants_activity:
            wants_activity = switches.sm_activity
            for device in devices:
                device.want_activity(wants_activity)
        return not switches.leave

    loop.run(goes_on)
    for device in devices:
        device.close()
    nvml.close()


def remarks(chosen: Chosen, around: Surroundings, seen: int, pace: str) -> tuple[str, ...]:
    """What a person should know about this host's NVML, and of how it is read."""
    said = [pace] if pace else []
    if around.is_wsl:
        said.append("this is WSL, where NVML answers only in part")
    on_bus = around.gpus_on_bus()
    if on_bus > seen and not around.is_container:
        said.append(f"the PCI bus shows {on_bus} NVIDIA GPUs, NVML only {seen}: see dmesg for Xid 79")
    if len(chosen.devices) > MAX_GPUS:
        said.append(f"only {MAX_GPUS} of {len(chosen.devices)} GPUs are watched")
    return tuple(said)


def nothing_to_watch(absent: Mapping[str, BubblewatchError]) -> tuple[str, str | None]:
    """One sentence on why there is no GPU to watch, and what to do about it."""
    if not absent:
        return "the driver is there and shows no GPU, or none was chosen", None
    reasons = "; ".join(f"GPU {name}: {error.what}" for name, error in absent.items())
    return f"NVML opens no GPU: {reasons}", next((error.hint for error in absent.values() if error.hint), None)


if __name__ == "__main__":
    sys.exit(main())
