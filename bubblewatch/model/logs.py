"""Lines of the server's log, and what one line means."""

from __future__ import annotations

from dataclasses import dataclass, field

from bubblewatch.model.server import Rank, Settings


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as the server wrote it: decoded, without ANSI codes and trailing white space, secrets redacted.

    `time_ns` is wall time; None when neither the transport nor the line carries one. `time_exact` is False when it
    comes from text with a resolution of a second.
    """

    text: str
    time_ns: int | None = None
    time_exact: bool = False
    source: str = ""
    unit: str | None = None
    pid: int | None = None
    cursor: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What one line means. `rank` is the part of the server that wrote it, None for its main process."""

    line: LogLine
    rank: Rank | None = None

    @property
    def time_ns(self) -> int | None:
        return self.line.time_ns


@dataclass(frozen=True, slots=True)
class SettingsSeen(Event):
    """The server printed settings that it really uses (resolved, so they outrank argv)."""

    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class VersionSeen(Event):
    """The server printed its own version."""

    version: str = ""


@dataclass(frozen=True, slots=True)
class DecodeStep(Event):
    """A sampled decode step (SGLang prints one every `decode_log_interval` forwards of one rank).

    Under pipeline parallelism `running` is the size of one micro-batch while `gen_tps` and `kv_usage_ratio` cover all
    slots (SGLang 0.4.6 .. 0.5.23, scheduler metrics mixin). `cuda_graph` None = the line does not say.
    """

    running: int = 0
    queued: int | None = None
    gen_tps: float | None = None
    cuda_graph: bool | None = None
    kv_usage_ratio: float | None = None
    accept_len: float | None = None
    retracted: int | None = None


@dataclass(frozen=True, slots=True)
class PrefillStep(Event):
    """A prefill batch was scheduled. `running`: the decode batch beside it, of one slot under pipeline parallelism."""

    new_seqs: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    running: int | None = None
    queued: int | None = None
    kv_usage_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class StatsLine(Event):
    """Periodic totals (vLLM: gauges at the moment of printing, rates averaged over the interval before it)."""

    running: int = 0
    waiting: int | None = None
    swapped: int | None = None
    prompt_tps: float | None = None
    gen_tps: float | None = None
    kv_usage_ratio: float | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class GraphCaptured(Event):
    """CUDA graphs were captured. `phase`: decode, prefill, draft or other; `sizes`: batch sizes, () if not said."""

    phase: str = "decode"
    begin: bool = False
    sizes: tuple[int, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GraphOff(Event):
    """The server said that graphs are off, and why. `phase` as in GraphCaptured, or all."""

    phase: str = "all"
    reason: str = ""
    expected: bool = False


@dataclass(frozen=True, slots=True)
class OverlapOff(Event):
    """Overlap or async scheduling is off. `expected` when this parallelism cannot have it in this version."""

    reason: str = ""
    expected: bool = False


@dataclass(frozen=True, slots=True)
class PoolSized(Event):
    """The KV pool and its limits as computed at start-up; None = the line does not say."""

    max_total_tokens: int | None = None
    max_running: int | None = None
    context_len: int | None = None
    chunked_prefill_size: int | None = None
    max_concurrency: float | None = None


@dataclass(frozen=True, slots=True)
class Retraction(Event):
    """Running requests were thrown back (SGLang retraction, vLLM preemption). `count` 0 = number not said."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Starting(Event):
    """Loading, compiling, capturing: the server is on its way up. `what` names the step."""

    what: str = ""


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """The server said that it serves."""


@dataclass(frozen=True, slots=True)
class Access(Event):
    """One HTTP request was answered. `path` has no query string."""

    method: str = ""
    path: str = ""
    status: int = 0


@dataclass(frozen=True, slots=True)
class Failure(Event):
    """Something broke. `kind`: watchdog, exception, out-of-memory, killed, nccl, capture-failed, dead, shm-wait."""

    kind: str = "exception"
    what: str = ""
    fatal: bool = False
