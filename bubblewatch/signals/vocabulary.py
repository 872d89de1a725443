"""The one list of signals: name, type, unit, scope, meaning.

A rule may use only these names, and what computes signals may deliver only these (a test holds both). Ratios are 0..1.
Where a signal is an inference, its `basis` (model/signals.py) says by what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bubblewatch.model.findings import Scope


@dataclass(frozen=True, slots=True)
class Spec:
    """One signal. `type` is the CEL type: bool, int, double or string. `unit` is "" for names, counts and switches."""

    name: str
    type: str
    unit: str
    meaning: str
    scope: Scope = Scope.SERVER


_SERVER = (
    # who and how it was launched
    Spec("server.kind", "string", "", "which server: sglang, vllm, …, unknown"),
    Spec("server.version", "string", "", "its version"),
    Spec("server.ready", "bool", "", "it said that it serves, or it is seen serving"),
    Spec(
        "server.starting_s", "double", "s", "how long it has been loading, compiling or capturing without serving yet"
    ),
    Spec("server.role", "string", "", "role in disaggregated serving: prefill, decode or both"),
    Spec("parallel.pp", "int", "", "pipeline stages"),
    Spec("parallel.tp", "int", "", "tensor-parallel ranks of a stage"),
    Spec("parallel.dp", "int", "", "data-parallel replicas"),
    Spec("limits.max_running", "int", "", "requests that the server admits at once, as set or as it computed"),
    Spec("overlap.enabled", "bool", "", "overlap or async scheduling is on"),
    Spec("overlap.possible", "bool", "", "this version could have it on with this parallelism"),
    # demand
    Spec("demand.state", "string", "", "running or none; missing when unknown"),
    Spec("demand.running", "int", "", "requests that run now, over all slots and replicas: C"),
    Spec("demand.running_min", "int", "", "a lower bound of it: the most that one line or gauge showed"),
    Spec("demand.queued", "int", "", "requests that wait"),
    Spec("demand.share", "double", "ratio", "share of the watched time in which requests ran"),
    # throughput and progress
    Spec("throughput.gen_tps", "double", "tokens/s", "generated tokens a second, all slots"),
    Spec("throughput.step_s", "double", "s", "time between two decode forwards of one rank: T, the slot period"),
    Spec("progress.stalled_s", "double", "s", "time since the last sign of progress while requests run or wait"),
    Spec("progress.limit_s", "double", "s", "how long that may last: max(120 s, 5 x the longest normal gap)"),
    Spec("failure.watchdog", "bool", "", "the server's own watchdog fired"),
    Spec("failure.fatal", "bool", "", "the server said that it broke and ends"),
    # CUDA graphs
    Spec("graphs.decode_enabled", "bool", "", "decode runs in CUDA graphs, by settings and start-up lines"),
    Spec("graphs.decode_share", "double", "ratio", "share of decode lines that say that a graph ran"),
    Spec("graphs.max_batch", "int", "", "largest batch that was captured"),
    Spec("graphs.exempt", "bool", "", "eager is right here: PD prefill server, pooling model"),
    # the slot ring
    Spec("slots.ring", "int", "", "slots that can be in flight: L = pp + depth"),
    Spec("slots.capacity", "int", "", "requests that one slot may hold"),
    Spec("slots.filled", "double", "", "slots that hold requests: M = C / b"),
    Spec("slots.batch", "double", "", "mean micro-batch: b = tokens/s x T"),
    Spec("slots.wanted", "double", "", "slots that these requests could fill: min(C, L)"),
    Spec("depth.available", "bool", "", "this version has an async micro-batch depth"),
    Spec("depth.value", "int", "", "that depth as set"),
    # the pipeline as the sensors see it
    Spec("pipeline.stages", "int", "", "stages: p"),
    Spec("pipeline.stages_busy", "double", "stages", "S = sum of stage duties; 1.0 means one stage at a time"),
    Spec("pipeline.busy_ratio", "double", "ratio", "S / p"),
    Spec("pipeline.bubble_ratio", "double", "ratio", "1 - S / p over the time in which requests ran"),
    Spec("pipeline.basis", "string", "", "what S rests on: sm, util, power, card, prior or log"),
    Spec(
        "pipeline.basis_tells",
        "bool",
        "",
        "that basis can tell a bubble from work (not utilization that may spin, not a prior)",
    ),
    Spec("pipeline.imbalance", "double", "ratio", "largest stage duty over the mean one"),
    Spec("layers.count", "int", "", "transformer layers of the model"),
    Spec("layers.remainder", "int", "", "layers mod stages under the default split"),
    # telemetry over the server's GPUs
    Spec("telemetry.readings", "int", "", "distinct moments read, the least over the GPUs"),
    Spec("telemetry.seconds", "double", "s", "length of the window that was read"),
    Spec("duty.median", "double", "ratio", "median over the GPUs of the work duty"),
    Spec("duty.min", "double", "ratio", "least work duty of a GPU"),
    Spec("duty.max", "double", "ratio", "largest work duty of a GPU"),
    Spec("util.median", "double", "ratio", "median over the GPUs of the utilization duty"),
    Spec("util.min", "double", "ratio", "least utilization duty of a GPU"),
    Spec("util.max", "double", "ratio", "largest utilization duty of a GPU"),
    Spec("util.ramp", "double", "ratio", "rank correlation of utilization with the stage number, -1..1"),
    Spec("power.median_w", "double", "W", "median over the GPUs of the mean power"),
    Spec("power.limit_ratio", "double", "ratio", "median over the GPUs of mean power over the power limit"),
    Spec("spin.median", "double", "ratio", "median over the GPUs of utilization without work"),
    Spec("spin.max", "double", "ratio", "largest utilization without work of a GPU"),
    # memory
    Spec("kv.usage_ratio", "double", "ratio", "share of the KV pool in use, the highest lately"),
    Spec("retraction.count", "int", "", "running requests that were thrown back in the window"),
)

_GPU = (
    Spec("gpu.util_ratio", "double", "ratio", "utilization duty: a kernel was resident", Scope.GPU),
    Spec("gpu.mem_util_ratio", "double", "ratio", "share of time in which memory was read or written", Scope.GPU),
    Spec("gpu.sm_active_ratio", "double", "ratio", "SM activity (GPM)", Scope.GPU),
    Spec("gpu.power_w", "double", "W", "mean power", Scope.GPU),
    Spec("gpu.power_limit_w", "double", "W", "power limit in force", Scope.GPU),
    Spec("gpu.power_idle_w", "double", "W", "level with the server loaded and nothing running: P_ctx", Scope.GPU),
    Spec("gpu.power_busy_w", "double", "W", "level at full work: P_act", Scope.GPU),
    Spec("gpu.power_duty", "double", "ratio", "power between those levels", Scope.GPU),
    Spec("gpu.work_duty", "double", "ratio", "share of time with useful work, by the best basis", Scope.GPU),
    Spec("gpu.spin_ratio", "double", "ratio", "utilization without work", Scope.GPU),
    Spec("gpu.sm_clock_mhz", "double", "MHz", "mean SM clock", Scope.GPU),
    Spec("gpu.memory_used_bytes", "double", "bytes", "device memory in use", Scope.GPU),
    Spec("gpu.temperature_c", "double", "C", "core temperature", Scope.GPU),
    Spec("gpu.readings", "int", "", "distinct moments read", Scope.GPU),
)

VOCABULARY: Mapping[str, Spec] = MappingProxyType({spec.name: spec for spec in (*_SERVER, *_GPU)})
"""Name -> what it is."""
