"""The sampler's own loop, telling how late its ticks were: `python -m tests.bench.jitter_child RATE_HZ SECONDS`.

Prints p50, p99 and worst lateness in ms, and the share of deadlines that were met within half a period.
"""

from __future__ import annotations

import statistics
import sys
import time

from bubblewatch.model.clock import SystemClock
from bubblewatch.runtime.sampler_child import take_pace
from bubblewatch.runtime.sampler_status import Status
from bubblewatch.runtime.sampling import SamplingLoop
from bubblewatch.runtime.shared_ring import SharedPage, Word
from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_choose import choose


class Told(SamplingLoop):
    """The loop, with each tick's lateness kept."""

    late_ns: list[int]

    def wait(self) -> None:
        deadline_ns = self._next_ns
        super().wait()
        if not self._to_measure:
            self.late_ns.append(time.monotonic_ns() - deadline_ns)


def main() -> None:
    rate_hz, seconds = float(sys.argv[1]), float(sys.argv[2])
    take_pace(rate_hz)
    _, fd = SharedPage.create(rate_hz)
    page = SharedPage(fd, rate_hz, writable=True)
    loop = Told(choose(Nvml.open(page)).devices, page, SystemClock(), rate_hz, Status())
    loop.late_ns = []
    settled = time.monotonic() + 3  # the start-up measurement is over
    loop.run(lambda: time.monotonic() < settled)
    loop.late_ns.clear()
    skipped = page.get(Word.SKIPPED_TICKS)
    end = time.monotonic() + seconds
    loop.run(lambda: time.monotonic() < end)
    late_ms = sorted(late_ns / 1e6 for late_ns in loop.late_ns)
    p99 = late_ms[int(0.99 * (len(late_ms) - 1))]
    met = sum(one <= 500 / rate_hz for one in late_ms)
    kept = met / (len(late_ms) + page.get(Word.SKIPPED_TICKS) - skipped)
    print(statistics.median(late_ms), p99, late_ms[-1], kept)


if __name__ == "__main__":
    main()
