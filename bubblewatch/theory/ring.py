"""The slot ring of a pipeline that serves decode steps, in closed form; tensor parallelism for comparison.

SGLang with `pp_size` P walks over L = P + depth slots, on every stage in the same order; a slot holds one micro-batch
or nothing (SGLang 0.5.10, `managers/scheduler_pp_mixin.py`, `event_loop_pp`). `ring_events` simulates that loop event
by event; the sums here were fitted to it, and the tests hold the two together:

- equal stages, four or more, host work up to a third of a stage: duties agree within 0.06;
- unequal stages with a partly filled ring: the lap here is a bound, the real one is up to a third longer, because the
  slots wait for each other at the heavy stage in an order that no sum over stages sees.

All times are in seconds. Sizes that cannot be are refused with ValueError: the callers are programs, not people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ring:
    """One decode load on a pipeline.

    `kernel_s`: GPU time of one micro-batch on each stage. `launch_s`: CPU time to launch that forward, zero with CUDA
    graphs. `hop_s`: time to hand a micro-batch to the next stage. `host_s`: CPU work of a stage for one slot beside the
    launch (schedule, metadata, results). `depth`: asynchronous depth. `filled`: slots that hold requests.
    """

    kernel_s: tuple[float, ...]
    launch_s: tuple[float, ...]
    hop_s: float = 0.0
    host_s: float = 0.0
    depth: int = 0
    filled: int = 1

    def __post_init__(self) -> None:
        times = (*self.kernel_s, *self.launch_s, self.hop_s, self.host_s)
        if not self.kernel_s or len(self.launch_s) != len(self.kernel_s):
            raise ValueError("a ring needs one kernel time and one launch time for each stage")
        if any(t < 0 or not math.isfinite(t) for t in times) or max(self.kernel_s) <= 0:
            raise ValueError("times are finite and not negative, and some stage has work")
        if self.depth < 0 or not 1 <= self.filled <= self.slots:
            raise ValueError(f"{self.filled} of {self.slots} slots cannot be filled")

    @property
    def stages(self) -> int:
        """P."""
        return len(self.kernel_s)

    @property
    def slots(self) -> int:
        """L = P + depth."""
        return ring_slots(self.stages, self.depth)

    @property
    def forward_s(self) -> tuple[float, ...]:
        """How long a forward takes on each stage: an eager one lasts as long as its launches at least."""
        return tuple(max(k, launch) for k, launch in zip(self.kernel_s, self.launch_s, strict=True))


@dataclass(frozen=True, slots=True)
class Steady:
    """A ring in its steady state. `lap_s` is the time between two tokens of one request.

    `duty` is the share of time in which kernels run on each stage, 0..1: launch gaps are not in it.
    """

    lap_s: float
    slot_s: float
    duty: tuple[float, ...]

    @property
    def stages_busy(self) -> float:
        """S, the sum of the duties."""
        return sum(self.duty)

    def tokens_per_s(self, running: float) -> float:
        """Tokens a second of `running` requests in all slots together: each gets one a lap."""
        return running / self.lap_s


def even_ring(
    stages: int,
    kernel_s: float,
    launch_s: float = 0.0,
    *,
    hop_s: float = 0.0,
    host_s: float = 0.0,
    depth: int = 0,
    filled: int = 1,
) -> Ring:
    """A ring of equal stages; `kernel_s` and `launch_s` are those of one stage."""
    return Ring((kernel_s,) * stages, (launch_s,) * stages, hop_s, host_s, depth, filled)


def steady(ring: Ring) -> Steady:
    """The steady state: the lap is the longer of one request's way round and of what the slowest resource takes."""
    lap_s = max(_way_round_s(ring), ring.filled * _slot_period_s(ring))
    duty = tuple(min(ring.filled * kernel / lap_s, 1.0) for kernel in ring.kernel_s)
    return Steady(lap_s, lap_s / ring.filled, duty)


def _way_round_s(ring: Ring) -> float:
    """One lap when nothing queues: the kernels with the host work between two steps, or the chain of launches.

    In a launch-bound forward every stage begins when the one before it has launched, and each adds its host work.
    """
    turns = [max(k, launch + ring.host_s) for k, launch in zip(ring.kernel_s, ring.launch_s, strict=True)]
    chain_s = max(sum(ring.kernel_s) + ring.host_s, sum(turns))
    return ring.stages * ring.hop_s + chain_s + _held_back(ring) * max(turns)


def _held_back(ring: Ring) -> int:
    """Turns by which results wait at the last stage. With depth, it sends them `depth` slots later.

    Empty slots pass at once, so with few filled slots the wait is shorter: one turn for two or three of them, then one
    more for each (found with the event simulation, equal stages).
    """
    if ring.depth == 0 or ring.filled == 1:
        return 0
    return min(ring.depth, max(1, ring.filled - 2))


def _slot_period_s(ring: Ring) -> float:
    """Least time between two slots on the slowest stage.

    At depth 0 the last stage's CPU waits for the forward that it has just launched, so its host work is exposed once a
    slot; at depth 1 and above host work hides behind kernels, but the receives stand before the forward on the stream.
    """
    pairs = list(zip(ring.kernel_s, ring.launch_s, strict=True))
    if ring.depth == 0:
        exposed = ring.forward_s[-1] + ring.host_s
        return max(exposed, *(max(k, launch + ring.host_s) for k, launch in pairs))
    return max(max(k + 2 * ring.hop_s, launch + ring.host_s) for k, launch in pairs)


def ring_slots(stages: int, depth: int) -> int:
    """L = P + depth (SGLang: `pp_loop_size`)."""
    return stages + depth


def slot_capacity(max_running: int, stages: int, micro_batch: int | None = None) -> int:
    """Requests that one slot may hold: the explicit micro-batch size, else max_running // P, at least 1.

    SGLang divides by `pp_size`, not by the ring's length (0.4.6.post2 .. 0.5.23).
    """
    return micro_batch if micro_batch is not None else max(max_running // stages, 1)


def filled_by_burst(running: int, capacity: int, slots: int) -> int:
    """Filled slots after a burst of short prompts: the first slot visited takes as many as fit, then the next."""
    return min(math.ceil(running / capacity), slots, running)


def filled_when_staggered(running: int, slots: int) -> float:
    """Expected filled slots when requests arrive one by one at random moments: L (1 - (1 - 1/L)^C)."""
    return slots * (1 - (1 - 1 / slots) ** running)


def filled_at_most(running: int, slots: int) -> int:
    """No more slots can be filled than there are requests or slots."""
    return min(running, slots)


@dataclass(frozen=True, slots=True)
class TensorParallel:
    """The same model with every layer split over all GPUs.

    `model_s` is the GPU time of one step of the whole batch on one imaginary GPU, which the split divides; each of
    `allreduces` per step costs `allreduce_s`, during which a kernel is resident on every GPU and does no work.
    """

    model_s: float
    gpus: int
    allreduces: int
    allreduce_s: float

    @property
    def step_s(self) -> float:
        """Time of one step, the time between two tokens of a request."""
        return self.model_s / self.gpus + self.allreduces * self.allreduce_s

    @property
    def duty(self) -> float:
        """Share of time in which kernels compute, 0..1."""
        return self.model_s / self.gpus / self.step_s

    def tokens_per_s(self, running: float) -> float:
        """Tokens a second of `running` requests in one batch."""
        return running / self.step_s


def allreduce_s(latency_s: float, message_bytes: float, gpus: int, bus_bytes_per_s: float) -> float:
    """Time of one ring all-reduce: a fixed latency, and 2 (n-1)/n of the message over the slowest link."""
    return latency_s + 2 * (gpus - 1) / gpus * message_bytes / bus_bytes_per_s
