"""What the sampled decode lines of a log tell: step time, micro-batch, throughput, graphs (SGLang study §3.2).

One line comes every `decode_log_interval` forwards of one rank. Under pipeline parallelism the running requests on it
are those of one slot, the throughput that of all: so the time between two lines gives the slot period T, tokens/s x
T the mean micro-batch b, and the requests in all over b the number of filled slots.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import DecodeStep, Event, StatsLine
from bubblewatch.model.server import Rank

IDLE_GAP = 3.0
"""A gap longer than this many usual gaps means that the rank was idle in between: the line after it carries the rate of
the pause, not of the work (0.59 tok/s, then 44.6, in a public log)."""


@dataclass(frozen=True, slots=True)
class DecodePace:
    """What the decode lines of the reference rank say about the recent past. None = cannot be told.

    `step_s` is T in seconds, `batch` is b. `running_max` is the most requests on one line of any rank. `graph_share` is
    the share of lines that say that a graph ran. `lines` are the lines that count, oldest first.
    """

    lines: tuple[DecodeStep, ...] = ()
    rank: Rank | None = None
    gen_tps: float | None = None
    step_s: float | None = None
    step_basis: str = ""
    batch: float | None = None
    graph_share: float | None = None
    graph_lines: int = 0
    running_max: int | None = None
    running_total: int | None = None
    queued: int | None = None


def _reference(steps: Sequence[DecodeStep]) -> tuple[Rank | None, list[DecodeStep]]:
    """The lines of the lowest rank that logs: every stage logs the same totals, so one is read and none is summed."""
    lowest = min((s.rank for s in steps if s.rank is not None), default=None)
    return lowest, [s for s in steps if s.rank == lowest or s.rank is None]


def _after_idle(steps: Sequence[DecodeStep]) -> set[int]:
    """Positions of lines whose rate covers a pause: the first, and each after a gap much longer than usual."""
    gaps = [_gap_s(a, b) for a, b in pairwise(steps)]
    known = [gap for gap in gaps if gap]
    if not known:
        return {0} if len(steps) > 2 else set()
    usual = statistics.median(known)
    return {0} | {i + 1 for i, gap in enumerate(gaps) if gap is not None and gap > IDLE_GAP * usual + 1.0}


def _gap_s(before: Event, after: Event) -> float | None:
    if before.time_ns is None or after.time_ns is None:
        return None
    return (after.time_ns - before.time_ns) / NS


def _step_s(steps: Sequence[DecodeStep], skip: set[int], interval: int) -> tuple[float | None, str]:
    """T in seconds and how it is known: by exact times, by times of one second over many lines, or by the rate."""
    gaps = [
        gap
        for i, (a, b) in enumerate(pairwise(steps))
        if i + 1 not in skip and (gap := _gap_s(a, b)) is not None and gap >= 0
    ]
    exact = all(s.line.time_exact for s in steps)
    if gaps and exact:
        return statistics.median(gaps) / interval, "times"
    # With a resolution of a second the ends of the span are off by up to one second: 10 s keep that under 10 %.
    if gaps and sum(gaps) >= 10:
        return sum(gaps) / len(gaps) / interval, "times"
    rates = [s.running / s.gen_tps for i, s in enumerate(steps) if i not in skip and s.gen_tps and s.running]
    return (statistics.median(rates), "rate") if rates else (None, "")


def pace(steps: Sequence[DecodeStep], interval: int) -> DecodePace:
    """What these decode lines of all ranks, oldest first, tell; a line comes every `interval` forwards."""
    if not steps:
        return DecodePace()
    rank, mine = _reference(steps)
    skip = _after_idle(mine)
    counted = [s for i, s in enumerate(mine) if i not in skip] or list(mine)
    rates = [s.gen_tps for s in counted if s.gen_tps]
    gen_tps = statistics.median(rates) if rates else None
    step_s, basis = _step_s(mine, skip, interval)
    said = [s.cuda_graph for s in steps if s.cuda_graph is not None]
    queues = [s.queued for s in mine[-len(counted) :] if s.queued is not None]
    replicas = {s.rank.dp if s.rank else 0: s for s in steps if s.rank is None or s.rank.tp == 0}
    return DecodePace(
        lines=tuple(counted),
        rank=rank,
        gen_tps=None if gen_tps is None else gen_tps * max(len(replicas), 1),
        step_s=step_s,
        step_basis=basis,
        batch=gen_tps * step_s if gen_tps and step_s else None,
        graph_share=sum(said) / len(said) if said else None,
        graph_lines=len(said),
        running_max=max(s.running for s in steps),
        running_total=round(statistics.median(s.running for s in counted)) * max(len(replicas), 1),
        queued=queues[-1] if queues else None,
    )


def stats_totals(lines: Sequence[StatsLine]) -> tuple[int, int | None, float | None]:
    """Running, waiting and tokens/s from periodic totals: the newest of each engine, added up.

    Gauges and averages on one line belong to different moments: a line with tokens and no running requests is read as
    the busiest of the few lines around it, not as idle.
    """
    newest: dict[str | None, list[StatsLine]] = {}
    for line in lines:
        newest.setdefault(line.engine, []).append(line)
    running, waiting, rate = 0, None, None
    for of_engine in newest.values():
        recent = of_engine[-3:]
        last = recent[-1]
        busy = last.running or (max(s.running for s in recent) if (last.gen_tps or 0) > 0 else 0)
        running += busy
        pending = last.waiting if last.waiting is not None else None
        waiting = pending if waiting is None else waiting + (pending or 0)
        rates = [s.gen_tps for s in recent if s.gen_tps is not None]
        if rates:
            rate = (rate or 0.0) + statistics.median(rates)
    return running, waiting, rate
