"""What every kind of server can tell about itself, and the facts that signals take from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bubblewatch.model.logs import Event, LogLine, PoolSized
from bubblewatch.model.server import Launch, Rank, Setting, Settings
from bubblewatch.servers.versions import Bounds


class Role(StrEnum):
    """Part of a server in disaggregated serving, as `Facts.role` says it; and programs that are no engine at all."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"
    ROUTER = "router"
    """Hands requests to engines and owns no GPU."""
    TRAINING = "training"


class Running(StrEnum):
    """What `running` counts on a line of this server's log."""

    TOTAL = "total"
    """All requests of the server (or of one data-parallel replica)."""
    ONE_SLOT = "one-slot"
    """The micro-batch that ran last, one of several under pipeline parallelism."""


class DeviceSplit(StrEnum):
    """How a server whose launch states no parallelism spreads one model over the GPUs that it sees."""

    LAYERS = "layers"
    """Consecutive layers on each GPU: pp is the number of GPUs."""
    ROWS = "rows"
    """Every layer on all GPUs: tp is the number of GPUs."""
    ONE = "one"


NO_SPECULATION = "off"
"""`Facts.speculative` of a server that is known to run without speculation."""


class LayerRule(StrEnum):
    """How layers that do not divide evenly are spread over the stages."""

    LAST_TAKES_REST = "last-takes-rest"
    LAST_TAKE_ONE_MORE = "last-take-one-more"
    ONE_MORE_BEFORE_LAST = "one-more-before-last"
    """One more for each of the stages just before the last one."""
    STATED = "stated"


@dataclass(frozen=True, slots=True)
class LayerSplit:
    """How layers are spread over stages: by a rule of the version, or `stated` layer by layer."""

    rule: LayerRule
    stated: tuple[int, ...] = ()

    def layers(self, count: int, stages: int) -> tuple[int, ...]:
        """Layers of each stage, `count` in all; () when they cannot be spread so."""
        if stages < 1 or count < stages:
            return ()
        if self.rule is LayerRule.STATED:
            return self.stated if len(self.stated) == stages and sum(self.stated) == count else ()
        each, rest = divmod(count, stages)
        if self.rule is LayerRule.LAST_TAKES_REST:
            return (*[each] * (stages - 1), each + rest)
        if self.rule is LayerRule.LAST_TAKE_ONE_MORE:
            return (*[each] * (stages - rest), *[each + 1] * rest)
        last = 0 if rest == 0 else 1
        return (*[each] * (stages - rest - last), *[each + 1] * rest, *[each] * last)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server's settings mean for that version. None = not known.

    `decode_graphs` is True when decode runs in CUDA graphs; `decode_graphs_setting` is the setting that decides it
    (origin DEFAULT when nobody set it; None when nothing is known) and `graphs_reason` says how in a few words.
    `graphs_exempt`: eager is right here.
    `depth_available`: this version has an async micro-batch depth. `ring_slots` are the micro-batches that can be in
    flight, `slot_capacity` the requests that one of them may hold. `max_running` is what the server admits at once.
    `decode_log_interval` counts decode forwards of one rank between two lines. `overlap_possible`: this version could
    have overlap or async scheduling on with this parallelism. `graph_max_batch` is the largest batch with a graph, as
    set; `capture_is_logged`: a server that is ready without having said that it captured graphs has none.
    `newer_than_known`: judged as the newest version known here.

    `device_split`: only where pp or tp is None because it is the number of GPUs that the server sees. `speculative`
    names the method of speculation, `off` when there is none; `draft_tokens` are drafted for each step. `cpu_offload`:
    weights, experts or the KV cache are used from host memory; `cpu_offload_setting` decides it, `cpu_offload_reason`
    says how, `cpu_offload_gib` is how much for each GPU. `gpu_layers` are the layers asked onto GPUs.
    `custom_all_reduce` False: switched off by a setting. `max_batched_tokens` are the tokens that one step may work on,
    `gpu_memory_ratio` (0..1) is the share of GPU memory it may take. `mixes_prefill`: one step works on prompts and
    decodes together. `executor` is what starts the workers (`mp`, `ray`, `uni`). `attention_backend`, `quantization`,
    `kv_cache_dtype` are as stated, None = chosen by the server. `log_stats` False: it prints and exports no numbers on
    its work. `micro_batches` are those of one step of a training job. `graph_batch_by_memory`: where no largest graph
    batch was set, what the version makes of one GPU's memory: pairs of (GiB below which it holds, batch), ascending.
    """

    pp: int | None = None
    tp: int | None = None
    dp: int | None = None
    decode_graphs: bool | None = None
    decode_graphs_setting: Setting | None = None
    graphs_reason: str = ""
    graphs_exempt: bool | None = None
    graph_max_batch: int | None = None
    capture_is_logged: bool = True
    depth_available: bool | None = None
    depth: int | None = None
    ring_slots: int | None = None
    slot_capacity: int | None = None
    max_running: int | None = None
    decode_log_interval: int | None = None
    overlap_enabled: bool | None = None
    overlap_possible: bool | None = None
    overlap_setting: Setting | None = None
    role: str | None = None
    port: int | None = None
    layer_split: LayerSplit | None = None
    running: Running | None = None
    newer_than_known: bool = False
    ep: int | None = None
    nodes: int | None = None
    dp_attention: bool | None = None
    device_split: DeviceSplit | None = None
    speculative: str | None = None
    draft_tokens: int | None = None
    cpu_offload: bool | None = None
    cpu_offload_gib: float | None = None
    cpu_offload_setting: Setting | None = None
    cpu_offload_reason: str = ""
    gpu_layers: int | None = None
    custom_all_reduce: bool | None = None
    custom_all_reduce_setting: Setting | None = None
    max_batched_tokens: int | None = None
    max_model_len: int | None = None
    gpu_memory_ratio: float | None = None
    mixes_prefill: bool | None = None
    executor: str | None = None
    attention_backend: str | None = None
    attention_backend_setting: Setting | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    log_stats: bool | None = None
    micro_batches: int | None = None
    graph_batch_by_memory: tuple[tuple[float, int], ...] = ()
    model: str | None = None


class ServerKind(Protocol):
    """Pure knowledge of one kind of server. Methods never raise on text from outside and keep no state."""

    @property
    def kind(self) -> str:
        """Its name: `sglang`, `vllm`."""

    @property
    def label(self) -> str:
        """Its name as its makers write it."""

    def matches(self, launch: Launch, title: str) -> bool:
        """True when this command is of this kind, or the title is that of its main process or of one of its workers."""

    def settings(self, launch: Launch, version: str | None) -> Settings:
        """What the command and environment ask for, and the defaults of that version for options that rules use.

        `version` None = not known: then only what holds for every known version is resolved. No argv: no settings.
        """

    def parse(self, line: LogLine) -> tuple[Event, ...]:
        """What the line means; () when it means nothing known. Linear in the length of the line."""

    def tells(self, line: LogLine) -> bool:
        """True when the line can only come from this kind of server."""

    def version_bounds(self, lines: Iterable[LogLine]) -> Bounds:
        """What the dialect of these lines tells about the version."""

    def facts(
        self, settings: Settings, version: str | None, *, bounds: Bounds | None = None, pool: PoolSized | None = None
    ) -> Facts:
        """What these settings mean.

        `bounds` stand in for a version that is not known; `pool` is what the server computed at start, and its limits
        hold where none was set.
        """

    def gpu_rank(self, title: str) -> Rank | None:
        """Place of the worker with this process title; None when the title does not tell."""
