"""Feeds as a watcher would make them, from the hand-made snapshots: the story, many GPUs, hostile texts, nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from bubblewatch.model.findings import Snapshot, TargetView
from bubblewatch.model.server import Rank
from bubblewatch.runtime.feed import GpuTrace, Lane, ScreenFeed, ShownLine
from tests.support import snapshots

TIME_NS = snapshots.TIME_NS

DECODE = (
    "[2026-01-01 00:00:00 PP0] Decode batch, #running-req: 8, #token: 7376, token usage: 0.02, cuda graph: False, "
    "gen throughput (token/s): 95.60, #queue-req: 0"
)
"""SGLang 0.5.10."""


def trace(duty: float = 0.07, number: int = 0) -> GpuTrace:
    """A minute of one GPU: work once a second, utilization at 5 Hz, power at 10 Hz, with a few seconds not read."""
    work = tuple(None if 20 <= at < 23 else round(duty * (1 + 0.3 * math.sin(at + number)), 3) for at in range(60))
    util = tuple(round(duty * (1 + 0.5 * math.sin(at / 3)), 3) for at in range(300))
    power = tuple(round(85 + 315 * duty + 5 * math.sin(at / 7), 1) for at in range(600))
    return GpuTrace("sm", Lane(1.0, work, 1000, 1.0), Lane(0.2, util, 5000, 0.2), Lane(0.1, power, 10_000, 0.1))


def lines(server: str, count: int = 30, text: str = DECODE) -> tuple[ShownLine, ...]:
    """So many lines, a second apart, the last one now."""
    first = TIME_NS - (count - 1) * 10**9
    meanings = ("decode step", "decode step", "")
    return tuple(
        ShownLine(server, number + 1, f"{text} ({number})", first + number * 10**9, meanings[number % 3])
        for number in range(count)
    )


def feed_of(snapshot: Snapshot, extra: Iterable[ShownLine] = (), duty: float = 0.07) -> ScreenFeed:
    """The feed of this snapshot, with a trace for each of its GPUs and lines for each of its servers."""
    traces = {gpu.uuid: trace(duty, number) for number, gpu in enumerate(snapshot.gpus)}
    said = [line for view in snapshot.views if view.server for line in lines(view.server.key)]
    return ScreenFeed(snapshot, "gpu07", traces, (*said, *extra))


def story() -> ScreenFeed:
    return feed_of(snapshots.story())


def hostile() -> ScreenFeed:
    """Everything that comes from outside tries to act, wide and right-to-left text among it."""
    snapshot = snapshots.hostile()
    key = snapshot.views[0].target.id
    wide = "模型 加载 完成 \u05e9\u05dc\u05d5\u05dd e\u0301\u0301\u0301 👩‍👩‍👧 "
    said = (*lines(key, 5, snapshots.HOSTILE), *lines(key, 5, wide * 20))
    return replace(feed_of(snapshot, said), host=snapshots.HOSTILE)


def many(count: int = 72, tp: int = 8) -> ScreenFeed:
    """A server over so many GPUs, one of which works much more than the others."""
    base = snapshots.story()
    gpus = snapshots.gpu_infos(count)
    server = replace(
        snapshots.server(gpus=gpus), gpus={gpu.uuid: Rank(pp=n // tp, tp=n % tp) for n, gpu in enumerate(gpus)}
    )
    view: TargetView = replace(base.views[0], server=server)
    signals = {gpu.uuid: snapshots.gpu_signals(0.9 if gpu.index == 13 else 0.1) for gpu in gpus}
    return feed_of(replace(base, views=(view,), gpus=gpus, gpu_signals=signals))


ALL = {
    "story": story,
    "healthy": lambda: feed_of(snapshots.healthy(), duty=0.8),
    "quiet": lambda: feed_of(snapshots.quiet(), duty=0.0),
    "cannot judge": lambda: feed_of(snapshots.cannot_judge()),
    "two servers": lambda: feed_of(snapshots.two_servers()),
    "nothing seen": lambda: feed_of(snapshots.nothing_seen()),
    "hostile": hostile,
    "72 GPUs": many,
}
"""Name -> what makes the feed."""
