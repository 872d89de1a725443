"""PyTorch loads of known duty on one GPU: `python -m tests.gpu.loads KIND SECONDS [PERIOD_MS DUTY]`.

Needs a GPU and PyTorch, so nothing runs this in the tests; it is started by measure.py. Prints, as one JSON object, the
share of the time in which a kernel ran, taken from CUDA events around every piece of work.

wave    works for DUTY of each PERIOD_MS and sleeps on the host for the rest
decode  short kernels one after another as in an eager decode step, the host launching each
graph   the same kernels captured in one CUDA graph a step
spin    one kernel that waits without working, as a receive of NCCL does
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

KERNELS_A_STEP = 400
"""About what a decode step of a 60-layer model launches."""
SIZE = 2048
"""Side of the matrices: a product takes tens of microseconds on a card of today."""


class Load:
    """Work on one GPU, with events around it."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
        self.b = torch.empty_like(self.a)
        self._spans: list[tuple[Any, Any]] = []

    def timed(self, work: Callable[[], None]) -> None:
        """Do this, with its time on the GPU counted."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        self._spans.append((start, end))

    def busy_s(self) -> float:
        self.torch.cuda.synchronize()
        return sum(start.elapsed_time(end) for start, end in self._spans) / 1e3

    def product(self) -> None:
        self.torch.mm(self.a, self.a, out=self.b)

    def small_step(self) -> None:
        for _ in range(KERNELS_A_STEP):
            self.b.add_(1.0)


def wave(load: Load, end_s: float, period_s: float, duty: float) -> None:
    next_s = time.monotonic()
    while next_s < end_s:
        stop_s = next_s + duty * period_s
        while time.monotonic() < stop_s:
            load.timed(load.product)
            load.torch.cuda.synchronize()
        next_s += period_s
        time.sleep(max(next_s - time.monotonic(), 0))


def decode(load: Load, end_s: float) -> None:
    while time.monotonic() < end_s:
        load.timed(load.small_step)
        load.torch.cuda.synchronize()


def graph(load: Load, end_s: float) -> None:
    load.small_step()
    captured = load.torch.cuda.CUDAGraph()
    with load.torch.cuda.graph(captured):
        load.small_step()
    while time.monotonic() < end_s:
        load.timed(captured.replay)
        load.torch.cuda.synchronize()


def spin(load: Load, end_s: float) -> None:
    cycles = 50_000_000
    while time.monotonic() < end_s:
        load.timed(lambda: load.torch.cuda._sleep(cycles))
        load.torch.cuda.synchronize()


def main() -> None:
    import torch

    kind, seconds, *shape = sys.argv[1:]
    load = Load(torch)
    load.product()
    torch.cuda.synchronize()
    began_s = time.monotonic()
    end_s = began_s + float(seconds)
    if kind == "wave":
        period_ms, duty = map(float, shape)
        wave(load, end_s, period_ms / 1e3, duty)
    else:
        {"decode": decode, "graph": graph, "spin": spin}[kind](load, end_s)
    busy_s, took_s = load.busy_s(), time.monotonic() - began_s
    print(json.dumps({"kind": kind, "shape": shape, "duty": busy_s / took_s, "began_s": began_s, "took_s": took_s}))


if __name__ == "__main__":
    main()
