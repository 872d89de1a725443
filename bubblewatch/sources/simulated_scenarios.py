"""The simulated situations: what is wrong in each, and what bubblewatch is expected to say about it.

Rates and duties are not written here: they follow from `theory/story` through the slot ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bubblewatch.model.findings import Answer


@dataclass(frozen=True, slots=True)
class Expect:
    """The right answer. `first` None = it does not matter; names in `present` and `absent` are findings."""

    answer: Answer
    exit_code: int
    first: str | None = None
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One host with eight GPUs and one SGLang 0.5.10, and a client that sends `running` requests at a time.

    `micro_batch` None = not set. `up_s`: how long before the beginning the server was started; it serves `ready_s`
    later. `quiet_s`: how long before the beginning the work ended, None = it goes on. `frozen`: it ended in the middle,
    with the requests still open. `spinning`: GPUs that hold a waiting kernel since then, drawing `spin_w` above idle.
    `probe_paths`: what a load balancer and a monitor ask for while nothing else does.
    """

    name: str
    description: str
    expect: Expect
    pp: int = 8
    tp: int = 1
    depth: int = 0
    micro_batch: int | None = None
    max_running: int = 64
    graphs: bool = True
    running: int = 8
    extra_args: tuple[str, ...] = ()
    up_s: float = 300.0
    ready_s: float = 120.0
    quiet_s: float | None = None
    frozen: bool = False
    spinning: tuple[int, ...] = ()
    spin_w: float = 0.0
    probe_paths: tuple[str, ...] = ()
    seed: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of the host: all belong to the server."""
        return self.pp * self.tp


_QUIET_FINDINGS = ("no-demand", "idle-spin", "server-hung")
_SETTING_FINDINGS = ("cuda-graph-disabled", "micro-batch-unfilled", "async-depth-missing", "low-concurrency")

_ALL = (
    Scenario(
        name="pp8-story",
        description="eight requests in one slot of eight, decode graphs off: stages take turns and half work in theirs",
        graphs=False,
        expect=Expect(
            Answer.FINDINGS,
            1,
            "cuda-graph-disabled",
            ("pipeline-bubble", "micro-batch-unfilled", "async-depth-missing"),
            ("low-concurrency", *_QUIET_FINDINGS),
        ),
    ),
    Scenario(
        name="pp8-graphs-on",
        description="the same load after the first change: graphs on, still one slot of eight",
        expect=Expect(
            Answer.FINDINGS,
            1,
            "micro-batch-unfilled",
            ("pipeline-bubble",),
            ("cuda-graph-disabled", "launch-bound", *_QUIET_FINDINGS),
        ),
    ),
    Scenario(
        name="pp8-filled",
        description="32 requests in slots of four: the ring is full, host work between slots is what is left",
        micro_batch=4,
        running=32,
        expect=Expect(
            Answer.FINDINGS,
            1,
            "async-depth-missing",
            (),
            ("cuda-graph-disabled", "micro-batch-unfilled", "pipeline-bubble", "low-concurrency", *_QUIET_FINDINGS),
        ),
    ),
    Scenario(
        name="pp8-depth1",
        description="36 requests in nine slots of four at depth 1: as good as a pipeline gets",
        micro_batch=4,
        depth=1,
        running=36,
        expect=Expect(
            Answer.HEALTHY, 0, None, (), ("pipeline-bubble", "launch-bound", *_SETTING_FINDINGS, *_QUIET_FINDINGS)
        ),
    ),
    Scenario(
        name="tp8",
        description="tensor parallelism over eight cards, 64 requests: a healthy server",
        pp=1,
        tp=8,
        running=64,
        expect=Expect(
            Answer.HEALTHY, 0, None, (), ("pipeline-bubble", "launch-bound", *_SETTING_FINDINGS, *_QUIET_FINDINGS)
        ),
    ),
    Scenario(
        name="single-stream",
        description="one request on a pipeline of eight: each stage works an eighth of the time by nature",
        running=1,
        expect=Expect(
            Answer.FINDINGS,
            1,
            "low-concurrency",
            ("pipeline-bubble",),
            ("cuda-graph-disabled", "micro-batch-unfilled", *_QUIET_FINDINGS),
        ),
    ),
    Scenario(
        name="no-demand",
        description="nobody asks: the last requests ended minutes ago, only probes come in",
        extra_args=("--enable-metrics",),
        up_s=600.0,
        quiet_s=300.0,
        probe_paths=("/metrics", "/health"),
        expect=Expect(
            Answer.QUIET,
            0,
            "no-demand",
            ("no-demand",),
            ("pipeline-bubble", "idle-spin", "server-hung", "launch-bound"),
        ),
    ),
    Scenario(
        name="idle-spin",
        description="nobody asks, yet seven of eight cards read 100 %: a receive kernel spins on them",
        up_s=600.0,
        quiet_s=300.0,
        spinning=(1, 2, 3, 4, 5, 6, 7),
        spin_w=65.0,
        probe_paths=("/health",),
        expect=Expect(Answer.FINDINGS, 1, "idle-spin", (), ("pipeline-bubble", "server-hung", "launch-bound")),
    ),
    Scenario(
        name="hung",
        description="requests are open, no token for ten minutes; four cards at 100 %, four at 0 %, near idle power",
        extra_args=("--watchdog-timeout", "3600"),
        up_s=900.0,
        quiet_s=600.0,
        frozen=True,
        spinning=(4, 5, 6, 7),
        spin_w=6.0,
        expect=Expect(Answer.FINDINGS, 1, "server-hung", (), ("no-demand", "idle-spin", "pipeline-bubble")),
    ),
)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})
"""Name -> scenario, in the order in which people should meet them."""
