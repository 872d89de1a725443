"""Lines of the server's log, and what one line means."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

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
class LogPlace:
    """How far a log was read: up to `cursor`, which the source that gave it understands, and `skip` lines more."""

    cursor: str
    skip: int = 0


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
    accept_ratio: float | None = None


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
    """The KV pool and its limits as computed at start-up; None = the line does not say.

    `kv_gib` is the memory of the pool on one GPU, in GiB; `kv_blocks` its size in blocks where only these are said.
    """

    max_total_tokens: int | None = None
    max_running: int | None = None
    context_len: int | None = None
    chunked_prefill_size: int | None = None
    max_concurrency: float | None = None
    kv_gib: float | None = None
    kv_blocks: int | None = None


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
    """Something broke. `kind`: watchdog, exception, out-of-memory, killed, nccl, capture-failed, dead, shm-wait,
    cuda-error.
    """

    kind: str = "exception"
    what: str = ""
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Idle(Event):
    """The server said that nothing runs and nothing waits: an explicit zero (llama.cpp "all slots are idle")."""


@dataclass(frozen=True, slots=True)
class RequestWork(Event):
    """How one request fared, at its end or (`done` False) under way; None = the line does not say.

    A sign of work up to this line, and never a count: other requests may run beside it. Times are seconds of wall
    time, `gen_tps` the tokens/s of this request alone. A server may spread one request's numbers over several lines.
    """

    prompt_tokens: int | None = None
    prompt_s: float | None = None
    generated_tokens: int | None = None
    generation_s: float | None = None
    gen_tps: float | None = None
    queue_s: float | None = None
    inference_s: float | None = None
    done: bool = True


@dataclass(frozen=True, slots=True)
class StepTimes(Event):
    """How long one step took on the host and on the device, in seconds; None = the line does not say.

    `device_s` may belong to the step before (TensorRT-LLM `prev_device_step_time`): compare medians, not single lines.
    `wall_s` is the whole step. `decode_only`: no prompt was worked on in it.
    """

    host_s: float | None = None
    device_s: float | None = None
    wall_s: float | None = None
    scheduled: int | None = None
    decode_only: bool | None = None


@dataclass(frozen=True, slots=True)
class SpecDecode(Event):
    """How speculation fared: over the interval before the line, or over all since start (`total`).

    `accept_len` counts tokens for each step of the target model, its own one included; `accept_ratio` is accepted over
    drafted tokens, 0..1.
    """

    accept_len: float | None = None
    accept_ratio: float | None = None
    accepted_tokens: int | None = None
    drafted_tokens: int | None = None
    total: bool = False


@dataclass(frozen=True, slots=True)
class Offload(Event):
    """Where the weights are: `layers` of `of_layers` on GPUs, GiB on the host and on all GPUs; None = not said.

    The output layer counts as one of the layers. `devices`: the GPUs that hold layers. A fully offloaded model keeps
    its token embedding on the host, so `host_gib` alone proves nothing.
    """

    layers: int | None = None
    of_layers: int | None = None
    host_gib: float | None = None
    gpu_gib: float | None = None
    devices: int | None = None


class CommKind(StrEnum):
    """What a line says about the way between GPUs.

    NETWORK_…: what NCCL would use between hosts, said on one host too; VIA_…: what it really uses between two ranks.
    """

    CUSTOM_ALL_REDUCE_OFF = "custom-all-reduce-off"
    P2P_OFF = "p2p-off"
    VIA_P2P = "via-p2p"
    VIA_SHM = "via-shm"
    VIA_SOCKET = "via-socket"
    VIA_RDMA = "via-rdma"
    NETWORK_SOCKET = "network-socket"
    NETWORK_RDMA = "network-rdma"


@dataclass(frozen=True, slots=True)
class CommNote(Event):
    """What the server or NCCL said about the way between GPUs. `text` is the part of the line that says it.

    `VIA_SHM` between GPUs of one host means that they have no peer access; `VIA_SOCKET` that messages between hosts (or
    containers) cross TCP; `VIA_RDMA` InfiniBand, RoCE or a plug-in. NCCL says so only with NCCL_DEBUG=INFO.
    """

    kind: CommKind = CommKind.VIA_P2P
    text: str = ""


@dataclass(frozen=True, slots=True)
class Xid(Event):
    """The NVIDIA kernel driver reported an error of one GPU.

    `code` None = a message without a number ("fallen off the bus"). `bus` is the PCI address as printed, `0000:41:00`.
    `cause` is the number of the error that this one follows from, None = it follows from none that is named: blame the
    first card, not the last.
    """

    code: int | None = None
    bus: str = ""
    text: str = ""
    cause: int | None = None


@dataclass(frozen=True, slots=True)
class Compiling(Event):
    """Kernels are compiled or tuned in this process. `serving`: the line says that this happened while serving.

    `seconds` is how long it took, None = not said.
    """

    what: str = ""
    seconds: float | None = None
    serving: bool = False


class NoteKind(StrEnum):
    """Remarks of a server on its own limits."""

    HOST_THREADS_REDUCED = "host-threads-reduced"
    UNEVEN_LAYERS = "uneven-layers"
    PIPELINE_OFF = "pipeline-off"
    PIPELINE_ON = "pipeline-on"
    SLOW_KERNELS = "slow-kernels"
    ATTENTION_BACKEND = "attention-backend"
    KV_WASTE = "kv-waste"
    KV_FULL = "kv-full"
    RUNNER_FALLBACK = "runner-fallback"


@dataclass(frozen=True, slots=True)
class Note(Event):
    """A remark of the server on its own work that is no setting and no failure. `text` is what it says."""

    kind: NoteKind = NoteKind.SLOW_KERNELS
    text: str = ""


@dataclass(frozen=True, slots=True)
class TrainingStep(Event):
    """One iteration of a training job: seconds, and the global batch in samples; None = the line does not say."""

    seconds: float | None = None
    global_batch: int | None = None
    tflops_per_gpu: float | None = None
