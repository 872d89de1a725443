"""The sampler process: `python -m bubblewatch.runtime.sampler_child OPTIONS`, started by sampler.py.

OPTIONS is sampler_status.Options as JSON. Standard input is a pipe from the parent; when it closes, this process ends,
even while a call hangs in the driver. Imports are few on purpose.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping

from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import BubblewatchError, SourceError, SourceUnavailable
from bubblewatch.runtime.sampler_status import Failure, Options, Status
from bubblewatch.runtime.sampling import SamplingLoop
from bubblewatch.runtime.shared_ring import MAX_GPUS, SharedPage, Word
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_device import choose

NICENESS = 5
"""The server that is watched goes first; a sleeping process of this niceness still wakes within milliseconds."""


def leave_with_parent() -> None:
    """Block until the parent closes its end of the pipe or dies, then end this process whatever else it does."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> int:
    options = Options.decode(sys.argv[1])
    threading.Thread(target=leave_with_parent, name="leave-with-parent", daemon=True).start()
    os.nice(NICENESS)
    page = SharedPage(options.fd, options.rate_hz, writable=True)
    try:
        watch(page, options)
    except BubblewatchError as error:
        page.publish(Status(failure=Failure.of(error)).encode())
    except Exception as error:  # noqa: BLE001 - the parent must learn of any end, and has no other way
        page.publish(Status(failure=Failure.of(SourceError(f"the sampler broke: {error!r}"))).encode())
    return 1


def watch(page: SharedPage, options: Options) -> None:
    """Sample for ever. Returns only by an error."""
    nvml = Nvml.open(page.count_call)
    driver_version = nvml.call("nvmlSystemGetDriverVersion")
    chosen = choose(nvml, options.only, options.exclude, sm_activity=options.sm_activity)
    if not chosen.devices:
        raise SourceUnavailable(nothing_to_watch(chosen.absent))
    devices = chosen.devices[:MAX_GPUS]
    base = Status(driver_version=driver_version, absent=chosen.absent)
    loop = SamplingLoop(devices, page, SystemClock(), options.rate_hz, base)

    def goes_on() -> bool:
        page.set(Word.CPU_NS, time.process_time_ns())
        return True

    loop.run(goes_on)


def nothing_to_watch(absent: Mapping[str, str]) -> str:
    """One sentence on why there is no GPU to watch."""
    reasons = "; ".join(f"GPU {name}: {reason}" for name, reason in absent.items())
    return f"NVML opens no GPU: {reasons}" if reasons else "the driver is there and shows no GPU, or none was chosen"


if __name__ == "__main__":
    sys.exit(main())
