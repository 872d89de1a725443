"""What a pipeline of a given shape does with a given number of requests, before anything runs. Pure.

The counts come from `theory.ring`; no time is predicted, because the times of a model's stages are not known yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bubblewatch.theory.ring import filled_at_most, filled_by_burst, filled_when_staggered


@dataclass(frozen=True, slots=True)
class Fill:
    """Slots that hold requests, and the share of time, 0..1, for which a stage can work at most with so many."""

    slots: float
    duty_at_most: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Requests of one replica over its ring.

    `concurrency` is what clients keep in flight, in all; `per_replica` the share of one of `replicas`. `admitted` of
    these run at once, None = the limit is computed when the server starts. `ring` is None with one stage. `capacity`:
    requests that one slot may hold, None = computed at start, and then a burst is taken to fit into one slot. `batch`
    is the largest decode batch to expect on one stage, `graph_batch` the largest with a CUDA graph, None = not known.
    """

    concurrency: int
    replicas: int
    per_replica: int
    stages: int
    ring: int | None
    capacity: int | None
    admitted: int | None
    burst: Fill | None
    staggered: Fill | None
    batch: int | None
    graph_batch: int | None

    @property
    def waiting(self) -> int | None:
        """Requests of one replica that must wait outside, None when the limit is not known."""
        return None if self.admitted is None else self.per_replica - self.admitted


def forecast(
    concurrency: int,
    *,
    stages: int,
    ring: int | None,
    capacity: int | None,
    max_running: int | None,
    replicas: int = 1,
    graph_batch: int | None = None,
) -> Forecast | None:
    """What `concurrency` requests in flight do; None without requests. `max_running` counts all replicas together.

    `ring` None = the depth is not known, and there are at least as many slots as stages.
    """
    if concurrency < 1 or stages < 1 or replicas < 1:
        return None
    per_replica = math.ceil(concurrency / replicas)
    limit = None if max_running is None else max(max_running // replicas, 1)
    slots = (ring or stages) if stages > 1 else None
    if slots is not None and capacity is not None:
        limit = min(limit if limit is not None else capacity * slots, capacity * slots)
    admitted = None if limit is None else min(per_replica, limit)
    runs = admitted if admitted is not None else per_replica
    burst = staggered = None
    batch: int | None = runs
    if slots is not None:
        burst = _fill(filled_by_burst(runs, capacity if capacity is not None else runs, slots), stages)
        spread = filled_when_staggered(runs, slots)
        staggered = _fill(min(max(spread, burst.slots), filled_at_most(runs, slots)), stages)
        batch = math.ceil(runs / burst.slots)
    return Forecast(
        concurrency, replicas, per_replica, stages, slots, capacity, admitted, burst, staggered, batch, graph_batch
    )


def _fill(slots: float, stages: int) -> Fill:
    return Fill(float(slots), min(slots / stages, 1.0))
